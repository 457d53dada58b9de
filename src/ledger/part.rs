//! The parts that can be removed from a plan, to see how it runs without them.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::{Anchor, Fault};
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{ClockSetting, MILLISECOND, Nanos};
use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::ledger::overwork::{fit, overworked, works};
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::{Files, Persistence, Plan};
use crate::promise::Promise;
use crate::workload::{finds_node, first_request, work};

/// A whole fault, or an initial condition of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The fault with this number.
    Fault(u32),
    /// All clocks with a wrong rate from the start.
    Clocks,
    /// The wrong rate of one clock, by its place among the plan's.
    Rate(usize),
    /// Links that lose messages from the start.
    Loss,
    /// Work that outlasts its lease; without it no caller works for longer than this many ns. Zero
    /// stands for time-outs, messages and work that together leave nothing of the lease: without it
    /// all three are changed, unless a smaller set of them is enough.
    Work(Nanos),
    /// The time-out of requests; without it, it is this many ns.
    Timeout(Nanos),
    /// All wall clocks with a wrong initial time.
    Offsets,
    /// The wrong initial time of one wall clock, by its place among the plan's clocks.
    Offset(usize),
    /// Message times that vary; without it each message takes this many ns.
    Jitter(Nanos),
    /// All links with latencies of their own.
    Links,
    /// The latency of one named link, by its place among the plan's, and of its way back if that
    /// takes the same time.
    Link(usize),
    /// Links slower than those of one site; without it each message takes a millisecond.
    Latency,
    /// Disks that lose writes; without it each write is on the disk before the reply is sent.
    Persistence,
    /// Nodes that reply like another server than the default one.
    Compat,
    /// Callers that do not heed the answers of their lock.
    Misuse,
}

impl Part {
    /// The number of the fault, if it is one.
    pub fn fault(self) -> Option<u32> {
        match self {
            Part::Fault(id) => Some(id),
            _ => None,
        }
    }

    /// Whether a plan without this part lacks the other one, too: all clocks include each clock.
    pub fn includes(self, other: Part) -> bool {
        use Part::{Clocks, Latency, Link, Links, Offset, Offsets, Rate, Timeout, Work};
        match (self, other) {
            (Clocks, Rate(_)) | (Offsets, Offset(_)) | (Links, Link(_)) | (Work(_), Work(_)) => {
                true
            }
            (Work(0), Timeout(_) | Latency) => true,
            _ => self == other,
        }
    }

    /// Whether this is, or includes, the wrong initial time of a host's wall clock.
    pub fn has_offset_of(self, plan: &Plan, host: &str) -> bool {
        match self {
            Part::Offsets => true,
            Part::Offset(place) => clock_at(plan, place).is_some_and(|(name, _)| name == host),
            _ => false,
        }
    }

    /// Whether this is, or includes, the wrong rate of a host's clock.
    pub fn has_rate_of(self, plan: &Plan, host: &str) -> bool {
        match self {
            Part::Clocks => true,
            Part::Rate(place) => clock_at(plan, place).is_some_and(|(name, _)| name == host),
            _ => false,
        }
    }

    /// Whether this is, or includes, the latency of a named link.
    pub fn has_latency_of(self, plan: &Plan, link: &str) -> bool {
        match self {
            Part::Links => true,
            Part::Link(place) => link_at(plan, place)
                .is_some_and(|(name, back, _)| name == link || back.as_deref() == Some(link)),
            _ => false,
        }
    }
}

/// The host with this place among the clocks of a plan, and its clock.
pub fn clock_at(plan: &Plan, place: usize) -> Option<(&str, ClockSetting)> {
    plan.clocks.iter().nth(place).map(|(host, clock)| (host.as_str(), *clock))
}

/// The named link with this place in a plan, the way back if that takes the same time, and the
/// latency of both.
pub fn link_at(plan: &Plan, place: usize) -> Option<(String, Option<String>, Latency)> {
    let named = &plan.links.named;
    let (name, latency) = named.iter().nth(place)?;
    let back = name.split_once(" -> ").map(|(from, to)| format!("{to} -> {from}"));
    let back = back.filter(|back| named.get(back) == Some(latency));
    Some((name.clone(), back, *latency))
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
    if plan.workload.buggy_caller != BuggyCaller::None {
        parts.push(Part::Misuse);
    }
    parts.sort_unstable();
    parts
}

/// Whether some wall clock shows a wrong time at the start.
fn is_off(plan: &Plan) -> bool {
    plan.clocks.values().any(|clock| clock.wall_offset != 0)
}

