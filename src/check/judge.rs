//! All checks over one history, combined into the worst verdict.

use crate::check::case::Case;
use crate::check::{Counts, Judgement, Terms, Verdict, Violation};
use crate::check::{
    availability, contract, corruption, counts, fence, foreign, idle, late_loss, leak, linear,
    liveness, lost_early,
};
use crate::check::{nearest_miss, overlap, renewal};
use crate::history::History;

/// Judges a history by its terms. The worst verdict counts: violated, then unknown, then holds.
pub fn judge(history: &History, terms: &Terms) -> Judgement {
    judge_case(&Case::new(history, terms))
}

/// As [`judge`], for a prepared history.
pub fn judge_case(case: &Case) -> Judgement {
    let counts = counts::count(case);
    let liveness = liveness::judge(case);
    let linear = linear::judge(case);
    let mut violations = overlap::violations(case, &overlap::overlaps(case));
    violations.extend(contract::violations(case));
    violations.extend(corruption::violations(case));
    violations.extend(foreign::violations(case));
    violations.extend(leak::violations(case));
    violations.extend(renewal::violations(case));
    violations.extend(liveness.violations);
    violations.extend(late_loss::violations(case));
    violations.extend(lost_early::violations(case));
    violations.extend(fence::violations(case));
    violations.extend(linear.violations);
    let mut unknown = untested(case, &counts);
    unknown.extend(liveness.unknown);
    unknown.extend(linear.unknown);
    let verdict = worst(violations, &unknown);
    let nearest = nearest_miss::nearest(case);
    let nearest_miss = nearest.as_ref().map(|nearest| nearest.by);
    let availability = availability::measure(case);
    Judgement { verdict, counts, nearest_miss, nearest, availability }
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

/// The reasons why the run tested nothing.
fn untested(case: &Case, counts: &Counts) -> Vec<String> {
    let idle = idle::reasons(case).into_iter();
    let mut why = idle.map(|why| format!("nothing was tested: {why}")).collect::<Vec<_>>();
    if case.terms.contends && counts.contended == 0 {
        why.push("nothing was tested: no two callers wanted the lock at the same time".to_owned());
    }
    why.extend(nobody_granted(case));
    why
}

/// A reason if no acquire was granted before the heal though the plan grants without its faults.
fn nobody_granted(case: &Case) -> Option<String> {
    let calm = case.terms.grants_without_faults.filter(|calm| *calm > 0)?;
    let granted = counts::granted_before_heal(case.history, case.terms);
    (granted == 0).then(|| {
        format!(
            "nothing was tested: nobody was granted the lock before the heal, and without faults \
             there are {calm} grants"
        )
    })
}
