//! How much a hunt has tested: what makes "nothing was found" meaningful.

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::check::untested::Untested;
use crate::quantity::count;

/// How much a hunt has tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Plans that were run.
    pub runs: u64,
    /// Plans in which nothing was violated.
    pub held: u64,
    /// Plans with an unknown verdict.
    pub unknown: u64,
    /// Plans that were drawn within the assumptions but breached one in their run, without an
    /// in-model violation. Of the other counts only `runs` includes them.
    pub outside: u64,
    /// Plans with at least one fault.
    pub with_faults: u64,
    /// Plans in which a fault struck inside a hold.
    pub struck_in_hold: u64,
    /// Grants in total.
    pub grants: u64,
    /// For each reason of [`Untested::ALL`], the plans with an unknown verdict for that.
    #[serde(default)]
    pub untested: [u64; Untested::ALL.len()],
}

impl Tally {
    /// Whether finding nothing is meaningful: some fault struck inside a hold, and some plan held.
    pub fn has_tested(&self) -> bool {
        self.struck_in_hold > 0 && self.held > 0
    }

    /// Adds what another part of the hunt has tested.
    pub fn merge(&mut self, other: &Tally) {
        let Tally { runs, held, unknown, outside, with_faults, struck_in_hold, grants, untested } =
            other;
        self.runs += runs;
        self.held += held;
        self.unknown += unknown;
        self.outside += outside;
        self.with_faults += with_faults;
        self.struck_in_hold += struck_in_hold;
        self.grants += grants;
        self.untested.iter_mut().zip(untested).for_each(|(own, other)| *own += other);
    }

    /// Why plans have an unknown verdict, the most frequent reason first: `in 299 of them ...`.
    pub fn reasons(&self) -> Vec<String> {
        let known = Untested::ALL.into_iter().zip(self.untested);
        let mut found: Vec<(Untested, u64)> = known.filter(|(_, plans)| *plans > 0).collect();
        found.sort_by_key(|(_, plans)| Reverse(*plans));
        found.iter().map(|(why, plans)| format!("in {plans} of them {}", why.of_plans())).collect()
    }
}

/// The tally is part of the result: it shows how much a hunt that found nothing has tested.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { runs, unknown, outside, with_faults, struck_in_hold, grants, .. } = self;
        // `runs` includes plans outside; the strikes do not.
        let share = struck_in_hold * 100 / runs.saturating_sub(*outside).max(1);
        let beyond = match outside {
            0 => String::new(),
            _ => format!(
                ", {outside} left out because the run broke an assumption that its faults were not \
                 expected to break"
            ),
        };
        write!(
            f,
            "{} ({with_faults} with faults, {struck_in_hold} = {share} % with a fault \
             that struck inside a hold, {unknown} in which nothing was tested{beyond}, {grants} \
             grants)",
            count(*runs, "plan")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn the_share_of_strikes_is_of_the_plans_that_count() {
        let tally = Tally { runs: 10, outside: 6, struck_in_hold: 3, ..Tally::default() };
        assert!(tally.to_string().contains("3 = 75 % with a fault"), "{tally}");
    }
}
