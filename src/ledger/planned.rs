//! The assumptions that a plan is likely to breach, estimated from its faults before a run.
//!
//! It keeps hunts inside a lock's assumptions. It is conservative, but it cannot foresee
//! everything: several short outages together, a slow node, a disk that fills. What a run actually
//! breached is in [`crate::ledger::seen`], and a hunt checks that too.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::network::{MAX_LOSS_DELAY, max_outage_delay};
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::history::RESOURCE;
use crate::ledger::site::bound_of;
use crate::plan::{Persistence, Plan, Topology};
use crate::promise::{Bounded, Promise};

/// Messages in one direction between a client and the resource in one round: to connect, a request,
/// another request.
const MESSAGES: u64 = 3;

/// The load of a fault on one assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The assumption.
    pub what: Bounded,
    /// How much the fault takes up, in the assumption's unit.
    pub size: u64,
}

/// The load of a fault of the plan, if an assumption could apply to it.
pub fn load(plan: &Plan, fault: &Fault) -> Option<Load> {
    let length = effective(plan, fault);
    let on_node = matches!(&fault.target, Target::Host(host) if plan.nodes().contains(host));
    let on_client = matches!(&fault.target, Target::Host(host) if plan.clients().contains(host));
    let on_resource = matches!(&fault.target, Target::Host(host) if host == RESOURCE);
    if lets_another_lead(plan, fault, length) {
        return Some(Load { what: Bounded::Failover, size: 1 });
    }
    let (what, size) = match &fault.verb {
        Verb::Pause if on_client => (Bounded::ClientPause, length),
        // Messages to a suspended machine are lost: the wait for a retransmission is added.
        Verb::Suspend if on_client => (Bounded::ClientPause, max_outage_delay(length)),
        Verb::Crash | Verb::PowerLoss | Verb::Restart if on_client => (Bounded::ClientCrash, 1),
        Verb::Crash | Verb::PowerLoss | Verb::Restart if on_node => {
            return amnesia(plan, fault, length);
        }
        Verb::ClockStep { by } if on_node => (Bounded::NodeClockStep, by.unsigned_abs()),
        Verb::ClockStep { by } if on_client => (Bounded::ClientClockStep, by.unsigned_abs()),
        Verb::ClockFreeze if on_node => (Bounded::NodeClockStep, length),
        Verb::ClockFreeze if on_client => (Bounded::ClientClockStep, length),
        Verb::ClockRate { ppm } => (Bounded::Drift, u64::from(ppm.unsigned_abs())),
        Verb::Failover => (Bounded::Failover, 1),
        Verb::Evict { .. } | Verb::Flush => (Bounded::KeyRemoval, 1),
        Verb::Partition if reaches_resource(fault) => {
            (Bounded::AccessDelay, max_outage_delay(length))
        }
        Verb::Delay { extra } | Verb::Jitter { extra } if reaches_resource(fault) => {
            (Bounded::AccessDelay, extra.saturating_mul(MESSAGES * directions(fault)))
        }
        Verb::Loss { .. } if reaches_resource(fault) => {
            (Bounded::AccessDelay, max_outage_delay(length).min(MAX_LOSS_DELAY))
        }
        Verb::Pause | Verb::Suspend | Verb::Crash | Verb::PowerLoss | Verb::Restart
            if on_resource =>
        {
            (Bounded::AccessDelay, max_outage_delay(length))
        }
        // Every verb is named, so that a new one has to be thought of.
        Verb::Partition
        | Verb::Delay { .. }
        | Verb::Jitter { .. }
        | Verb::Loss { .. }
        | Verb::CutReply
        | Verb::Reset
        | Verb::Pause
        | Verb::Suspend
        | Verb::Crash
        | Verb::PowerLoss
        | Verb::Restart
        | Verb::ClockStep { .. }
        | Verb::ClockFreeze
        | Verb::SlowNode { .. }
        | Verb::SlowScript { .. }
        | Verb::ReplicaLag { .. }
        | Verb::LyingDisk
        | Verb::TearingDisk
        | Verb::FullDisk => return None,
    };
    Some(Load { what, size })
}

/// How long a fault lasts: a fault that is scheduled at a time is cut short by the heal, and an
/// instantaneous one has no length.
fn effective(plan: &Plan, fault: &Fault) -> Nanos {
    if fault.verb.is_momentary() {
        return 0;
    }
    let length = fault.length.unwrap_or(plan.heal_at);
    match fault.anchor {
        Anchor::At(at) => length.min(plan.heal_at.saturating_sub(at)),
        Anchor::After { .. } => length,
    }
}

fn directions(fault: &Fault) -> u64 {
    if matches!(fault.target, Target::Links { both: true, .. }) { 2 } else { 1 }
}

