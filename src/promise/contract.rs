//! The contract of a lock, line by line: what the lab counts on when it runs a lock that it has
//! never seen. The lines stand in the documentation of [`crate::lock::Lock`] and
//! [`crate::lock::Notice`] too; a test compares.

use serde::{Deserialize, Serialize};

/// So many calls to its machine, and runs of its tasks, may a lock make in one second of its
/// process.
pub const MAX_STEPS: u32 = 100_000;

/// A line of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clause {
    /// No code of the lock panics.
    NoPanic,
    /// Time passes while it works.
    TimePasses,
    /// A permit is one of those that there are.
    PermitInRange,
    /// A notice speaks of a grant.
    KnownGrant,
    /// A renewal that ends has begun.
    KnownRenewal,
    /// It depends on its setting alone.
    Repeatable,
}

impl Clause {
    /// Every line, in order.
    pub const ALL: [Clause; 6] = [
        Clause::NoPanic,
        Clause::TimePasses,
        Clause::PermitInRange,
        Clause::KnownGrant,
        Clause::KnownRenewal,
        Clause::Repeatable,
    ];

    /// The line.
    pub fn line(self) -> &'static str {
        match self {
            Clause::NoPanic => "Lock: no call of a lock panics, and no task that it has spawned",
            Clause::TimePasses => {
                "Lock: time passes: a process takes at most 100000 steps in one second"
            }
            Clause::PermitInRange => "Lock::acquire: a permit is below the number of holders",
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

    /// Whether a process that breaks it goes no further.
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
