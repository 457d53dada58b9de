//! `lockstorm serve` as a whole: the real program, real sockets, and clients that know nothing of
//! it. The system chooses every port, so that tests can run in parallel.
#![cfg(feature = "live")]

mod failover;
mod redis_rs;
mod served;

use std::io::{BufRead, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::serve::served::{Client, Served};

/// Retries until the node replies as expected, or the test times out.
#[track_caller]
fn until(wanted: &str, mut ask: impl FnMut() -> String) {
    let mut heard = String::new();
    for _ in 0..500 {
        heard = ask();
        if heard == wanted {
            return;
        }
        rest(10);
    }
    assert_eq!(heard, wanted);
}

#[expect(clippy::disallowed_methods, reason = "what is tested lives in real time")]
fn rest(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[test]
fn locks_of_any_client_are_served_and_judged() {
    let served = Served::new(&[]);
    assert!(served.greeting.contains("n1  127.0.0.1:"), "{}", served.greeting);
    let (mut one, mut other) = (served.client(), served.client());
    assert_eq!(one.request("SET lock a NX PX 30000"), "+OK\r\n");
    assert_eq!(other.request("SET lock b NX PX 30000"), "$-1\r\n");
    let script = "if/**/".replace("/**/", " redis.call('get',KEYS[1])==ARGV[1] ");
    let script = script + "then return redis.call('del',KEYS[1]) else return 0 end";
    let bulk = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let words = ["EVAL", &script, "1", "lock", "a"].map(bulk).concat();
    one.0.write_all(format!("*5\r\n{words}").as_bytes()).unwrap();
    assert_eq!(one.hear(), ":1\r\n");
    let unix = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let time = one.request("TIME");
    let seconds: u64 = time.split("\r\n").nth(2).unwrap().parse().unwrap();
    assert!(seconds.abs_diff(unix) <= 2, "{time}");
    assert!(served.order("STATUS").contains("n1"));
    let seen = "1 locks taken, 1 tries refused, 0 faults";
    served.ends_with(0, &["holds: nothing wrong was found", seen]);
}

#[test]
fn a_paused_node_answers_when_it_goes_on_and_its_sockets_stay() {
    let served = Served::new(&[]);
    let mut client = served.client();
    assert_eq!(client.request("PING"), "+PONG\r\n");
    assert_eq!(served.order("FAULT PAUSE n1 400ms"), "+OK fault 1: pause n1 for 400ms\r\n");
    let mut new = served.client().patient(150);
    assert_eq!(new.request("PING"), "", "a paused node says nothing");
    assert_eq!(client.request("PING"), "+PONG\r\n");
    let mut new = new.patient(20_000);
    assert_eq!(new.hear(), "+PONG\r\n");
}

#[test]
fn a_clock_that_is_stepped_expires_a_lock_and_grants_it_twice() {
    let served = Served::new(&[]);
    let (mut one, mut other) = (served.client(), served.client());
    assert_eq!(one.request("SET lock a NX PX 30000"), "+OK\r\n");
    let status = served.order("STATUS");
    assert!(status.contains("'lock' with token 'a', created at"), "{status}");
    assert_eq!(served.order("CLOCK STEP n1 +40s"), "+OK fault 1: clock-step n1\r\n");
    let status = served.order("STATUS");
    assert!(status.contains("master  up  clock 40s ahead"), "{status}");
    until("+OK\r\n", || other.request("SET lock b NX PX 30000"));
    served.ends_with(1, &["violated: double-grant", "was expired with at least"]);
}

#[test]
fn a_cut_reply_leaves_a_lock_that_nobody_knows_of() {
    let served = Served::new(&[]);
    let (mut one, mut other) = (served.client(), served.client());
    let answer = served.order("CUT REPLY n1 NEXT SET");
    assert_eq!(answer, "+OK fault 1: the next SET on n1 is applied and not answered\r\n");
    assert_eq!(other.request("GET lock"), "$-1\r\n");
    assert_eq!(one.request("SET lock a NX PX 30000"), "", "the connection breaks");
    assert_eq!(other.request("GET lock"), "$1\r\na\r\n", "and the other one does not");
    assert_eq!(other.request("SET lock b NX PX 30000"), "$-1\r\n");
    served.ends_with(1, &["violated: leak", "never answered, and made others' tries fail"]);
}

#[test]
fn a_crashed_node_refuses_and_has_forgotten_when_it_is_back() {
    let served = Served::new(&[]);
    let mut client = served.client();
    assert_eq!(client.request("SET lock a NX PX 30000"), "+OK\r\n");
    assert!(served.order("FAULT CRASH n1").starts_with("+OK"));
    assert_eq!(client.hear(), "", "the kernel closes what a process leaves");
    assert!(TcpStream::connect(("127.0.0.1", served.nodes[0])).is_err());
    assert!(served.order("FAULT RESTART n1").starts_with("+OK"));
    until("+OK\r\n", || match TcpStream::connect(("127.0.0.1", served.nodes[0])) {
        Ok(stream) => Client(stream).request("SET lock b NX PX 30000"),
        Err(_) => String::new(),
    });
    served.ends_with(1, &["double-grant", "was lost at a restart with at least"]);
}

#[test]
fn links_delay_hold_and_heal() {
    let served = Served::new(&[]);
    let mut client = served.client();
    assert!(served.order("LINK DELAY n1 100ms").starts_with("+OK"));
    let start = served.order("STATUS");
    assert!(start.contains("delay clients <-> n1 until HEAL"), "{start}");
    let mut hasty = served.client().patient(120);
    assert_eq!(hasty.request("PING"), "", "there and back takes 200 ms");
    assert_eq!(client.request("PING"), "+PONG\r\n");
    assert_eq!(served.order("LINK HEAL n1"), "+OK 1 faults are over\r\n");
    assert!(served.order("LINK CUT n1 -> clients 300ms").starts_with("+OK"));
    client.send("SET k v");
    assert_eq!(client.hear(), "+OK\r\n", "what was held comes after the heal");
    assert!(served.order("FAULT RESET n1").starts_with("+OK"));
    assert_eq!(client.hear(), "");
    assert_eq!(served.client().request("GET k"), "$1\r\nv\r\n");
}

#[test]
fn a_replica_takes_over_at_the_address_that_it_announces() {
    let served = Served::new(&["--topology", "replicated"]);
    let (mut master, mut replica) = (served.client(), Client::to(served.nodes[1]));
    let info = replica.request("INFO replication");
    assert!(info.contains("master_host:127.0.0.1\r\n"), "{info}");
    assert!(info.contains(&format!("master_port:{}\r\n", served.nodes[0])), "{info}");
    until(":1\r\n", || {
        master.request("SET lock a NX PX 60000");
        master.request("WAIT 1 100")
    });
    until("$1\r\na\r\n", || replica.request("GET lock"));
    assert!(served.order("FAILOVER").contains("failover n2"));
    until("$-1\r\n", || replica.request("SET lock b NX PX 60000"));
    served.ends_with(0, &["holds"]);
}

#[test]
fn nonsense_is_refused_with_advice_and_the_service_goes_on() {
    let served = Served::new(&["--nodes", "3", "--topology", "independent"]);
    for (line, refusal) in [
        ("FAULT PAUS n1 15s", "-ERR no fault 'paus': did you mean 'PAUSE'?\r\n"),
        ("FAULT PAUSE n9 15s", "-ERR no host 'n9': hosts are n1, n2, n3\r\n"),
        ("FAULT PAUSE n1 15", "-ERR '15' has no unit: write '15s' or '15ms'\r\n"),
        ("CLOCK STEP n1 soon", "-ERR 'soon' is not a length: "),
        ("LINK LOSS n1 200%", "-ERR nothing would ever arrive: at most 90%"),
        ("LINK DELAY n1", "-ERR a length is missing: like 200ms\r\n"),
        (
            "FAILOVER n2",
            "-ERR 'failover' needs a replica, and there is none: start with --topology replicated\r\n",
        ),
        ("FALT PAUSE n1", "-ERR no order 'falt': did you mean 'FAULT'?\r\n"),
        ("CUT REPLY n1 NEXT STE", "-ERR no command 'STE': "),
        ("FAULT PAUSE clients 1s", "-ERR clients are not of this world"),
        ("FAULT RESTART n1 5s", "-ERR restart acts in one instant: remove '5s'\r\n"),
    ] {
        let answer = served.order(line);
        assert!(answer.starts_with(refusal), "{line}: {answer}");
    }
    assert!(served.order("HELP").starts_with("*"));
    assert_eq!(served.client().request("PING"), "+PONG\r\n");
    served.ends_with(2, &["unknown: no lock was seen"]);
}

#[test]
fn garbage_and_half_open_connections_harm_nobody_else() {
    let served = Served::new(&[]);
    let mut client = served.client();
    let mut half = served.client();
    half.0.write_all(b"*3\r\n$3\r\nSET\r\n$1").unwrap();
    let idle: Vec<Client> = (0..50).map(|_| served.client()).collect();
    for garbage in [&b"\x00\xff\xfe\r\n\r\n"[..], b"*99999999999\r\n", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut rude = served.client().patient(100);
        rude.0.write_all(garbage).unwrap();
        rude.hear();
        let mut rude = Client::to(served.admin).patient(100);
        rude.0.write_all(garbage).unwrap();
        rude.hear();
    }
    assert_eq!(client.request("SET lock a NX PX 30000"), "+OK\r\n");
    drop(idle);
    drop(half);
    assert_eq!(client.request("GET lock"), "$1\r\na\r\n");
    served.ends_with(0, &["holds"]);
}

#[test]
fn orders_are_typed_and_the_end_of_input_ends_nothing() {
    let mut served = Served::new(&[]);
    let mut input = served.input.take().unwrap();
    input.write_all(b"FAULT PAUS n1\nCLOCK STEP n1 -1h\n").unwrap();
    drop(input);
    let mut said = String::new();
    while !said.contains("clock-step") {
        served.output.read_line(&mut said).unwrap();
    }
    assert!(said.contains("ERR no fault 'paus': did you mean 'PAUSE'?\n"), "{said}");
    assert_eq!(served.client().request("PING"), "+PONG\r\n");
}

#[test]
fn a_taken_port_and_bad_arguments_are_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (arguments, text) in [
        (&["--port", &port][..], "of 127.0.0.1 is taken"),
        (&["--port", "0", "--bind", "192.0.2.1"], "192.0.2.1 is not an address of this computer"),
        (&["--port", "0", "--nodes", "3"], "a single topology has one node"),
        (&["--port", "0", "--topology", "cluster", "--nodes", "5"], "as many replicas"),
        (&["--port", "60000", "--topology", "cluster"], "there is no port for n1"),
        (&["--port", "70000"], "70000"),
        (&["--port", "0", "--for", "5"], "'5' has no unit"),
        (&["nowhere.toml"], "cannot be read"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
        let output = command.arg("serve").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}

#[test]
fn a_scenario_is_served_with_what_its_nodes_can_suffer() {
    let served = Served::new(&["scenarios/node-clock-steps-forward.toml"]);
    assert_eq!(served.client().request("PING"), "+PONG\r\n");
    let mut paused = Served::new(&["scenarios/gc-pause-outlives-lease.toml"]);
    let mut said = String::new();
    while !said.contains("left out") {
        assert!(paused.output.read_line(&mut said).unwrap() > 0, "{said}");
    }
    assert!(said.contains("pause c1, is left out: 'c1' is not of this world"), "{said}");
}

#[test]
fn the_history_is_written_as_it_grows() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let served = Served::new(&["--history", file.path().to_str().unwrap()]);
    let mut client = served.client();
    client.request("SET lock a NX PX 30000");
    client.request("DEL lock");
    client.request("SETNX other b");
    drop(client);
    assert!(served.order("HISTORY").contains("released at"));
    served.ends_with(1, &["leak (by connection)"]);
    let written = std::fs::read_to_string(file.path()).unwrap();
    let lines: Vec<serde_json::Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["line"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["owned", "owned", "finding", "judgement"], "{written}");
    assert_eq!(lines[0]["end"], "released");
    assert_eq!(lines[3]["verdict"], "violated");
}

#[test]
fn redis_cli_works_unchanged() {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        println!("skipped: there is no redis-cli");
        return;
    }
    let served = Served::new(&[]);
    let cli = |port: u16, arguments: &[&str]| {
        let port = port.to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(arguments).output();
        String::from_utf8_lossy(&output.unwrap().stdout).trim().to_owned()
    };
    let mut script = tempfile::NamedTempFile::new().unwrap();
    let text = "if redis.call('get', KEYS[1]) == ARGV[1] then\n  \
                return redis.call('del', KEYS[1])\nelse\n  return 0\nend\n";
    script.write_all(text.as_bytes()).unwrap();
    let path = script.path().to_str().unwrap();
    let node = served.nodes[0];
    assert_eq!(cli(node, &["SET", "lock_key", "unique_value", "NX", "PX", "30000"]), "OK");
    assert_eq!(cli(node, &["--eval", path, "lock_key", ",", "another_value"]), "0");
    assert_eq!(cli(node, &["--eval", path, "lock_key", ",", "unique_value"]), "1");
    assert!(cli(served.admin, &["STATUS"]).contains("n1"));
    assert!(cli(served.admin, &["FAULT", "PAUSE", "n9", "1s"]).contains("ERR no host 'n9'"));
    served.ends_with(0, &["holds"]);
}
