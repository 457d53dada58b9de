//! Which assumption of a lock a fault puts to the test, and by how much.
//!
//! A fault that no assumption speaks of has to be withstood whatever its size.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_sim::fault::{Fault, Target, Verb};
use lockstorm_sim::network::{LONGEST_LOSS, longest_wait};
use lockstorm_sim::time::Nanos;

use crate::explain::finding::BrokenAssumption;
use crate::explore::overwork::{fit, overworked};
use crate::lock::{Bounded, Promise};
use crate::plan::{Persistence, Plan, RESOURCE, Topology};

/// What a fault does to one assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strain {
    /// The assumption.
    pub what: Bounded,
    /// How much of it the fault takes, in the assumption's unit.
    pub size: u64,
}

/// The strain of a fault of the plan, if any assumption could speak of it.
pub fn strain(plan: &Plan, fault: &Fault) -> Option<Strain> {
    let length = fault.length.unwrap_or(plan.heal_at);
    let on_node = matches!(&fault.target, Target::Host(host) if plan.nodes().contains(host));
    let on_client = matches!(&fault.target, Target::Host(host) if plan.clients().contains(host));
    let on_resource = matches!(&fault.target, Target::Host(host) if host == RESOURCE);
    if lets_another_lead(plan, fault, length) {
        return Some(Strain { what: Bounded::Failover, size: 1 });
    }
    let (what, size) = match &fault.verb {
        Verb::Pause if on_client => (Bounded::ClientPause, length),
        // What is sent to a machine that sleeps is lost: to the sleep comes the wait for it.
        Verb::Suspend if on_client => (Bounded::ClientPause, longest_wait(length)),
        Verb::Crash | Verb::PowerLoss | Verb::Restart if on_client => (Bounded::ClientCrash, 1),
        Verb::Crash | Verb::PowerLoss | Verb::Restart if on_node => {
            return amnesia(plan, fault);
        }
        Verb::ClockStep { by } if on_node => (Bounded::NodeClockStep, by.unsigned_abs()),
        Verb::ClockStep { by } if on_client => (Bounded::ClientClockStep, by.unsigned_abs()),
        Verb::ClockFreeze if on_node => (Bounded::NodeClockStep, length),
        Verb::ClockFreeze if on_client => (Bounded::ClientClockStep, length),
        Verb::ClockRate { ppm } => (Bounded::Drift, u64::from(ppm.unsigned_abs())),
        Verb::Failover => (Bounded::Failover, 1),
        Verb::Evict { .. } | Verb::Flush => (Bounded::KeyRemoval, 1),
        Verb::Partition if reaches_resource(fault) => (Bounded::AccessDelay, longest_wait(length)),
        Verb::Delay { extra } | Verb::Jitter { extra } if reaches_resource(fault) => {
            (Bounded::AccessDelay, *extra)
        }
        Verb::Loss { .. } if reaches_resource(fault) => (Bounded::AccessDelay, LONGEST_LOSS),
        Verb::Pause | Verb::Suspend | Verb::Crash | Verb::PowerLoss | Verb::Restart
            if on_resource =>
        {
            (Bounded::AccessDelay, longest_wait(length))
        }
        _ => return None,
    };
    Some(Strain { what, size })
}

/// Whether a fault keeps a node for so long from those who would replace it that they may: from a
/// quorum of Sentinels, or from nodes of its cluster.
fn lets_another_lead(plan: &Plan, fault: &Fault, length: Nanos) -> bool {
    let Topology { sentinels, shards, .. } = &plan.topology;
    let patience = sentinels.map(|them| them.down_after).or(shards.map(|them| them.node_timeout));
    if patience.is_none_or(|patience| length <= patience) {
        return false;
    }
    match (&fault.verb, &fault.target) {
        (Verb::Pause | Verb::Suspend | Verb::Crash | Verb::PowerLoss, Target::Host(host)) => {
            plan.nodes().contains(host)
        }
        (Verb::Partition, Target::Links { from, to, .. }) => {
            cuts_off(plan, from, to) || cuts_off(plan, to, from)
        }
        _ => false,
    }
}

