//! `confirm` as a whole: real servers if they are installed, and the message if they are not. Each
//! test starts the real program in a folder of its own.
#![cfg(feature = "live")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// One client pauses past its lease of 2 s: 14 s of real time.
const PAUSED: &str = r#"
name    = "paused"
ask     = "Does a pause past the lease let two in, on real servers too?"
expect  = { violated = ["stale-holder", "corruption"], class = "out-of-model" }
remedy  = "fenced"
heal_at = "6s"
until   = "14s"

[topology]
kind  = "single"
nodes = 1

[lock]
algorithm = "token-lua"
ttl       = "2s"

[workload]
kind    = "counter"
clients = 2
rounds  = 1
hold    = "1s"

[[fault]]
kind   = "pause"
target = "c1"
after  = { event = "acquired", by = "c1", nth = 1, plus = "100ms" }
for    = "3s"
"#;

/// The same with a resource that checks fences.
fn fenced() -> String {
    let text = PAUSED.replace("remedy  = \"fenced\"\n", "").replace("\"paused\"", "\"fenced\"");
    let text = text.replace("\"token-lua\"", "\"fenced\"").replace(", \"corruption\"", "");
    text.replace("hold    = \"1s\"", "hold    = \"1s\"\nfence   = \"reject-smaller\"")
}

/// The master of the lock's slot dies once its replica has the lock, and comes back as a replica:
/// 19 s of real time.
const CLUSTER: &str = r#"
name    = "cluster"
ask     = "Does a lock that was replicated outlive a failover in a cluster?"
expect  = { holds = true }
heal_at = "9s"
until   = "19s"

[topology]
kind         = "cluster"
node_timeout = "1s"

[lock]
algorithm = "token-lua"
ttl       = "5s"

[workload]
kind    = "counter"
clients = 2
rounds  = 4
hold    = "4s"

[[fault]]
kind   = "crash"
target = "n2"
after  = { event = "acquired", by = "c1", nth = 1, plus = "200ms" }
for    = "5s"
"#;

/// A folder of one test, deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("paused.toml"), PAUSED).unwrap();
        fs::write(path.join("fenced.toml"), fenced()).unwrap();
        let slow = PAUSED.replace("kind   = \"pause\"\ntarget = \"c1\"", LIES);
        fs::write(path.join("cluster.toml"), CLUSTER).unwrap();
        fs::write(path.join("lies.toml"), slow.replace("paused", "lies")).unwrap();
        Folder(path)
    }
}

const LIES: &str = "kind   = \"clock-freeze\"\ntarget = \"n1\"";

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program exits with this code and writes these texts to the matching stream. Files of servers
/// go to the folder's own `passing`, and none is left there.
fn check(name: &str, path: Option<&str>, arguments: &[&str], code: i32, texts: &[&str]) {
    let folder = Folder::new(name);
    let passing = folder.0.join("passing");
    fs::create_dir_all(&passing).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
    command.current_dir(&folder.0).arg("confirm").args(arguments).env("TMPDIR", &passing);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stream = if code == 3 { &stderr } else { &stdout };
    let said = String::from_utf8_lossy(stream);
    assert_eq!(status.code(), Some(code), "{arguments:?}\n{said}");
    for text in texts {
        assert!(said.contains(text), "{arguments:?} does not say '{text}':\n{said}");
    }
    assert_eq!(fs::read_dir(&passing).unwrap().count(), 0, "a server's files are left behind");
}

fn has_redis_server() -> bool {
    Command::new("redis-server").arg("--version").output().is_ok()
}

#[test]
fn a_pause_past_the_lease_is_the_same_on_real_servers() {
    if !has_redis_server() {
        eprintln!("skipped: there is no redis-server");
        return;
    }
    let texts = [
        "1 real runs of each",
        "simulated  stale-holder, corruption (out-of-model)",
        "real 1     stale-holder, corruption",
        "two holders at once: simulated",
        "real: c1 held on past its lease while c2 held the lock",
        "its remedy: fenced",
        "confirmed: 1 of 1",
        "1 confirmed, 0 not, 0 unknown, 0 could not be run, 0 cannot be confirmed",
    ];
    check("confirmed", None, &["paused.toml", "--runs", "1"], 0, &texts);
}

#[test]
fn a_cluster_fails_over_on_real_servers_too() {
    if !has_redis_server() {
        eprintln!("skipped: there is no redis-server");
        return;
    }
    let texts = [
        "simulated  holds",
        "real 1     holds",
        "fault on the master to +odown or FAIL: simulated",
        "fault on the master to the promotion: simulated",
        "fault on the master to a client's write on the new one: simulated",
        "confirmed: 1 of 1",
    ];
    check("clustered", None, &["cluster.toml", "--runs", "1"], 0, &texts);
}

#[test]
fn what_cannot_be_confirmed_is_listed_with_its_reason() {
    if !has_redis_server() {
        eprintln!("skipped: there is no redis-server");
        return;
    }
    let texts = ["not confirmable: fault 1, clock-freeze: a real server's clock can be stepped"];
    check("unconfirmable", None, &["lies.toml"], 2, &texts);
    let texts = ["it takes 14s of real time, and --longest is 10s"];
    check("too-long", None, &["paused.toml", "--longest", "10s"], 2, &texts);
}

#[test]
fn without_servers_it_says_what_to_install() {
    let texts = ["there is no redis-server on the PATH", "'redis-server'"];
    check("no-servers", Some("/nowhere"), &["paused.toml"], 3, &texts);
}
