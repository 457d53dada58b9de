//! Commands about the node: INFO, TIME, CONFIG, DBSIZE, FLUSHALL, DEBUG.
//!
//! `DEBUG EVICT key` is our own: it drops a key as a node that runs out of memory would.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::redis::command::key::matches;
use crate::redis::command::{Call, Outcome, SYNTAX, digits, unknown_subcommand, wrong_arity};
use crate::redis::frame::{Reply, integer};
use crate::redis::keyspace::{DATABASES, Key};
use crate::redis::node::{Append, Node};
use crate::trace::KeyChange;

/// TIME
pub fn time(call: &mut Call) -> Outcome {
    let (seconds, micros) = (call.node.now_us / 1_000_000, call.node.now_us % 1_000_000);
    Ok(Reply::Array(vec![Reply::Bulk(digits(seconds)), Reply::Bulk(digits(micros))]))
}

/// DBSIZE: expired keys count until they are deleted.
pub fn dbsize(call: &mut Call) -> Outcome {
    let size = call.node.keyspace.db(call.session.db).len();
    Ok(Reply::Integer(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// FLUSHALL [ASYNC | SYNC]
pub fn flushall(call: &mut Call) -> Outcome {
    flush(call, 0..DATABASES)
}

/// FLUSHDB [ASYNC | SYNC]
pub fn flushdb(call: &mut Call) -> Outcome {
    let db = call.session.db;
    flush(call, db..db + 1)
}

fn flush(call: &mut Call, databases: std::ops::Range<usize>) -> Outcome {
    match call.args {
        [_] => {}
        [_, _] if matches!(&call.word(1)[..], b"SYNC" | b"ASYNC") => {}
        _ => return Err(Reply::error(SYNTAX)),
    }
    for db in databases {
        let keys: Vec<Key> = call.node.keyspace.db(db).iter().map(|(k, _)| k.clone()).collect();
        for key in keys {
            call.node.keyspace.db_mut(db).remove(&key);
            call.node.note(db, key, KeyChange::Deleted);
        }
    }
    call.tell_verbatim();
    Ok(Reply::OK)
}

/// DEBUG EVICT key
pub fn debug(call: &mut Call) -> Outcome {
    match (&call.word(1)[..], call.from(2)) {
        (b"EVICT", [key]) => {
            let there = call.entry(key).is_some();
            let db = call.session.db;
            let gone = there && call.node.drop_key(db, key, KeyChange::Evicted, false);
            Ok(Reply::Integer(i64::from(gone)))
        }
        _ => Err(unknown_subcommand(call.args)),
    }
}

/// CONFIG GET pattern ... | SET name value ... | RESETSTAT
pub fn config(call: &mut Call) -> Outcome {
    match (&call.word(1)[..], call.from(2)) {
        (b"GET", patterns @ [_, ..]) => {
            let wanted = |name: &str| patterns.iter().any(|p| matches(p, name.as_bytes()));
            let settings = settings(call.node).into_iter().filter(|(name, _)| wanted(name));
            let pairs = settings.flat_map(|(name, value)| [name.to_owned(), value]);
            Ok(Reply::Array(pairs.map(|text| Reply::Bulk(Bytes::from(text))).collect()))
        }
        (b"SET", pairs @ [_, _, ..]) if pairs.len().is_multiple_of(2) => {
            for pair in pairs.chunks_exact(2) {
                change_setting(call.node, &pair[0], &pair[1])?;
            }
            Ok(Reply::OK)
        }
        (b"RESETSTAT", []) => Ok(Reply::OK),
        (b"GET" | b"SET" | b"RESETSTAT", _) => {
            let name = String::from_utf8_lossy(&call.args[1]).to_ascii_lowercase();
            Err(wrong_arity(&format!("config|{name}")))
        }
        _ => Err(unknown_subcommand(call.args)),
    }
}

fn settings(node: &Node) -> Vec<(&'static str, String)> {
    let appends = node.config.append != Append::None;
    vec![
        ("appendfsync", append_word(node.config.append).to_owned()),
        ("appendonly", if appends { "yes" } else { "no" }.to_owned()),
        ("min-replicas-max-lag", node.config.min_replicas_max_lag.to_string()),
        ("min-replicas-to-write", node.config.min_replicas_to_write.to_string()),
        ("port", node.config.port.to_string()),
        ("save", String::new()),
    ]
}

fn append_word(append: Append) -> &'static str {
    match append {
        Append::None | Append::Everysec => "everysec",
        Append::No => "no",
        Append::Always => "always",
    }
}

fn change_setting(node: &mut Node, name: &[u8], value: &[u8]) -> Result<(), Reply> {
    let failed = |why: &str| {
        let name = String::from_utf8_lossy(name);
        let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
        Err(Reply::Error(text.into()))
    };
    let number = integer(value).and_then(|value| u32::try_from(value).ok());
    match (&name.to_ascii_lowercase()[..], number) {
        (b"min-replicas-to-write" | b"min-slaves-to-write", Some(number)) => {
            node.config.min_replicas_to_write = number;
        }
        (b"min-replicas-max-lag" | b"min-slaves-max-lag", Some(number)) => {
            node.config.min_replicas_max_lag = u64::from(number);
        }
        (b"min-replicas-to-write" | b"min-replicas-max-lag", None) => {
            return failed("argument couldn't be parsed into an integer");
        }
        (b"appendfsync", _) => match (&value.to_ascii_lowercase()[..], node.config.append) {
            (b"always" | b"everysec" | b"no", Append::None) => {}
            (b"always", _) => node.config.append = Append::Always,
            (b"everysec", _) => node.config.append = Append::Everysec,
            (b"no", _) => node.config.append = Append::No,
            _ => return failed("argument(s) must be one of the following: everysec, always, no"),
        },
        (b"save", _) => {}
        _ => {
            let name = String::from_utf8_lossy(name);
            let text =
                format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
            return Err(Reply::Error(text.into()));
        }
    }
    node.recount_good_replicas();
    Ok(())
}

/// Writes one section of INFO.
type Section = fn(&mut String, &Node);

const SECTIONS: [(&str, Section); 5] = [
    ("Server", server_section),
    ("Persistence", persistence_section),
    ("Stats", stats_section),
    ("Replication", replication_section),
    ("Keyspace", keyspace_section),
];

/// INFO [section ...]
pub fn info(call: &mut Call) -> Outcome {
    let asked: Vec<Vec<u8>> = call.from(1).iter().map(|s| s.to_ascii_lowercase()).collect();
    let all = asked.is_empty()
        || asked.iter().any(|s| matches!(&s[..], b"all" | b"default" | b"everything"));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if all || asked.iter().any(|s| s.eq_ignore_ascii_case(name.as_bytes())) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            let _ = write!(text, "{gap}# {name}\r\n");
            write(&mut text, call.node);
        }
    }
    Ok(Reply::Bulk(Bytes::from(text)))
}

