//! A Sentinel's commands: SENTINEL and its subcommands, and its versions of other commands.
//!
//! - `global`: subcommands about the Sentinel as a whole
//! - `state`: the state that these commands use
//! - `report`: instances as SENTINEL MASTERS reports them, the section of INFO
//!
//! The facts about the commands that only a Sentinel has are in `specification/sentinel.txt`.

pub mod global;
pub mod report;
pub mod state;

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;

use crate::call::{Call, Family, Outcome, container};
use crate::command::sentinel::report::master_of;
use crate::command::sentinel::state::{named, now, state};
use crate::errors::{NOT_INTEGER, wrong_arity};
use crate::frame::{Reply, integer};
use crate::glob::matches;
use crate::sentinel::instance::{InstanceKey, Master, State};
use crate::sentinel::link::HELLO;

/// The commands of this file, by name. They take precedence over a node's commands of the same
/// names.
pub const FAMILY: Family = &[
    ("publish", publish),
    ("role", role),
    ("sentinel", container),
    ("sentinel|ckquorum", ckquorum),
    ("sentinel|config", global::config),
    ("sentinel|debug", global::debug),
    ("sentinel|failover", failover),
    ("sentinel|flushconfig", flushconfig),
    ("sentinel|get-master-addr-by-name", get_master_addr),
    ("sentinel|help", crate::command::introspection::help),
    ("sentinel|info-cache", global::info_cache),
    ("sentinel|is-master-down-by-addr", is_master_down),
    ("sentinel|master", master),
    ("sentinel|masters", masters),
    ("sentinel|monitor", monitor),
    ("sentinel|myid", myid),
    ("sentinel|pending-scripts", pending_scripts),
    ("sentinel|remove", remove),
    ("sentinel|replicas", replicas),
    ("sentinel|reset", reset),
    ("sentinel|sentinels", sentinels),
    ("sentinel|set", set),
    ("sentinel|simulate-failure", global::simulate_failure),
    ("sentinel|slaves", replicas),
];

/// SENTINEL MYID
pub fn myid(call: &mut Call) -> Outcome {
    Ok(Reply::bulk(state(call).id.as_bytes()))
}

/// SENTINEL MASTERS
pub fn masters(call: &mut Call) -> Outcome {
    let now = now(call);
    let all = state(call).masters.iter();
    Ok(Reply::Array(all.map(|(name, master)| master_of(name, master, now)).collect()))
}

/// SENTINEL MASTER name
pub fn master(call: &mut Call) -> Outcome {
    let now = now(call);
    let (name, master) = named(call)?;
    Ok(master_of(&name, master, now))
}

/// SENTINEL REPLICAS name, SENTINEL SLAVES name
pub fn replicas(call: &mut Call) -> Outcome {
    let now = now(call);
    let (_, master) = named(call)?;
    let announced = master.replicas.values().filter(|replica| replica.instance.report.announced);
    Ok(Reply::Array(announced.map(|replica| report::replica(replica, master, now)).collect()))
}

/// SENTINEL SENTINELS name
pub fn sentinels(call: &mut Call) -> Outcome {
    let now = now(call);
    let (_, master) = named(call)?;
    let peers = master.sentinels.values();
    Ok(Reply::Array(peers.map(|peer| report::sentinel(peer, master, now)).collect()))
}

/// SENTINEL GET-MASTER-ADDR-BY-NAME name
pub fn get_master_addr(call: &mut Call) -> Outcome {
    let Ok((_, master)) = named(call) else { return Ok(Reply::NilArray) };
    let at = master.current_address();
    let words = [at.ip().to_string(), at.port().to_string()];
    Ok(Reply::Array(words.into_iter().map(|word| Reply::Bulk(word.into())).collect()))
}

