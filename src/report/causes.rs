//! The experiments of a finding as tables: what is violated if one thing is changed, from which
//! figures on, and what heals it.

use crate::explain::cause::{amount, change_words, outcome_words, threshold_words};
use crate::explain::experiment::{Changed, Remedied, Threshold};
use crate::explain::finding::Finding;
use crate::report::content::Table;

/// One thing changed, and what is violated then.
pub fn but_for(finding: &Finding) -> Table {
    let row = |changed: &Changed| {
        vec![change_words(&finding.plan, changed.change), outcome_words(changed)]
    };
    let experiments = finding.experiments.iter();
    let rows = experiments.flat_map(|experiments| &experiments.causes.changes).map(row).collect();
    Table { head: vec!["one thing changed", "what is violated then"], rows }
}

/// From which figures on it is violated.
pub fn thresholds(finding: &Finding) -> Table {
    let row = |threshold: &Threshold| {
        let own = amount(threshold.unit, threshold.own);
        vec![threshold.of.clone(), own, threshold_words(threshold)]
    };
    let experiments = finding.experiments.iter();
    let rows = experiments.flat_map(|experiments| &experiments.thresholds).map(row).collect();
    Table { head: vec!["figure", "here", "threshold, all else equal"], rows }
}

/// What was tried against it, and what came of that.
pub fn remedies(finding: &Finding) -> Table {
    let row = |tried: &Remedied| {
        let here = match (tried.is_unknown, tried.kinds.is_empty()) {
            (true, _) => "unknown".to_owned(),
            (false, true) => "held".to_owned(),
            (false, false) => {
                tried.kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
            }
        };
        let fresh = format!("{} of {}", tried.holds, tried.fresh);
        vec![tried.name.clone(), tried.diff.join("; "), here, fresh]
    };
    let experiments = finding.experiments.iter();
    let rows = experiments.flat_map(|experiments| &experiments.remedies).map(row).collect();
    Table {
        head: vec!["remedy", "in the plan", "here, all else equal", "held on fresh seeds"],
        rows,
    }
}
