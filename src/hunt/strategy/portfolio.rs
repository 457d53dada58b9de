//! Which strategy draws which plan of a hunt. The first batch is shared by fixed weights. From then
//! on half of each batch is, and the other half follows what the strategies found per plan, with
//! half the weight for each batch that has passed.
//!
//! Shares depend on the results of earlier batches alone, in the order of the seeds, so they are
//! the same on any number of threads. A segment of a campaign starts afresh.

use std::cmp::Reverse;

use crate::hunt::strategy::Strategy;

/// The unit of an average yield: parts of one.
const SCALE: u64 = 1_000;
/// What a new group of violations is worth, in new states. A run shows a few dozen states.
pub const GROUP: u64 = 64;

/// The fixed weight of a strategy. Lineage and bounds find what takes a certain moment, or two
/// lengths that meet, in a small part of the plans that others need.
fn weight(strategy: Strategy) -> u64 {
    match strategy {
        Strategy::Lineage | Strategy::Bounds => 2,
        _ => 1,
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct Portfolio(Vec<Member>);

#[derive(Clone, Debug)]
struct Member {
    strategy: Strategy,
    /// The average yield of a plan, in parts of [`SCALE`].
    average: u64,
    /// The plans of the current batch, and their yield.
    plans: u64,
    found: u64,
}

impl Portfolio {
    /// A portfolio of these strategies, of which there is at least one.
    pub fn of(strategies: &[Strategy]) -> Portfolio {
        assert!(!strategies.is_empty(), "a hunt has a strategy");
        let fresh =
            |strategy: &Strategy| Member { strategy: *strategy, average: 0, plans: 0, found: 0 };
        Portfolio(strategies.iter().map(fresh).collect())
    }

    /// The strategy of each plan of a batch of this size. The members take turns, so that a part of
    /// the batch has about the shares of the whole.
    pub fn batch(&self, plans: usize) -> Vec<Strategy> {
        let shares = self.shares(plans as u64);
        let mut given = vec![0; shares.len()];
        let mut next = || {
            // The member that is the farthest behind its share; among equals the first.
            let behind = |nth: &usize| {
                let done: u64 = given.iter().sum();
                let due = shares[*nth] * (done + 1);
                (i128::from(due) - i128::from(given[*nth] * plans as u64), Reverse(*nth))
            };
            let open = (0..shares.len()).filter(|nth| given[*nth] < shares[*nth]);
            let nth = open.max_by_key(behind).expect("the shares are the whole batch");
            given[nth] += 1;
            self.0[nth].strategy
        };
        (0..plans).map(|_| next()).collect()
    }

    /// The number of plans of each member.
    fn shares(&self, plans: u64) -> Vec<u64> {
        let members = self.0.len() as u64;
        let weights: u64 = self.0.iter().map(|member| weight(member.strategy)).sum();
        let total: u64 = self.0.iter().map(|member| member.average).sum();
        let fixed = if total == 0 { plans } else { plans / 2 };
        let by_yield = plans - fixed;
        let share = |member: &Member| {
            let own = (by_yield * member.average).checked_div(total).unwrap_or(0);
            fixed * weight(member.strategy) / weights + own
        };
        let mut shares: Vec<u64> = self.0.iter().map(share).collect();
        // What rounding left goes to the first members.
        let left = plans - shares.iter().sum::<u64>();
        for nth in 0..left {
            shares[(nth % members) as usize] += 1;
        }
        shares
    }

    /// Notes what a plan has found: its new states, and [`GROUP`] for a new group.
    pub fn note(&mut self, strategy: Strategy, found: u64) {
        for member in self.0.iter_mut().filter(|member| member.strategy == strategy) {
            member.plans += 1;
            member.found += found;
        }
    }

    /// Ends a batch: its yield counts for the next one.
    pub fn settle(&mut self) {
        for member in &mut self.0 {
            let fresh = (member.found * SCALE).checked_div(member.plans).unwrap_or(member.average);
            member.average = u64::midpoint(member.average, fresh);
            (member.plans, member.found) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Portfolio;
    use crate::hunt::strategy::Strategy;
    use crate::hunt::strategy::Strategy::{Bounds, Lineage, Priorities, Random, Swarm};

    fn count(batch: &[Strategy]) -> [usize; 5] {
        Strategy::ALL.map(|one| batch.iter().filter(|drawn| **drawn == one).count())
    }

    #[test]
    fn shares_follow_the_yield_and_nobody_is_left_out() {
        let mut portfolio = Portfolio::of(&Strategy::ALL);
        let first = portfolio.batch(64);
        assert_eq!(count(&first), [10, 9, 9, 18, 18]);
        assert_eq!(first[..5], [Lineage, Bounds, Random, Swarm, Priorities]);
        // The yields of a batch, and the shares of the next one.
        let rows = [
            ([0, 0, 0, 0, 0], [10, 9, 9, 18, 18]),
            ([0, 0, 0, 5, 0], [5, 5, 4, 41, 9]),
            // An old yield has half of the weight of a new one.
            ([0, 5, 0, 0, 0], [5, 26, 5, 19, 9]),
            ([1, 1, 1, 1, 1], [8, 17, 8, 18, 13]),
        ];
        for (yields, shares) in rows {
            for (strategy, found) in Strategy::ALL.into_iter().zip(yields) {
                portfolio.note(strategy, found);
            }
            portfolio.settle();
            let batch = portfolio.batch(64);
            assert_eq!(count(&batch), shares, "after {yields:?}");
            for (half, whole) in count(&batch[..32]).iter().zip(shares) {
                assert!(half.abs_diff(whole / 2) <= 2, "half of a batch has half of each share");
            }
        }
    }

    #[test]
    fn what_is_not_tried_keeps_its_average_and_one_strategy_draws_all() {
        let mut portfolio = Portfolio::of(&[Random, Swarm]);
        portfolio.note(Swarm, 8);
        portfolio.settle();
        let before = count(&portfolio.batch(64));
        portfolio.settle();
        assert_eq!(count(&portfolio.batch(64)), before);
        assert_eq!(count(&Portfolio::of(&[Swarm]).batch(3)), [0, 3, 0, 0, 0]);
        assert_eq!(count(&Portfolio::of(&Strategy::ALL).batch(2)), [1, 1, 0, 0, 0]);
    }
}
