//! What a fault interval did, and to whom.

use lockstorm_sim::fault::Target;
use lockstorm_sim::time::Nanos;

use crate::check::moment::Moment;
use crate::history::{Condition, History};
use crate::ledger::part::Part;

/// The host that guards what the lock is for.
pub const RESOURCE: &str = "resource";

/// The fault as a part of its plan.
pub fn part(condition: &Condition) -> Part {
    Part::Fault(condition.fault)
}

/// The host that it struck; `None` if it struck links.
pub fn host(condition: &Condition) -> Option<&str> {
    (!condition.who.contains("->")).then_some(condition.who.as_str())
}

/// Whether it kept a process from running and let it go on later.
pub fn halts(condition: &Condition) -> bool {
    matches!(condition.what.as_str(), "pause" | "suspend")
}

/// Whether it ended a process.
pub fn kills(condition: &Condition) -> bool {
    crate::check::case::is_death(condition)
}

/// Whether it removes keys by command.
pub fn removes_keys(condition: &Condition) -> bool {
    matches!(condition.what.as_str(), "evict" | "flush")
}

/// Whether it makes a replica master by command.
pub fn promotes(condition: &Condition) -> bool {
    condition.what == "failover"
}

/// Whether it sets a host's clocks to another rate.
pub fn changes_rate(condition: &Condition) -> bool {
    condition.what == "clock-rate"
}

/// By how much it moved a wall clock away from true time in the end: a step by its size, a freeze
/// by the time that the clock stood.
pub fn moves_clock(condition: &Condition, end: Nanos) -> Option<i64> {
    match condition.what.as_str() {
        "clock-step" => Some(condition.size),
        "clock-freeze" => {
            let to = condition.to.map_or(end, |to| to.at);
            Some(-i64::try_from(to - condition.from.at).unwrap_or(i64::MAX))
        }
        _ => None,
    }
}

/// Whether it can make accesses of that client late: on its link to the resource, or on the
/// resource.
pub fn delays_access(condition: &Condition, client: &str) -> bool {
    match Target::try_from(condition.who.clone()) {
        Ok(Target::Host(host)) => host == RESOURCE && (halts(condition) || kills(condition)),
        Ok(Target::Links { from, to, .. }) => {
            let names = |side: &[String], host: &str| side.iter().any(|name| name == host);
            names(&from, client) && names(&to, RESOURCE)
                || names(&to, client) && names(&from, RESOURCE)
        }
        Err(_) => false,
    }
}

/// From when to when it lasted.
pub fn lasts(condition: &Condition, history: &History) -> (Moment, Moment) {
    (condition.from.into(), condition.to.unwrap_or(history.end).into())
}

/// Whether it was at work at some moment between the two, both included.
pub fn meets(condition: &Condition, history: &History, (from, to): (Moment, Moment)) -> bool {
    let (begin, end) = lasts(condition, history);
    begin <= to && from <= end
}
