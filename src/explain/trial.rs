//! What the trials showed about the faults of a run: which of them made the difference.
//!
//! Without trials, every function gives the answer that excludes nothing.

use crate::explain::finding::Finding;
use crate::history::FaultInterval;
use crate::ledger::part::Part;

/// Whether a fault made a difference, if that was tried.
pub fn acts(finding: &Finding, interval: &FaultInterval) -> Option<bool> {
    let part = Part::Fault(interval.fault);
    if finding.experiments.as_ref()?.causes.acting().contains(&part) {
        return Some(true);
    }
    is_idle(finding, |other| *other == part).then_some(false)
}

/// Whether one of the sets that suffice contains only these faults, and each of those sets contains
/// at least one of them.
pub fn suffice(finding: &Finding, faults: &[&FaultInterval]) -> bool {
    let is_of = |part: &Part| faults.iter().any(|fault| part.fault() == Some(fault.fault));
    let tried = finding.experiments.as_ref().map(|tried| &tried.causes.sufficient);
    tried.is_some_and(|sets| {
        let are_all = |set: &Vec<Part>| !set.is_empty() && set.iter().all(is_of);
        sets.iter().any(are_all) && sets.iter().all(|set| set.iter().any(is_of))
    })
}

/// Whether trials found that no part that disturbs the clocks of a host made a difference.
pub fn is_clock_idle(finding: &Finding, host: &str) -> bool {
    let disturbs = |part: &Part| {
        let mut own = finding.history.fault_intervals.iter().filter(|c| c.strikes(host));
        let is_set =
            part.has_rate_of(&finding.plan, host) || part.has_offset_of(&finding.plan, host);
        is_set
            || own.any(|c| {
                Some(c.fault) == part.fault() && (c.verb.disturbs_clocks() || c.verb.halts())
            })
    };
    is_idle(finding, disturbs)
}

/// Whether trials found that no kill of a process and no setting of persistence made a difference.
pub fn is_forgetting_idle(finding: &Finding) -> bool {
    is_idle(finding, |part| {
        let mut faults = finding.plan.faults.iter();
        let kills = faults.any(|fault| Some(fault.id) == part.fault() && fault.verb.kills());
        kills || *part == Part::Persistence
    })
}

/// Whether trials found that the length of the work made no difference.
pub fn is_work_idle(finding: &Finding) -> bool {
    let is_work = |part: &Part| matches!(part, Part::Work(_));
    finding.experiments.as_ref().is_some_and(|tried| tried.causes.idle.iter().any(is_work))
}

/// Whether each of these parts was tried and none of them made a difference.
fn is_idle(finding: &Finding, are_these: impl Fn(&Part) -> bool) -> bool {
    let Some(tried) = &finding.experiments else { return false };
    let causes = &tried.causes;
    let mut others = causes.untested.iter().chain(&causes.needed_here);
    !causes.acting().iter().any(&are_these) && !others.any(are_these)
}
