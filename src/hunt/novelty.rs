//! How much of the space of states a hunt has seen: whether its plans still show anything new.
//!
//! An abstract state is who holds the lock, whose key lives on which node, which nodes lead, and
//! which operation each caller waits for. Times, values and the number of rounds are left out, so
//! that states come again.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;

use lockstorm_platform::trace::{KeyChange, hash_of};
use serde::{Deserialize, Serialize};

use crate::history::{History, Key, Op, OpKind, Outcome, Seen};
use crate::quantity::count;

/// The number of states that are kept exactly. More of them are estimated.
const KEPT: usize = 65_536;
/// The number of states that a segment of a campaign records.
const SAMPLE: usize = 64;
/// The number of spans in which a hunt counts plans with new states.
const SPANS: usize = 64;

/// Distinct states, by their hashes. If there are too many, the smallest hashes are kept: a fair
/// sample, from which their number is estimated, and the same sample however parts are merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct States {
    most: usize,
    hashes: BTreeSet<u64>,
    /// Whether hashes were left out.
    is_sample: bool,
}

impl Default for States {
    fn default() -> States {
        States::of_at_most(KEPT)
    }
}

impl States {
    /// No states, with room for as many as a line of a log has.
    pub fn few() -> States {
        States::of_at_most(SAMPLE)
    }

    fn of_at_most(most: usize) -> States {
        States { most, hashes: BTreeSet::new(), is_sample: false }
    }

    /// Adds states; returns how many of them were not known, as far as they are kept.
    fn add(&mut self, states: impl IntoIterator<Item = u64>) -> u64 {
        let mut new = 0;
        for state in states {
            let is_full = self.hashes.len() == self.most;
            if is_full && self.hashes.last().is_some_and(|last| *last < state) {
                self.is_sample = true;
                continue;
            }
            if self.hashes.insert(state) {
                new += 1;
                if is_full {
                    self.hashes.pop_last();
                    self.is_sample = true;
                }
            }
        }
        new
    }

    /// Adds what another part of a hunt has seen.
    pub fn merge(&mut self, other: &States) {
        self.add(other.hashes.iter().copied());
        self.is_sample |= other.is_sample;
    }

    /// The same states, of which a line of a log keeps few.
    #[must_use]
    pub fn sample(&self) -> States {
        let mut sample = States::few();
        sample.merge(self);
        sample
    }

    /// The number of states; an estimate if not all were kept.
    pub fn len(&self) -> u64 {
        let kept = self.hashes.len() as u64;
        match self.hashes.last() {
            // The kept hashes are those below the last one, of all that there could be.
            Some(last) if self.is_sample => {
                let all = u128::from(kept.saturating_sub(1)) << 64;
                u64::try_from(all / (u128::from(*last) + 1)).unwrap_or(u64::MAX).max(kept)
            }
            _ => kept,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_sample { "about " } else { "" };
        write!(f, "{about}{}", count(self.len(), "distinct state"))
    }
}

/// What a hunt has seen, and when it last saw something new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Novelty {
    /// The distinct states that the plans have shown.
    pub states: States,
    /// The plans of each span, and how many of them showed a new state.
    spans: Vec<(u64, u64)>,
    /// The number of plans of a full span.
    length: u64,
}

impl Novelty {
    /// The states of plans whose order is unknown, as those of several logs.
    pub fn of(states: States) -> Novelty {
        Novelty { states, ..Novelty::default() }
    }

