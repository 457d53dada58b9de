//! What no plan may contain about its lock: a lease in a unit that Redis does not accept, a quorum
//! above the number of nodes, an option of another lock.

use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use lockstorm_redis::compat::Difference;

use crate::length;
use crate::lock::catalogue::Algorithm;
use crate::lock::redisson::NAME as QUEUES;
use crate::lock::wait_replicas::{NAME as WAITS, acks};
use crate::lock::{DiscoveryShape, ExtendShape, ReleaseShape, WaitShape};
use crate::plan::contradiction::{Checked, MOST_ROUNDS, in_reach, refuse_if};
use crate::plan::{Persistence, Plan, TopologyKind};

/// Checks the lock's table.
pub fn lock(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let config = &plan.lock;
    refuse_if(config.key.is_empty(), "lock.key", "a lock needs a key", "like \"lock\"")?;
    refuse_if(config.key.len() > 512, "lock.key", "this key is too long", "at most 512 bytes")?;
    ttl(plan, algorithm)?;
    quorum(plan, algorithm)?;
    renewal(plan, algorithm)?;
    acknowledgement(plan, algorithm)?;
    discovery(plan, algorithm)?;
    counted(plan, algorithm)?;
    refuse_if(config.timeout == Some(0), "lock.timeout", "every request would fail", "above 0s")?;
    for (place, length) in [
        ("lock.timeout", config.timeout),
        ("lock.retry", config.retry),
        ("lock.needs", config.needs),
        ("lock.wait_for", config.wait_for),
    ] {
        in_reach(place, length.unwrap_or(0))?;
    }
    let tries = config.tries.unwrap_or(1);
    let what = format!("{tries} tries");
    refuse_if(tries == 0 || tries > MOST_ROUNDS, "lock.tries", what, "from 1 to 1000000")
}

fn ttl(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (place, name) = ("lock.ttl", algorithm.name);
    let needs = plan.lock.needs.unwrap_or(0);
    let Some(ttl) = plan.lock.ttl else {
        let missing = algorithm.needs_ttl;
        let what = format!("{name} needs a ttl");
        refuse_if(missing, "lock.algorithm", what, "add ttl = \"10s\"")?;
        let what = format!("{name} has no lease that work could need a part of");
        return refuse_if(needs > 0, "lock.needs", what, "take it out");
    };
    let what = format!("a key of {name} has no time to live");
    refuse_if(!algorithm.needs_ttl, place, what, "take ttl out, or take another lock")?;
    whole_ttl(place, ttl, algorithm)?;
    let what = "no grant would ever have that much left";
    refuse_if(needs >= ttl, "lock.needs", what, "less than ttl")
}

/// Redis accepts a time to live in whole milliseconds, or seconds, above zero.
fn whole_ttl(place: &str, ttl: Nanos, algorithm: &Algorithm) -> Checked {
    in_reach(place, ttl)?;
    refuse_if(ttl == 0, place, "Redis refuses a time to live of 0", "at least 1ms")?;
    let unit = algorithm.defaults.unit;
    let word = if unit == SECOND { "seconds" } else { "milliseconds" };
    let what = format!("{} sends its time to live in whole {word}", algorithm.name);
    refuse_if(
        !ttl.is_multiple_of(unit),
        place,
        what,
        &format!("a multiple of {}", length::write(unit)),
    )
}

fn quorum(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (name, nodes) = (algorithm.name, plan.topology.masters());
    let many = plan.topology.kind == TopologyKind::Independent;
    let alone = many && nodes > 1 && !algorithm.asks_all;
    let what = format!("{name} asks one node, and {nodes} independent ones are there");
    refuse_if(alone, "topology.kind", what, "single, or a redlock")?;
    let Some(quorum) = plan.lock.quorum else { return Ok(()) };
    let place = "lock.quorum";
    let what = format!("{name} asks one node and has no quorum");
    refuse_if(!algorithm.asks_all, place, what, "take it out")?;
    let asked = if many { nodes } else { 1 };
    let mend = format!("from 1 to {asked}");
    refuse_if(quorum == 0, place, "a quorum of 0 asks nobody", &mend)?;
    refuse_if(quorum > asked, place, format!("a quorum of {quorum} of {asked} nodes"), &mend)
}

