//! Which parts of a plan suffice for a violation, and which are necessary: the search over sets of
//! parts, without the runs.
//!
//! A trial removes some parts, and shows whether the violation occurs. More parts do not always
//! violate more: one may hide what another does. So a part is necessary only if the violation does
//! not occur without it alone, and no trial without it and other parts shows the violation.

use crate::ledger::part::{Part, Parts, subsets};

/// The maximum number of parts of which all sets are tried.
const MAX_WHOLE: usize = 5;
/// Of more parts, all sets of up to this many besides the necessary ones are tried.
const MAX_TOGETHER: usize = 3;
/// The maximum number of minimal sets that are searched among the larger ones.
const MAX_LARGER_SETS: usize = 8;
/// The maximum number of choices of parts that are tried in that search.
const MAX_CHOICES: usize = 64;

/// What trials show about the parts of a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The parts that all trials with the violation have, in order.
    pub necessary: Vec<Part>,
    /// The minimal sets that suffice.
    pub sufficient: Vec<Vec<Part>>,
    /// The parts without which alone the violation does not occur, although it does without them
    /// and others: what is left of the plan hides it.
    pub needed_here: Vec<Part>,
    /// Whether there may be other minimal sets, because not all sets were tried.
    pub may_be_more: bool,
}

/// Searches the sets of `parts` that suffice. `trial` returns for each of several sets whether the
/// violation occurs without it. It is known to occur without `spared`.
pub fn find(parts: &[Part], spared: &Parts, trial: &mut dyn FnMut(&[Parts]) -> Vec<bool>) -> Found {
    let all: Parts = parts.iter().copied().collect();
    let is_few = parts.len() <= MAX_WHOLE;
    let singles: Vec<Parts> = parts.iter().map(|part| [*part].into()).collect();
    let there = trial(&singles);
    let alone = parts.iter().zip(there).filter(|(_, there)| !there).map(|(part, _)| *part);
    let alone: Parts = alone.collect();
    let outs = if is_few { Vec::new() } else { likely(&all, spared) };
    let there = trial(&outs);
    let left = outs.iter().zip(there).filter(|(_, there)| *there).map(|(out, _)| &all - out);
    let left: Vec<Parts> = left.collect();
    let kept = if is_few { Parts::new() } else { alone.clone() };
    let mut search = SetSearch { free: &all - &kept, found: Vec::new(), trial };
    search.small();
    let may_be_more = search.free.len() > MAX_WHOLE && search.larger();
    let mut found = search.found;
    if !is_few {
        // What was kept may hide the violation, and not be needed beside less.
        let whole: Vec<Parts> = found.iter().map(|set| set | &kept).chain(left).collect();
        let mut search = SetSearch { free: all.clone(), found: Vec::new(), trial };
        whole.into_iter().for_each(|left| search.at_most(left));
        found = search.found;
    }
    let common = |part: &Part| found.iter().all(|set| set.contains(part));
    let (necessary, needed_here) =
        alone.into_iter().partition(|part| common(part) && !spared.contains(part));
    let sufficient = found.into_iter().map(|set| set.into_iter().collect()).collect();
    Found { necessary, sufficient, needed_here, may_be_more }
}

/// The sets of many parts without which the violation may occur though it does not occur without
/// one of them: all, those that the class spares, and all faults but one.
fn likely(all: &Parts, spared: &Parts) -> Vec<Parts> {
    let is_fault = |part: &&Part| part.fault().is_some();
    let faults: Parts = all.iter().filter(is_fault).copied().collect();
    let others = faults.iter().map(|fault| &faults - &[*fault].into());
    [all.clone(), spared & all].into_iter().chain(others).collect()
}

struct SetSearch<'a> {
    /// The parts that trials remove; all others stay.
    free: Parts,
    /// The minimal sets of them that suffice.
    found: Vec<Parts>,
    trial: &'a mut dyn FnMut(&[Parts]) -> Vec<bool>,
}

impl SetSearch<'_> {
    /// Tries all sets if there are few parts, otherwise the small ones.
    fn small(&mut self) {
        let list: Vec<Part> = self.free.iter().copied().collect();
        let most = if list.len() <= MAX_WHOLE { list.len() } else { MAX_TOGETHER };
        // Small sets first, so that a set which contains a sufficient one is not tried.
        for size in 0..=most {
            let is_new = |set: &Parts| !self.found.iter().any(|smaller| smaller.is_subset(set));
            let sets: Vec<Parts> = subsets(&list, size).into_iter().filter(is_new).collect();
            let outs: Vec<Parts> = sets.iter().map(|set| &self.free - set).collect();
            let there = (self.trial)(&outs);
            let there = sets.into_iter().zip(there).filter(|(_, there)| *there);
            self.found.extend(there.map(|(set, _)| set));
        }
    }

    /// Whether the violation occurs without these parts.
    fn is_there(&mut self, out: &Parts) -> bool {
        (self.trial)(std::slice::from_ref(out)) == [true]
    }

    /// Adds minimal sets of more parts, and returns whether there may be others. Any other set
    /// lacks at least one part of each known one. So a choice of one such part from each known set
    /// is removed: if the violation still occurs, what is left contains another set.
    fn larger(&mut self) -> bool {
        let mut gone: Vec<Parts> = Vec::new();
        let most = self.found.len() + MAX_LARGER_SETS;
        while let Some(out) = one_of_each(&self.found, &gone, &Parts::new()) {
            if self.found.len() >= most || gone.len() >= MAX_CHOICES {
                return true;
            }
            if self.is_there(&out) {
                self.at_most(&self.free - &out);
            } else {
                gone.push(out);
            }
        }
        false
    }

    /// Adds a minimal set within `left`, which suffices, unless one is known.
    fn at_most(&mut self, mut left: Parts) {
        if self.found.iter().any(|set| set.is_subset(&left)) {
            return;
        }
        // Parts are removed one at a time until none can be removed.
        loop {
            let fewer = left.iter().find_map(|part| {
                let fewer = &left - &[*part].into();
                self.is_there(&(&self.free - &fewer)).then_some(fewer)
            });
            let Some(fewer) = fewer else { break };
            left = fewer;
        }
        self.found.retain(|set| !left.is_subset(set));
        self.found.push(left);
    }
}

/// A choice of parts with at least one part of each of `sets`. It contains no choice of `gone`,
/// without which the violation does not occur.
fn one_of_each(sets: &[Parts], gone: &[Parts], chosen: &Parts) -> Option<Parts> {
    if gone.iter().any(|gone| gone.is_subset(chosen)) {
        return None;
    }
    let Some(next) = sets.iter().find(|set| set.is_disjoint(chosen)) else {
        return Some(chosen.clone());
    };
    next.iter().find_map(|part| {
        let mut more = chosen.clone();
        more.insert(*part);
        one_of_each(sets, gone, &more)
    })
}

#[cfg(test)]
mod tests;