/// Whether messages vary by more than those between machines of one site always do: that is no
/// cause, though another time of one message may tip a close race.
fn varies(latency: Latency) -> bool {
    latency.constant().is_none() && latency.of(u64::MAX) > MAX_OF_ONE_SITE
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
        (Part::Offsets, is_off(plan)),
        (Part::Jitter(links.latency.median()), varies(links.latency)),
        (Part::Links, !links.named.is_empty()),
        (Part::Latency, links.latency.median() > MAX_OF_ONE_SITE),
        // Only a start reads what a disk kept.
        (Part::Persistence, forgets && plan.faults.iter().any(loses)),
        (Part::Compat, topology.compat != Default::default()),
    ];
    parts.extend(is_there.into_iter().filter_map(|(part, is_there)| is_there.then_some(part)));
    parts
}

/// The same part. But if the median of varying message times is too long for the reply to a
/// caller's first request to be in time, the part sets a message time that is short enough.
/// `usually` is the default time-out, ns.
pub fn in_time(plan: &Plan, part: Part, usually: Nanos) -> Part {
    let most = plan.lock.timeout.unwrap_or(usually) / first_request(plan);
    let whole_ms = most - most % MILLISECOND;
    match part {
        Part::Jitter(takes) if takes > most && whole_ms > 0 => Part::Jitter(whole_ms),
        Part::Jitter(takes) if takes > most => Part::Jitter(most.max(1)),
        other => other,
    }
}

/// Every part of a plan that is removed alone to see what makes the difference, in order. What an
/// assumption treats as one part is split: into each clock, into each named link, and into
/// time-outs, messages and work. `usually` is the default time-out of its lock's requests, ns.
pub fn single_parts_of(plan: &Plan, promise: &Promise, usually: Nanos) -> Vec<Part> {
    let mut parts = every_part_of(plan, promise);
    if overworked(plan, promise).is_some_and(|overwork| overwork.bound == 0) {
        parts.retain(|part| *part != Part::Work(0));
        let half = plan.longest_ttl() / 2;
        let work = (half > 0 && works(plan) > half).then_some(Part::Work(half));
        let settings = settings_of(plan, usually).into_iter().chain(work);
        parts.extend(settings.filter(|part| !parts.contains(part)).collect::<Vec<_>>());
    }
    for lump in [Part::Clocks, Part::Offsets, Part::Links] {
        split(plan, &mut parts, lump);
    }
    parts.sort_unstable();
    parts
}

/// The settings that may leave nothing of a lease for any work: time-out and messages. `usually` is
/// the default time-out of the plan's lock, ns.
pub fn settings_of(plan: &Plan, usually: Nanos) -> Vec<Part> {
    let reply = Some(work(plan).reply).filter(|reply| *reply < Nanos::MAX);
    let enough = usually.max(reply.unwrap_or(0));
    let is_there = [
        (Part::Timeout(enough), plan.lock.timeout.unwrap_or(usually) != enough),
        (Part::Latency, plan.links.latency.median() > MILLISECOND),
    ];
    is_there.into_iter().filter_map(|(part, is_there)| is_there.then_some(part)).collect()
}

/// Every subset of this size, in order.
pub fn subsets<T: Copy + Ord>(of: &[T], size: usize) -> Vec<BTreeSet<T>> {
    if size == 0 {
        return vec![BTreeSet::new()];
    }
    let mut found = Vec::new();
    for (index, first) in of.iter().enumerate() {
        for mut rest in subsets(&of[index + 1..], size - 1) {
            rest.insert(*first);
            found.push(rest);
        }
    }
    found
}

/// The maximum number of clocks, or of named links, that are parts of their own.
const MAX_SPLIT: usize = 6;
/// The maximum number of parts after a split, because sets of parts are tried.
const MAX_PARTS: usize = 12;

/// Replaces a part of several clocks or links by one part for each, unless those are too many.
fn split(plan: &Plan, parts: &mut Vec<Part>, lump: Part) {
    let each = each_of(plan, lump);
    let is_much = each.len() > MAX_SPLIT || parts.len() + each.len() > MAX_PARTS + 1;
    if parts.contains(&lump) && (each.len() == 1 || !is_much) {
        parts.retain(|part| *part != lump);
        parts.extend(each);
    }
}

fn each_of(plan: &Plan, lump: Part) -> Vec<Part> {
    let clocks = plan.clocks.values().enumerate();
    match lump {
        Part::Clocks => clocks
            .filter_map(|(place, clock)| (clock.rate_ppm != 0).then_some(Part::Rate(place)))
            .collect(),
        Part::Offsets => clocks
            .filter_map(|(place, clock)| (clock.wall_offset != 0).then_some(Part::Offset(place)))
            .collect(),
        Part::Links => (0..plan.links.named.len())
            .filter(|place| {
                let link = link_at(plan, *place);
                // The first of the two stands for both.
                link.is_some_and(|(name, back, _)| back.is_none_or(|back| name <= back))
            })
            .map(Part::Link)
            .collect(),
        other => vec![other],
    }
}

