//! The value of a figure from which on a violation occurs, found by runs: a bisection on the same
//! draws, and a search for gaps on both sides of the result.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::Fault;
use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::verdict::Verdict;
use crate::explain::experiment::{Steady, Threshold, Unit};
use crate::explore::budget::Spending;
use crate::explore::trial::judgement;
use crate::ledger::part::{Part, Strikes, without};
use crate::plan::Plan;
use crate::run::Lab;

/// A figure of a plan that can be made larger or smaller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// The length of a fault.
    Lasts(u32),
    /// The figure of a fault.
    Figure(u32),
    /// By how much a host's wall clock is initially ahead.
    Offset(String),
    /// The initial rate of a host's clocks.
    Rate(String),
    /// The share of messages that every link loses.
    Loss,
    /// A length in the setup of the plan.
    Set(&'static str),
}

/// A length of a plan by its path, and how it is read and set.
struct Length {
    name: &'static str,
    /// Its minimum difference.
    step: Nanos,
    read: fn(&Plan) -> Option<Nanos>,
    set: fn(&mut Plan, Nanos),
}

/// The lengths in the setup of a plan.
static LENGTHS: [Length; 9] = [
    Length {
        name: "lock.ttl",
        step: MILLISECOND,
        read: |p| p.lock.ttl,
        set: |p, to| p.lock.ttl = Some(to),
    },
    Length {
        name: "workload.hold",
        step: MILLISECOND,
        read: |p| Some(p.workload.hold),
        set: |p, to| p.workload.hold = to,
    },
    Length {
        name: "lock.timeout",
        step: MILLISECOND,
        read: |p| p.lock.timeout,
        set: |p, to| p.lock.timeout = Some(to),
    },
    Length {
        name: "lock.renew_every",
        step: MILLISECOND,
        read: |p| p.lock.renew_every,
        set: |p, to| p.lock.renew_every = Some(to),
    },
    Length {
        name: "lock.renew_ttl",
        step: MILLISECOND,
        read: |p| p.lock.renew_ttl,
        set: |p, to| p.lock.renew_ttl = Some(to),
    },
    Length {
        name: "lock.ack_timeout",
        step: MILLISECOND,
        read: |p| p.lock.ack_timeout,
        set: |p, to| p.lock.ack_timeout = Some(to),
    },
    Length {
        name: "topology.min_replicas_lag",
        // A node counts in whole seconds.
        step: SECOND,
        read: |p| p.topology.min_replicas.map(|least| least.max_lag),
        set: |p, to| p.topology.min_replicas.iter_mut().for_each(|least| least.max_lag = to),
    },
    Length {
        name: "topology.down_after",
        step: MILLISECOND,
        read: |p| p.topology.sentinels.map(|sentinels| sentinels.down_after),
        set: |p, to| p.topology.sentinels.iter_mut().for_each(|s| s.down_after = to),
    },
    Length {
        name: "topology.node_timeout",
        step: MILLISECOND,
        read: |p| p.topology.shards.map(|shards| shards.node_timeout),
        set: |p, to| p.topology.shards.iter_mut().for_each(|s| s.node_timeout = to),
    },
];

impl Knob {
    /// Its name: `fault:1.for`, `lock.ttl`.
    pub fn name(&self, plan: &Plan) -> String {
        match self {
            Knob::Lasts(id) => format!("fault:{id}.for"),
            Knob::Figure(id) => {
                let word = fault(plan, *id).and_then(|fault| fault.verb.row().figure);
                format!("fault:{id}.{}", word.unwrap_or("figure"))
            }
            Knob::Offset(host) => format!("clocks.{host}.wall_offset"),
            Knob::Rate(host) => format!("clocks.{host}.rate_ppm"),
            Knob::Loss => "links.loss".to_owned(),
            Knob::Set(name) => (*name).to_owned(),
        }
    }
}

