//! CLUSTER and the related commands ASKING, READONLY, READWRITE.

pub mod report;
pub mod words;

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::call::{Call, Family, Outcome, container};
use crate::cluster::election::Urgency;
use crate::cluster::message::MessageKind;
use crate::cluster::peer::Id;
use crate::cluster::slots::{SLOTS, SlotSet, of_key};
use crate::cluster::{Cluster, ClusterAction};
use crate::command::cluster::words::{cluster, master_named, named, refusal, slot};
use crate::command::introspection::{self, unknown_form};
use crate::errors::SYNTAX;
use crate::frame::{Reply, integer};
use crate::keyspace::Key;
use crate::node::Node;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("asking", asking),
    ("cluster", container),
    ("cluster|addslots", change_slots),
    ("cluster|addslotsrange", change_slots),
    ("cluster|bumpepoch", bumpepoch),
    ("cluster|count-failure-reports", count_failure_reports),
    ("cluster|countkeysinslot", countkeysinslot),
    ("cluster|delslots", change_slots),
    ("cluster|delslotsrange", change_slots),
    ("cluster|failover", failover),
    ("cluster|flushslots", flushslots),
    ("cluster|forget", forget),
    ("cluster|getkeysinslot", getkeysinslot),
    ("cluster|help", help),
    ("cluster|info", report::info),
    ("cluster|keyslot", keyslot),
    ("cluster|links", report::links),
    ("cluster|meet", meet),
    ("cluster|myid", report::myid),
    ("cluster|nodes", report::nodes),
    ("cluster|replicas", report::replicas),
    ("cluster|replicate", replicate),
    ("cluster|reset", reset),
    ("cluster|saveconfig", saveconfig),
    ("cluster|set-config-epoch", set_config_epoch),
    ("cluster|setslot", setslot),
    ("cluster|shards", report::shards),
    ("cluster|slaves", report::replicas),
    ("cluster|slots", report::slots),
    ("readonly", readonly),
    ("readwrite", readwrite),
];

/// The keys of a slot. Redis returns the newest first, an order that the node does not keep: here
/// they are sorted.
fn keys_in(node: &Node, slot: u16) -> impl Iterator<Item = &Key> {
    let keys = node.keyspace.db(0).iter().map(|(key, _)| key);
    keys.filter(move |key| of_key(key) == slot)
}

/// CLUSTER HELP
fn help(call: &mut Call) -> Outcome {
    cluster(call)?;
    introspection::help(call)
}

/// ASKING: the next request may access a slot that is being imported.
fn asking(call: &mut Call) -> Outcome {
    cluster(call)?;
    call.session.routing.asking = true;
    Ok(Reply::OK)
}

/// READONLY: a replica may serve reads of its master's slots.
fn readonly(call: &mut Call) -> Outcome {
    cluster(call)?;
    call.session.routing.reads_here = true;
    Ok(Reply::OK)
}

/// READWRITE
fn readwrite(call: &mut Call) -> Outcome {
    cluster(call)?;
    call.session.routing.reads_here = false;
    Ok(Reply::OK)
}

/// CLUSTER KEYSLOT key
fn keyslot(call: &mut Call) -> Outcome {
    cluster(call)?;
    Ok(Reply::Integer(i64::from(of_key(&call.args[2]))))
}

/// CLUSTER COUNTKEYSINSLOT slot
fn countkeysinslot(call: &mut Call) -> Outcome {
    cluster(call)?;
    let slot = u16::try_from(call.integer(2)?).ok().filter(|slot| *slot < SLOTS);
    let slot = slot.ok_or(Reply::error("ERR Invalid slot"))?;
    Ok(Reply::count(keys_in(call.node, slot).count()))
}

