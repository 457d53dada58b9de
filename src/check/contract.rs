//! Broken contract: the lock did what no lock may do. The breach is recorded where it happens; here
//! it becomes a violation.

use crate::check::case::Case;
use crate::check::verdict::{Kind, Violation};

/// One violation for each breach.
pub fn violations(case: &Case) -> Vec<Violation> {
    let breaches = case.history.breaches.iter();
    let violation = breaches.map(|breach| Violation {
        ops: breach.op.filter(|op| case.op(*op).is_some()).into_iter().collect(),
        ..Violation::new(Kind::BrokenContract, breach.at, breach.at)
    });
    violation.collect()
}