/// Every knob of a plan, in order. A fault that lasts until the heal has a length as well.
pub fn knobs(plan: &Plan) -> Vec<Knob> {
    let mut knobs = Vec::new();
    for fault in &plan.faults {
        if !matches!(fault.verb.figure(), Figure::None | Figure::Key(_)) {
            knobs.push(Knob::Figure(fault.id));
        }
        if !fault.verb.is_momentary() {
            knobs.push(Knob::Lasts(fault.id));
        }
    }
    for (host, clock) in &plan.clocks {
        let offset = (clock.wall_offset != 0).then(|| Knob::Offset(host.clone()));
        let rate = (clock.rate_ppm != 0).then(|| Knob::Rate(host.clone()));
        knobs.extend(offset.into_iter().chain(rate));
    }
    if plan.links.loss_per_million > 0 {
        knobs.push(Knob::Loss);
    }
    let set = LENGTHS.iter().filter(|length| (length.read)(plan).is_some());
    knobs.extend(set.map(|length| Knob::Set(length.name)));
    knobs
}

/// The knobs that an explanation tries: those of the parts that made the difference, and the
/// lengths that every lock and every workload has.
pub fn knobs_of(plan: &Plan, acting: &[Part]) -> Vec<Knob> {
    let mut knobs = knobs(plan);
    knobs.retain(|knob| match knob {
        Knob::Lasts(id) | Knob::Figure(id) => acting.contains(&Part::Fault(*id)),
        Knob::Offset(_) => acting.contains(&Part::Offsets),
        Knob::Rate(_) => acting.contains(&Part::Clocks),
        Knob::Loss => acting.contains(&Part::Loss),
        Knob::Set(_) => true,
    });
    knobs
}

fn fault(plan: &Plan, id: u32) -> Option<&Fault> {
    plan.faults.iter().find(|fault| fault.id == id)
}

/// A plan with a knob, and the results for its values.
struct Dial<'a> {
    lab: &'a Lab,
    plan: &'a Plan,
    struck: &'a Strikes,
    /// Whether the unchanged plan is violated.
    is_violated: bool,
    knob: &'a Knob,
    /// The minimum difference that is tried.
    step: i64,
    known: BTreeMap<i64, Option<bool>>,
    spending: &'a Spending,
    /// Whether the budget was used up before the search was over.
    is_cut: bool,
    /// Values with which the run tests nothing: they count as holding.
    untested: BTreeSet<i64>,
}

/// The result for a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is a threshold, or one on either side.
    Thresholds(Vec<Threshold>),
    /// The knob makes no difference.
    Everywhere(Steady),
}

/// The thresholds of each of these knobs, and the number of plans that were run: between values
/// with which nothing is violated and values with which something is, for a plan that is violated
/// or holds. Values that make no valid plan are skipped; one that tests nothing counts as holding,
/// and is marked.
pub fn thresholds(
    lab: &Lab,
    plan: &Plan,
    struck: &Strikes,
    is_violated: bool,
    knobs: &[Knob],
    spending: &Spending,
) -> Vec<(Knob, Found, u32)> {
    let search = |knob: &Knob| {
        let (known, untested) = (BTreeMap::new(), BTreeSet::new());
        let mut dial = Dial {
            lab,
            plan,
            struck,
            is_violated,
            knob,
            step: 1,
            known,
            spending,
            is_cut: false,
            untested,
        };
        dial.step = dial.least_step();
        let name = format!("the threshold of {}", knob.name(plan));
        let found = spending.within(&name, || dial.search())?;
        if dial.is_cut {
            spending.skip(&name);
            return None;
        }
        let found = found?;
        let runs = dial.known.len();
        Some((knob.clone(), found, u32::try_from(runs).unwrap_or(u32::MAX)))
    };
    knobs.par_iter().filter_map(search).collect()
}

