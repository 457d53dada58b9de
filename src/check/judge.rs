//! All checks over one history, and their worst.

use crate::check::case::Case;
use crate::check::{Counts, Judgement, Terms, Verdict, Violation};
use crate::check::{corruption, counts, fence, foreign, late_loss, leak, linear, liveness};
use crate::check::{nearest_miss, overlap};
use crate::history::History;

/// Judges a history by its terms. Worst of all checks: violated, then unknown, then holds.
pub fn judge(history: &History, terms: &Terms) -> Judgement {
    let case = Case::new(history, terms);
    let counts = counts::count(&case);
    let liveness = liveness::judge(&case);
    let linear = linear::judge(&case);
    let mut violations = overlap::violations(&case, &overlap::overlaps(&case));
    violations.extend(corruption::violations(&case));
    violations.extend(foreign::violations(&case));
    violations.extend(leak::violations(&case));
    violations.extend(liveness.violations);
    violations.extend(late_loss::violations(&case));
    violations.extend(fence::violations(&case));
    violations.extend(linear.violations);
    let mut unknown = untested(&case, &counts);
    unknown.extend(liveness.unknown);
    unknown.extend(linear.unknown);
    let verdict = worst(violations, &unknown);
    let nearest_miss = (verdict == Verdict::Holds).then(|| nearest_miss::nearest(&case)).flatten();
    Judgement { verdict, counts, nearest_miss }
}

fn worst(mut violations: Vec<Violation>, unknown: &[String]) -> Verdict {
    if !violations.is_empty() {
        violations.sort_by_key(|violation| (violation.kind, violation.from));
        return Verdict::Violated(violations);
    }
    if !unknown.is_empty() {
        return Verdict::Unknown(unknown.join("; "));
    }
    Verdict::Holds
}

/// Why the run tested nothing, if so.
fn untested(case: &Case, counts: &Counts) -> Vec<String> {
    let struck = |fault: &u32| case.history.conditions.iter().any(|found| found.fault == *fault);
    let idle = case.terms.faults.iter().filter(|fault| !struck(fault));
    let mut why = idle
        .map(|fault| format!("nothing was tested: fault {fault} never struck"))
        .collect::<Vec<_>>();
    if case.terms.callers > 1 && counts.contended == 0 {
        why.push("nothing was tested: no two callers wanted the lock at the same time".to_owned());
    }
    why
}