/// SENTINEL IS-MASTER-DOWN-BY-ADDR ip port epoch runid | *: this Sentinel's opinion, and its vote
/// if there is a candidate.
pub fn is_master_down(call: &mut Call) -> Outcome {
    let port = call.integer(3)?;
    let epoch = u64::try_from(call.integer(4)?).unwrap_or(0);
    let ip = std::str::from_utf8(&call.args[2]).ok().and_then(|ip| ip.parse::<Ipv4Addr>().ok());
    let port = u16::try_from(port).ok();
    let address = ip.zip(port).map(|(ip, port)| SocketAddrV4::new(ip, port));
    let candidate = String::from_utf8_lossy(&call.args[5]).into_owned();
    let moment = call.node.moment();
    let own = state(call);
    let mut known = own.masters.iter().filter(|(_, m)| Some(m.instance.address) == address);
    let found = known.next().map(|(name, master)| (name.clone(), master.instance.s_down));
    // In TILT mode a Sentinel does not trust its own measurements.
    let is_down = own.tilt_since.is_none() && found.as_ref().is_some_and(|(_, down)| *down);
    let requests_vote = candidate != "*";
    let vote = found.filter(|_| requests_vote);
    let vote = vote.and_then(|(name, _)| own.vote(&name, epoch, &candidate, moment));
    let (leader, at) = vote.unwrap_or(("*".to_owned(), 0));
    call.node.publish_events();
    Ok(Reply::Array(vec![
        Reply::Integer(i64::from(is_down)),
        Reply::Bulk(leader.into()),
        Reply::Integer(i64::try_from(at).unwrap_or(i64::MAX)),
    ]))
}

/// SENTINEL CKQUORUM name: whether enough Sentinels are reachable, for the quorum and for a vote.
pub fn ckquorum(call: &mut Call) -> Outcome {
    let (_, master) = named(call)?;
    let up = master.sentinels.values().filter(|peer| !peer.instance.s_down).count() + 1;
    let voters = master.sentinels.len() + 1;
    let mut lacks = Vec::new();
    if up < usize::try_from(master.quorum).unwrap_or(usize::MAX) {
        lacks.push("the specified quorum for this master");
    }
    if up <= voters / 2 {
        lacks.push("the majority and authorize a failover");
    }
    if lacks.is_empty() {
        let text = "usable Sentinels. Quorum and failover authorization can be reached";
        return Ok(Reply::Simple(format!("OK {up} {text}").into()));
    }
    let lacks = lacks.iter().map(|what| format!("Not enough available Sentinels to reach {what}"));
    let lacks: Vec<String> = lacks.collect();
    Err(Reply::Error(format!("NOQUORUM {up} usable Sentinels. {}", lacks.join(". ")).into()))
}

/// SENTINEL FAILOVER name: at once, without agreement.
pub fn failover(call: &mut Call) -> Outcome {
    let (now, moment) = (now(call), call.node.moment());
    let (name, master) = named(call)?;
    if master.failover.state != State::None {
        return Err(Reply::error("INPROG Failover already in progress"));
    }
    let own = state(call);
    if own.best_replica(&name, now).is_none() {
        return Err(Reply::error("NOGOODSLAVE No suitable replica to promote"));
    }
    own.start_failover(&name, moment, true);
    call.node.publish_events();
    Ok(Reply::OK)
}

/// SENTINEL RESET pattern
pub fn reset(call: &mut Call) -> Outcome {
    let now = now(call);
    let pattern = call.args[2].clone();
    let own = state(call);
    let names = own.masters.keys().filter(|name| matches(&pattern, name.as_bytes()));
    let names: Vec<String> = names.cloned().collect();
    names.iter().for_each(|name| own.reset_with_sentinels(name, now));
    call.node.publish_events();
    Ok(Reply::count(names.len()))
}

/// SENTINEL FLUSHCONFIG
pub fn flushconfig(call: &mut Call) -> Outcome {
    state(call).unsaved = true;
    Ok(Reply::OK)
}

/// SENTINEL PENDING-SCRIPTS: always empty.
pub fn pending_scripts(_: &mut Call) -> Outcome {
    Ok(Reply::Array(Vec::new()))
}