/// How often a value is doubled in the search for a change.
const DOUBLINGS: u32 = 4;
/// The same for a plan that holds: a small value may be far from the one that violates.
const DOUBLINGS_UP: u32 = 8;
/// Values that are tried on each side, to see whether the threshold is the only one.
const LOOKS: i64 = 12;

impl Dial<'_> {
    fn search(&mut self) -> Option<Found> {
        let own = self.read()?;
        let down = (1..=DOUBLINGS).map(|times| own / (1 << times));
        let most = if self.is_violated { DOUBLINGS } else { DOUBLINGS_UP };
        let up = (1..=most).filter_map(|times| own.checked_mul(1 << times));
        // A fault of size zero has no effect. A length of the setup may be too long or too short,
        // and a zero length is another setup.
        let ways: Vec<Vec<i64>> = match self.knob {
            _ if !self.is_violated => vec![up.collect()],
            Knob::Set(_) => vec![up.collect(), down.collect()],
            // A node that is down for longer may have nothing left to forget.
            Knob::Lasts(id)
                if fault(self.plan, *id)
                    .is_some_and(|fault| fault.verb.kills() && fault.length.is_some()) =>
            {
                vec![up.collect(), down.chain([0]).collect()]
            }
            _ => vec![down.chain([0]).collect()],
        };
        let mut found = Vec::new();
        let mut farthest = (own, own);
        for way in ways {
            match self.flips(own, &way) {
                Ok(pair) => {
                    let last = *way.last().expect("a way has figures");
                    found.push(self.first_threshold(own, pair, last));
                }
                Err(far) => farthest = (farthest.0.min(far), farthest.1.max(far)),
            }
        }
        match found.is_empty() {
            true => {
                let (of, unit) = (self.knob.name(self.plan), self.unit());
                Some(Found::Everywhere(Steady { of, unit, own, between: farthest }))
            }
            false => Some(Found::Thresholds(found)),
        }
    }

    /// The threshold that is closest to the plan's own value. For a plan that holds, a smaller value
    /// may break as well: the search goes on there.
    fn first_threshold(&mut self, own: i64, mut pair: (i64, i64), last: i64) -> Threshold {
        let mut found = self.threshold(own, pair, last);
        while let (false, Some(breaks)) = (self.is_violated, found.breaks_again.first().copied()) {
            let near = self.known.range(own.min(breaks)..breaks.max(own));
            let holds = near.filter(|(_, there)| **there == Some(false)).map(|(value, _)| *value);
            let holds = if own < breaks { holds.max() } else { holds.min() };
            pair = self.bisect(holds.unwrap_or(own), breaks);
            if pair.1 == found.breaks {
                break;
            }
            found = self.threshold(own, pair, last);
        }
        found
    }

    /// The first two values of a way between which the violation disappears (or appears, if there
    /// was none); otherwise the furthest value with the unchanged result.
    fn flips(&mut self, own: i64, way: &[i64]) -> Result<(i64, i64), i64> {
        let (mut near, was_there) = (own, self.is_violated);
        for figure in way {
            let figure = figure / self.step * self.step;
            match self.is_there(figure) {
                Some(is_there) if is_there == was_there => near = figure,
                Some(true) => return Ok(self.bisect(near, figure)),
                Some(false) => return Ok(self.bisect(figure, near)),
                None => {}
            }
        }
        Err(near)
    }

    /// Two neighbouring values between which the violation appears; further apart if the values
    /// between them make no valid plan.
    fn bisect(&mut self, mut holds: i64, mut breaks: i64) -> (i64, i64) {
        let step = self.step;
        while (breaks - holds).abs() > step {
            let middle = (holds + (breaks - holds) / 2) / step * step;
            if middle == holds || middle == breaks {
                break;
            }
            match self.is_there(middle) {
                Some(true) => breaks = middle,
                Some(false) => holds = middle,
                None => break,
            }
        }
        (holds, breaks)
    }

    /// A threshold, and where it is not the only one: searched to the end of the way, and beyond
    /// the plan's own value if a larger one is possible.
    fn threshold(&mut self, own: i64, (holds, breaks): (i64, i64), last: i64) -> Threshold {
        let (of, unit) = (self.knob.name(self.plan), self.unit());
        // For a setting, only values towards the plan's own are tried. The same holds for a fault
        // that lasts to the heal, and for one that a longer time makes harmless.
        let is_not_doubled = match self.knob {
            Knob::Lasts(id) => {
                breaks < holds || fault(self.plan, *id).is_some_and(|fault| fault.length.is_none())
            }
            knob => matches!(knob, Knob::Set(_)),
        };
        let (beyond, last) = match (self.is_violated, is_not_doubled) {
            (false, _) => (breaks.saturating_mul(2), own),
            (true, true) => (own, last),
            (true, false) => (own.saturating_mul(2), last),
        };
        Threshold {
            of,
            unit,
            own,
            holds,
            is_untested: self.untested.contains(&holds),
            breaks,
            looked: (last, beyond),
            holds_again: self.wrong((breaks, beyond), (holds, breaks), true),
            breaks_again: self.wrong((holds, last), (holds, breaks), false),
            instead: String::new(),
            bound: None,
        }
    }

    /// Of a dozen values in a range, those whose result differs from the expected one, in order.
    fn wrong(
        &mut self,
        (from, to): (i64, i64),
        (holds, breaks): (i64, i64),
        should: bool,
    ) -> Vec<i64> {
        let step = self.step;
        let figures = (1..=LOOKS).map(|nth| (from + (to - from) / LOOKS * nth) / step * step);
        let mut wrong: Vec<i64> = figures
            .filter(|figure| *figure != holds && *figure != breaks)
            .filter(|figure| self.is_there(*figure) == Some(!should))
            .collect();
        wrong.retain(|figure| !self.untested.contains(figure));
        wrong.sort_unstable();
        wrong.dedup();
        wrong
    }

    /// Whether something is violated with this value; `None` if there is no such plan.
    fn is_there(&mut self, figure: i64) -> Option<bool> {
        if let Some(known) = self.known.get(&figure) {
            return *known;
        }
        self.is_cut |= self.spending.is_used_up();
        if self.is_cut {
            return None;
        }
        let there = self.turned(figure).map(|plan| {
            let verdict = judgement(self.lab, &plan).verdict;
            if let Verdict::Unknown(_) = verdict {
                self.untested.insert(figure);
            }
            matches!(verdict, Verdict::Violated(_))
        });
        self.known.insert(figure, there);
        there
    }

    fn turned(&self, to: i64) -> Option<Plan> {
        turned(self.lab, (self.plan, self.struck), self.knob, to)
    }

    fn read(&self) -> Option<i64> {
        let plan = self.plan;
        match self.knob {
            Knob::Lasts(id) => {
                let healed = || plan.heal_at.checked_sub(*self.struck.get(id)?);
                fault(plan, *id)?.length.or_else(healed)?.try_into().ok()
            }
            Knob::Figure(id) => match fault(plan, *id)?.verb.figure() {
                Figure::Length(ns) => ns.try_into().ok(),
                Figure::Share(share) => Some(share.into()),
                Figure::Shift(by) => Some(by),
                Figure::Rate(ppm) => Some(ppm.into()),
                Figure::None | Figure::Key(_) => None,
            },
            Knob::Offset(host) => Some(plan.clocks.get(host)?.wall_offset),
            Knob::Rate(host) => Some(plan.clocks.get(host)?.rate_ppm.into()),
            Knob::Loss => Some(plan.links.loss_per_million.into()),
            Knob::Set(name) => {
                let row = LENGTHS.iter().find(|row| row.name == *name)?;
                (row.read)(plan)?.try_into().ok()
            }
        }
    }

    fn unit(&self) -> Unit {
        match self.knob {
            Knob::Lasts(_) | Knob::Set(_) => Unit::Length,
            Knob::Offset(_) => Unit::Shift,
            Knob::Rate(_) => Unit::Rate,
            Knob::Loss => Unit::Share,
            Knob::Figure(id) => match fault(self.plan, *id).map(|fault| fault.verb.figure()) {
                Some(Figure::Shift(_)) => Unit::Shift,
                Some(Figure::Rate(_)) => Unit::Rate,
                Some(Figure::Share(_)) => Unit::Share,
                _ => Unit::Length,
            },
        }
    }

    /// The minimum difference: a millisecond, the unit of a setting, or one part per million. It is
    /// a second for a lock that takes its lease in whole seconds: nothing between is a plan.
    fn least_step(&self) -> i64 {
        let length = match self.knob {
            Knob::Set(name) => LENGTHS.iter().find(|row| row.name == *name).map(|row| row.step),
            _ => None,
        };
        let step = match self.unit() {
            Unit::Length | Unit::Shift => length.unwrap_or(MILLISECOND).cast_signed(),
            Unit::Share | Unit::Rate => return 1,
        };
        let second = SECOND.cast_signed();
        let exists = |by: i64| {
            self.read()
                .is_some_and(|own| [own - by, own + by].iter().any(|to| self.turned(*to).is_some()))
        };
        if length.is_some() && !exists(step) && exists(second) { second } else { step }
    }
}

