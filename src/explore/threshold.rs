//! The value of a figure at which the verdict changes, found by runs: a bisection with the same
//! draws, and a search for gaps on both sides of the result.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::verdict::Verdict;
use crate::explain::experiment::{LaterHeal, Steady, Threshold, Unit};
use crate::explore::budget::Spending;
use crate::explore::knob::{Knob, LENGTHS, fault, turned, with_later_heal};
use crate::explore::trial::judgement;
use crate::ledger::part::{Strikes, lasts};
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
    /// Values with which the run holds although another caller could have acquired the lock before
    /// a write: the time by which the write was late, ns.
    was_open: BTreeMap<i64, Nanos>,
    /// The number of values that were tried, with every heal.
    runs: u32,
}

/// The result for values that need a later heal.
struct Longer {
    /// The threshold, if there is one.
    threshold: Option<Threshold>,
    /// The maximum value with the unchanged result.
    far: Option<i64>,
}

/// The result for a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// There is a threshold, or one on either side.
    Thresholds(Vec<Threshold>),
    /// The knob makes no difference.
    Everywhere(Steady),
}

/// The thresholds of each of these knobs, and the number of plans that were run. A threshold lies
/// between values with which nothing is violated and values with which something is; the plan
/// itself may be violated or hold. Values that make no valid plan are skipped. A value that tests
/// nothing counts as holding, and is marked.
pub fn thresholds(
    lab: &Lab,
    plan: &Plan,
    struck: &Strikes,
    is_violated: bool,
    knobs: &[Knob],
    spending: &Spending,
) -> Vec<(Knob, Located, u32)> {
    let search = |knob: &Knob| {
        let mut dial = Dial {
            lab,
            plan,
            struck,
            is_violated,
            knob,
            step: 1,
            known: BTreeMap::new(),
            spending,
            is_cut: false,
            untested: BTreeSet::new(),
            was_open: BTreeMap::new(),
            runs: 0,
        };
        dial.step = dial.least_step();
        let name = format!("the threshold of {}", knob.name(plan));
        let found = spending.within(&name, || dial.search())?;
        if dial.is_cut {
            spending.skip(&name);
            return None;
        }
        Some((knob.clone(), found?, dial.runs))
    };
    knobs.par_iter().filter_map(search).collect()
}

/// How often a value is doubled or halved in the search for a change.
const DOUBLINGS: u32 = 4;
/// The same for a fault of a plan that holds: the value that violates may be far from its own.
const DOUBLINGS_UP: u32 = 8;
/// Values that are tried on each side, to see whether the threshold is the only one.
const LOOKS: i64 = 12;

