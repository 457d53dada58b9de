//! The contract of a lock, line by line: what the harness relies on when it runs an unknown lock.
//! The lines are also in the documentation of [`crate::lock::Lock`] and [`crate::lock::Notice`]; a
//! test compares them.

use serde::{Deserialize, Serialize};

/// The maximum number of calls to its machine, and runs of its tasks, that a lock may make in one
/// second of its process.
pub const MAX_STEPS: u32 = 100_000;

/// A line of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clause {
    /// No code of the lock panics.
    NoPanic,
    /// Time passes while the lock works.
    TimePasses,
    /// A notice names an existing grant.
    KnownGrant,
    /// Only a renewal that has begun may end.
    KnownRenewal,
    /// The lock depends only on its setting.
    Repeatable,
}

impl Clause {
    /// Every line, in order.
    pub const ALL: [Clause; 5] = [
        Clause::NoPanic,
        Clause::TimePasses,
        Clause::KnownGrant,
        Clause::KnownRenewal,
        Clause::Repeatable,
    ];

    /// The text of the line.
    pub fn line(self) -> &'static str {
        match self {
            Clause::NoPanic => "Lock: no call of a lock panics, and no task that it has spawned",
            Clause::TimePasses => {
                "Lock: time passes: a process takes at most 100000 steps in one second"
            }
            Clause::KnownGrant => {
                "Notice: Extending and Lost name the token of a grant that the caller was given"
            }
            Clause::KnownRenewal => {
                "Notice: Extended and Abandoned end, once, a renewal that Extending has begun"
            }
            Clause::Repeatable => {
                "Lock: chance, time and state come from the setting: one plan is one run"
            }
        }
    }

    /// Whether a process that breaks the line is stopped.
    pub fn is_fatal(self) -> bool {
        matches!(self, Clause::NoPanic | Clause::TimePasses)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clause, MAX_STEPS};

    #[test]
    fn the_documentation_has_every_line_with_its_number() {
        let source = include_str!("../lock/mod.rs");
        for (number, clause) in (1..).zip(Clause::ALL) {
            let line = format!("/// {number}. {}", clause.line());
            assert_eq!(source.lines().filter(|found| *found == line).count(), 1, "{line}");
        }
        assert!(Clause::TimePasses.line().contains(&MAX_STEPS.to_string()));
    }
}
