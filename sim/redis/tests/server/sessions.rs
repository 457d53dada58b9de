//! Several connections of one node against what real Redis sent to each of them.
//!
//! A case is a line `> connection request`, and a line for each connection that received something,
//! followed by ` CLOSED` if it was closed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::BytesMut;
use lockstorm_redis::clients::Pause;
use lockstorm_redis::frame::Arguments;
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::node::{Node, NodeConfig};
use lockstorm_redis::requests;

const TRANSCRIPT: &str = include_str!("sessions.txt");

/// A node with named connections.
struct Talk {
    node: Node,
    ids: BTreeMap<String, u64>,
}

impl Talk {
    fn new() -> Talk {
        let node = Node::new(NodeConfig::default(), 1_000_000, [1, 2, 3]);
        Talk { node, ids: BTreeMap::new() }
    }

    fn id(&mut self, who: &str) -> u64 {
        let node = &mut self.node;
        let connect = || node.connect([SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1); 2]);
        *self.ids.entry(who.to_owned()).or_insert_with(connect)
    }

    /// What all connections receive after a request of `who`.
    fn request(&mut self, who: &str, line: &str) -> String {
        let id = self.id(who);
        if self.node.clients.get(id).is_some_and(|session| session.replies.closing.is_none()) {
            requests::request(&mut self.node, id, &parse(line));
        }
        self.told()
    }

    fn told(&mut self) -> String {
        let mut text = String::new();
        for (name, id) in &self.ids {
            let Some(session) = self.node.clients.get_mut(*id) else { continue };
            let output = std::mem::take(&mut session.replies.buffer);
            let closed = session.replies.closing.is_some();
            if closed || !output.is_empty() {
                let end = if closed { " CLOSED" } else { "" };
                let _ = writeln!(text, "{name} {}{end}", escape(&output));
            }
            if closed {
                self.node.clients.disconnect(*id);
            }
        }
        text.trim_end().to_owned()
    }
}

fn parse(line: &str) -> Arguments {
    let mut buffer = BytesMut::from(format!("{line}\r\n").as_bytes());
    RequestReader::default().next(&mut buffer).expect("well formed").expect("whole")
}

fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| match byte {
        b'\\' => text + "\\\\",
        b'\r' => text + "\\r",
        b'\n' => text + "\\n",
        b' '..=b'~' => text + &char::from(*byte).to_string(),
        other => text + &format!("\\x{other:02x}"),
    })
}

/// The id in the reply to HELLO is the connection's own.
fn without_ids(text: &str) -> String {
    let mut parts = text.split("id\\r\\n:");
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        told += "id\\r\\n:1";
        told += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    told
}

#[test]
fn everybody_receives_what_redis_sends() {
    let mut talk = Talk::new();
    let mut wrong = Vec::new();
    let lines: Vec<&str> = TRANSCRIPT.lines().filter(|line| !line.starts_with('#')).collect();
    for case in format!("\n{}", lines.join("\n")).split("\n> ").skip(1) {
        let (request, expected) = case.split_once('\n').unwrap_or((case, ""));
        let (who, request) = request.split_once(' ').expect("a name and a request");
        let told = without_ids(&talk.request(who, request));
        if told != expected {
            wrong.push(format!("{who} {request}\nredis:\n{expected}\nours:\n{told}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_pause_holds_requests_and_ends_of_keys_back() {
    let mut talk = Talk::new();
    talk.request("a", "SET k v PX 10");
    assert_eq!(talk.request("a", "CLIENT PAUSE 50 WRITE"), "a +OK\\r\\n");
    talk.node.set_time(1_000_020 * 1_000_000);
    requests::end_waits(&mut talk.node);
    talk.node.expire_all();
    assert_eq!(talk.request("b", "GET k"), "b $-1\\r\\n", "it is hidden");
    assert_eq!(talk.request("b", "DBSIZE"), "b :1\\r\\n", "but not deleted");
    assert_eq!(talk.request("b", "SET k w NX"), "", "and not written");
    assert_eq!(talk.request("a", "CLIENT PAUSE 10 ALL"), "a +OK\\r\\n");
    let pause = Pause { until_ms: 1_000_050, all: true };
    assert_eq!(talk.node.clients.pause(), Some(pause), "the longer and the stricter");
    assert_eq!(talk.request("c", "PING"), "");
    assert_eq!(talk.node.clients.next_deadline_ms(), Some(1_000_050));
    talk.node.set_time(1_000_050 * 1_000_000);
    requests::end_waits(&mut talk.node);
    assert_eq!(talk.told(), "b +OK\\r\\n\nc +PONG\\r\\n");
    assert_eq!(talk.request("a", "GET k"), "a $1\\r\\nw\\r\\n");
}

#[test]
fn what_is_published_goes_to_replicas_and_is_not_kept() {
    let mut talk = Talk::new();
    talk.node.propagation.is_consumed = true;
    talk.request("a", "PUBLISH c m");
    let told = &talk.node.effects.commands[0];
    assert_eq!(told.command, parse("PUBLISH c m"));
    assert!(told.is_publish());
}