/// SENTINEL MONITOR name ip port quorum
pub fn monitor(call: &mut Call) -> Outcome {
    let number = |at: usize, wrong| integer(&call.args[at]).ok_or(Reply::error(wrong));
    let quorum = number(5, "ERR Invalid quorum")?;
    let port = number(4, "ERR Invalid port")?;
    if quorum <= 0 {
        return Err(Reply::error("ERR Quorum must be 1 or greater."));
    }
    let ip = std::str::from_utf8(&call.args[3]).ok().and_then(|ip| ip.parse::<Ipv4Addr>().ok());
    let ip = ip.ok_or(Reply::error("ERR Invalid IP address or hostname specified"))?;
    let name = String::from_utf8_lossy(&call.args[2]).into_owned();
    let port = u16::try_from(port).map_err(|_| Reply::error("ERR Invalid port number"))?;
    let quorum = u32::try_from(quorum).map_err(|_| Reply::error(NOT_INTEGER))?;
    let now = now(call);
    let own = state(call);
    if own.masters.contains_key(&name) {
        return Err(Reply::error("ERR Duplicate master name."));
    }
    let mut master = Master::new(SocketAddrV4::new(ip, port), quorum, now);
    master.down_after = own.times.down_after;
    master.failover_timeout = own.times.failover_timeout;
    own.masters.insert(name.clone(), master);
    own.unsaved = true;
    own.emit("+monitor", &InstanceKey::master(&name), &format!(" quorum {quorum}"));
    call.node.publish_events();
    Ok(Reply::OK)
}

/// SENTINEL REMOVE name
pub fn remove(call: &mut Call) -> Outcome {
    let now = now(call);
    let (name, _) = named(call)?;
    let own = state(call);
    // Before the master is removed, because the event describes it.
    own.emit("-monitor", &InstanceKey::master(&name), "");
    own.forget(&name, now);
    call.node.publish_events();
    Ok(Reply::OK)
}

/// SENTINEL SET name option value [option value ...]: those before an invalid one are set.
pub fn set(call: &mut Call) -> Outcome {
    let outcome = set_all(call);
    call.node.publish_events();
    outcome
}

fn set_all(call: &mut Call) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        return Err(wrong_arity("sentinel|set"));
    }
    let (name, _) = named(call)?;
    for pair in call.from(3).chunks_exact(2) {
        let (_, master) = named(call)?;
        set_one(master, &pair[0], &pair[1])?;
        let [option, value] = [&pair[0], &pair[1]].map(|word| String::from_utf8_lossy(word));
        let own = state(call);
        own.unsaved = true;
        own.emit("+set", &InstanceKey::master(&name), &format!(" {option} {value}"));
    }
    Ok(Reply::OK)
}

fn set_one(master: &mut Master, option: &Bytes, value: &Bytes) -> Result<(), Reply> {
    let invalid = || {
        let (option, value) = (String::from_utf8_lossy(option), String::from_utf8_lossy(value));
        Reply::Error(format!("ERR Invalid argument '{value}' for SENTINEL SET '{option}'").into())
    };
    let positive = || integer(value).filter(|number| *number > 0).ok_or_else(invalid);
    let small = || u32::try_from(positive()?).map_err(|_| invalid());
    match &option.to_ascii_lowercase()[..] {
        b"down-after-milliseconds" => master.down_after = positive()?,
        b"failover-timeout" => master.failover_timeout = positive()?,
        b"parallel-syncs" => master.parallel_syncs = small()?,
        b"quorum" => master.quorum = small()?,
        b"notification-script" | b"client-reconfig-script" => {
            return Err(Reply::error(
                "ERR Reconfiguration of scripts path is denied for security reasons. Check the \
                 deny-scripts-reconfig configuration directive in your Sentinel configuration",
            ));
        }
        _ => {
            let option = String::from_utf8_lossy(option);
            let text =
                format!("ERR Unknown option or number of arguments for SENTINEL SET '{option}'");
            return Err(Reply::Error(text.into()));
        }
    }
    Ok(())
}

/// PUBLISH __sentinel__:hello message: a hello of another Sentinel.
pub fn publish(call: &mut Call) -> Outcome {
    if call.args[1] != HELLO {
        return Err(Reply::error("ERR Only HELLO messages are accepted by Sentinel instances."));
    }
    let now = now(call);
    let text = String::from_utf8_lossy(&call.args[2]).into_owned();
    state(call).hear_hello(&text, now);
    call.node.publish_events();
    Ok(Reply::Integer(1))
}

/// ROLE: `sentinel`, and the names of the masters.
pub fn role(call: &mut Call) -> Outcome {
    let names = state(call).masters.keys().map(|name| Reply::bulk(name.as_bytes())).collect();
    Ok(Reply::Array(vec![Reply::word("sentinel"), Reply::Array(names)]))
}
