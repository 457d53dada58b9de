//! Replication commands between nodes, and those that report or change roles.
//!
//! They only read and note: the server carries out the network's part as [`After`].

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::compat::Difference;
use crate::errors::{NOT_INTEGER, SYNTAX};
use crate::frame::{Reply, integer};
use crate::frame::{digits, word};
use crate::node::Append;
use crate::peers::ManualFailover;
use crate::session::{After, Block, Psync, Quorum};

/// The error if there is no file that could be synced.
pub const NO_FILE: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("failover", failover),
    ("psync", psync),
    ("replconf", replconf),
    ("replicaof", replicaof),
    ("role", role),
    ("slaveof", replicaof),
    ("wait", wait),
    ("waitaof", waitaof),
];

/// REPLICAOF host port | NO ONE
pub fn replicaof(call: &mut Call) -> Outcome {
    if call.node.cluster.is_some() {
        return Err(Reply::error("ERR REPLICAOF not allowed in cluster mode."));
    }
    if call.node.peers.failover.is_some() {
        return Err(Reply::error("ERR REPLICAOF not allowed while failing over."));
    }
    if (&call.word(1)[..], &call.word(2)[..]) == (b"NO", b"ONE") {
        if call.node.peers.master.is_some() {
            call.session.after = After::Follow(None);
        }
        return Ok(Reply::OK);
    }
    if call.node.peers.replicas.iter().any(|replica| replica.session == call.session.id) {
        return Err(Reply::error("ERR Command is not valid when client is a replica."));
    }
    let port = integer(&call.args[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(Reply::error("ERR Invalid master port"))?;
    let master = address(&call.args[1], port).ok_or(Reply::error("ERR Invalid master host"))?;
    if call.node.peers.master == Some(master) {
        return Ok(Reply::simple("OK Already connected to specified master"));
    }
    call.session.after = After::Follow(Some(master));
    Ok(Reply::OK)
}

/// A host and a port. Names are not resolved, except that of the machine itself.
fn address(host: &[u8], port: u16) -> Option<SocketAddrV4> {
    let host = std::str::from_utf8(host).ok()?;
    let ip = if host == "localhost" { Some(Ipv4Addr::LOCALHOST) } else { host.parse().ok() };
    Some(SocketAddrV4::new(ip?, port))
}

/// ROLE
pub fn role(call: &mut Call) -> Outcome {
    let node = &call.node;
    let offset = Reply::Integer(i64::try_from(node.history.offset).unwrap_or(i64::MAX));
    let Some(master) = node.peers.master else {
        let online = node.peers.replicas.iter().filter(|replica| replica.online);
        let replica = |r: &crate::peers::Replica| {
            let ip = Bytes::from(r.address.ip().to_string());
            let words = [ip, digits(r.address.port()), digits(r.acked)];
            Reply::Array(words.into_iter().map(Reply::Bulk).collect())
        };
        let replicas = online.map(replica).collect();
        return Ok(Reply::Array(vec![Reply::Bulk(word("master")), offset, Reply::Array(replicas)]));
    };
    let offset = if node.peers.is_linked() { offset } else { Reply::Integer(-1) };
    Ok(Reply::Array(vec![
        Reply::Bulk(word("slave")),
        Reply::Bulk(Bytes::from(master.ip().to_string())),
        Reply::Integer(i64::from(master.port())),
        Reply::Bulk(word(node.peers.link.state.word())),
        offset,
    ]))
}

/// FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT ms]
pub fn failover(call: &mut Call) -> Outcome {
    if call.node.cluster.is_some() {
        return Err(Reply::error(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    if let [word] = call.from(1)
        && word.eq_ignore_ascii_case(b"ABORT")
    {
        if call.node.peers.failover.is_none() {
            return Err(Reply::error("ERR No failover in progress."));
        }
        call.session.after = After::AbortFailover;
        return Ok(Reply::OK);
    }
    let (to, timeout_ms, force) = failover_words(call)?;
    let refusal = if call.node.peers.failover.is_some() {
        Some("ERR FAILOVER already in progress.")
    } else if call.node.peers.master.is_some() {
        Some("ERR FAILOVER is not valid when server is a replica.")
    } else if call.node.peers.replicas.is_empty() {
        Some("ERR FAILOVER requires connected replicas.")
    } else if force && (timeout_ms.is_none() || to.is_none()) {
        Some("ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
    } else {
        None
    };
    if let Some(refusal) = refusal {
        return Err(Reply::error(refusal));
    }
    let to = match to {
        None => None,
        Some((host, port)) => Some(target(call, &host, port)?),
    };
    let until_ms = timeout_ms.map(|timeout| call.node.clock.now_ms.saturating_add(timeout));
    // Set at once: from here on writes are paused, so the replica can reach the offset.
    call.node.peers.failover = Some(ManualFailover { to, until_ms, force, in_progress: false });
    call.session.after = After::FailOver;
    Ok(Reply::OK)
}

/// The options of FAILOVER: the replica, the timeout, whether it is forced.
type FailoverWords = (Option<(Bytes, i64)>, Option<u64>, bool);

fn failover_words(call: &Call) -> Result<FailoverWords, Reply> {
    let (mut to, mut timeout_ms, mut force) = (None, None, false);
    let mut words = call.from(1);
    loop {
        words = match words {
            [] => return Ok((to, timeout_ms, force)),
            [word, ms, rest @ ..]
                if word.eq_ignore_ascii_case(b"TIMEOUT") && timeout_ms.is_none() =>
            {
                let ms = integer(ms).ok_or(Reply::error(NOT_INTEGER))?;
                let positive = u64::try_from(ms).ok().filter(|ms| *ms > 0);
                let wrong = Reply::error("ERR FAILOVER timeout must be greater than 0");
                timeout_ms = Some(positive.ok_or(wrong)?);
                rest
            }
            [word, host, port, rest @ ..] if word.eq_ignore_ascii_case(b"TO") && to.is_none() => {
                to = Some((host.clone(), integer(port).ok_or(Reply::error(NOT_INTEGER))?));
                rest
            }
            [word, rest @ ..] if word.eq_ignore_ascii_case(b"FORCE") && !force => {
                force = true;
                rest
            }
            _ => return Err(Reply::error(SYNTAX)),
        };
    }
}

/// The replica named by FAILOVER TO.
fn target(call: &Call, host: &[u8], port: i64) -> Result<SocketAddrV4, Reply> {
    let named = u16::try_from(port).ok().and_then(|port| address(host, port));
    let replica = call.node.peers.replicas.iter().find(|replica| Some(replica.address) == named);
    match replica {
        None => Err(Reply::error("ERR FAILOVER target HOST and PORT is not a replica.")),
        Some(replica) if !replica.online => {
            Err(Reply::error("ERR FAILOVER target replica is not online."))
        }
        Some(replica) => Ok(replica.address),
    }
}

/// WAIT numreplicas timeout: counts replicas that acknowledged this connection's last write.
pub fn wait(call: &mut Call) -> Outcome {
    if call.node.peers.master.is_some() {
        let since = match call.node.differs(Difference::TextsOfValkey) {
            true => "",
            false => "since Redis 4.0 ",
        };
        let text = format!(
            "ERR WAIT cannot be used with replica instances. Please also note that {since}if a \
             replica is configured to be writable (which is not the default) writes to replicas \
             are just local and are not propagated."
        );
        return Err(Reply::Error(text.into()));
    }
    let replicas = call.integer(1)?.max(0);
    let timeout_ms = timeout(call, 2)?;
    let replicas = usize::try_from(replicas).map_err(|_| Reply::error(NOT_INTEGER))?;
    let offset = call.session.replication.last_write;
    wait_for(call, Quorum { offset, replicas, synced: None, timeout_ms })
}

/// WAITAOF numlocal numreplicas timeout: counts files that are synced up to this connection's last
/// write, the node's own (if requested) and those of replicas.
pub fn waitaof(call: &mut Call) -> Outcome {
    let local = match call.integer(1)? {
        local @ 0..=1 => local == 1,
        _ => return Err(Reply::error("ERR value is out of range, value must between 0 and 1")),
    };
    let replicas = integer(&call.args[2]).and_then(|number| usize::try_from(number).ok());
    let replicas = replicas.ok_or(Reply::error("ERR value is out of range, must be positive"))?;
    let timeout_ms = timeout(call, 3)?;
    if call.node.peers.master.is_some() {
        return Err(Reply::error(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to \
             replicas are just local and are not propagated.",
        ));
    }
    if local && call.node.config.append == Append::None {
        return Err(Reply::error(NO_FILE));
    }
    let offset = call.session.replication.last_write;
    wait_for(call, Quorum { offset, replicas, synced: Some(local), timeout_ms })
}

/// The timeout at this word, in milliseconds.
fn timeout(call: &Call, nth: usize) -> Result<u64, Reply> {
    let ms = integer(&call.args[nth])
        .ok_or(Reply::error("ERR timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| Reply::error("ERR timeout is negative"))?;
    let ends = i64::try_from(call.node.clock.now_ms.saturating_add(ms)).is_ok();
    if !ends && call.node.differs(Difference::WaitAof) {
        return Err(Reply::error("ERR timeout is out of range"));
    }
    Ok(ms)
}

/// Replies, or blocks where that is allowed.
fn wait_for(call: &mut Call, quorum: Quorum) -> Outcome {
    let (reply, is_there) = call.node.acknowledgement(&quorum);
    if is_there || call.session.may_not_wait() {
        return Ok(reply);
    }
    call.session.blocked = Some(Block::Acknowledgement(quorum));
    call.session.after = After::Wait;
    Ok(Reply::SILENCE)
}

/// REPLCONF listening-port n | ip-address ip | capa x | rdb-only n | ACK offset [FACK offset] |
/// GETACK *
pub fn replconf(call: &mut Call) -> Outcome {
    let pairs = call.from(1);
    if !pairs.len().is_multiple_of(2) {
        return Err(Reply::error(SYNTAX));
    }
    for (nth, pair) in pairs.chunks_exact(2).enumerate() {
        let number = integer(&pair[1]);
        match &pair[0].to_ascii_lowercase()[..] {
            b"listening-port" => {
                let number = number.ok_or(Reply::error(NOT_INTEGER))?;
                call.session.replication.announced.port = u16::try_from(number).unwrap_or(0);
            }
            b"ip-address" => {
                let ip = std::str::from_utf8(&pair[1]).ok().and_then(|ip| ip.parse().ok());
                call.session.replication.announced.ip = ip;
            }
            b"capa" => {
                call.session.replication.announced.psync2 |= pair[1].eq_ignore_ascii_case(b"psync2")
            }
            b"ack" => {
                let further = pairs.chunks_exact(2).nth(nth + 1);
                let synced = further.filter(|pair| pair[0].eq_ignore_ascii_case(b"fack"));
                acknowledge(call, number, synced.and_then(|pair| integer(&pair[1])));
                return Ok(Reply::SILENCE);
            }
            // A replica replies to its master on the link; other callers get no reply.
            b"getack" => return Ok(Reply::SILENCE),
            b"rdb-only" | b"rdb-filter-only" => {}
            _ => {
                let text = [b"ERR Unrecognized REPLCONF option: ", &pair[0][..]].concat();
                return Err(Reply::Error(text.into()));
            }
        }
    }
    Ok(Reply::OK)
}

/// A replica's first acknowledgement confirms that it has all earlier data.
fn acknowledge(call: &mut Call, offset: Option<i64>, synced: Option<i64>) {
    let Some(offset) = offset.and_then(|offset| u64::try_from(offset).ok()) else { return };
    let synced = synced.and_then(|offset| u64::try_from(offset).ok()).unwrap_or(0);
    let (session, now_s) = (call.session.id, call.node.clock.now_ms / 1_000);
    let replica = call.node.peers.replicas.iter_mut().find(|r| r.session == session);
    let Some(replica) = replica else { return };
    replica.acked = replica.acked.max(offset);
    replica.synced = replica.synced.max(synced);
    replica.acked_at_s = now_s;
    if !std::mem::replace(&mut replica.online, true) {
        call.node.recount_good_replicas();
    }
}

/// PSYNC id offset [FAILOVER]: the server decides on the resynchronisation when it feeds the
/// replica.
pub fn psync(call: &mut Call) -> Outcome {
    let node = &call.node;
    let promotes = call.args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"FAILOVER"));
    let id = &call.args[1];
    if promotes && node.peers.master.is_none() {
        return Err(Reply::error("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if promotes && !id.eq_ignore_ascii_case(node.history.id.as_bytes()) {
        return Err(Reply::error("ERR PSYNC FAILOVER replid must match my replid."));
    }
    if node.peers.failover.is_some() {
        return Err(Reply::error("NOMASTERLINK Can't SYNC while failing over"));
    }
    if !promotes && node.peers.master.is_some() && !node.peers.is_linked() {
        return Err(Reply::error("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    let next = call.integer(2)?;
    let id = Bytes::copy_from_slice(id);
    call.session.after = After::Feed(Psync { id, next, promotes });
    Ok(Reply::SILENCE)
}