fn renewal(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let config = &plan.lock;
    for (place, length) in
        [("lock.renew_every", config.renew_every), ("lock.renew_ttl", config.renew_ttl)]
    {
        let what = format!("{} does not renew", algorithm.name);
        let mend = "take it out, or take token-lua-renewed or redisson";
        refuse_if(length.is_some() && !algorithm.renews, place, what, mend)?;
        refuse_if(length == Some(0), place, "this is no length", "above 0s")?;
        in_reach(place, length.unwrap_or(0))?;
    }
    if let Some(ttl) = config.renew_ttl {
        whole_ttl("lock.renew_ttl", ttl, algorithm)?;
    }
    let too_late = config.renew_every.is_some_and(|every| config.ttl.is_some_and(|t| every >= t));
    let what = "the lease would end before it is renewed";
    refuse_if(too_late, "lock.renew_every", what, "less than ttl")
}

/// Only a lock that waits for replicas has these options, and only if there are that many replicas.
fn acknowledgement(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (config, name) = (&plan.lock, algorithm.name);
    let waits = name == WAITS;
    let what = format!("{name} does not wait for replicas");
    let mend = format!("take it out, or take {WAITS}");
    for (place, is_set) in [
        ("lock.acks", config.acks.is_some()),
        ("lock.ack_timeout", config.ack_timeout.is_some()),
        ("lock.fsync", config.fsync),
        ("lock.wait", config.wait != WaitShape::Own),
    ] {
        refuse_if(is_set && !waits, place, &what, &mend)?;
    }
    in_reach("lock.ack_timeout", config.ack_timeout.unwrap_or(0))?;
    if !waits {
        return Ok(());
    }
    let mend = "at least 1ms";
    let never = config.ack_timeout.is_some_and(|length| length < MILLISECOND);
    refuse_if(never, "lock.ack_timeout", "WAIT takes whole milliseconds, and 0 is for ever", mend)?;
    synced(plan)?;
    let replicas = plan.topology.replicas();
    let what = format!("{name} needs replicas");
    let nobody = replicas == 0 && !config.fsync;
    refuse_if(nobody, "topology.kind", what, "kind = \"replicated\"")?;
    let (acks, least) = (acks(config), u32::from(!config.fsync));
    let what = format!("{acks} of {replicas} replicas would have to acknowledge");
    let mend = format!("from {least} to {replicas}");
    refuse_if(acks < least || acks > replicas, "lock.acks", what, &mend)
}

/// WAITAOF exists since Redis 7.2, and needs an append-only file.
fn synced(plan: &Plan) -> Checked {
    let topology = &plan.topology;
    let (fsync, place) = (plan.lock.fsync, "lock.fsync");
    let unknown = !topology.compat.has(Difference::WaitAof);
    let what = format!("{} has no WAITAOF", topology.compat.word());
    refuse_if(fsync && unknown, place, what, "compat = \"redis-8.2\" or later in [topology]")?;
    let what = "the node keeps no append-only file that could be synced";
    let no_file = matches!(topology.persistence, Persistence::None | Persistence::Rdb);
    refuse_if(fsync && no_file, place, what, "persistence = \"aof-everysec\" in [topology]")
}

/// Subscribing to Sentinels needs Sentinels.
fn discovery(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let listens = plan.lock.discovery == DiscoveryShape::SwitchMaster;
    let deaf = algorithm.asks_all || plan.topology.kind != TopologyKind::Sentinel;
    let what = "there is no Sentinel whose +switch-master could be listened to";
    refuse_if(listens && deaf, "lock.discovery", what, "take it out, or kind = \"sentinel\"")
}

/// Options that only the lock with a channel has, and those that it lacks.
fn counted(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (config, name) = (&plan.lock, algorithm.name);
    let queues = name == QUEUES;
    let what = format!("{name} does not wait for its turn");
    let mend = format!("take it out, or take {QUEUES}");
    refuse_if(config.wait_for.is_some() && !queues, "lock.wait_for", what, &mend)?;
    let what = format!("{name} gives back and prolongs by its field alone");
    let own = config.release == ReleaseShape::Own;
    refuse_if(queues && !own, "lock.release", &what, "own, or another lock")?;
    let own = config.extend == ExtendShape::Own;
    refuse_if(queues && !own, "lock.extend", &what, "own, or another lock")
}