/// CLUSTER GETKEYSINSLOT slot count
fn getkeysinslot(call: &mut Call) -> Outcome {
    cluster(call)?;
    let (slot, count) = (call.integer(2)?, call.integer(3)?);
    let slot = u16::try_from(slot).ok().filter(|slot| *slot < SLOTS);
    let wanted = slot.zip(usize::try_from(count).ok());
    let (slot, count) = wanted.ok_or(Reply::error("ERR Invalid slot or number of keys"))?;
    let keys = keys_in(call.node, slot).take(count);
    Ok(Reply::Array(keys.map(|key| Reply::bulk(key)).collect()))
}

/// ADDSLOTS slot ..., ADDSLOTSRANGE first last ..., and DELSLOTS, DELSLOTSRANGE: all or none.
fn change_slots(call: &mut Call) -> Outcome {
    let name = call.command.name;
    let (adds, by_range) = (name.contains("|ADD"), name.ends_with("RANGE"));
    let (words, lower) = (call.from(2), call.command.lower);
    let cluster = cluster(call)?;
    if by_range && !words.len().is_multiple_of(2) {
        return Err(crate::errors::wrong_arity(lower));
    }
    let mut named = SlotSet::default();
    for words in words.chunks(if by_range { 2 } else { 1 }) {
        let (first, last) = (slot(&words[0])?, slot(&words[words.len() - 1])?);
        if first > last {
            let text = "ERR start slot number";
            return Err(refusal(format!("{text} {first} is greater than end slot number {last}")));
        }
        for slot in first..=last {
            match (adds, cluster.owner(slot)) {
                (true, Some(_)) => return Err(refusal(format!("ERR Slot {slot} is already busy"))),
                (false, None) => {
                    return Err(refusal(format!("ERR Slot {slot} is already unassigned")));
                }
                _ if named.contains(slot) => {
                    return Err(refusal(format!("ERR Slot {slot} specified multiple times")));
                }
                _ => named.insert(slot),
            }
        }
    }
    let me = cluster.me.clone();
    for slot in named.iter() {
        cluster.assign(slot, adds.then_some(&me));
        if adds {
            cluster.importing.remove(&slot);
        }
    }
    cluster.update_state();
    Ok(Reply::OK)
}

/// CLUSTER FLUSHSLOTS
fn flushslots(call: &mut Call) -> Outcome {
    let is_empty = call.node.keyspace.db(0).is_empty();
    let cluster = cluster(call)?;
    if !is_empty {
        return Err(Reply::error("ERR DB must be empty to perform CLUSTER FLUSHSLOTS."));
    }
    cluster.lose_slots();
    cluster.update_state();
    Ok(Reply::OK)
}

/// CLUSTER SETSLOT slot STABLE | MIGRATING node | IMPORTING node | NODE node
fn setslot(call: &mut Call) -> Outcome {
    let args = call.args;
    let held = slot(&args[2]).map_or(0, |slot| keys_in(call.node, slot).count());
    let cluster = cluster(call)?;
    if cluster.myself().master().is_some() {
        return Err(Reply::error("ERR Please use SETSLOT only with masters."));
    }
    let slot = slot(&args[2])?;
    let is_own = cluster.myself().slots.contains(slot);
    match (&args[3].to_ascii_uppercase()[..], args.get(4)) {
        (b"STABLE", None) => {
            cluster.importing.remove(&slot);
            cluster.migrating.remove(&slot);
        }
        (b"MIGRATING", Some(_)) if !is_own => {
            return Err(refusal(format!("ERR I'm not the owner of hash slot {slot}")));
        }
        (b"MIGRATING", Some(name)) => {
            let to = master_named(cluster, name, "I don't know about node")?;
            cluster.migrating.insert(slot, to);
        }
        (b"IMPORTING", Some(_)) if is_own => {
            return Err(refusal(format!("ERR I'm already the owner of hash slot {slot}")));
        }
        (b"IMPORTING", Some(name)) => {
            let from = master_named(cluster, name, "I don't know about node")?;
            cluster.importing.insert(slot, from);
        }
        (b"NODE", Some(name)) => {
            let to = master_named(cluster, name, "Unknown node")?;
            give(cluster, slot, &to, held)?;
        }
        _ => {
            let text =
                "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
            return Err(Reply::error(text));
        }
    }
    cluster.unsaved = true;
    cluster.update_state();
    Ok(Reply::OK)
}