    /// Adds the states of the next plan; returns how many of them are new.
    pub fn add(&mut self, states: &[u64]) -> u64 {
        let new = self.states.add(states.iter().copied());
        self.length = self.length.max(1);
        if self.spans.last().is_none_or(|(plans, _)| *plans == self.length) {
            if self.spans.len() == SPANS {
                let pairs = self.spans.chunks(2);
                self.spans = pairs
                    .map(|two| two.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)))
                    .collect();
                self.length *= 2;
            }
            self.spans.push((0, 0));
        }
        let (plans, fresh) = self.spans.last_mut().expect("one was pushed");
        *plans += 1;
        *fresh += u64::from(new > 0);
        new
    }

    /// About the last quarter of the plans: their number, and how many of them showed a new state.
    pub fn last_quarter(&self) -> (u64, u64) {
        let all: u64 = self.spans.iter().map(|(plans, _)| plans).sum();
        let mut last = (0, 0);
        for (plans, fresh) in self.spans.iter().rev() {
            if last.0 * 4 >= all {
                break;
            }
            last = (last.0 + plans, last.1 + fresh);
        }
        last
    }
}

impl fmt::Display for Novelty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plans, fresh) = self.last_quarter();
        let states = &self.states;
        // The logs of a campaign do not say in which order plans ran.
        if plans == 0 {
            return write!(f, "{states}");
        }
        write!(f, "{states}; {fresh} of the last {} showed a new one", count(plans, "plan"))
    }
}

/// The abstract states of a run, each once.
pub fn states(history: &History) -> Vec<u64> {
    let mut changes: Vec<(u64, u64, u64)> = Vec::new();
    history.ops.iter().for_each(|op| of_op(op, history, &mut changes));
    let locks: BTreeSet<&str> = history.ops.iter().map(|op| op.object.as_str()).collect();
    history.keys.iter().for_each(|key| changes.extend(of_key(key, history, &locks)));
    for seen in &history.sightings {
        let slot = slot(&["leads", &seen.by]);
        match seen.what {
            Seen::Leads => changes.push((seen.at.seq, slot, 1)),
            Seen::Follows | Seen::Exited => changes.push((seen.at.seq, slot, 0)),
            _ => {}
        }
    }
    changes.sort_by_key(|(seq, ..)| *seq);
    // The state is the sum over what is not absent, so that one change costs one step.
    let part = |slot: u64, value: u64| match value {
        0 => 0,
        value => hash_of(&[slot.to_le_bytes(), value.to_le_bytes()].concat()),
    };
    let (mut now, mut values) = (0_u64, BTreeMap::new());
    let mut all = BTreeSet::new();
    for (_, slot, value) in changes {
        let old = values.insert(slot, value).unwrap_or(0);
        now = now.wrapping_sub(part(slot, old)).wrapping_add(part(slot, value));
        all.insert(now);
    }
    all.into_iter().collect()
}

fn slot(names: &[&str]) -> u64 {
    hash_of(names.join("/").as_bytes())
}

/// What a caller waits for, and whether it holds the lock.
fn of_op(op: &Op, history: &History, changes: &mut Vec<(u64, u64, u64)>) {
    let waits = slot(&["waits", &op.caller]);
    let kind = match op.kind {
        OpKind::Acquire => 1,
        OpKind::Extend { .. } => 2,
        OpKind::Release { .. } => 3,
        OpKind::Lost { .. } => 4,
        OpKind::Read { .. } => 5,
        OpKind::Write { .. } => 6,
        OpKind::Append { .. } => 7,
        OpKind::Add { .. } => 8,
        OpKind::Expire { .. } => 9,
    };
    changes.push((op.call.seq, waits, kind));
    if let Some(ret) = op.ret {
        changes.push((ret.seq, waits, 0));
        if matches!(op.outcome, Outcome::Granted { .. }) {
            changes.push((ret.seq, slot(&["holds", &op.caller]), 1));
        }
    }
    if let OpKind::Release { grant } | OpKind::Lost { grant } = op.kind {
        let holder = &history.ops[grant as usize].caller;
        changes.push((op.call.seq, slot(&["holds", holder]), 0));
    }
}