/// Whether a node on one side is kept from enough on the other who would replace it.
fn cuts_off(plan: &Plan, side: &[String], other: &[String]) -> bool {
    let nodes = plan.nodes();
    let (judges, enough) = match &plan.topology.sentinels {
        Some(sentinels) => (plan.sentinels(), sentinels.quorum),
        None => (nodes.clone(), 1),
    };
    let enough = usize::try_from(enough).unwrap_or(usize::MAX);
    let cut = other.iter().filter(|host| judges.contains(host)).count();
    side.iter().any(|host| nodes.contains(host)) && cut >= enough
}

/// A node that comes back without keys that it had acknowledged. What counts is its down-time.
fn amnesia(plan: &Plan, fault: &Fault) -> Option<Strain> {
    let persistence = plan.topology.persistence;
    let of_disk = |verb: Verb| {
        plan.faults.iter().any(|other| other.verb == verb && other.target == fault.target)
    };
    let forgets = match fault.verb {
        Verb::PowerLoss => persistence != Persistence::AofAlways || of_disk(Verb::LyingDisk),
        // What a full disk did not take was acknowledged all the same.
        _ => matches!(persistence, Persistence::None | Persistence::Rdb) || of_disk(Verb::FullDisk),
    };
    let down = match (&fault.verb, fault.length) {
        (Verb::Restart, _) => 0,
        (_, Some(length)) => length,
        (_, None) => plan.heal_at,
    };
    forgets.then_some(Strain { what: Bounded::AmnesiacRestart, size: down })
}

fn reaches_resource(fault: &Fault) -> bool {
    fault.target.hosts().contains(&RESOURCE)
}

/// The assumptions of `promise` that the plan's faults break.
///
/// Pauses and late accesses eat the same lease, so they are added up for each client. A node's
/// amnesia breaks its assumption when the down-time is *shorter* than the bound.
pub fn broken(plan: &Plan, promise: &Promise) -> Vec<BrokenAssumption> {
    let mut found: BTreeMap<Bounded, (u64, BTreeSet<u32>)> = BTreeMap::new();
    let delays = delayed(plan);
    for fault in &plan.faults {
        let Some(strain) = strain(plan, fault) else { continue };
        let Some(bound) = bound(promise, strain.what) else { continue };
        let size = match strain.what {
            Bounded::ClientPause | Bounded::AccessDelay => {
                let hosts = fault.target.hosts();
                let sums = hosts.iter().filter_map(|host| delays.get(*host));
                sums.max().copied().unwrap_or(strain.size)
            }
            Bounded::Drift => relative_drift(plan),
            _ => strain.size,
        };
        let breaks =
            if strain.what == Bounded::AmnesiacRestart { size < bound } else { size > bound };
        if breaks {
            let (most, faults) = found.entry(strain.what).or_insert((size, BTreeSet::new()));
            *most = if strain.what == Bounded::AmnesiacRestart {
                (*most).min(size)
            } else {
                (*most).max(size)
            };
            faults.insert(fault.id);
        }
    }
    found
        .into_iter()
        .map(|(what, (actual, faults))| BrokenAssumption {
            what,
            bound: bound(promise, what).expect("only bounded assumptions are broken"),
            actual,
            faults: faults.into_iter().collect(),
            alone: false,
        })
        .chain(drifting_clocks(plan, promise))
        .chain(overworked(plan, promise))
        .collect()
}

/// Clocks that are set too far apart from the start, where no fault touches their rates.
fn drifting_clocks(plan: &Plan, promise: &Promise) -> Option<BrokenAssumption> {
    let rated = plan.faults.iter().any(|fault| matches!(fault.verb, Verb::ClockRate { .. }));
    let (bound, actual) = (bound(promise, Bounded::Drift)?, relative_drift(plan));
    (!rated && actual > bound).then(|| BrokenAssumption {
        what: Bounded::Drift,
        bound,
        actual,
        faults: Vec::new(),
        alone: false,
    })
}