/// When each fault struck, in true ns, by its number.
pub type Strikes = BTreeMap<u32, Nanos>;

/// When each fault of a run first struck.
pub fn strikes(history: &History) -> Strikes {
    let mut strikes = Strikes::new();
    for interval in &history.fault_intervals {
        strikes.entry(interval.fault).or_insert(interval.from.at);
    }
    strikes
}

/// How long a fault lasts in the plan's own run, given when it struck: to the heal at most. `None`
/// if it is momentary, or has no length and never struck.
pub fn lasts(plan: &Plan, fault: &Fault, struck: &Strikes) -> Option<Nanos> {
    if fault.verb.is_momentary() {
        return None;
    }
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
    let mut less = plan.clone();
    for part in out {
        take_out(plan, &mut less, *part);
    }
    for fault in &mut less.faults {
        let at = struck.get(&fault.id).filter(|_| waits_for(fault, out));
        fault.anchor = at.map_or(fault.anchor.clone(), |at| Anchor::At(*at));
    }
    less
}

/// Removes a part of `whole` from `plan`, which lacks other parts already.
fn take_out(whole: &Plan, plan: &mut Plan, part: Part) {
    let clock = |plan: &mut Plan, place, set: fn(&mut ClockSetting)| {
        plan.clocks.values_mut().nth(place).into_iter().for_each(set);
    };
    match part {
        Part::Fault(id) => plan.faults.retain(|fault| fault.id != id),
        Part::Clocks => plan.clocks.values_mut().for_each(|clock| clock.rate_ppm = 0),
        Part::Rate(place) => clock(plan, place, |clock| clock.rate_ppm = 0),
        Part::Offset(place) => clock(plan, place, |clock| clock.wall_offset = 0),
        Part::Offsets => plan.clocks.values_mut().for_each(|clock| clock.wall_offset = 0),
        Part::Loss => plan.links.loss_per_million = 0,
        Part::Work(bound) => fit(plan, bound),
        Part::Timeout(to) => plan.lock.timeout = Some(to),
        // Messages that another part of the set has made fast stay so.
        Part::Jitter(_) if plan.links.latency.constant().is_some() => {}
        Part::Jitter(to) => plan.links.latency = Latency::Constant(to),
        Part::Links => plan.links.named.clear(),
        Part::Link(place) => {
            if let Some((name, back, _)) = link_at(whole, place) {
                plan.links.named.retain(|it, _| *it != name && back.as_ref() != Some(it));
            }
        }
        Part::Latency => plan.links.latency = Latency::Constant(MILLISECOND),
        Part::Persistence => {
            plan.topology.persistence = Persistence::AofAlways;
            plan.topology.files = Files::default();
        }
        Part::Compat => plan.topology.compat = Default::default(),
        Part::Misuse => plan.workload.buggy_caller = BuggyCaller::None,
    }
}

/// Whether a fault is anchored to a fault among these parts.
fn waits_for(fault: &Fault, out: &BTreeSet<Part>) -> bool {
    fault.anchor.other_fault().is_some_and(|id| out.contains(&Part::Fault(id)))
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::network::Latency;
    use lockstorm_platform::time::MILLISECOND;

    use super::{Part, every_part_of};
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::base_plan;
    use crate::run::Lab;

    #[test]
    fn messages_that_vary_as_they_always_do_are_no_cause() {
        let mut plan = base_plan("token-lua", TopologyKind::Single);
        let mut varies = |latency| {
            plan.links.latency = latency;
            let parts = every_part_of(&plan, &Lab::default().promise(&plan));
            parts.iter().any(|part| matches!(part, Part::Jitter(_)))
        };
        assert!(!varies(Latency::Uniform { min: MILLISECOND, max: 5 * MILLISECOND }));
        assert!(!varies(Latency::Constant(20 * MILLISECOND)));
        assert!(varies(Latency::Uniform { min: MILLISECOND, max: 11 * MILLISECOND }));
        assert!(varies(Latency::LongTail { median: MILLISECOND }));
    }

    #[test]
    fn a_part_includes_what_goes_with_it() {
        use Part::{Clocks, Fault, Latency, Link, Links, Offset, Offsets, Rate, Timeout, Work};
        for (whole, part, is_of) in [
            (Clocks, Rate(1), true),
            (Offsets, Offset(0), true),
            (Links, Link(2), true),
            (Work(0), Timeout(7), true),
            (Work(0), Latency, true),
            (Work(5), Work(7), true),
            (Work(5), Timeout(7), false),
            (Rate(1), Clocks, false),
            (Fault(1), Fault(1), true),
            (Fault(1), Fault(2), false),
        ] {
            assert_eq!(whole.includes(part), is_of, "{whole:?}, {part:?}");
        }
    }
}
