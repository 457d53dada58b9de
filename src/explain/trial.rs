//! What the trials showed about the faults of a run: which made the difference.
//!
//! Without trials every question has the answer that excludes nothing.

use crate::explain::finding::Finding;
use crate::history::Condition;
use crate::ledger::part::Part;

/// Whether a fault made a difference, if that was tried.
pub fn acts(finding: &Finding, condition: &Condition) -> Option<bool> {
    let causes = &finding.experiments.as_ref()?.causes;
    Some(causes.acting().contains(&Part::Fault(condition.fault)))
}

/// Whether these faults are all that one way to the violation needs, and no way does without them.
pub fn suffice(finding: &Finding, faults: &[&Condition]) -> bool {
    let is_of = |part: &Part| faults.iter().any(|fault| part.fault() == Some(fault.fault));
    let tried = finding.experiments.as_ref().map(|tried| &tried.causes.sufficient);
    tried.is_some_and(|sets| {
        let are_all = |set: &Vec<Part>| !set.is_empty() && set.iter().all(is_of);
        sets.iter().any(are_all) && sets.iter().all(|set| set.iter().any(is_of))
    })
}

/// Whether nothing made a difference that disturbs the clocks of a host, if that was tried.
pub fn is_clock_idle(finding: &Finding, host: &str) -> bool {
    let Some(tried) = &finding.experiments else { return false };
    let (plan, causes) = (&finding.plan, &tried.causes);
    let disturbs = |part: &Part| {
        let mut own = finding.history.conditions.iter().filter(|c| c.strikes(host));
        let is_set = part.has_rate_of(plan, host) || part.has_offset_of(plan, host);
        is_set
            || own.any(|c| {
                Some(c.fault) == part.fault() && (c.verb.disturbs_clocks() || c.verb.halts())
            })
    };
    causes.untested.is_empty() && !causes.acting().iter().any(disturbs)
}

/// Whether no start of a node and no disk that forgets made a difference, if that was tried.
pub fn is_forgetting_idle(finding: &Finding) -> bool {
    let Some(tried) = &finding.experiments else { return false };
    let forgets = |part: &Part| {
        let mut faults = finding.plan.faults.iter();
        let kills = faults.any(|fault| Some(fault.id) == part.fault() && fault.verb.kills());
        kills || *part == Part::Persistence
    };
    tried.causes.untested.is_empty() && !tried.causes.acting().iter().any(forgets)
}
