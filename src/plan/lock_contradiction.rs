//! Refuses what no plan may contain about its lock: a lease in a unit that Redis does not accept, a
//! quorum above the number of nodes, an option of another lock.

use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use lockstorm_redis::compat::Difference;
use serde_json::Value;

use crate::field::Takes;
use crate::length;
use crate::lock::algorithm::latch;
use crate::lock::algorithm::wait_replicas::acks;
use crate::lock::algorithm::{Algorithm, Nodes};
use crate::lock::catalogue;
use crate::lock::config::{
    AcquireShape, AfterTry, DiscoveryShape, LeaseUnit, LockConfig, TokenScope,
};
use crate::lock::library;
use crate::lock::options::{LockOption, OPTIONS};
use crate::plan::contradiction::{Checked, MAX_ROUNDS, in_reach, refuse_if};
use crate::plan::{Persistence, Plan, TopologyKind};
use crate::promise::Work;
use crate::quantity::length as in_words;
use crate::refusal::one_of;

/// The maximum number of permits of a semaphore: as many as there may be callers.
const MAX_PERMITS: u32 = 1_000;

/// Checks the lock's table.
pub fn lock(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let config = &plan.lock;
    refuse_if(config.key.is_empty(), "lock.key", "a lock needs a key", "like \"lock\"")?;
    refuse_if(config.key.len() > 512, "lock.key", "this key is too long", "at most 512 bytes")?;
    declared(plan, algorithm)?;
    library(config, algorithm)?;
    options(config, algorithm)?;
    ttl(plan, algorithm)?;
    quorum(plan, algorithm)?;
    renewal(plan, algorithm)?;
    acknowledgement(plan, algorithm)?;
    acknowledgement_if_wanted(plan, algorithm)?;
    turns(config)?;
    discovery(plan, algorithm)?;
    requests(plan, algorithm)?;
    refuse_if(config.timeout == Some(0), "lock.timeout", "every request would fail", "above 0s")?;
    let permits = config.permits.unwrap_or(1);
    let (what, instead) = (format!("a semaphore of {permits} permits"), "from 1 to 1000");
    let is_odd = permits == 0 || permits > MAX_PERMITS;
    refuse_if(is_odd, "lock.permits", what, instead)?;
    let (parties, clients) = (latch::parties(config), plan.workload.clients);
    let is_never_open = parties == 0 || parties > clients;
    let what = format!("{parties} parties would have to count down, and {clients} clients may");
    let instead = format!("from 1 to {clients}");
    let is_odd = algorithm.name == latch::NAME && is_never_open;
    refuse_if(is_odd, "lock.parties", what, &instead)?;
    let tries = config.tries.unwrap_or(1);
    let what = format!("{tries} tries");
    refuse_if(tries == 0 || tries > MAX_ROUNDS, "lock.tries", what, "from 1 to 1000000")
}

/// Refuses what a lock of one's own says of itself if it would not be judged.
fn declared(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (place, name) = ("lock.algorithm", algorithm.name);
    // None of this depends on the work.
    let work = Work { calls: 1, arrives: true, ..Work::default() };
    let promise = algorithm.promises(&plan.lock, work);
    let others = algorithm.shares || promise.holders > 1 || promise.queue.is_some();
    let what = format!("{name} takes groups, and each key of a group is judged as a plain mutex");
    let instead = "groups: true without shares, several holders or a queue";
    refuse_if(algorithm.groups && others, place, what, instead)?;
    let what = format!("{name} promises a queue, and names the key of the lock itself");
    let instead = "a key beside it, like \"lock:queue\"";
    refuse_if(promise.queue.as_ref() == Some(&plan.lock.key), place, what, instead)
}

/// Refuses a library that is not known, and one that has another lock.
fn library(config: &LockConfig, algorithm: &Algorithm) -> Checked {
    if config.library.is_empty() {
        return Ok(());
    }
    let (place, name) = ("lock.library", &config.library);
    let Some(library) = library::find(name) else {
        let names = library::names(name);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return refuse_if(true, place, format!("no library '{name}'"), &one_of(name, &names));
    };
    let is_other = library.lock != algorithm.name;
    let what = format!("{} is a {}, and not a {}", library.title(), library.lock, algorithm.name);
    let instead = "remove it, or remove algorithm";
    refuse_if(is_other, place, what, instead)
}