/// Whether a fault isolates a node long enough for the others to replace it: from a quorum of
/// Sentinels, or from nodes of its cluster.
fn lets_another_lead(plan: &Plan, fault: &Fault, length: Nanos) -> bool {
    let Topology { sentinels, shards, .. } = &plan.topology;
    let patience = sentinels.map(|them| them.down_after).or(shards.map(|them| them.node_timeout));
    if patience.is_none_or(|patience| length <= patience) {
        return false;
    }
    match (&fault.verb, &fault.target) {
        // A node that must sync before each reply exits when it cannot, and so does a cluster node
        // that cannot save its cluster state.
        (Verb::FullDisk, Target::Host(host)) => {
            let must_write = plan.topology.persistence == Persistence::AofAlways;
            (must_write || shards.is_some()) && plan.nodes().contains(host)
        }
        (Verb::Pause | Verb::Suspend | Verb::Crash | Verb::PowerLoss, Target::Host(host)) => {
            plan.nodes().contains(host)
        }
        (Verb::Partition, Target::Links { from, to, .. }) => {
            cuts_off(plan, from, to) || cuts_off(plan, to, from)
        }
        _ => false,
    }
}

/// Whether a node on one side is cut off from enough nodes on the other that would replace it.
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

/// A node that restarts without keys that it had acknowledged. The figure is its down time.
fn amnesia(plan: &Plan, fault: &Fault, down: Nanos) -> Option<Load> {
    let persistence = plan.topology.persistence;
    let of_disk = |verb: Verb| {
        plan.faults.iter().any(|other| other.verb == verb && other.target == fault.target)
    };
    let forgets = match fault.verb {
        Verb::PowerLoss => persistence != Persistence::AofAlways || of_disk(Verb::LyingDisk),
        // A node that must sync before each reply exits before it acknowledges a rejected write.
        _ if persistence == Persistence::AofAlways => false,
        // Other nodes acknowledge writes even if a full disk rejects them.
        _ => matches!(persistence, Persistence::None | Persistence::Rdb) || of_disk(Verb::FullDisk),
    };
    forgets.then_some(Load { what: Bounded::AmnesiacRestart, size: down })
}

fn reaches_resource(fault: &Fault) -> bool {
    matches!(fault.target, Target::Links { .. }) && fault.target.hosts().contains(&RESOURCE)
}

/// The assumptions of `promise` that the plan's faults are likely to breach.
///
/// Pauses and late accesses use up the same lease, so they are added up for each client. A node's
/// amnesia breaches its assumption when the down time is *shorter* than the bound.
pub fn breaks(plan: &Plan, promise: &Promise) -> BTreeSet<Bounded> {
    let bound = |what| bound_of(&promise.assumes, what);
    let mut sums: BTreeMap<Bounded, u64> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for load in plan.faults.iter().filter_map(|fault| load(plan, fault)) {
        let sum = sums.entry(load.what).or_default();
        *sum = match load.what {
            Bounded::ClientCrash | Bounded::Failover | Bounded::KeyRemoval => *sum + load.size,
            Bounded::NodeClockStep | Bounded::ClientClockStep => *sum + load.size,
            _ => (*sum).max(load.size),
        };
        let is_short = |bound| load.what == Bounded::AmnesiacRestart && load.size < bound;
        if bound(load.what).is_some_and(is_short) {
            found.insert(load.what);
        }
    }
    sums.remove(&Bounded::AmnesiacRestart);
    sums.insert(Bounded::Drift, relative_drift(plan));
    sums.insert(Bounded::Skew, skew(plan));
    for client in plan.clients() {
        let (paused, late) = taken_from(plan, &client);
        let known = sums.entry(Bounded::AccessDelay).or_default();
        *known = (*known).max(late);
        let known = sums.entry(Bounded::ClientPause).or_default();
        *known = (*known).max(if paused > 0 { paused + late } else { 0 });
    }
    found.extend(sums.into_iter().filter_map(|(what, sum)| (sum > bound(what)?).then_some(what)));
    found
}

/// The total time for which pauses stop a client, and the total delay of its accesses.
fn taken_from(plan: &Plan, client: &str) -> (Nanos, Nanos) {
    let (mut paused, mut late) = (0_u64, 0_u64);
    for fault in &plan.faults {
        let hosts = fault.target.hosts();
        let is_met = hosts.contains(&client) || hosts == [RESOURCE];
        let Some(load) = load(plan, fault).filter(|_| is_met) else { continue };
        match load.what {
            Bounded::ClientPause => paused = paused.saturating_add(load.size),
            Bounded::AccessDelay => late = late.saturating_add(load.size),
            _ => {}
        }
    }
    (paused, late)
}

/// The maximum difference of wall clocks at the start between any two hosts, ns.
fn skew(plan: &Plan) -> Nanos {
    let offsets = plan.clocks.values().map(|clock| clock.wall_offset);
    let (least, most) = offsets.fold((0, 0), |(a, b), off| (a.min(off), b.max(off)));
    most.abs_diff(least)
}

