//! What the remedies change in a plan.

use lockstorm_platform::fault::{Fault, MAX_LENGTH, Target, Verb};
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

use crate::ledger::part::Strikes;
use crate::lock::algorithm::{Algorithm, Nodes, counted_hash, scheduled};
use crate::lock::catalogue;
use crate::lock::config::{AcquireShape, AfterExtend, LockConfig, TokenScope, WaitShape};
use crate::plan::extend::Extend;
use crate::plan::{FenceMode, FenceOn, MinReplicas, Plan, TopologyKind, WorkloadKind};
use crate::workload::work;

/// The plan with a change; `None` if that changes nothing.
pub fn changed(plan: &Plan, change: impl FnOnce(&mut Plan)) -> Option<Plan> {
    let mut with = plan.clone();
    change(&mut with);
    (with != *plan).then_some(with)
}

/// The plan with another lock of the catalogue, and with the settings common to all locks. `None`
/// if the lock is the user's own or has another number of holders: then that is no remedy. If only
/// the previous lock renewed its lease in the background, the caller extends it: otherwise the work
/// would outlast the lease, whatever else the lock fixes.
pub fn with_lock(plan: &Plan, algorithm: &str) -> Option<Plan> {
    let (old, new) = (catalogue::find(&plan.lock.algorithm)?, catalogue::find(algorithm)?);
    if old.holders(&plan.lock) != new.holders(&plan.lock) {
        return None;
    }
    let extends = old.renews && !new.renews;
    changed(plan, |plan| {
        let probed = plan.longest_ttl();
        if extends && plan.workload.extend == Extend::Never {
            plan.workload.extend = "1/2".parse().unwrap_or_default();
        }
        let own = &plan.lock;
        plan.lock = LockConfig {
            ttl: own.ttl.or(Some(10 * SECOND)),
            tries: own.tries,
            retry: own.retry,
            ..own.in_place(algorithm)
        };
        // The probe waits for the maximum lease, and the previous lock may have had none.
        plan.until += plan.longest_ttl().saturating_sub(probed);
    })
}

/// A resource that is changed in one step, where there is such a form of the workload.
pub fn in_one_step(plan: &Plan) -> Option<Plan> {
    let kind = match plan.workload.kind {
        WorkloadKind::Stock | WorkloadKind::StockGetDecr => WorkloadKind::StockScript,
        WorkloadKind::RateLimitTestFirst | WorkloadKind::RateLimitThreeSteps => {
            WorkloadKind::RateLimit
        }
        _ => return None,
    };
    changed(plan, |plan| plan.workload.kind = kind)
}

/// A guarded resource that decides on every access by what it knows of the holders.
pub fn fence(plan: &Plan, mode: FenceMode) -> Option<Plan> {
    changed(plan, |plan| {
        plan.workload.fence = mode;
        plan.workload.fence_on = FenceOn::All;
    })
}

/// A lock that draws fences, and a guarded resource that refuses smaller ones. `None` if several
/// nodes would draw them.
pub fn fenced(plan: &Plan) -> Option<Plan> {
    if plan.topology.kind == TopologyKind::Independent {
        return None;
    }
    let plan =
        if plan.lock.algorithm == "fenced" { plan.clone() } else { with_lock(plan, "fenced")? };
    fence(&plan, FenceMode::RejectSmaller)
}

/// The plan with the lock of a remedy, whose fences are not checked as the remedy checks them.
/// `None` if the remedy keeps the lock, or does not change what is checked.
pub fn unchecked(plan: &Plan, with: &Plan) -> Option<Plan> {
    let (own, checked) = (&plan.workload, &with.workload);
    let is_swapped = plan.lock.algorithm != with.lock.algorithm && own.fence != checked.fence;
    let (fence, fence_on) = (own.fence, own.fence_on);
    is_swapped.then(|| {
        changed(with, |with| {
            (with.workload.fence, with.workload.fence_on) = (fence, fence_on);
        })
    })?
}

/// A lease of three times the previous one, in which the longest hold fits twice. If a lease was
/// measured, the result is between one and two times that: with far too long a lease a run may test
/// nothing.
pub fn longer_lease(plan: &Plan, longest_hold: Nanos, measured: Option<Nanos>) -> Option<Plan> {
    let takes = longest_hold.saturating_mul(2).div_ceil(SECOND).saturating_mul(SECOND);
    let guessed = plan.lock.ttl?.saturating_mul(3).max(takes).min(MAX_LENGTH);
    with_lease(plan, measured.map_or(guessed, |least| guessed.clamp(least, least * 2)))
}