/// SETSLOT NODE: assigns the slot to that node. The node that imported it takes a new epoch.
fn give(cluster: &mut Cluster, slot: u16, to: &Id, held: usize) -> Result<(), Reply> {
    let was_own = cluster.myself().slots.contains(slot);
    if was_own && *to != cluster.me && held > 0 {
        let text = format!(
            "ERR Can't assign hashslot {slot} to a different node while I still hold keys for \
             this hash slot."
        );
        return Err(refusal(text));
    }
    if held == 0 {
        cluster.migrating.remove(&slot);
    }
    cluster.assign(slot, Some(to));
    if was_own && *to != cluster.me && cluster.myself().slots.is_empty() {
        cluster.follow(to);
    }
    if *to == cluster.me && cluster.importing.remove(&slot).is_some() {
        // Without a higher epoch the other nodes would not accept the new owner.
        cluster.bump_epoch();
        let rumours = cluster.rumours();
        cluster.broadcast(&MessageKind::Pong(rumours));
    }
    Ok(())
}

/// CLUSTER MEET ip port [bus-port]
fn meet(call: &mut Call) -> Outcome {
    let words = call.from(2);
    let cluster = cluster(call)?;
    let text = |nth: usize| String::from_utf8_lossy(&words[nth]).into_owned();
    if words.len() > 3 {
        return Err(unknown_form("CLUSTER", b"MEET"));
    }
    let Some(port) = integer(&words[1]) else {
        return Err(refusal(format!("ERR Invalid TCP base port specified: {}", text(1))));
    };
    if words.get(2).is_some_and(|word| integer(word).is_none()) {
        return Err(refusal(format!("ERR Invalid TCP bus port specified: {}", text(2))));
    }
    let port = u16::try_from(port).ok().filter(|port| (1..=u16::MAX - 10_000).contains(port));
    let Some((ip, port)) = text(0).parse::<Ipv4Addr>().ok().zip(port) else {
        let (ip, port) = (text(0), text(1));
        return Err(refusal(format!("ERR Invalid node address specified: {ip}:{port}")));
    };
    cluster.meet(SocketAddrV4::new(ip, port), true);
    Ok(Reply::OK)
}

/// CLUSTER FORGET node
fn forget(call: &mut Call) -> Outcome {
    let args = call.args;
    let cluster = cluster(call)?;
    let id = named(cluster, &args[2], "Unknown node")?;
    if id == cluster.me {
        return Err(Reply::error("ERR I tried hard but I can't forget myself..."));
    }
    if cluster.myself().master() == Some(&id) {
        return Err(Reply::error("ERR Can't forget my master!"));
    }
    cluster.forget(&id);
    Ok(Reply::OK)
}

/// CLUSTER REPLICATE node
fn replicate(call: &mut Call) -> Outcome {
    let args = call.args;
    let is_empty = call.node.keyspace.db(0).is_empty();
    let cluster = cluster(call)?;
    let id = named(cluster, &args[2], "Unknown node")?;
    if id == cluster.me {
        return Err(Reply::error("ERR Can't replicate myself"));
    }
    if cluster.nodes[&id].master().is_some() {
        return Err(Reply::error("ERR I can only replicate a master, not a replica."));
    }
    let own = cluster.myself();
    if own.is_master() && (!own.slots.is_empty() || !is_empty) {
        let text = "ERR To set a master the node must be empty and without assigned slots.";
        return Err(Reply::error(text));
    }
    cluster.follow(&id);
    cluster.update_state();
    Ok(Reply::OK)
}