fn bound(promise: &Promise, what: Bounded) -> Option<u64> {
    promise.assumes.iter().find(|assumption| assumption.what == what).map(|a| a.bound)
}

/// How long each host is kept from its resource in all, by pauses and late accesses.
fn delayed(plan: &Plan) -> BTreeMap<&str, Nanos> {
    let mut sums = BTreeMap::new();
    for fault in &plan.faults {
        let Some(strain) = strain(plan, fault) else { continue };
        if matches!(strain.what, Bounded::ClientPause | Bounded::AccessDelay) {
            for host in fault.target.hosts() {
                *sums.entry(host).or_insert(0_u64) += strain.size;
            }
        }
    }
    sums
}

/// The largest difference of rates between any two hosts, in parts per million.
fn relative_drift(plan: &Plan) -> u64 {
    let faults = plan.faults.iter().filter_map(|fault| match fault.verb {
        Verb::ClockRate { ppm } => Some(ppm),
        _ => None,
    });
    let rates = plan.clocks.values().map(|clock| clock.rate_ppm).chain(faults);
    let (least, most) = rates.fold((0, 0), |(a, b), rate| (a.min(rate), b.max(rate)));
    u64::from(most.abs_diff(least))
}

/// The plan without the faults of these broken assumptions, and with clocks at the right rate
/// where a drift was broken.
pub fn without(plan: &Plan, broken: &[&BrokenAssumption]) -> Plan {
    let gone: BTreeSet<u32> = broken.iter().flat_map(|b| b.faults.iter().copied()).collect();
    let mut plan = plan.clone();
    plan.faults.retain(|fault| !gone.contains(&fault.id));
    if let Some(overwork) = broken.iter().find(|broken| broken.what == Bounded::Work) {
        fit(&mut plan, overwork.bound);
    }
    if broken.iter().any(|broken| broken.what == Bounded::Drift) {
        for clock in plan.clocks.values_mut() {
            clock.rate_ppm = 0;
        }
    }
    plan
}

/// Keeps as many of the plan's faults, from the first on, as break no assumption together.
pub fn keep_within(plan: &mut Plan, promise: &Promise) {
    let all = std::mem::take(&mut plan.faults);
    for fault in all {
        plan.faults.push(fault);
        if !broken(plan, promise).is_empty() {
            plan.faults.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use lockstorm_sim::fault::{Anchor, Fault, Target, Verb};
    use lockstorm_sim::time::{MILLISECOND, SECOND};

    use super::{Strain, strain};
    use crate::explore::ground::ground;
    use crate::lock::Bounded;
    use crate::plan::TopologyKind;

    #[test]
    fn what_keeps_a_node_from_its_cluster_for_the_time_out_can_make_a_replica_master() {
        let plan = ground("token-lua", TopologyKind::Cluster);
        let timeout = plan.topology.shards.expect("it is a cluster").node_timeout;
        let lets = |verb, target: &str, length| {
            let target = Target::try_from(target.to_owned()).expect("a target");
            let fault =
                Fault { id: 1, verb, target, anchor: Anchor::At(SECOND), length: Some(length) };
            strain(&plan, &fault) == Some(Strain { what: Bounded::Failover, size: 1 })
        };
        let long = timeout + MILLISECOND;
        assert!(lets(Verb::Pause, "n2", long));
        assert!(lets(Verb::Crash, "n5", long), "a replica may be master by then");
        assert!(lets(Verb::PowerLoss, "n1", long));
        assert!(lets(Verb::Partition, "n2 c1 <-> n1 n3", long));
        assert!(!lets(Verb::Pause, "n2", timeout), "not for long enough");
        assert!(!lets(Verb::Pause, "c1", long));
        assert!(!lets(Verb::Partition, "c1 <-> n2", long), "the nodes see each other");
    }
}