/// Refuses options of another lock, and lengths above the maximum.
fn options(config: &LockConfig, algorithm: &Algorithm) -> Checked {
    let json = |config: &LockConfig| serde_json::to_value(config).expect("a plan is plain data");
    let (all, defaults) = (json(config), json(&LockConfig::default()));
    for LockOption { field, of, .. } in &OPTIONS {
        let (place, value) = (format!("lock.{}", field.key), all.get(field.key));
        let is_other = value != defaults.get(field.key) && !(of.has)(algorithm);
        let what = format!("{} {}", algorithm.name, of.what);
        refuse_if(is_other, &place, what, of.instead)?;
        if matches!(field.takes, Takes::Length) {
            in_reach(&place, value.and_then(Value::as_u64).unwrap_or(0))?;
        }
    }
    Ok(())
}

fn ttl(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (place, name) = ("lock.ttl", algorithm.name);
    let needs = plan.lock.needs.unwrap_or(0);
    let Some(ttl) = plan.lock.ttl else {
        let missing = algorithm.needs_ttl;
        let what = format!("{name} needs a ttl");
        refuse_if(missing, "lock.algorithm", what, "add ttl = \"10s\"")?;
        let what = format!("{name} has no lease, so work cannot need a part of it");
        return refuse_if(needs > 0, "lock.needs", what, "remove it");
    };
    let what = format!("a key of {name} has no time to live");
    refuse_if(!algorithm.needs_ttl, place, what, "remove ttl, or use another lock")?;
    whole_ttl(place, ttl, &plan.lock, algorithm)?;
    kept(&plan.lock, ttl, algorithm)?;
    let what = "no grant would ever have that much left";
    let choices = algorithm.choices(&plan.lock);
    let drift = if choices.validity { choices.drift } else { 0 };
    let most = ttl.saturating_sub(drift);
    let instead = format!("less than {}", in_words(most));
    refuse_if(needs >= most && needs > 0, "lock.needs", what, &instead)
}

/// Refuses a key that would have to be kept after its time to live.
fn kept(config: &LockConfig, ttl: Nanos, algorithm: &Algorithm) -> Checked {
    let (place, at_least) = ("lock.at_least", config.at_least.unwrap_or(0));
    let what = "the key would be gone before";
    let instead = format!("at most {}, the ttl", length::write(ttl));
    refuse_if(at_least > ttl, place, what, &instead)?;
    if at_least > 0 { whole_ttl(place, at_least, config, algorithm) } else { Ok(()) }
}

/// Refuses a time to live that is not in whole milliseconds (or seconds) above zero: Redis accepts
/// no other.
fn whole_ttl(place: &str, ttl: Nanos, config: &LockConfig, algorithm: &Algorithm) -> Checked {
    refuse_if(ttl == 0, place, "Redis refuses a time to live of 0", "at least 1ms")?;
    let unit = algorithm.choices(config).unit;
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
    let alone = many && nodes > 1 && algorithm.nodes == Nodes::First;
    let what = format!("{name} queries one node, and {nodes} independent nodes are configured");
    let instead = match catalogue::find(name) {
        Some(_) => "single, or a redlock",
        None => {
            "single; or nodes: Nodes::Quorum in its Algorithm, if a grant needs a quorum of them"
        }
    };
    refuse_if(alone, "topology.kind", what, instead)?;
    let Some(quorum) = plan.lock.quorum else { return Ok(()) };
    let place = "lock.quorum";
    let queried = if many { nodes } else { 1 };
    let instead = format!("from 1 to {queried}");
    refuse_if(quorum == 0, place, "a quorum of 0 grants to everybody", &instead)?;
    refuse_if(quorum > queried, place, format!("a quorum of {quorum} of {queried} nodes"), &instead)
}

fn renewal(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let config = &plan.lock;
    for (place, length) in
        [("lock.renew_every", config.renew_every), ("lock.renew_ttl", config.renew_ttl)]
    {
        refuse_if(length == Some(0), place, "a length of 0", "above 0s")?;
    }
    if let Some(ttl) = config.renew_ttl {
        whole_ttl("lock.renew_ttl", ttl, config, algorithm)?;
    }
    let (place, what) = ("lock.renew_every", "the lease would end before it is renewed");
    let every = config.renew_every.unwrap_or(0);
    let too_late = config.ttl.is_some_and(|ttl| every > 0 && every >= ttl);
    refuse_if(too_late, place, what, "less than ttl")?;
    // What a renewal sets has to last until the next one.
    let too_late = config.renew_ttl.is_some_and(|ttl| every > ttl);
    refuse_if(too_late, place, what, "at most renew_ttl")
}

