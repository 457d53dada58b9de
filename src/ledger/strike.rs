//! What a fault interval did, and to which host.

use lockstorm_platform::fault::{Target, Verb};

use crate::history::{FaultInterval, RESOURCE};
use crate::ledger::part::Part;
use crate::reading::history::Reading;
use crate::reading::moment::Moment;

/// The fault as a part of its plan.
pub fn part(interval: &FaultInterval) -> Part {
    Part::Fault(interval.fault)
}

/// Whether the fault can delay accesses of that client: it acts on the client's link to the
/// resource or on the resource, or it suspends the client's machine, after which both sides wait
/// before they retransmit.
pub fn delays_access(interval: &FaultInterval, client: &str) -> bool {
    let verb = &interval.verb;
    match &interval.target {
        Target::Host(host) if host == RESOURCE => verb.halts() || verb.kills(),
        Target::Host(host) => host == client && *verb == Verb::Suspend,
        Target::Links { from, to, .. } => {
            let names = |side: &[String], host: &str| side.iter().any(|name| name == host);
            names(from, client) && names(to, RESOURCE) || names(to, client) && names(from, RESOURCE)
        }
    }
}

/// Whether the fault was active at some moment between the two, both inclusive.
pub fn meets(interval: &FaultInterval, reading: &Reading, (from, to): (Moment, Moment)) -> bool {
    let (begin, over) = reading.lasts(interval);
    begin <= to && from <= over
}
