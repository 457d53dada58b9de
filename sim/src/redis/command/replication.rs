//! Commands between nodes, and those that look at or change who follows whom.
//!
//! They only read and note: what has to happen on the network is left to the server as
//! [`After`].

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;

use crate::redis::command::{Call, Family, NOT_INTEGER, Outcome, digits, word};
use crate::redis::frame::{Reply, integer};
use crate::redis::session::After;

/// What is here, by name.
pub const FAMILY: Family = &[
    ("psync", psync),
    ("replconf", replconf),
    ("replicaof", replicaof),
    ("role", role),
    ("slaveof", replicaof),
    ("wait", wait),
];

/// REPLICAOF host port | NO ONE
pub fn replicaof(call: &mut Call) -> Outcome {
    if call.node.cluster.is_some() {
        return Err(Reply::error("ERR REPLICAOF not allowed in cluster mode."));
    }
    if (&call.word(1)[..], &call.word(2)[..]) == (b"NO", b"ONE") {
        if call.node.master.is_some() {
            call.session.after = After::Follow(None);
        }
        return Ok(Reply::OK);
    }
    let port = integer(&call.args[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(Reply::error("ERR Invalid master port"))?;
    let host = std::str::from_utf8(&call.args[1]).ok();
    let ip = host.and_then(|host| host.parse::<Ipv4Addr>().ok());
    let master = SocketAddrV4::new(ip.ok_or(Reply::error("ERR Invalid master host"))?, port);
    if call.node.master == Some(master) {
        return Ok(Reply::simple("OK Already connected to specified master"));
    }
    call.session.after = After::Follow(Some(master));
    Ok(Reply::OK)
}

/// ROLE
pub fn role(call: &mut Call) -> Outcome {
    let node = &call.node;
    let offset = Reply::Integer(i64::try_from(node.offset).unwrap_or(i64::MAX));
    let Some(master) = node.master else {
        let replica = |r: &crate::redis::node::Replica| {
            let words = [Bytes::from(r.address.ip().to_string()), digits(r.port), digits(r.acked)];
            Reply::Array(words.into_iter().map(Reply::Bulk).collect())
        };
        let replicas = node.replicas.iter().map(replica).collect();
        return Ok(Reply::Array(vec![Reply::Bulk(word("master")), offset, Reply::Array(replicas)]));
    };
    let state = if node.master_link_up { "connected" } else { "connect" };
    let offset = if node.master_link_up { offset } else { Reply::Integer(-1) };
    Ok(Reply::Array(vec![
        Reply::Bulk(word("slave")),
        Reply::Bulk(Bytes::from(master.ip().to_string())),
        Reply::Integer(i64::from(master.port())),
        Reply::Bulk(word(state)),
        offset,
    ]))
}

/// WAIT numreplicas timeout: counts replicas that acknowledged this connection's last write.
pub fn wait(call: &mut Call) -> Outcome {
    if call.node.master.is_some() {
        return Err(Reply::error(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis \
             4.0 if a replica is configured to be writable (which is not the default) writes to \
             replicas are just local and are not propagated.",
        ));
    }
    let replicas = call.integer(1)?;
    let timeout = integer(&call.args[2])
        .ok_or(Reply::error("ERR timeout is not an integer or out of range"))?;
    let timeout_ms = u64::try_from(timeout).map_err(|_| Reply::error("ERR timeout is negative"))?;
    let acked = call.node.acknowledged(call.session.last_write);
    let wanted = usize::try_from(replicas.max(0)).map_err(|_| Reply::error(NOT_INTEGER))?;
    let waits = !call.session.in_exec && call.session.script.is_none();
    if acked < wanted && waits {
        call.session.after = After::Wait { replicas: wanted, timeout_ms };
        return Ok(Reply::SILENCE);
    }
    Ok(Reply::Integer(i64::try_from(acked).unwrap_or(i64::MAX)))
}

/// REPLCONF listening-port n | capa x | ACK offset | GETACK *
pub fn replconf(call: &mut Call) -> Outcome {
    let pairs = call.from(1);
    if !pairs.len().is_multiple_of(2) {
        return Err(Reply::error(super::SYNTAX));
    }
    for pair in pairs.chunks_exact(2) {
        let number = integer(&pair[1]);
        match &pair[0].to_ascii_lowercase()[..] {
            b"listening-port" => {
                let port = number.and_then(|port| u16::try_from(port).ok());
                call.session.listening_port = port.ok_or(Reply::error(NOT_INTEGER))?;
            }
            b"ack" => {
                acknowledge(call, number);
                return Ok(Reply::SILENCE);
            }
            b"capa" | b"ip-address" | b"getack" | b"rdb-only" | b"rdb-filter-only" => {}
            _ => {
                let text = [b"ERR Unrecognized REPLCONF option: ", &pair[0][..]].concat();
                return Err(Reply::Error(text.into()));
            }
        }
    }
    Ok(Reply::OK)
}

fn acknowledge(call: &mut Call, offset: Option<i64>) {
    let Some(offset) = offset.and_then(|offset| u64::try_from(offset).ok()) else { return };
    let (session, now_s) = (call.session.id, call.node.now_ms / 1_000);
    if let Some(replica) = call.node.replicas.iter_mut().find(|r| r.session == session) {
        replica.acked = replica.acked.max(offset);
        replica.acked_at_s = now_s;
    }
}

/// PSYNC id offset: always answered by a full resynchronisation.
pub fn psync(call: &mut Call) -> Outcome {
    if call.node.master.is_some() && !call.node.master_link_up {
        return Err(Reply::error("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    call.session.after = After::Feed;
    Ok(Reply::SILENCE)
}