impl Dial<'_> {
    fn search(&mut self) -> Option<Located> {
        let own = self.read()?;
        let mut found = Vec::new();
        let mut farthest = (own, own);
        let mut room = None;
        for way in self.ways(own) {
            let last = *way.last().expect("a way has figures");
            let near = match self.flips(own, &way) {
                Ok(pair) => {
                    found.push(self.first_threshold(own, pair, last));
                    continue;
                }
                Err(near) => near,
            };
            let Longer { threshold, far } = self.with_later_heals(own, &way);
            found.extend(threshold);
            room = room.or(far.map(|_| near));
            let far = far.unwrap_or(near);
            farthest = (farthest.0.min(far), farthest.1.max(far));
        }
        if !found.is_empty() {
            return Some(Located::Thresholds(found));
        }
        let (of, unit) = (self.knob.name(self.plan), self.unit());
        let (between, is_violated) = (farthest, self.is_violated);
        Some(Located::Everywhere(Steady { of, unit, own, between, is_violated, room }))
    }

    /// The values to try, in each meaningful direction. A fault of size zero has no effect, and a
    /// larger one does more. A length of the setup may be too long or too short, and a zero length
    /// is another setup.
    fn ways(&self, own: i64) -> Vec<Vec<i64>> {
        let down = (1..=DOUBLINGS).map(|times| own / (1 << times));
        let is_set = self.knob.is_of_setup();
        let most = if self.is_violated || is_set { DOUBLINGS } else { DOUBLINGS_UP };
        let up = (1..=most).filter_map(|times| own.checked_mul(1 << times));
        // The heal would cut longer ones short.
        let up = match self.room() {
            Some(room) => {
                let (below, above): (Vec<i64>, Vec<i64>) = up.partition(|to| *to < room);
                below.into_iter().chain([room]).chain(above).collect()
            }
            None => up.collect(),
        };
        // A node that is down for longer may have nothing left to forget, and one that is down for
        // less may have kept what it should forget.
        let may_be_both = match self.knob {
            Knob::Lasts(id) => fault(self.plan, *id)
                .is_some_and(|fault| fault.verb.kills() && fault.length.is_some()),
            _ => is_set,
        };
        match (may_be_both, self.is_violated) {
            (true, true) if !is_set => vec![up, down.chain([0]).collect()],
            (true, _) => vec![up, down.collect()],
            (false, true) => vec![down.chain([0]).collect()],
            (false, false) => vec![up],
        }
    }

    /// The maximum length of a fault that the heal of the plan does not cut short.
    fn room(&self) -> Option<i64> {
        let Knob::Lasts(id) = self.knob else { return None };
        self.plan.heal_at.checked_sub(*self.struck.get(id)?)?.try_into().ok()
    }

    /// The threshold of a fault that is longer than the heal of the plan allows. Each value is run
    /// with a heal that is later by as much as the fault is longer. It is compared only with values
    /// with the same heal; one of these is the plan's own value, whose result must be as in the
    /// plan.
    fn with_later_heals(&mut self, own: i64, way: &[i64]) -> Longer {
        let mut longer = Longer { threshold: None, far: None };
        let Some(room) = self.room() else { return longer };
        for to in way.iter().filter(|to| **to > room) {
            let later = with_later_heal(self.plan, to.abs_diff(own));
            let mut dial = Dial {
                plan: &later,
                known: BTreeMap::new(),
                untested: BTreeSet::new(),
                was_open: BTreeMap::new(),
                runs: 0,
                ..*self
            };
            let there = dial.is_there(*to);
            if there == Some(self.is_violated) {
                longer.far = Some(*to).filter(|_| !dial.untested.contains(to)).or(longer.far);
            } else if there.is_some() && dial.is_as_in_the_plan(own) {
                let pair = dial.flips(own, &[*to / 2, *to]);
                let found = pair.ok().map(|pair| dial.first_threshold(own, pair, *to));
                let later = LaterHeal::of(self.plan, &later);
                longer.threshold = found.map(|found| Threshold { later, ..found });
            }
            self.runs += dial.runs;
            self.is_cut |= dial.is_cut;
            if there == Some(!self.is_violated) {
                break;
            }
        }
        longer
    }

    /// Whether this value has the same result as the plan.
    fn is_as_in_the_plan(&mut self, value: i64) -> bool {
        self.is_there(value) == Some(self.is_violated) && !self.untested.contains(&value)
    }

    /// The threshold that is closest to the plan's own value. In a plan that holds, a value nearer
    /// to its own may break as well: the search continues there.
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

    /// The first two values in one direction between which the violation disappears (or appears, if
    /// there was none); otherwise the furthest value with the unchanged result. A run that tests
    /// nothing has no result.
    fn flips(&mut self, own: i64, way: &[i64]) -> Result<(i64, i64), i64> {
        let (mut near, was_there) = (own, self.is_violated);
        for figure in way {
            let figure = figure / self.step * self.step;
            let figures = match self.turned(figure) {
                Some(_) => vec![figure],
                None => self.as_far_as_plans_go(near, figure),
            };
            for figure in figures {
                match self.is_there(figure) {
                    Some(is_there) if is_there == was_there => {
                        near = if self.untested.contains(&figure) { near } else { figure };
                    }
                    Some(true) => return Ok(self.bisect(near, figure)),
                    Some(false) => return Ok(self.bisect(figure, near)),
                    None => {}
                }
            }
        }
        match way.first() {
            Some(first) if !was_there => self.breaks_between(own, *first).ok_or(near),
            _ => Err(near),
        }
    }

    /// Tries a dozen values between two that hold: the first that violates, and its neighbour that
    /// holds. A fault may do harm only in the middle.
    fn breaks_between(&mut self, own: i64, to: i64) -> Option<(i64, i64)> {
        let mut near = own;
        for figure in self.spread(own, to).collect::<Vec<_>>() {
            match self.is_there(figure) {
                Some(true) => return Some(self.bisect(near, figure)),
                Some(false) => near = figure,
                None => {}
            }
        }
        None
    }

    /// Values from one that makes a valid plan towards one that does not: some of them, and the
    /// last that makes a valid plan. Twice a share of 50 % is invalid, but 60 % is valid; and a
    /// share at which the verdict changes may be far from the last one, which lets nothing through.
    fn as_far_as_plans_go(&self, near: i64, mut none: i64) -> Vec<i64> {
        let (step, mut last) = (self.step, near);
        while (none - last).abs() > step {
            let middle = (last + (none - last) / 2) / step * step;
            if middle == last || middle == none {
                break;
            }
            *(if self.turned(middle).is_some() { &mut last } else { &mut none }) = middle;
        }
        let mut figures: Vec<i64> = self.spread(near, last).chain([last]).collect();
        figures.retain(|figure| *figure != near);
        figures.dedup();
        figures
    }

    /// A dozen values between two: the first is left out, the last is near the second.
    fn spread(&self, from: i64, to: i64) -> impl Iterator<Item = i64> + use<> {
        let step = self.step;
        (1..=LOOKS).map(move |nth| (from + (to - from) / LOOKS * nth) / step * step)
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

    /// A threshold, and the values that show that it is not the only one. The search covers the way
    /// to its end, and values beyond the plan's own if larger ones are possible.
    fn threshold(&mut self, own: i64, (holds, breaks): (i64, i64), last: i64) -> Threshold {
        let (of, unit) = (self.knob.name(self.plan), self.unit());
        // For a setting, only values up to the plan's own are tried. The same applies to a fault
        // that lasts to the heal, and to one that a longer time makes harmless.
        let is_not_doubled = match self.knob {
            Knob::Lasts(id) => {
                breaks < holds || fault(self.plan, *id).is_some_and(|fault| fault.length.is_none())
            }
            knob => knob.is_of_setup(),
        };
        let (beyond, last) = match (self.is_violated, is_not_doubled) {
            (false, _) if breaks.abs() < holds.abs() => (breaks / 2, own),
            (false, _) => (breaks.saturating_mul(2), own),
            (true, true) => (own, last),
            (true, false) => (own.saturating_mul(2), last),
        };
        let holds_again = self.wrong((breaks, beyond), (holds, breaks), true);
        let mut breaks_again = self.wrong((holds, last), (holds, breaks), false);
        self.reach(&mut breaks_again, (holds, last));
        Threshold {
            of,
            unit,
            own,
            holds,
            is_untested: self.untested.contains(&holds),
            was_open: self.was_open.get(&holds).copied(),
            breaks,
            looked: (self.farthest(breaks, last), self.farthest(breaks, beyond)),
            holds_again,
            breaks_again,
            instead: String::new(),
            bound: None,
            later: None,
        }
    }

    /// Adds the last value that violates on the way to its end. It lies between the farthest of
    /// these values and the next that holds; a bisection finds it.
    fn reach(&mut self, breaks: &mut Vec<i64>, (from, to): (i64, i64)) {
        let far = if from < to { breaks.last() } else { breaks.first() };
        let Some(far) = far.copied() else { return };
        let beyond: Vec<i64> = self.spread(from, to).collect();
        let mut beyond = beyond.into_iter().filter(|value| (far < *value) == (from < to));
        let next = beyond.find(|value| *value != far && self.is_there(*value) == Some(false));
        let Some(holds) = next else { return };
        let (_, edge) = self.bisect(holds, far);
        if !breaks.contains(&edge) {
            breaks.push(edge);
            breaks.sort_unstable();
        }
    }

    /// The value that is farthest on the way from one to another and makes a valid plan. The tried
    /// values are multiples of the step; the end of the way need not be one.
    fn farthest(&self, from: i64, to: i64) -> i64 {
        let valid = self.known.iter().filter(|(_, there)| there.is_some()).map(|(value, _)| *value);
        let ends = [from, to, to / self.step * self.step];
        let (least, most) = (ends.into_iter().min(), ends.into_iter().max());
        let between = valid.filter(|value| least <= Some(*value) && Some(*value) <= most);
        if from < to { between.max() } else { between.min() }.unwrap_or(from)
    }

    /// Of a dozen values in a range, those whose result differs from the expected one, in order.
    fn wrong(
        &mut self,
        (from, to): (i64, i64),
        (holds, breaks): (i64, i64),
        should: bool,
    ) -> Vec<i64> {
        let mut wrong: Vec<i64> = self
            .spread(from, to)
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
            let judgement = judgement(self.lab, &plan);
            match judgement.verdict {
                Verdict::Unknown(_) => drop(self.untested.insert(figure)),
                Verdict::Holds => {
                    let miss = judgement.nearest_miss.filter(|miss| *miss < 0);
                    self.was_open.extend(miss.map(|miss| (figure, miss.unsigned_abs())));
                }
                Verdict::Violated(_) => {}
            }
            matches!(judgement.verdict, Verdict::Violated(_))
        });
        self.known.insert(figure, there);
        self.runs += 1;
        there
    }

    fn turned(&self, to: i64) -> Option<Plan> {
        turned(self.lab, (self.plan, self.struck), self.knob, to)
    }

    fn read(&self) -> Option<i64> {
        let plan = self.plan;
        match self.knob {
            Knob::Lasts(id) => lasts(plan, fault(plan, *id)?, self.struck)?.try_into().ok(),
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
                (row.read)(self.lab, plan)?.try_into().ok()
            }
            Knob::Link(link) => plan.links.named.get(link)?.constant()?.try_into().ok(),
        }
    }

    fn unit(&self) -> Unit {
        match self.knob {
            Knob::Lasts(_) | Knob::Set(_) | Knob::Link(_) => Unit::Length,
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
    /// a second for a lock that takes its lease in whole seconds, since no value between makes a
    /// plan.
    fn least_step(&self) -> i64 {
        let length = self.knob.step();
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