/// The plan with this lease, and with an end that is later by the same time; `None` if the lease is
/// not longer.
pub fn with_lease(plan: &Plan, lease: Nanos) -> Option<Plan> {
    let longer = lease.checked_sub(plan.lock.ttl?).filter(|longer| *longer > 0)?;
    changed(plan, |plan| {
        plan.lock.ttl = Some(lease);
        plan.until = plan.until.saturating_add(longer);
    })
}

/// A key that is kept for the whole lease, in place of one that is kept for a part of it.
pub fn kept_longer(plan: &Plan, lock: &Algorithm) -> Option<Plan> {
    let (lease, keeps) = (plan.lock.ttl?, lock.name == scheduled::NAME);
    let is_less = plan.lock.at_least.is_none_or(|at_least| at_least < lease);
    (keeps && is_less).then(|| changed(plan, |plan| plan.lock.at_least = Some(lease)))?
}

/// A timeout of twice the time of a first reply without faults. `None` if the plan's timeout is not
/// shorter than that, or if clients do not even find their node.
pub fn longer_timeout(plan: &Plan, timeout: Nanos) -> Option<Plan> {
    let reply = work(plan).reply;
    let is_short = timeout < reply && reply < Nanos::MAX;
    is_short.then(|| changed(plan, |plan| plan.lock.timeout = Some(reply.saturating_mul(2))))?
}

/// No node's clock is stepped, except for the small remainder that slewing leaves.
pub fn slewed(plan: &Plan) -> Option<Plan> {
    let most = (50 * MILLISECOND).cast_signed();
    let nodes = plan.nodes();
    changed(plan, |plan| {
        for (_, clock) in plan.clocks.iter_mut().filter(|(host, _)| nodes.contains(host)) {
            clock.wall_offset = clock.wall_offset.clamp(-most, most);
        }
        for fault in &mut plan.faults {
            let is_nodes = matches!(&fault.target, Target::Host(host) if nodes.contains(host));
            if let Verb::ClockStep { by } = &mut fault.verb
                && is_nodes
            {
                *by = (*by).clamp(-most, most);
            }
        }
    })
}

/// Nodes that stay down for a second more than the maximum lease, and a heal that leaves time for
/// it.
pub fn delayed_restart(plan: &Plan, struck: &Strikes) -> Option<Plan> {
    let lease = Some(plan.longest_ttl()).filter(|lease| *lease > 0)?;
    let least = lease.saturating_add(SECOND);
    let nodes = plan.nodes();
    // A node that is already down stays down: a start during that outage is removed.
    let is_in_outage = |restart: &Fault| {
        let at = struck.get(&restart.id);
        let mut outages = plan.faults.iter().filter(|fault| fault.verb.takes_down());
        outages.any(|outage| {
            let from = struck.get(&outage.id);
            let until = from.map(|from| outage.length.map_or(plan.heal_at, |length| from + length));
            outage.target == restart.target && from < at && at < until.as_ref()
        })
    };
    let mut later = changed(plan, |with| {
        with.faults.retain(|fault| fault.verb != Verb::Restart || !is_in_outage(fault));
        for fault in &mut with.faults {
            let Target::Host(host) = &fault.target else { continue };
            if !nodes.contains(host) || !fault.verb.kills() {
                continue;
            }
            // A fault without a length lasts to the heal.
            fault.length = fault.length.or((fault.verb == Verb::Restart).then_some(0));
            fault.length = fault.length.map(|length| length.max(least));
            if fault.verb == Verb::Restart {
                fault.verb = Verb::Crash;
            }
        }
    })?;
    let over = later.faults.iter().filter_map(|f| Some(struck.get(&f.id)? + f.length?)).max();
    let more = (over.unwrap_or(0) + 15 * SECOND).saturating_sub(later.heal_at);
    later.heal_at += more;
    later.until += more;
    Some(later)
}

/// A lock whose grants wait until all replicas have them. `None` if there is no replica.
pub fn wait_for_replicas(plan: &Plan) -> Option<Plan> {
    let replicas = plan.topology.replicas();
    let mut with = match &*plan.lock.algorithm {
        "wait-replicas" => plan.clone(),
        _ => with_lock(plan, "wait-replicas")?,
    };
    with.lock.acks = (replicas > 0).then_some(replicas);
    with.lock.wait = WaitShape::Own;
    (replicas > 0 && with != *plan).then_some(with)
}

