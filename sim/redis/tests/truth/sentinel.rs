//! A Sentinel against `redis-server --sentinel`: the scripts of `tests/corpus/sentinel/`, in the
//! usual format. The monitored master does not exist: what Sentinels do is tested in `sentinel.rs`
//! in the parent folder. Values that change with time are masked.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use lockstorm_redis::node::{Node, NodeConfig};
use lockstorm_redis::sentinel::{Sentinel, SentinelConfig};
use tempfile::TempDir;

use crate::corpus::{Echo, Heard, Script, Step, folder, scripts_in, words};
use crate::fake::Fake;
use crate::real::{encode, sleep_ms};
use crate::{EPOCH_MS, difference, fail_if_any, writes};

/// Fields of instances whose values change with time.
const VOLATILE: [&str; 9] = [
    "runid",
    "flags",
    "link-pending-commands",
    "last-ping-sent",
    "last-ok-ping-reply",
    "last-ping-reply",
    "info-refresh",
    "role-reported-time",
    "last-hello-message",
];
const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);

/// The maximum time for a reply; and the wait for other connections after it.
const PATIENCE_MS: u64 = 2_000;
const REST_MS: u64 = 10;

/// A Sentinel of the test's own.
struct Real {
    process: Child,
    folder: TempDir,
    connections: BTreeMap<String, UnixStream>,
}

impl Real {
    fn start() -> Option<Real> {
        let folder = TempDir::new().expect("a folder for the Sentinel");
        let (file, socket) = (folder.path().join("s.conf"), folder.path().join("s.sock"));
        let setting = format!(
            "port 0\nunixsocket {}\nsentinel monitor mymaster 127.0.0.1 1 2\n",
            socket.display()
        );
        std::fs::write(&file, setting).expect("a file can be written");
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").current_dir(folder.path()).stdout(Stdio::null());
        let process = command.spawn().ok()?;
        for _ in 0..500 {
            if UnixStream::connect(&socket).is_ok() {
                return Some(Real { process, folder, connections: BTreeMap::new() });
            }
            sleep_ms(20);
        }
        panic!("no Sentinel listens in {}", folder.path().display());
    }

    fn step(&mut self, step: &Step) -> Echo {
        let Step::Ask(name, line) = step else { return Echo::new() };
        let socket = self.folder.path().join("s.sock");
        let open = || UnixStream::connect(socket).expect("the Sentinel listens");
        let stream = self.connections.entry(name.clone()).or_insert_with(open);
        stream.write_all(&encode(&words(line))).expect("the Sentinel reads");
        let mut echo = Echo::new();
        for _ in 0..PATIENCE_MS / REST_MS {
            if echo.get(name).is_some_and(|heard: &Heard| !heard.bytes.is_empty()) {
                break;
            }
            sleep_ms(REST_MS);
            self.listen(&mut echo);
        }
        sleep_ms(REST_MS);
        self.listen(&mut echo);
        echo
    }

    fn listen(&mut self, echo: &mut Echo) {
        for (name, stream) in &mut self.connections {
            stream.set_nonblocking(true).expect("a socket");
            let heard = echo.entry(name.clone()).or_default();
            heard.closed = stream.read_to_end(&mut heard.bytes).is_ok();
            stream.set_nonblocking(false).expect("a socket");
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn fake() -> Fake {
    let mut node = Node::new(NodeConfig::default(), EPOCH_MS, [1, 2, 3]);
    let now = i64::try_from(EPOCH_MS).expect("it fits");
    let mut sentinel = Sentinel::new("e".repeat(40), NOWHERE, now);
    sentinel.set_up(&SentinelConfig::of(NOWHERE, 2), now);
    node.sentinel = Some(Box::new(sentinel));
    Fake::of(node, EPOCH_MS)
}

fn step_on_fake(fake: &mut Fake, step: &Step) -> Echo {
    if let Step::Ask(name, line) = step {
        fake.request(name, &words(line));
    }
    fake.heard()
}

/// Replaces each value that changes with time by a mark.
fn masked(mut echo: Echo) -> Echo {
    for heard in echo.values_mut() {
        for field in VOLATILE {
            let name = format!("${}\r\n{field}\r\n", field.len());
            let mut parts: Vec<Vec<u8>> = Vec::new();
            let mut rest = &heard.bytes[..];
            while let Some(at) = rest.windows(name.len()).position(|part| part == name.as_bytes()) {
                parts.push([&rest[..at + name.len()], b"$3\r\nany\r\n"].concat());
                rest = behind_bulk(&rest[at + name.len()..]);
            }
            parts.push(rest.to_vec());
            heard.bytes = parts.concat();
        }
    }
    echo.retain(|_, heard| *heard != Heard::default());
    echo
}

fn behind_bulk(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line");
    let length = std::str::from_utf8(&bytes[1..end]).expect("digits").parse::<usize>();
    &bytes[end + 2 + length.expect("a length") + 2..]
}

fn own_scripts() -> Vec<Script> {
    scripts_in(&folder().join("sentinel"))
}

#[test]
fn the_recorded_answers_of_sentinels_are_ours() {
    let mut wrong = Vec::new();
    for script in own_scripts() {
        let mut fake = fake();
        for (step, recorded) in &script.steps {
            let told = masked(step_on_fake(&mut fake, step));
            wrong.extend(difference(&script, step, recorded, &told));
        }
    }
    if !writes() {
        fail_if_any(&wrong);
    }
}

#[test]
fn an_installed_sentinel_answers_alike() {
    let mut wrong = Vec::new();
    for mut script in own_scripts() {
        let Some(mut real) = Real::start() else {
            eprintln!("SKIPPED: redis-server is not installed; recorded answers were compared");
            return;
        };
        let mut fake = fake();
        for at in 0..script.steps.len() {
            let step = &script.steps[at].0;
            let answered = masked(real.step(step));
            let told = masked(step_on_fake(&mut fake, step));
            wrong.extend(difference(&script, step, &answered, &told));
            script.steps[at].1 = answered;
        }
        if writes() {
            let path = folder().join("sentinel").join(format!("{}.txt", script.name));
            std::fs::write(path, script.write()).expect("a file of cases can be written");
        }
    }
    fail_if_any(&wrong);
}
