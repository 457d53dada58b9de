//! Verdicts, classes, kinds and damages as words.

use crate::check::verdict::{Cause, Kind, OwnFinding, Verdict, Violation};
use crate::explain::finding::Finding;
use crate::explain::witness::{Witness, kinds};
use crate::history::ContractBreach;
use crate::plan::{Workload, WorkloadKind};
use crate::quantity::count;

/// The kinds of a verdict as words, or the verdict itself.
pub fn verdict_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds => "holds".to_owned(),
        Verdict::Unknown(_) => "unknown".to_owned(),
        Verdict::Violated(_) => {
            kinds(verdict).iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The class of a finding, in words.
pub fn class_words(finding: &Finding) -> String {
    let Some(class) = &finding.class else { return String::new() };
    let own = kinds(&finding.judgement.verdict);
    let is_here = class.in_model.iter().any(|kind| own.contains(kind));
    match (class.in_model.is_empty(), class.out_of_model.is_empty()) {
        (true, _) => "out of the lock's model".to_owned(),
        (false, true) => "in the lock's model: a bug".to_owned(),
        (false, false) => format!(
            "in the lock's model: a bug ({}{}); out of it: {}",
            words(&class.in_model),
            if is_here { "" } else { ", not in this run, but without what broke here" },
            words(&class.out_of_model)
        ),
    }
}

/// The clients of a workload, and the callers in the process of each if they are several.
pub fn clients(workload: &Workload) -> String {
    let clients = count(workload.clients.into(), "client");
    match workload.callers {
        1 => clients,
        callers if workload.clients == 1 => format!("{clients} of {callers} callers"),
        callers => format!("{clients} of {callers} callers each"),
    }
}

/// The caller whose lock broke its contract, or its host if that was in no operation.
pub fn breaker<'a>(witness: &Witness<'a>, breach: &'a ContractBreach) -> &'a str {
    breach.op.and_then(|id| witness.caller(id)).unwrap_or(&breach.process)
}

/// Kinds as words.
pub fn words(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
}

/// What a corruption did under the plan's workload.
pub fn damage(workload: &WorkloadKind, harm: &Violation) -> &'static str {
    match workload {
        _ if harm.cause == Some(Cause::Endless) => "the counter never ends",
        _ if harm.cause == Some(Cause::OneSegment) => "items were left",
        WorkloadKind::Counter => "an update was lost",
        WorkloadKind::Stock | WorkloadKind::StockSegments => "an item was sold twice",
        WorkloadKind::StockGetDecr | WorkloadKind::StockDecr | WorkloadKind::StockScript => {
            "more was sold than there was"
        }
        WorkloadKind::CheckThenIncr => "the count is above its limit",
        WorkloadKind::RateLimit
        | WorkloadKind::RateLimitTestFirst
        | WorkloadKind::RateLimitThreeSteps => "more passed than the limit allows",
        WorkloadKind::AppendLog => "a stale entry was accepted",
        WorkloadKind::Latch => "the latch was open before all had counted down",
        WorkloadKind::Semaphore => "too many were inside at once",
        WorkloadKind::Schedule => "a job ran twice in a period",
        WorkloadKind::Own(_) => "the resource was damaged",
    }
}

/// What a check of one's own found, and which check, without a full stop.
pub fn own(own: &OwnFinding) -> String {
    format!("{} (check '{}')", own.sentence, own.check)
}

/// The cause of a corruption, for a table.
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Overlap => "two holds overlapped",
        Cause::InFlight => "a write arrived after its hold",
        Cause::Again => "the lock was free again in the same period",
        Cause::Caller => "a caller without a grant",
        Cause::Test => "what the resource compares lets it through",
        Cause::Endless => "nobody set the end of the counter",
        Cause::OneSegment => "a caller that looked into one segment only",
        Cause::None => "no cause was found",
    }
}
