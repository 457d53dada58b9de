//! INFO, section by section.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::redis::command::{Call, Family, Outcome};
use crate::redis::frame::Reply;
use crate::redis::node::{Append, Node};

/// What is here, by name.
pub const FAMILY: Family = &[("info", info)];

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
