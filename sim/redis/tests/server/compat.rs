//! What nodes compatible with different servers propagate to replicas and file, where these differ.
//!
//! Each case was observed on the stream that the server itself sends to a replica.

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::BytesMut;
use lockstorm_redis::compat::Compat;
use lockstorm_redis::effects::Effects;
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::node::{Node, NodeConfig};
use lockstorm_redis::requests;

const SECOND_NS: u64 = 1_000_000_000;

/// What the last line propagates; a second passes before each line, without active expire cycles.
fn passed_on(compat: Compat, lines: &[&str]) -> String {
    let config = NodeConfig { compat, ..NodeConfig::default() };
    let mut node = Node::new(config, 1_000_000, [1, 2, 3]);
    node.propagation.is_consumed = true;
    let id = node.connect([SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1); 2]);
    for (at, line) in (1..).zip(lines) {
        node.effects = Effects::default();
        node.set_time((1_000 + at) * SECOND_NS);
        let mut bytes = BytesMut::from(format!("{line}\r\n").as_bytes());
        let args = RequestReader::default().next(&mut bytes).expect("it has no odd quotes");
        requests::request(&mut node, id, &args.expect("it has words"));
    }
    let line = |words: &Vec<bytes::Bytes>| String::from_utf8_lossy(&words.join(&b' ')).into_owned();
    let told: Vec<String> = node.effects.commands.iter().map(|told| line(&told.command)).collect();
    told.join("; ")
}

#[test]
fn each_server_passes_on_what_it_is_known_to() {
    use Compat::{Redis70, Redis82, Redis84, Valkey80, Valkey90};
    let redis = [Redis70, Redis82, Redis84];
    let valkey = [Valkey80, Valkey90];
    let cases: &[(&[Compat], &[&str], &str)] = &[
        (&redis, &["SET k v PX 1", "GET k"], "DEL k"),
        (&valkey, &["SET k v PX 1", "GET k"], "UNLINK k"),
        (&valkey, &["SET k v", "DEL k"], "DEL k"),
        (&redis, &["SET k v", "PEXPIRE k -1"], "DEL k"),
        (&valkey, &["SET k v", "PEXPIRE k -1"], "UNLINK k"),
        (&redis, &["SET k v", "GETEX k PXAT 1"], "DEL k"),
        (&valkey, &["SET k v", "GETEX k PXAT 1"], "UNLINK k"),
        (&redis, &["SET k v", "SET k w PXAT 1"], "SET k w PXAT 1"),
        (&valkey, &["SET k v", "SET k w PXAT 1"], "UNLINK k"),
        (&valkey, &["SET k v NX PXAT 1"], ""),
        (&[Redis84, Valkey90], &["SET k v", "SET k w IFEQ v"], "SET k w IFEQ v"),
        (&[Valkey90], &["SET k v", "SET k w IFEQ v GET"], "SET k w IFEQ v"),
        (&[Valkey90], &["SET k v", "SET k w IFEQ v PX 5"], "SET k w PXAT 1002005"),
        (&[Valkey90], &["SET k v", "SET k w IFEQ x"], ""),
        (&[Valkey90], &["SET k v", "DELIFEQ k v"], "DEL k"),
        (&[Valkey90], &["SET k v", "DELIFEQ k x"], ""),
        (&[Redis84], &["SET k v", "DELEX k IFEQ v"], "DEL k"),
        (&[Redis84], &["SET k v", "DELEX k IFEQ x"], ""),
    ];
    for (servers, lines, expected) in cases {
        for compat in *servers {
            assert_eq!(passed_on(*compat, lines), *expected, "{compat:?}: {lines:?}");
        }
    }
}

#[test]
fn a_parameter_decides_how_expiry_is_passed_on() {
    let yes = ["CONFIG SET lazyfree-lazy-expire yes", "SET k v PX 1", "GET k"];
    assert_eq!(passed_on(Compat::Redis70, &yes), "UNLINK k");
    let no = ["CONFIG SET lazyfree-lazy-expire no", "SET k v PX 1", "GET k"];
    assert_eq!(passed_on(Compat::Valkey80, &no), "DEL k");
}
