//! What the probe learned: which of its acquires were refused, and which nodes it reached.

use std::collections::BTreeSet;

use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::witness::Witness;
use crate::history::{Op, OpId, PROBE, Request};

impl<'a> Witness<'a> {
    /// Whether the probe was refused after it had queried the node of a key.
    pub fn kept_out_probe(&self, life: &StoryLife) -> bool {
        let mut requests = self.history().requests.iter();
        requests.any(|request| life.is_met_by(request) && self.is_refused_to_probe(request.op))
    }

    /// Whether an operation is an acquire of the probe that was refused.
    pub fn is_refused_to_probe(&self, id: OpId) -> bool {
        op(self.history(), id).is_some_and(Op::is_refused_to_probe)
    }

    /// The last acquire of the probe that was refused.
    pub fn last_refused_to_probe(&self) -> Option<&'a Op> {
        self.history().ops.iter().rfind(|op| op.is_refused_to_probe())
    }

    /// Whether the probe sent requests and got no reply to any.
    pub(super) fn is_unreached(&self) -> bool {
        let mut requests = self.requests_of_probe().peekable();
        requests.peek().is_some() && !requests.any(|request| request.is_answered())
    }

    /// The nodes to which the probe sent requests: the key of another node does not keep it out.
    pub(super) fn asked_by_probe(&self) -> BTreeSet<&'a str> {
        self.requests_of_probe().map(|request| request.to.as_str()).collect()
    }

    fn requests_of_probe(&self) -> impl Iterator<Item = &'a Request> {
        let history = self.history();
        let is_by_probe = |id| op(history, id).is_some_and(|op| op.process == PROBE);
        history.requests.iter().filter(move |request| is_by_probe(request.op))
    }
}
