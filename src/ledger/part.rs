//! The parts that can be removed from a plan, to see how it runs without them.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::{Anchor, Fault, Pattern};
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, Nanos};
use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::ledger::overwork::{fit, overworked, works};
use crate::plan::{Files, Persistence, Plan};
use crate::promise::Promise;
use crate::workload::finds_node;

/// A whole fault, or an initial condition of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The fault with this number.
    Fault(u32),
    /// Clocks with a wrong rate from the start.
    Clocks,
    /// Links that lose messages from the start.
    Loss,
    /// Work that outlasts its lease; without it no caller works for longer than this many ns. Zero
    /// stands for time-outs, messages and work that together leave nothing of the lease: without
    /// them all three are changed.
    Work(Nanos),
    /// A time-out of requests other than the lock's own; without it the lock has its default.
    Timeout,
    /// Wall clocks with a wrong initial time.
    Offsets,
    /// Message times that vary; without it each message takes the median.
    Jitter,
    /// Links with latencies of their own.
    Links,
    /// Links slower than those of one site; without it each message takes a millisecond.
    Latency,
    /// Disks that lose writes; without it each write is on the disk before the reply is sent.
    Persistence,
    /// Nodes that reply like another server than the default one.
    Compat,
}

impl Part {
    /// The number of the fault, if it is one.
    pub fn fault(self) -> Option<u32> {
        match self {
            Part::Fault(id) => Some(id),
            _ => None,
        }
    }
}

/// Parts that are removed together.
pub type Parts = BTreeSet<Part>;

/// Every part of a plan to which an assumption of its lock may apply, in order.
pub fn parts_of(plan: &Plan, promise: &Promise) -> Vec<Part> {
    let mut parts: Vec<Part> = plan.faults.iter().map(|fault| Part::Fault(fault.id)).collect();
    if plan.clocks.values().any(|clock| clock.rate_ppm != 0) {
        parts.push(Part::Clocks);
    }
    if plan.links.loss_per_million > 0 {
        parts.push(Part::Loss);
    }
    parts.extend(overworked(plan, promise).map(|overwork| Part::Work(overwork.bound)));
    parts.sort_unstable();
    parts
}

/// The maximum median latency of links that are not slow, ns: machines of one site.
const MAX_OF_ONE_SITE: Nanos = 10 * MILLISECOND;

/// Every part of a plan, whether or not an assumption applies to it, in order.
pub fn every_part_of(plan: &Plan, promise: &Promise) -> Vec<Part> {
    let mut parts = parts_of(plan, promise);
    let (topology, links) = (&plan.topology, &plan.links);
    let is_slow = links.latency.median() > MAX_OF_ONE_SITE || !links.named.is_empty();
    if is_slow && !finds_node(plan) {
        // The links themselves are the part.
        parts.retain(|part| *part != Part::Work(0));
    }
    let forgets = topology.persistence != Persistence::AofAlways;
    let loses = |fault: &Fault| fault.verb.kills();
    let is_there = [
        (Part::Offsets, plan.clocks.values().any(|clock| clock.wall_offset != 0)),
        (Part::Jitter, links.latency.constant().is_none()),
        (Part::Links, !links.named.is_empty()),
        (Part::Latency, links.latency.median() > MAX_OF_ONE_SITE),
        // Only a start reads what a disk kept.
        (Part::Persistence, forgets && plan.faults.iter().any(loses)),
        (Part::Compat, topology.compat != Default::default()),
    ];
    parts.extend(is_there.into_iter().filter_map(|(part, is_there)| is_there.then_some(part)));
    parts
}

/// Every part of a plan that is removed alone to see what makes the difference: time-outs, messages
/// and work are three parts, where an assumption knows one.
pub fn single_parts_of(plan: &Plan, promise: &Promise) -> Vec<Part> {
    let mut parts = every_part_of(plan, promise);
    if overworked(plan, promise).is_none_or(|overwork| overwork.bound > 0) {
        return parts;
    }
    parts.retain(|part| *part != Part::Work(0));
    let half = plan.longest_ttl() / 2;
    let is_slow = plan.links.latency.median() > MILLISECOND;
    let is_there = [
        (Part::Timeout, plan.lock.timeout.is_some()),
        (Part::Latency, is_slow && !parts.contains(&Part::Latency)),
        (Part::Work(half), half > 0 && works(plan) > half),
    ];
    parts.extend(is_there.into_iter().filter_map(|(part, is_there)| is_there.then_some(part)));
    parts
}

/// When each fault struck, in true ns, by its number.
pub type Strikes = BTreeMap<u32, Nanos>;

/// When each fault of a run first struck.
pub fn strikes(history: &History) -> Strikes {
    let mut strikes = Strikes::new();
    for condition in &history.conditions {
        strikes.entry(condition.fault).or_insert(condition.from.at);
    }
    strikes
}

/// How long a fault lasts in the plan's own run, given when it struck: to the heal at most. `None`
/// if it has no length and never struck.
pub fn lasts(plan: &Plan, fault: &Fault, struck: &Strikes) -> Option<Nanos> {
    let room = struck.get(&fault.id).map(|at| plan.heal_at.saturating_sub(*at));
    match (fault.length, room) {
        (Some(length), Some(room)) => Some(length.min(room)),
        (length, room) => length.or(room),
    }
}

/// The plan with the lengths that count: a fault that the heal cuts short is as long as it lasts.
pub fn lasting(plan: &Plan, struck: &Strikes) -> Plan {
    let mut lasting = plan.clone();
    for fault in lasting.faults.iter_mut().filter(|fault| fault.length.is_some()) {
        fault.length = lasts(plan, fault, struck);
    }
    lasting
}

/// The plan without these parts. The other faults keep their numbers and their draws; a fault that
/// is anchored to a removed fault strikes when it did in the plan's own run, as given by `struck`.
pub fn without(plan: &Plan, out: &BTreeSet<Part>, struck: &Strikes) -> Plan {
    let mut plan = plan.clone();
    for part in out {
        take_out(&mut plan, *part);
    }
    for fault in &mut plan.faults {
        let at = struck.get(&fault.id).filter(|_| waits_for(fault, out));
        fault.anchor = at.map_or(fault.anchor.clone(), |at| Anchor::At(*at));
    }
    plan
}

fn take_out(plan: &mut Plan, part: Part) {
    match part {
        Part::Fault(id) => plan.faults.retain(|fault| fault.id != id),
        Part::Clocks => plan.clocks.values_mut().for_each(|clock| clock.rate_ppm = 0),
        Part::Offsets => plan.clocks.values_mut().for_each(|clock| clock.wall_offset = 0),
        Part::Loss => plan.links.loss_per_million = 0,
        Part::Work(bound) => fit(plan, bound),
        Part::Timeout => plan.lock.timeout = None,
        Part::Jitter => {
            plan.links.latency = Latency::Constant(plan.links.latency.median());
        }
        Part::Links => plan.links.named.clear(),
        Part::Latency => plan.links.latency = Latency::Constant(MILLISECOND),
        Part::Persistence => {
            plan.topology.persistence = Persistence::AofAlways;
            plan.topology.files = Files::default();
        }
        Part::Compat => plan.topology.compat = Default::default(),
    }
}

/// Whether a fault is anchored to one of these.
fn waits_for(fault: &Fault, out: &BTreeSet<Part>) -> bool {
    let Anchor::After { event: Pattern::Fault { id, .. }, .. } = fault.anchor else { return false };
    out.contains(&Part::Fault(id))
}
