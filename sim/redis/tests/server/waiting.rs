//! Several connections of one node against recorded replies of real Redis: blocked clients, when
//! each is served, what watching clients see, and the events in order.

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::{Bytes, BytesMut};
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::node::{Node, NodeConfig};
use lockstorm_redis::persistence::Script;
use lockstorm_redis::requests;
use lockstorm_redis::session::Channel;

const RECORDED: &str = include_str!("waiting.txt");
/// The connections a, b and c, and the listener e.
const NAMES: [&str; 4] = ["a", "b", "c", "e"];
const NOW: u64 = 1_000_000;

fn escape(bytes: &[u8]) -> String {
    let one = |byte: &u8| std::ascii::escape_default(*byte).to_string().replace("\\\"", "\"");
    bytes.iter().map(one).collect::<String>().replace("\\'", "'")
}

fn words(line: &str) -> Vec<Bytes> {
    let mut buffer = BytesMut::from(format!("{line}\r\n").as_bytes());
    RequestReader::default().next(&mut buffer).expect("well formed").expect("whole")
}

fn node() -> (Node, [u64; 4]) {
    let config = NodeConfig { notify: "AKEnm".into(), ..NodeConfig::default() };
    let mut node = Node::new(config, NOW, [1, 2, 3]);
    node.propagation.is_consumed = true;
    let ids = NAMES.map(|_| node.connect([SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1); 2]));
    (node, ids)
}

#[test]
fn connections_receive_what_redis_sends_them() {
    let (mut node, ids) = node();
    let mut listener = node.clients.get(ids[3]).expect("connected").clone();
    let pattern = Bytes::from_static(b"__keyevent*");
    node.clients.listen(&mut listener, Channel::Pattern, &pattern);
    let mut lines = RECORDED.lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(step) = lines.next() {
        if let Some(ms) = step.strip_prefix('@') {
            let ms: u64 = ms.parse().expect("a time");
            node.set_time((node.clock.now_ms + ms) * 1_000_000);
            requests::end_waits(&mut node);
        } else {
            let (name, request) = step.split_once("> ").expect("a request");
            let at = NAMES.iter().position(|one| *one == name).expect("a connection");
            requests::request(&mut node, ids[at], &words(request));
        }
        for (name, id) in NAMES.iter().zip(ids) {
            let told = node.clients.get_mut(id).expect("connected").replies.buffer.split();
            let head = format!("{name}| ");
            let expected = lines.next_if(|line| line.starts_with(&head));
            let expected = expected.and_then(|line| line.strip_prefix(&head)).unwrap_or_default();
            assert_eq!(escape(&told), expected, "{name} after {step}");
        }
    }
}

/// What these requests of a, b and c append to the file.
fn told(requests: &[(usize, &str)]) -> Vec<String> {
    let (mut node, ids) = node();
    let (mut script, mut file) = (Script::default(), BytesMut::new());
    for (at, request) in requests {
        requests::request(&mut node, ids[*at], &words(request));
        let commands = std::mem::take(&mut node.effects.commands);
        script.write(&commands, &mut file, |_, _| {});
    }
    let mut reader = RequestReader::default();
    let mut lines = Vec::new();
    while let Some(args) = reader.next(&mut file).expect("well formed") {
        let words: Vec<_> = args.iter().map(|word| String::from_utf8_lossy(word)).collect();
        lines.push(words.join(" "));
    }
    lines
}

#[test]
fn what_a_served_client_took_is_reported_behind_what_served_it() {
    let lines = told(&[(0, "BLPOP x 0"), (1, "BLMPOP 0 1 x RIGHT COUNT 5"), (2, "RPUSH x 1 2 3")]);
    assert_eq!(lines, ["SELECT 0", "RPUSH x 1 2 3", "LPOP x", "RPOP x 2"]);
    let lines = told(&[(0, "BLMOVE x y left RIGHT 0"), (2, "RPUSH x 1")]);
    assert_eq!(lines, ["SELECT 0", "RPUSH x 1", "LMOVE x y left right"]);
    let lines = told(&[(2, "RPUSH x 1"), (0, "BLMOVE x y left RIGHT 0")]);
    assert_eq!(lines, ["SELECT 0", "RPUSH x 1", "LMOVE x y left RIGHT"]);
    let multi =
        [(0, "BRPOPLPUSH x y 0"), (2, "MULTI"), (2, "RPUSH x 1"), (2, "INCR i"), (2, "EXEC")];
    let expected = ["SELECT 0", "MULTI", "RPUSH x 1", "INCR i", "EXEC", "RPOPLPUSH x y"];
    assert_eq!(told(&multi), expected);
}

#[test]
fn who_leaves_or_times_out_is_not_served() {
    let (mut node, ids) = node();
    requests::request(&mut node, ids[0], &words("BLPOP x 0"));
    requests::request(&mut node, ids[1], &words("BLPOP x 1"));
    node.clients.disconnect(ids[0]);
    assert_eq!(node.clients.next_deadline_ms(), Some(NOW + 1_000));
    node.set_time((NOW + 1_000) * 1_000_000);
    requests::end_waits(&mut node);
    requests::request(&mut node, ids[2], &words("RPUSH x 1"));
    let output = |node: &Node, at: usize| {
        node.clients.get(ids[at]).expect("connected").replies.buffer.clone()
    };
    assert_eq!((&output(&node, 1)[..], &output(&node, 2)[..]), (&b"*-1\r\n"[..], &b":1\r\n"[..]));
}

#[test]
fn a_watched_key_whose_time_passes_ends_the_transaction() {
    let (mut node, ids) = node();
    for (passed, expected) in [(0, &b"*0\r\n"[..]), (101, &b"*-1\r\n"[..])] {
        requests::request(&mut node, ids[1], &words("SET k v PX 100"));
        requests::request(&mut node, ids[0], &words("WATCH k"));
        requests::request(&mut node, ids[0], &words("MULTI"));
        node.clients.get_mut(ids[0]).expect("connected").replies.buffer.clear();
        node.set_time((node.clock.now_ms + passed) * 1_000_000);
        requests::request(&mut node, ids[0], &words("EXEC"));
        assert_eq!(node.clients.get(ids[0]).expect("connected").replies.buffer, expected);
    }
}