/// Checks the options of a lock that waits for replicas: there must be that many replicas.
fn acknowledgement(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (config, name) = (&plan.lock, algorithm.name);
    if !algorithm.waits_for_replicas {
        return Ok(());
    }
    ack_timeout(config)?;
    synced(plan)?;
    let replicas = plan.topology.replicas();
    let what = format!("{name} needs replicas");
    let nobody = replicas == 0 && !config.fsync;
    refuse_if(nobody, "topology.kind", what, "kind = \"replicated\"")?;
    let (acks, least) = (acks(config), u32::from(!config.fsync));
    let what = format!("{acks} of {replicas} replicas would have to acknowledge");
    let instead = format!("from {least} to {replicas}");
    refuse_if(acks < least || acks > replicas, "lock.acks", what, &instead)
}

/// Checks the options of a lock that waits for replicas if it is configured so.
fn acknowledgement_if_wanted(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (config, name) = (&plan.lock, algorithm.name);
    if algorithm.waits_for_replicas {
        return Ok(());
    }
    let Some(acks) = config.acks else {
        let what = format!("{name} waits for replicas only with acks");
        let instead = "remove it, or add acks = 1";
        return refuse_if(config.ack_timeout.is_some(), "lock.ack_timeout", what, instead);
    };
    ack_timeout(config)?;
    let replicas = plan.topology.replicas();
    let what = "there are no replicas that could acknowledge";
    refuse_if(replicas == 0, "lock.acks", what, "remove it, or kind = \"replicated\"")?;
    let what = format!("{acks} of {replicas} replicas would have to acknowledge");
    refuse_if(acks > replicas, "lock.acks", what, &format!("from 0 to {replicas}"))
}

/// Refuses a time for which no WAIT can wait.
fn ack_timeout(config: &LockConfig) -> Checked {
    let never = config.ack_timeout.is_some_and(|length| length < MILLISECOND);
    let what = "WAIT takes whole milliseconds, and 0 waits forever";
    refuse_if(never, "lock.ack_timeout", what, "at least 1ms")
}

/// Refuses a place in a queue that lasts for no time.
fn turns(config: &LockConfig) -> Checked {
    let never = config.queue_wait.is_some_and(|length| length < MILLISECOND);
    let what = "every waiter would lose its place at once";
    refuse_if(never, "lock.queue_wait", what, "at least 1ms")
}

/// Refuses WAITAOF before Redis 7.2 and without an append-only file.
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

/// The maximum number of times that a client sends a request again.
const MAX_RESENDS: u32 = 100;

/// Refuses settings of an acquire and its requests that contradict each other.
fn requests(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let config = &plan.lock;
    let choices = algorithm.choices(config);
    let backwards = config.retry_from.is_some_and(|from| from > choices.retry);
    let what = "the minimum back-off is above the maximum";
    let instead = format!("at most {}, or a longer retry", in_words(choices.retry));
    refuse_if(backwards, "lock.retry_from", what, &instead)?;
    let what = format!("{} requests for one", config.resend);
    let instead = format!("at most {MAX_RESENDS}");
    refuse_if(config.resend > MAX_RESENDS, "lock.resend", what, &instead)?;
    let whole = config.drift.is_some_and(|drift| algorithm.needs_ttl && drift >= choices.ttl);
    let what = "nothing of the lease would be left";
    let instead = format!("less than {}", in_words(choices.ttl));
    refuse_if(whole, "lock.drift", what, &instead)?;
    let is_everybodys = choices.token == TokenScope::Constant;
    let takes_all = is_everybodys && config.acquire == AcquireShape::AbsentOrOwn;
    let what = "with one token for everybody, every key is everybody's own";
    refuse_if(takes_all, "lock.acquire", what, "token = \"acquisition\"")?;
    let is_script = config.acquire == AcquireShape::AbsentOrOwn;
    let is_cut = is_script && config.unit == Some(LeaseUnit::Seconds);
    let what = "the script of this acquire takes milliseconds";
    refuse_if(is_cut, "lock.unit", what, "remove it, or acquire = \"absent\"")?;
    let is_idle = config.needs.is_some() && !choices.validity;
    let what = "nothing checks what is left of the lease";
    refuse_if(is_idle, "lock.needs", what, "remove it, or validity = true")?;
    let strays = config.failed_try == Some(AfterTry::ReleaseAtEnd)
        && choices.token == TokenScope::Try
        && choices.tries > 1;
    let what = "each try has a token of its own, and the last one does not name the other keys";
    refuse_if(strays, "lock.failed_try", what, "\"release\", or token = \"acquisition\"")
}

/// Refuses a subscription to Sentinels without Sentinels.
fn discovery(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let listens = plan.lock.discovery == DiscoveryShape::SwitchMaster;
    let deaf = algorithm.nodes != Nodes::First || plan.topology.kind != TopologyKind::Sentinel;
    let what = "there is no Sentinel whose +switch-master could be listened to";
    refuse_if(listens && deaf, "lock.discovery", what, "remove it, or kind = \"sentinel\"")
}
