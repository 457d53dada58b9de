//! The violations of a hunt in groups: what was violated, and by which mechanism.
//!
//! A group keeps a count and the smallest examples, as seeds and strategies: a plan is drawn again.
//! So groups take little memory however many plans are violated, and groups of several hunts can be
//! merged in any order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::verdict::Kind;
use crate::explain::mechanism::how::How;
use crate::hunt::strategy::Strategy;
use crate::plan::Plan;

/// The number of examples that a group keeps: the first is shrunk, two more let a
/// reader of a log compare.
const EXAMPLES: usize = 3;

/// What the plans of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupKey {
    /// Whether the run broke no assumption of the lock, or was found to be in-model. If not, only
    /// more runs can show the class.
    pub in_model: bool,
    /// What is violated, each kind once, in order; without what follows: see [`leading`].
    pub kinds: Vec<Kind>,
    /// The checks of one's own that found something, each once, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// How it became possible, as far as the history alone shows it.
    pub mechanism: How,
}

/// A violated plan, by its seed. Smaller plans come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The number of faults.
    pub faults: usize,
    /// The number of callers of all clients.
    pub callers: u32,
    /// The seed that draws it.
    pub seed: u64,
    /// The strategy that draws it.
    pub strategy: Strategy,
}

/// The kinds that name a group: those that do not follow from another one. Two holders at once lose
/// updates, and their leases may end while they overlap; neither that nor a foreign release leaves
/// a legal order. Which of these a plan shows is chance.
pub fn leading(kinds: &[Kind]) -> Vec<Kind> {
    let has = |kind| kinds.contains(&kind);
    let overlaps = has(Kind::DoubleGrant) || has(Kind::StaleHolder);
    let follows = |kind: &Kind| match kind {
        Kind::Corruption => overlaps,
        Kind::NotLinearizable => overlaps || has(Kind::ForeignRelease),
        Kind::StaleHolder => has(Kind::DoubleGrant),
        _ => false,
    };
    kinds.iter().copied().filter(|kind| !follows(kind)).collect()
}

impl Example {
    /// The size of a plan, its seed and its strategy.
    pub fn of(plan: &Plan, strategy: Strategy) -> Example {
        let (faults, callers) = (plan.faults.len(), plan.workload.all_callers());
        Example { faults, callers, seed: plan.seed, strategy }
    }
}

/// How often a group was seen, and its smallest examples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sightings {
    /// The number of plans.
    pub count: u64,
    /// The smallest of them, the smallest first.
    pub smallest: Vec<Example>,
}

impl Sightings {
    fn merge(&mut self, other: &Sightings) {
        self.count += other.count;
        self.smallest.extend(&other.smallest);
        self.smallest.sort_unstable();
        self.smallest.dedup();
        self.smallest.truncate(EXAMPLES);
    }
}

/// The violations of some plans, by group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(GroupKey, Sightings)>", into = "Vec<(GroupKey, Sightings)>")]
pub struct Groups(BTreeMap<GroupKey, Sightings>);

impl From<Vec<(GroupKey, Sightings)>> for Groups {
    fn from(groups: Vec<(GroupKey, Sightings)>) -> Groups {
        Groups(groups.into_iter().collect())
    }
}

impl From<Groups> for Vec<(GroupKey, Sightings)> {
    fn from(groups: Groups) -> Vec<(GroupKey, Sightings)> {
        groups.0.into_iter().collect()
    }
}

impl Groups {
    /// Adds a violated plan.
    pub fn add(&mut self, key: GroupKey, example: Example) {
        let one = Sightings { count: 1, smallest: vec![example] };
        self.0.entry(key).or_default().merge(&one);
    }

    /// Adds the groups of other plans.
    pub fn merge(&mut self, other: &Groups) {
        for (key, sightings) in &other.0 {
            self.0.entry(key.clone()).or_default().merge(sightings);
        }
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was violated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The groups, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupKey, &Sightings)> {
        self.0.iter()
    }

    /// The smallest example of each group.
    pub fn examples(&self) -> impl Iterator<Item = Example> {
        self.0.values().filter_map(|sightings| sightings.smallest.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::proptest;

    use super::{EXAMPLES, Example, GroupKey, Groups, leading};
    use crate::check::verdict::Kind;
    use crate::explain::mechanism::how::How;
    use crate::hunt::strategy::Strategy;

    #[test]
    fn what_follows_from_two_holders_makes_no_group_of_its_own() {
        use Kind::{Corruption, DoubleGrant, ForeignRelease, NotLinearizable, StaleHolder};
        let all = [DoubleGrant, StaleHolder, Corruption, NotLinearizable];
        assert_eq!(leading(&all), [DoubleGrant]);
        assert_eq!(leading(&[StaleHolder, Corruption]), [StaleHolder]);
        assert_eq!(leading(&[Corruption, NotLinearizable]), [Corruption, NotLinearizable]);
        assert_eq!(leading(&[ForeignRelease, NotLinearizable]), [ForeignRelease]);
        assert_eq!(leading(&[DoubleGrant, ForeignRelease]), [DoubleGrant, ForeignRelease]);
    }

    /// The groups of these plans, each with a group, a number of faults and a seed.
    fn groups(plans: &[(bool, usize, u64)]) -> Groups {
        let mut groups = Groups::default();
        for (in_model, faults, seed) in plans {
            let key = GroupKey {
                in_model: *in_model,
                kinds: vec![Kind::StaleHolder],
                checks: Vec::new(),
                mechanism: How::StoodStill,
            };
            let strategy = Strategy::Random;
            groups.add(key, Example { faults: *faults, callers: 2, seed: *seed, strategy });
        }
        groups
    }

    proptest! {
        #[test]
        fn groups_of_parts_are_those_of_the_whole_in_any_order(
            plans in vec((proptest::bool::ANY, 0..3_usize, 0..1_000_u64), 0..30),
            cut in 0..30_usize,
        ) {
            let (left, right) = plans.split_at(cut.min(plans.len()));
            let (mut one, mut other) = (groups(left), groups(right));
            other.merge(&groups(left));
            one.merge(&groups(right));
            let whole = groups(&plans);
            assert_eq!((&one, &other), (&whole, &whole));
            for (key, sightings) in whole.iter() {
                let mut own: Vec<(usize, u64)> = plans
                    .iter()
                    .filter(|plan| plan.0 == key.in_model)
                    .map(|(_, faults, seed)| (*faults, *seed))
                    .collect();
                assert_eq!(sightings.count, own.len() as u64);
                own.sort_unstable();
                own.dedup();
                own.truncate(EXAMPLES);
                let smallest = sightings.smallest.iter().map(|one| (one.faults, one.seed));
                assert!(smallest.eq(own));
            }
        }
    }
}