/// A master that requires a replica that it heard within a second. A stricter requirement stays.
pub fn min_replicas(plan: &Plan) -> Option<Plan> {
    let has_replicas = plan.topology.replicas() > 0;
    let own = plan.topology.min_replicas;
    let least = MinReplicas {
        to_write: own.map_or(1, |own| own.to_write.max(1)),
        max_lag: own.map_or(SECOND, |own| own.max_lag.min(SECOND)),
    };
    has_replicas.then(|| changed(plan, |plan| plan.topology.min_replicas = Some(least)))?
}

/// The majority as the quorum. `None` if the plan requires as many votes, or if the lock counts
/// none.
pub fn majority(plan: &Plan, lock: &Algorithm) -> Option<Plan> {
    let (majority, own) = (plan.topology.masters() / 2 + 1, plan.lock.quorum?);
    let is_less = lock.nodes == Nodes::Quorum && own < majority;
    is_less.then(|| changed(plan, |plan| plan.lock.quorum = Some(majority)))?
}

/// One vote more than the plan requires, which is a majority or more. `None` if there are fewer
/// nodes than votes, or if the lock counts none.
pub fn more_votes(plan: &Plan, lock: &Algorithm) -> Option<Plan> {
    let nodes = plan.topology.masters();
    let majority = nodes / 2 + 1;
    let own = plan.lock.quorum.unwrap_or(majority);
    let fits = lock.nodes == Nodes::Quorum && (majority..nodes).contains(&own);
    fits.then(|| changed(plan, |plan| plan.lock.quorum = Some(own + 1)))?
}

/// A lock with its own token, in place of a lock of the catalogue whose deleting command compares
/// no token.
pub fn own_token(plan: &Plan) -> Option<Plan> {
    let foreign = [
        "none",
        "host-local",
        "check-then-set",
        "setnx",
        "setnx-expire",
        "setex",
        "psetex",
        "px-constant",
        "token-get-del",
    ];
    foreign.contains(&&*plan.lock.algorithm).then(|| with_lock(plan, "token-lua"))?
}

/// An acquire that takes a key with its own token for granted, and has one token for all its
/// requests. `None` if its client sends nothing again.
pub fn knows_its_own(plan: &Plan, lock: &Algorithm) -> Option<Plan> {
    let scope = lock.choices(&plan.lock).token;
    let change = |plan: &mut Plan| {
        plan.lock.acquire = AcquireShape::AbsentOrOwn;
        if scope == TokenScope::Try {
            plan.lock.token = Some(TokenScope::Acquisition);
        }
    };
    (plan.lock.resend > 0).then(|| changed(plan, change))?
}

/// A token of its own for each try. `None` if the lock draws one already.
pub fn token_of_try(plan: &Plan, lock: &Algorithm) -> Option<Plan> {
    let (own, default) = (lock.choices(&plan.lock).token, lock.defaults.token);
    with_option(plan, (own, default), TokenScope::Try, |with| &mut with.lock.token)
}

/// Keys that stay after an extend that failed. `None` if they do already.
pub fn keeps_after_failed_extend(plan: &Plan, lock: &Algorithm) -> Option<Plan> {
    let (own, default) = (lock.choices(&plan.lock).failed_extend, lock.defaults.failed_extend);
    with_option(plan, (own, default), AfterExtend::Keep, |with| &mut with.lock.failed_extend)
}

/// A lock that refuses a grant which is over before its caller has it. `None` if it does already.
pub fn checks_validity(plan: &Plan, lock: &Algorithm) -> Option<Plan> {
    let (own, default) = (lock.choices(&plan.lock).validity, lock.defaults.validity);
    with_option(plan, (own, default), true, |with| &mut with.lock.validity)
}

/// The plan with an option set to what is right, or omitted if that is the lock's default. `None`
/// if that is its own value.
fn with_option<T: PartialEq>(
    plan: &Plan,
    (own, default): (T, T),
    right: T,
    option: fn(&mut Plan) -> &mut Option<T>,
) -> Option<Plan> {
    if own == right {
        return None;
    }
    changed(plan, |with| *option(with) = (default != right).then_some(right))
}

/// A lock that draws a token for each acquire, in place of one that counts the acquires of a
/// thread: a late request of an earlier acquire then finds no key with its token.
pub fn token_of_acquire(plan: &Plan) -> Option<Plan> {
    counted_hash::LOCKS.contains(&&*plan.lock.algorithm).then(|| with_lock(plan, "token-lua"))?
}
