//! From which figure on a violation is there, found by running: a bisection on the same draws, and
//! a look for gaps on both sides of what it found.

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
    /// How long a fault lasts.
    Lasts(u32),
    /// The figure of a fault.
    Figure(u32),
    /// How far a host's wall clock is ahead at the start.
    Offset(String),
    /// How fast a host's clocks run from the start.
    Rate(String),
    /// Messages that every link loses.
    Loss,
    /// A length that the plan is set up with.
    Set(&'static str),
}

/// A length of a plan by its place, and how it is read and set.
struct Length {
    name: &'static str,
    /// The least difference that it can have.
    step: Nanos,
    read: fn(&Plan) -> Option<Nanos>,
    set: fn(&mut Plan, Nanos),
}

/// The lengths that a plan is set up with.
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
        // A node counts whole seconds.
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
    /// What it is called: `fault:1.for`, `lock.ttl`.
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

/// Every knob that a plan has, in order. What a fault does until the heal has a length as well.
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

/// The knobs that an explanation asks about: those of the parts that made the difference, and the
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

/// A plan whose knob is turned, and what came of that.
struct Dial<'a> {
    lab: &'a Lab,
    plan: &'a Plan,
    struck: &'a Strikes,
    /// Whether the plan is violated as it is.
    is_violated: bool,
    knob: &'a Knob,
    known: BTreeMap<i64, Option<bool>>,
    /// Figures with which the run tells nothing: they hold, as far as anybody can say.
    untested: BTreeSet<i64>,
}

/// What can be said of a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is a threshold, or one on either side.
    Thresholds(Vec<Threshold>),
    /// It makes no difference.
    Everywhere(Steady),
}

/// The thresholds of each of these knobs, and how many plans were run: between figures with which
/// nothing is violated and those with which something is, of a plan that is violated or holds.
/// Figures that make no valid plan are passed over; one with which nothing is tested holds, and
/// that is said.
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
        let mut dial = Dial { lab, plan, struck, is_violated, knob, known, untested };
        let name = format!("the threshold of {}", knob.name(plan));
        let found = spending.within(&name, || dial.search())??;
        let runs = dial.known.len();
        Some((knob.clone(), found, u32::try_from(runs).unwrap_or(u32::MAX)))
    };
    knobs.par_iter().filter_map(search).collect()
}

/// How often a figure is doubled in the search for where it makes the difference.
const DOUBLINGS: u32 = 4;
/// The same of a plan that holds: a small figure may be far from where it breaks.
const DOUBLINGS_UP: u32 = 8;
/// Figures that are looked at on each side, to see whether the threshold is the only one.
const LOOKS: i64 = 12;

impl Dial<'_> {
    fn search(&mut self) -> Option<Found> {
        let own = self.read()?;
        let down = (1..=DOUBLINGS).map(|times| own / (1 << times));
        let most = if self.is_violated { DOUBLINGS } else { DOUBLINGS_UP };
        let up = (1..=most).filter_map(|times| own.checked_mul(1 << times));
        // What a fault does, nothing of it does not; a length of the setup may be too long or too
        // short, and nothing of it is another setup.
        let ways: Vec<Vec<i64>> = match self.knob {
            _ if !self.is_violated => vec![up.collect()],
            Knob::Set(_) => vec![up.collect(), down.collect()],
            // Who is down for longer may have nothing left to forget.
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
                Ok((holds, breaks)) => {
                    let last = *way.last().expect("a way has figures");
                    found.push(self.threshold(own, (holds, breaks), last));
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

    /// The first figures of a way between which the violation goes, or comes where there is none;
    /// else the farthest at which all is as it was.
    fn flips(&mut self, own: i64, way: &[i64]) -> Result<(i64, i64), i64> {
        let (mut near, was_there) = (own, self.is_violated);
        for figure in way {
            let figure = figure / self.step() * self.step();
            match self.is_there(figure) {
                Some(is_there) if is_there == was_there => near = figure,
                Some(true) => return Ok(self.bisect(near, figure)),
                Some(false) => return Ok(self.bisect(figure, near)),
                None => {}
            }
        }
        Err(near)
    }

    /// Two neighbouring figures between which the violation comes; farther apart where what is
    /// between them makes no plan.
    fn bisect(&mut self, mut holds: i64, mut breaks: i64) -> (i64, i64) {
        let step = self.step();
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

    /// A threshold, and where it is not the only one: looked for as far as the way goes, and beyond
    /// the plan's own figure where more of it can be had.
    fn threshold(&mut self, own: i64, (holds, breaks): (i64, i64), last: i64) -> Threshold {
        let (of, unit) = (self.knob.name(self.plan), self.unit());
        // A setting is looked at on the way to the plan's own figure alone, and so is what lasts to
        // the heal, or what a longer time has healed.
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

    /// Of a dozen figures from one to another those at which it is not as it should be, in order.
    fn wrong(
        &mut self,
        (from, to): (i64, i64),
        (holds, breaks): (i64, i64),
        should: bool,
    ) -> Vec<i64> {
        let step = self.step();
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

    /// Whether something is violated with this figure; `None` if there is no such plan.
    fn is_there(&mut self, figure: i64) -> Option<bool> {
        if let Some(known) = self.known.get(&figure) {
            return *known;
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

    /// The least difference that is looked at: a millisecond, what else a setting is counted in, or
    /// one part of a million.
    fn step(&self) -> i64 {
        let length = match self.knob {
            Knob::Set(name) => LENGTHS.iter().find(|row| row.name == *name).map(|row| row.step),
            _ => None,
        };
        match self.unit() {
            Unit::Length | Unit::Shift => length.unwrap_or(MILLISECOND).cast_signed(),
            Unit::Share | Unit::Rate => 1,
        }
    }
}

/// A plan with a knob at this figure, if there is such a plan.
pub fn turned(lab: &Lab, (plan, struck): (&Plan, &Strikes), knob: &Knob, to: i64) -> Option<Plan> {
    if let (Knob::Lasts(id) | Knob::Figure(id), 0) = (knob, to) {
        // Who waits for the fault strikes when it did.
        let plan = without(plan, &[Part::Fault(*id)].into(), struck);
        return plan.validate_with(&lab.locks).is_ok().then_some(plan);
    }
    let mut plan = plan.clone();
    let length = Nanos::try_from(to);
    match knob {
        Knob::Lasts(id) => {
            let fault = plan.faults.iter_mut().find(|fault| fault.id == *id)?;
            let length = length.ok()?;
            fault.length = Some(length);
            // The heal is put off, or it would cut the fault short.
            let over = struck.get(id)?.saturating_add(length);
            let late = over.saturating_sub(plan.heal_at);
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
            // The probe waits for the longest lease.
            plan.until += plan.longest_ttl().saturating_sub(probed);
        }
    }
    plan.validate_with(&lab.locks).is_ok().then_some(plan)
}