/// The maximum difference of rates between any two hosts, in parts per million.
fn relative_drift(plan: &Plan) -> u64 {
    let faults = plan.faults.iter().filter_map(|fault| match fault.verb {
        Verb::ClockRate { ppm } => Some(ppm),
        _ => None,
    });
    let rates = plan.clocks.values().map(|clock| clock.rate_ppm).chain(faults);
    let (least, most) = rates.fold((0, 0), |(a, b), rate| (a.min(rate), b.max(rate)));
    u64::from(most.abs_diff(least))
}

/// Keeps as many of the plan's faults, from the first on, as are likely to breach nothing together.
/// A fault that lasts too long becomes as long as the assumptions allow. A fault that waits for one
/// that is not kept is not kept either.
pub fn keep_within(plan: &mut Plan, promise: &Promise) {
    let all = std::mem::take(&mut plan.faults);
    for fault in all {
        let waits_for = fault.anchor.other_fault();
        let is_kept = |id| plan.faults.iter().any(|fault| fault.id == id);
        if waits_for.is_some_and(|id| !is_kept(id)) {
            continue;
        }
        let length = fault.length.map_or(0, |length| length / MILLISECOND);
        plan.faults.push(fault);
        if breaks(plan, promise).is_empty() {
            continue;
        }
        // The longest length, in ms, that breaches nothing.
        let (mut fits, mut breaches) = (0, length);
        while breaches > fits + 1 {
            let middle = u64::midpoint(fits, breaches);
            set_length(plan, middle * MILLISECOND);
            *(if breaks(plan, promise).is_empty() { &mut fits } else { &mut breaches }) = middle;
        }
        match fits {
            0 => drop(plan.faults.pop()),
            _ => set_length(plan, fits * MILLISECOND),
        }
    }
}

fn set_length(plan: &mut Plan, length: Nanos) {
    if let Some(last) = plan.faults.last_mut() {
        last.length = Some(length);
    }
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
    use lockstorm_platform::time::{MILLISECOND, SECOND};

    use super::{Load, keep_within, load};
    use crate::plan::base_plan::base_plan;
    use crate::plan::{Persistence, TopologyKind};
    use crate::promise::Bounded;

    #[test]
    fn what_keeps_a_node_from_its_cluster_for_the_time_out_can_make_a_replica_master() {
        let plan = base_plan("token-lua", TopologyKind::Cluster);
        let timeout = plan.topology.shards.expect("it is a cluster").node_timeout;
        let lets = |verb, target: &str, length| {
            let target = Target::try_from(target.to_owned()).expect("a target");
            let fault =
                Fault { id: 1, verb, target, anchor: Anchor::At(SECOND), length: Some(length) };
            load(&plan, &fault) == Some(Load { what: Bounded::Failover, size: 1 })
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

    #[test]
    fn what_lasts_too_long_is_shortened_and_what_breaches_at_any_length_is_left_out() {
        let mut plan = base_plan("token-lua", TopologyKind::Single);
        let promise = crate::run::Lab::default().promise(&plan);
        let fault = |id, verb, target: &str| {
            let target = Target::Host(target.to_owned());
            Fault { id, verb, target, anchor: Anchor::At(0), length: Some(9 * SECOND) }
        };
        plan.faults = vec![fault(1, Verb::ClockFreeze, "n1"), fault(2, Verb::Pause, "c1")];
        keep_within(&mut plan, &promise);
        // 3 s, less a timeout of 300 ms, 600 ms of work and six messages of 5 ms.
        let kept: Vec<_> = plan.faults.iter().map(|fault| (fault.id, fault.length)).collect();
        assert_eq!(kept, [(2, Some(2_070 * MILLISECOND))]);
    }

    #[test]
    fn a_crash_on_a_full_disk_forgets_unless_each_reply_waits_for_the_disk() {
        let forgets = |persistence, verb| {
            let mut plan = base_plan("token-lua", TopologyKind::Single);
            plan.topology.persistence = persistence;
            let on = |id, verb, length| {
                let target = Target::Host("n1".to_owned());
                Fault { id, verb, target, anchor: Anchor::At(SECOND), length: Some(length) }
            };
            plan.faults = vec![on(1, Verb::FullDisk, SECOND), on(2, verb, MILLISECOND)];
            let size = MILLISECOND;
            load(&plan, &plan.faults[1]) == Some(Load { what: Bounded::AmnesiacRestart, size })
        };
        assert!(forgets(Persistence::AofEverysec, Verb::Crash));
        assert!(!forgets(Persistence::AofAlways, Verb::Crash), "it would have ended before");
        assert!(forgets(Persistence::None, Verb::Crash));
    }
}