/// A plan with a knob at this value, if there is such a plan.
pub fn turned(lab: &Lab, (plan, struck): (&Plan, &Strikes), knob: &Knob, to: i64) -> Option<Plan> {
    if let (Knob::Lasts(id) | Knob::Figure(id), 0) = (knob, to) {
        // A fault that is anchored to the removed one strikes when it did before.
        let plan = without(plan, &[Part::Fault(*id)].into(), struck);
        return plan.validate_with(&lab.locks).is_ok().then_some(plan);
    }
    let mut plan = plan.clone();
    let length = Nanos::try_from(to);
    match knob {
        Knob::Lasts(id) => {
            let fault = plan.faults.iter_mut().find(|fault| fault.id == *id)?;
            let length = length.ok()?;
            let own = fault.length.replace(length);
            // The heal is postponed: otherwise it would cut the fault short, or come sooner after
            // it than in the plan.
            let over = struck.get(id)?.saturating_add(length);
            let late = own.map_or(0, |own| length.saturating_sub(own));
            let late = late.max(over.saturating_sub(plan.heal_at));
            plan.heal_at += late;
            plan.until += late;
        }
        Knob::Figure(id) => {
            let fault = plan.faults.iter_mut().find(|fault| fault.id == *id)?;
            let figure = match fault.verb.figure() {
                Figure::Length(_) => Figure::Length(length.ok()?),
                Figure::Share(_) => Figure::Share(to.try_into().ok()?),
                Figure::Shift(_) => Figure::Shift(to),
                Figure::Rate(_) => Figure::Rate(to.try_into().ok()?),
                Figure::None | Figure::Key(_) => return None,
            };
            fault.verb = fault.verb.row().verb(figure)?;
        }
        Knob::Offset(host) => plan.clocks.get_mut(host)?.wall_offset = to,
        Knob::Rate(host) => plan.clocks.get_mut(host)?.rate_ppm = to.try_into().ok()?,
        Knob::Loss => plan.links.loss_per_million = to.try_into().ok()?,
        Knob::Set(name) => {
            let row = LENGTHS.iter().find(|row| row.name == *name)?;
            let probed = plan.longest_ttl();
            (row.set)(&mut plan, length.ok().filter(|ns| *ns > 0)?);
            // The probe waits for the maximum lease.
            plan.until += plan.longest_ttl().saturating_sub(probed);
        }
    }
    plan.validate_with(&lab.locks).is_ok().then_some(plan)
}