fn server_section(text: &mut String, node: &Node) {
    let up_s = node.now_ms.saturating_sub(node.started_ms) / 1_000;
    let port = node.config.port;
    let _ = write!(
        text,
        "redis_version:7.0.15\r\nredis_mode:standalone\r\narch_bits:64\r\nprocess_id:1\r\n\
         run_id:{}\r\ntcp_port:{port}\r\nserver_time_usec:{}\r\nuptime_in_seconds:{up_s}\r\n",
        node.replication_id, node.now_us,
    );
}

fn persistence_section(text: &mut String, node: &Node) {
    let loading = u8::from(node.loading);
    let enabled = u8::from(node.config.append != Append::None);
    let _ = write!(text, "loading:{loading}\r\nasync_loading:0\r\naof_enabled:{enabled}\r\n");
}

fn stats_section(text: &mut String, node: &Node) {
    let (executed, expired) = (node.executed, node.expired_keys);
    let _ = write!(text, "total_commands_processed:{executed}\r\nexpired_keys:{expired}\r\n");
}

fn replication_section(text: &mut String, node: &Node) {
    match node.master {
        None => text.push_str("role:master\r\n"),
        Some(master) => {
            let link = if node.master_link_up { "up" } else { "down" };
            let _ = write!(
                text,
                "role:slave\r\nmaster_host:{}\r\nmaster_port:{}\r\nmaster_link_status:{link}\r\n\
                 slave_repl_offset:{}\r\nslave_read_only:1\r\n",
                master.ip(),
                master.port(),
                node.offset,
            );
        }
    }
    let _ = write!(text, "connected_slaves:{}\r\n", node.replicas.len());
    if node.config.min_replicas_to_write > 0 {
        let _ = write!(text, "min_slaves_good_slaves:{}\r\n", node.good_replicas);
    }
    for (n, replica) in node.replicas.iter().enumerate() {
        let lag = (node.now_ms / 1_000).saturating_sub(replica.acked_at_s);
        let (ip, port, acked) = (replica.address.ip(), replica.port, replica.acked);
        let _ =
            write!(text, "slave{n}:ip={ip},port={port},state=online,offset={acked},lag={lag}\r\n");
    }
    let (id, offset) = (&node.replication_id, node.offset);
    let _ = write!(text, "master_replid:{id}\r\nmaster_repl_offset:{offset}\r\n");
}

fn keyspace_section(text: &mut String, node: &Node) {
    for (number, db) in node.keyspace.iter().filter(|(_, db)| !db.is_empty()) {
        let (keys, ending) = (db.len(), db.ending());
        let _ = write!(text, "db{number}:keys={keys},expires={ending},avg_ttl=0\r\n");
    }
}