/// Whose key lives on a node. A lock's own names, such as one a token, are one name.
fn of_key(key: &Key, history: &History, locks: &BTreeSet<&str>) -> Option<(u64, u64, u64)> {
    let owner = key.by.map_or("", |op| &history.ops[op as usize].caller);
    let slot = match &key.of {
        Some(of) => slot(&["member", &key.node, of, owner]),
        None if locks.contains(&*key.key) => slot(&["key", &key.node, &key.key]),
        None => slot(&["other", &key.node]),
    };
    let value = match key.change {
        KeyChange::Set | KeyChange::Changed => hash_of(owner.as_bytes()),
        KeyChange::Extended => return None,
        _ => 0,
    };
    Some((key.at.seq, slot, value))
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::trace::hash_of;
    use proptest::collection::vec;
    use proptest::proptest;

    use super::{KEPT, Novelty, States, states};
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::base_plan;
    use crate::run::Lab;

    fn hashes(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
        numbers.into_iter().map(|number| hash_of(&number.to_le_bytes())).collect()
    }

    fn seen(most: usize, numbers: impl IntoIterator<Item = u64>) -> States {
        let mut states = States::of_at_most(most);
        states.add(hashes(numbers));
        states
    }

    proptest! {
        #[test]
        fn parts_are_the_whole_in_any_order(
            all in vec(0..60_u64, 0..80), cut in 0..80_usize, most in 1..70_usize,
        ) {
            let (left, right) = all.split_at(cut.min(all.len()));
            let (mut one, mut other) = (seen(most, left.to_vec()), seen(most, right.to_vec()));
            let whole = seen(most, all.clone());
            let before = one.clone();
            one.merge(&other);
            other.merge(&before);
            assert_eq!((&one, &other), (&whole, &whole));
            let mut distinct = all;
            distinct.sort_unstable();
            distinct.dedup();
            if distinct.len() <= most {
                assert_eq!(whole.len(), distinct.len() as u64);
            }
        }
    }

    #[test]
    fn more_than_can_be_kept_are_estimated() {
        let many = seen(KEPT, 0..1_000_000);
        assert!(many.len().abs_diff(1_000_000) < 20_000, "{many}");
        assert!(many.to_string().starts_with("about "), "{many}");
        let sample = many.sample();
        assert!(sample.len().abs_diff(1_000_000) < 300_000, "{sample}");
        let mut merged = States::few();
        merged.merge(&sample);
        assert_eq!(merged, sample);
        assert_eq!(seen(KEPT, 0..3).to_string(), "3 distinct states");
        assert_eq!(seen(KEPT, 0..3).sample().to_string(), "3 distinct states");
    }

    #[test]
    fn the_last_quarter_says_whether_plans_still_show_anything_new() {
        let mut novelty = Novelty::default();
        for plan in 0..400 {
            novelty.add(&hashes([plan.min(349)]));
        }
        let (plans, fresh) = novelty.last_quarter();
        assert!((100..=108).contains(&plans) && fresh == plans - 50, "{fresh} of {plans}");
        let text =
            format!("350 distinct states; {fresh} of the last {plans} plans showed a new one");
        assert_eq!(novelty.to_string(), text);
        (0..10_000).for_each(|_| _ = novelty.add(&hashes([7])));
        assert_eq!(novelty.last_quarter().1, 0);
        assert!(novelty.spans.len() <= super::SPANS);
    }

    #[test]
    fn a_run_shows_the_same_states_on_another_seed_and_more_with_more_nodes() {
        let of = |kind, seed| {
            let mut plan = base_plan("redlock", kind);
            (plan.seed, plan.topology.nodes) = (seed, if seed == 3 { 3 } else { 5 });
            let lab = Lab::default();
            States::of_at_most(KEPT).add(states(&lab.run(&plan).history))
        };
        let counts = [1, 2, 3].map(|seed| of(TopologyKind::Independent, seed));
        assert!(counts.iter().all(|count| (10..2_000).contains(count)), "{counts:?}");
        assert!(counts[2] < counts[0], "{counts:?}");
    }
}
