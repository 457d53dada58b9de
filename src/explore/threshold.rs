//! The value of a figure from which on a violation occurs, found by runs: a bisection on the same
//! draws, and a search for gaps on both sides of the result.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::time::{MILLISECOND, SECOND};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::verdict::Verdict;
use crate::explain::experiment::{Steady, Threshold, Unit};
use crate::explore::budget::Spending;
use crate::explore::knob::{Knob, LENGTHS, fault, turned};
use crate::explore::trial::judgement;
use crate::ledger::part::Strikes;
use crate::plan::Plan;
use crate::run::Lab;

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
pub enum Located {
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
) -> Vec<(Knob, Located, u32)> {
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
    fn search(&mut self) -> Option<Located> {
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
                Some(Located::Everywhere(Steady { of, unit, own, between: farthest }))
            }
            false => Some(Located::Thresholds(found)),
        }
    }

    /// The threshold that is closest to the plan's own value. For a plan that holds, a smaller
    /// value may break as well: the search goes on there.
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
        let holds_again = self.wrong((breaks, beyond), (holds, breaks), true);
        let breaks_again = self.wrong((holds, last), (holds, breaks), false);
        Threshold {
            of,
            unit,
            own,
            holds,
            is_untested: self.untested.contains(&holds),
            breaks,
            looked: (self.farthest(breaks, last), self.farthest(breaks, beyond)),
            holds_again,
            breaks_again,
            instead: String::new(),
            bound: None,
        }
    }

    /// The value that is farthest on the way from one to another and makes a valid plan.
    fn farthest(&self, from: i64, to: i64) -> i64 {
        let valid = self.known.iter().filter(|(_, there)| there.is_some()).map(|(value, _)| *value);
        let between = valid.filter(|value| (from.min(to)..=from.max(to)).contains(value));
        if from < to { between.max() } else { between.min() }.unwrap_or(from)
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
