//! What a caller does that its lock cannot answer for: the lock had refused it, its hold was over,
//! or it had not looked into all that is for sale.

use std::collections::BTreeMap;

use crate::history::{Access, AccessKind, Op, OpId, OpKind};
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

    /// Whether a caller turned its buyer away, in an entry of the resource's log, without having
    /// looked into a segment that has items. Only the entries of a stock in segments have a value:
    /// what all of them have. One that was empty when the caller looked may have been filled again,
    /// by an update that came late.
    pub fn turns_away_wrongly(&self, access: &Access) -> bool {
        if access.kind != AccessKind::Append || !access.accepted || access.value <= 0 {
            return false;
        }
        let before = self.history.accesses.iter().take_while(|other| other.op != access.op);
        // What each segment has, and whether the caller has looked into it in this round.
        let mut segments: BTreeMap<&str, (i64, bool)> = BTreeMap::new();
        let since = self.last_update(access);
        for other in before.filter(|other| other.accepted) {
            let Some(op) = self.op(other.op) else { continue };
            let (items, looked) = segments.entry(&op.object).or_insert((other.value, false));
            match other.kind {
                AccessKind::Write => *items = other.value,
                AccessKind::Read => *looked |= other.caller == access.caller && since < op.id,
                _ => {}
            }
        }
        let known: i64 = segments.values().map(|(items, _)| items).sum();
        known < access.value || segments.values().any(|(items, looked)| *items > 0 && !looked)
    }

    /// The last operation before an access with which its caller ended a round: an update or an
    /// entry. One that arrives late still belongs to its round.
    fn last_update(&self, access: &Access) -> OpId {
        let earlier = self.history.ops.iter().take_while(|op| op.id < access.op);
        let own = earlier.filter(|op| op.caller == access.caller);
        let ends = |op: &&Op| matches!(op.kind, OpKind::Write { .. } | OpKind::Append { .. });
        own.filter(ends).map(|op| op.id).last().unwrap_or(0)
    }

    /// Whether an operation is the release of what its caller was refused.
    pub fn releases_refused(&self, op: &Op) -> bool {
        let OpKind::Release { grant } = op.kind else { return false };
        self.op(grant).is_some_and(Op::is_refused)
    }
}