/// CLUSTER FAILOVER [FORCE | TAKEOVER]
fn failover(call: &mut Call) -> Outcome {
    let words = call.from(2);
    let cluster = cluster(call)?;
    let urgency = match words {
        [] => Urgency::Agreed,
        [word] if word.eq_ignore_ascii_case(b"FORCE") => Urgency::Forced,
        [word] if word.eq_ignore_ascii_case(b"TAKEOVER") => Urgency::Alone,
        [_] => return Err(Reply::error(SYNTAX)),
        _ => return Err(unknown_form("CLUSTER", b"FAILOVER")),
    };
    if cluster.myself().is_master() {
        return Err(Reply::error("ERR You should send CLUSTER FAILOVER to a replica"));
    }
    let Some(master) = cluster.own_master() else {
        return Err(Reply::error("ERR I'm a replica but my master is unknown to me"));
    };
    if urgency == Urgency::Agreed && (master.has_failed() || master.link.is_none()) {
        let text = "ERR Master is down or failed, please use CLUSTER FAILOVER FORCE";
        return Err(Reply::error(text));
    }
    cluster.fail_over(urgency);
    Ok(Reply::OK)
}

/// CLUSTER RESET [HARD | SOFT]
fn reset(call: &mut Call) -> Outcome {
    let words = call.from(2);
    let is_empty = call.node.keyspace.db(0).is_empty();
    let cluster = cluster(call)?;
    let hard = match words {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"HARD") => true,
        [word] if word.eq_ignore_ascii_case(b"SOFT") => false,
        [_] => return Err(Reply::error(SYNTAX)),
        _ => return Err(unknown_form("CLUSTER", b"RESET")),
    };
    let is_replica = cluster.myself().master().is_some();
    if !is_replica && !is_empty {
        let text = "ERR CLUSTER RESET can't be called with master nodes containing keys";
        return Err(Reply::error(text));
    }
    cluster.start_anew(hard);
    if is_replica {
        // First a master: a replica deletes no keys of its own accord.
        cluster.actions.push(ClusterAction::Follow(None));
        cluster.actions.push(ClusterAction::Clear(SlotSet::range((0, SLOTS - 1))));
    }
    Ok(Reply::OK)
}

/// CLUSTER SAVECONFIG
fn saveconfig(call: &mut Call) -> Outcome {
    cluster(call)?.unsaved = true;
    Ok(Reply::OK)
}

/// CLUSTER SET-CONFIG-EPOCH epoch
fn set_config_epoch(call: &mut Call) -> Outcome {
    cluster(call)?;
    let epoch = call.integer(2)?;
    let cluster = cluster(call)?;
    let Ok(epoch) = u64::try_from(epoch) else {
        return Err(refusal(format!("ERR Invalid config epoch specified: {epoch}")));
    };
    if cluster.nodes.len() > 1 {
        let text = "ERR The user can assign a config epoch only when the node does not know any \
                    other node.";
        return Err(Reply::error(text));
    }
    if cluster.myself().config_epoch != 0 {
        return Err(Reply::error("ERR Node config epoch is already non-zero"));
    }
    let me = cluster.me.clone();
    cluster.peer_mut(&me, |own| own.config_epoch = epoch);
    cluster.current_epoch = cluster.current_epoch.max(epoch);
    cluster.unsaved = true;
    Ok(Reply::OK)
}

/// CLUSTER BUMPEPOCH
fn bumpepoch(call: &mut Call) -> Outcome {
    let cluster = cluster(call)?;
    let word = if cluster.bump_epoch() { "BUMPED" } else { "STILL" };
    Ok(Reply::Simple(format!("{word} {}", cluster.myself().config_epoch).into()))
}

/// CLUSTER COUNT-FAILURE-REPORTS node
fn count_failure_reports(call: &mut Call) -> Outcome {
    let args = call.args;
    let cluster = cluster(call)?;
    let id = named(cluster, &args[2], "Unknown node")?;
    Ok(Reply::count(cluster.accusers(&id)))
}
