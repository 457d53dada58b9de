//! What a caller does that its lock cannot answer for: the lock had refused it, or its hold was
//! over.

use crate::history::{Access, AccessKind, Op, OpKind};
use crate::reading::history::Reading;
use crate::reading::moment::Moment;

impl Reading<'_> {
    /// Whether a caller sent an access without a grant, or after its hold had ended. An access that
    /// was sent within the hold and arrives later is no misuse.
    pub fn is_sent_outside_a_hold(&self, access: &Access) -> bool {
        let grant = access.grant.filter(|grant| self.is_granted(*grant));
        let Some(tenure) = grant.and_then(|grant| self.tenure(grant)) else { return true };
        let sent = self.op(access.op).map(|op| Moment::from(op.call));
        sent.is_some_and(|sent| tenure.whole.end <= sent)
    }

    /// Whether a caller turned its buyer away, in an entry of the resource's log, while there was
    /// something to sell. Only the entries of a stock in segments have a value.
    pub fn turns_away_wrongly(&self, access: &Access) -> bool {
        access.kind == AccessKind::Append && access.accepted && access.value > 0
    }

    /// Whether an operation is the release of what its caller was refused.
    pub fn releases_refused(&self, op: &Op) -> bool {
        let OpKind::Release { grant } = op.kind else { return false };
        self.op(grant).is_some_and(Op::is_refused)
    }
}
