//! What a request may have done to the key.

use lockstorm_platform::time::Instant;

use crate::check::case::Case;
use crate::history::{Op, Outcome, Request};
use crate::reading::tries::KEYLESS;

/// Whether an operation with an unknown outcome took its time and sent nothing: it may have tried
/// to connect. A lock's own time-out around that leaves no record of the attempt.
pub fn looked_for_a_node(case: &Case, op: &Op) -> bool {
    let took_time = op.ret.is_some_and(|ret| op.call.at < ret.at);
    let is_silent = !case.history.requests.is_empty() && case.requests_of(op.id).is_empty();
    op.outcome == Outcome::Unknown && took_time && is_silent
}

/// Whether a request may have read or changed the lock's key; WATCH does neither.
pub fn concerns(request: &Request) -> bool {
    let names_none = KEYLESS.contains(&&*request.command) || request.command == "WATCH";
    !names_none && !request.other_keys
}

/// Whether a request may have freed the key, or was a step on the way to that: an operation ends
/// with a request that has no reply, or whose reply is an error.
pub fn may_free(request: &Request) -> bool {
    concerns(request) || request.declined || !request.is_answered()
}

/// Whether a request deletes a key or a member, and does nothing else.
pub fn deletes(request: &Request) -> bool {
    let of_keys = ["DEL", "UNLINK", "GETDEL", "DELEX", "DELIFEQ"];
    let of_members = ["HDEL", "LREM", "SREM", "ZREM"];
    of_keys.iter().chain(&of_members).any(|command| *command == request.command)
}

/// When the client began to send it; it may never have been sent.
pub fn tried(request: &Request) -> Option<Instant> {
    request.legs.first().map(|(_, at)| *at)
}
