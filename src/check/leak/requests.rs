//! The requests of a history by their operations.

use std::cell::OnceCell;

use crate::check::case::Case;
use crate::history::{Op, OpId, Outcome, Request};
use crate::reading::tries::KEYLESS;

/// The requests of each operation, sorted on first use because most runs have no leftovers.
pub struct Requests<'a> {
    /// All requests.
    pub all: &'a [Request],
    ids: usize,
    by_op: OnceCell<Vec<Vec<&'a Request>>>,
}

impl<'a> Requests<'a> {
    /// The requests of a case's history.
    pub fn of(case: &Case<'a>) -> Requests<'a> {
        let history = case.history;
        Requests { all: &history.requests, ids: history.ops.len(), by_op: OnceCell::new() }
    }

    /// The requests of one operation.
    pub fn of_op(&self, op: OpId) -> &[&'a Request] {
        let by_op = self.by_op.get_or_init(|| {
            let mut by_op = vec![Vec::new(); self.ids];
            for request in self.all {
                if let Some(requests) = by_op.get_mut(request.op as usize) {
                    requests.push(request);
                }
            }
            by_op
        });
        &by_op[op as usize]
    }

    /// Whether an operation with an unknown outcome took its time and sent nothing: it may have
    /// tried to connect. A lock's own time-out around that leaves no record of the attempt.
    pub fn looked_for_a_node(&self, op: &Op) -> bool {
        let took_time = op.ret.is_some_and(|ret| op.call.at < ret.at);
        let is_silent = !self.all.is_empty() && self.of_op(op.id).is_empty();
        op.outcome == Outcome::Unknown && took_time && is_silent
    }
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
