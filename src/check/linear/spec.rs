//! What a lock and a register promise, one action at a time, and which operations count as which
//! action. It knows no search.
//!
//! The rules for operations on a lock:
//! - A grant, a kept extend and a release that returned as released took effect at one point
//!   between call and return.
//! - A release with an unknown outcome (a timeout, a caller that died) may take effect at any time
//!   from its call on, even long after its return, or never.
//! - A release that returned "not mine" had no effect. Several nodes give it if no majority of
//!   them had the key: if it removed keys of some nodes, its outcome counts as unknown. So does
//!   "released" from several nodes, which does not prove that each of them had the key.
//! - An acquire or an extend with an unknown outcome is left out, unless a later reply proves the
//!   acquire: leaving one out never makes it harder to find an order. A re-entry with an unknown
//!   outcome may have taken effect, from its call on: a later reply to its tenure can depend on
//!   that.
//! - Refusals prove nothing (lenient). A lost extend, or a notice of a loss, may have ended the
//!   hold from its call on: the lock was free, or the caller gave it up.
//! - A lease may expire on its own; see [`lease_end`].

use std::collections::BTreeSet;

use lockstorm_platform::time::{Clock, Nanos};

use crate::check::case::Case;
use crate::check::linear::search::{Item, SequentialModel};
use crate::history::{Op, OpId, OpKind, Outcome};
use crate::promise;
use crate::reading::hold::Hold;
use crate::reading::moment::Moment;

/// A lock for one holder: a mutex if no hold can expire on its own, otherwise a lease.
pub struct LockModel;

/// What happens to a lock, for one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAction {
    /// The lock is granted; the moment from which on the hold can end without a reply.
    Acquire(Moment),
    /// The grant is extended; the new moment from which on the hold can end without a reply.
    Extend(Moment),
    /// Its holder acquires it again. The first moment is the one from which on the hold can then
    /// end. The second replaces it if the previous lease has expired and this grant is released
    /// separately.
    Reenter(Moment, Moment),
    /// It is released.
    Release,
}

impl SequentialModel for LockModel {
    type State = Option<(i64, Moment)>;
    type Action = LockAction;

    fn initial(&self) -> Self::State {
        None
    }

    fn only_looks(&self, _: &LockAction) -> bool {
        false
    }

    fn step(
        &self,
        state: Self::State,
        item: &Item<LockAction>,
        from: Moment,
    ) -> Option<(Self::State, Moment)> {
        let mine = state.is_some_and(|(holder, _)| holder == item.block);
        match (item.action, state) {
            (LockAction::Acquire(ends), None) => Some((Some((item.block, ends)), from)),
            (LockAction::Acquire(_), Some((_, Moment::NEVER))) => None,
            (LockAction::Acquire(ends), Some((_, free))) => {
                Some((Some((item.block, ends)), from.max(free)))
            }
            (LockAction::Reenter(ends, _), Some((_, old))) if mine && old > from => {
                Some((Some((item.block, ends.max(old))), from))
            }
            (LockAction::Reenter(_, ends), None) => Some((Some((item.block, ends)), from)),
            (LockAction::Reenter(_, ends), Some((_, old))) if mine || old != Moment::NEVER => {
                Some((Some((item.block, ends)), from.max(old)))
            }
            (LockAction::Reenter(..), Some(_)) => None,
            (LockAction::Extend(ends), _) => mine.then_some((Some((item.block, ends)), from)),
            (LockAction::Release, _) => mine.then_some((None, from)),
        }
    }

    /// A re-entry after the previous lease has expired can be released separately.
    fn step_later(
        &self,
        state: Self::State,
        item: &Item<LockAction>,
        from: Moment,
    ) -> Option<(Self::State, Moment)> {
        let (holder, over) = state?;
        let waits = holder == item.block && over > from && over != Moment::NEVER;
        let LockAction::Reenter(_, ends) = item.action else { return None };
        waits.then_some((Some((item.block, ends)), over))
    }
}

/// The actions on the lock.
pub fn lock_items(case: &Case) -> Vec<Item<LockAction>> {
    let mut items = Vec::new();
    // What holds the lock in shared mode is left out: that never makes it harder to find an order.
    for op in case.acquires().filter(|op| !op.shared) {
        let proof = proven_by(case, op);
        let ret = proof.and_then(|proof| proof.ret).map_or(Moment::NEVER, Moment::from);
        if let Some(outer) = nested_in(case, op) {
            let is_certain = proof.is_some();
            let may = is_certain || op.outcome == Outcome::Unknown && is_sole(case);
            items.extend(may.then(|| Item { is_certain, ..reentry(case, op, ret, outer) }));
            continue;
        }
        if proof.is_none() {
            continue;
        }
        let permitted = released_from(case, op.id).map_or(Moment::NEVER, |(from, _)| from);
        let ends = |op: &Op| permitted.min(lease_end(case, op));
        let item = |op: &Op, ret, action| {
            let (block, call) = (i64::from(item_block(op)), op.call.into());
            Item { op: op.id, block, call, ret, is_certain: true, action }
        };
        items.push(item(op, ret, LockAction::Acquire(ends(op))));
        for member in case.ops_of(op.id) {
            let Some(ret) = member.ret.map(Moment::from) else { continue };
            if is_kept(member) {
                items.push(item(member, ret, LockAction::Extend(ends(member))));
            }
            if member.outcome == Outcome::Released && is_sole(case) {
                items.push(item(member, ret, LockAction::Release));
            }
        }
    }
    items
}

/// The acquire that began the tenure in which another acquire was called and returned.
fn nested_in(case: &Case, op: &Op) -> Option<OpId> {
    let Hold { grant, end, .. } = case.tenure(op.id)?.whole;
    (grant != op.id && Moment::from(op.ret?) < end).then_some(grant)
}

/// A re-entrant grant is no separate hold: it extends the hold of which it is part. An end that a
/// release of that hold permits is still permitted. Leniently, the same applies if the grant begins
/// a hold again that the release had ended. One that sent no request lasts no longer than the hold
/// does.
fn reentry(case: &Case, op: &Op, ret: Moment, outer: OpId) -> Item<LockAction> {
    let permitted = released_from(case, outer).map_or(Moment::NEVER, |(from, _)| from);
    let is_local = !case.history.requests.is_empty() && case.requests_of(op.id).is_empty();
    let lasts = if is_local { op.call.into() } else { lease_end(case, op) };
    let ends = permitted.min(lasts);
    let releases = case.ops_of(op.id).filter(|op| matches!(op.kind, OpKind::Release { .. }));
    let vague = case.ops_of(outer).filter(|op| may_have_ended(case, op));
    let freed = releases.chain(vague).map(|op| op.call.into()).fold(ends, Moment::min);
    let (block, call) = (i64::from(outer), op.call.into());
    let action = LockAction::Reenter(ends, freed);
    Item { op: op.id, block, call, ret, is_certain: true, action }
}

/// The acquire that an operation on the lock belongs to.
pub fn item_block(op: &Op) -> OpId {
    match op.kind {
        OpKind::Extend { grant, .. } | OpKind::Release { grant } | OpKind::Lost { grant } => grant,
        _ => op.id,
    }
}

fn is_kept(op: &Op) -> bool {
    matches!(op.outcome, Outcome::Kept { .. })
}

/// With one node, "released" proves that the lock was held. With several, it proves only that some
/// node had the key.
fn is_sole(case: &Case) -> bool {
    case.terms.queries_one_node()
}

/// The operation whose return shows that an acquire had the lock: its own, or the first that proves
/// it.
pub fn proven_by<'a>(case: &Case<'a>, op: &'a Op) -> Option<&'a Op> {
    match op.outcome {
        Outcome::Granted { .. } => op.ret.map(|_| op),
        Outcome::Unknown | Outcome::Pending if is_sole(case) => {
            let proofs =
                case.ops_of(op.id).filter(|op| is_kept(op) || op.outcome == Outcome::Released);
            proofs.filter(|op| op.ret.is_some()).min_by_key(|op| op.ret.map(Moment::from))
        }
        _ => None,
    }
}

/// When a release with an uncertain outcome or a loss can first have ended the hold, and that
/// operation.
pub fn released_from(case: &Case, grant: OpId) -> Option<(Moment, OpId)> {
    let mut permitted: Option<(Moment, OpId)> = None;
    for op in case.ops_of(grant) {
        if op.outcome == Outcome::Released && is_sole(case) {
            return None;
        }
        let permits = may_have_ended(case, op);
        let from = (Moment::from(op.call), op.id);
        permitted =
            if permits { Some(permitted.map_or(from, |at| at.min(from))) } else { permitted };
    }
    permitted
}

/// Whether an operation may have ended the hold, for all that its outcome says: a release that may
/// have removed the key, or the report of a loss.
fn may_have_ended(case: &Case, op: &Op) -> bool {
    match (&op.kind, &op.outcome) {
        (OpKind::Release { .. }, Outcome::Released) => !is_sole(case),
        (OpKind::Release { .. }, Outcome::NotMine) => {
            !is_sole(case) && may_have_removed(case, op.id)
        }
        (OpKind::Release { .. }, _) => true,
        (_, outcome) => *outcome == Outcome::Lost,
    }
}

/// Whether a release changed a key on some node, as far as the history records keys.
fn may_have_removed(case: &Case, release: OpId) -> bool {
    let keys = || case.history.keys.iter().filter(|key| key.key == case.terms.lock_key);
    keys().next().is_none() || keys().any(|key| key.by == Some(release))
}

/// The moment from which on a lease can expire: its time to live after the call, or the deadline
/// that the caller received if that is earlier, since the lock promised no more.
fn lease_end(case: &Case, op: &Op) -> Moment {
    if case.terms.model != promise::Model::Lease {
        return Moment::NEVER;
    }
    let ttl = case.terms.ttl.map(|ttl| Moment::passing(op.call.at.saturating_add(ttl)));
    let promised = deadline(op).and_then(|(clock, reading)| {
        case.clocks.reaches(&op.process, clock, op.call.into(), reading)
    });
    ttl.into_iter().chain(promised).min().unwrap_or(Moment::NEVER)
}

fn deadline(op: &Op) -> Option<(Clock, Nanos)> {
    match op.outcome {
        Outcome::Granted { deadline, .. } | Outcome::Kept { deadline } => deadline,
        _ => None,
    }
}

/// A register with reads and writes.
pub struct Register {
    /// The initial value.
    pub initial: i64,
}

/// What happens to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterAction {
    /// The value is read.
    Read(i64),
    /// The value is written.
    Write(i64),
}

impl SequentialModel for Register {
    type State = i64;
    type Action = RegisterAction;

    fn initial(&self) -> i64 {
        self.initial
    }

    fn only_looks(&self, action: &RegisterAction) -> bool {
        matches!(action, RegisterAction::Read(_))
    }

    fn step(&self, state: i64, item: &Item<RegisterAction>, from: Moment) -> Option<(i64, Moment)> {
        match item.action {
            RegisterAction::Read(value) => (value == state).then_some((state, from)),
            RegisterAction::Write(value) => Some((value, from)),
        }
    }
}

/// The actions on the resource, or on the segment of it with this name. A write with an unknown
/// outcome counts only if a read returns its value: otherwise nothing is lost by leaving it out.
pub fn register_items(case: &Case, segment: Option<&str>) -> Vec<Item<RegisterAction>> {
    let is_own =
        |op: &&Op| segment.map_or(op.object != case.terms.lock_key, |name| op.object == name);
    let ops = || case.history.ops.iter().filter(is_own);
    let read = ops().filter_map(|op| match op.outcome {
        Outcome::Value { value } => Some(value),
        _ => None,
    });
    let read = read.collect::<BTreeSet<_>>();
    let items = ops().filter_map(|op| {
        let (action, value, is_certain) = match (&op.kind, &op.outcome) {
            (OpKind::Read { .. }, Outcome::Value { value }) => {
                (RegisterAction::Read(*value), *value, true)
            }
            (OpKind::Write { value, .. }, Outcome::Accepted) => {
                (RegisterAction::Write(*value), *value, true)
            }
            (OpKind::Write { value, .. }, Outcome::Unknown | Outcome::Pending)
                if read.contains(value) =>
            {
                (RegisterAction::Write(*value), *value, false)
            }
            _ => return None,
        };
        let ret = if is_certain { op.ret?.into() } else { Moment::NEVER };
        Some(Item { op: op.id, block: value, call: op.call.into(), ret, is_certain, action })
    });
    items.collect()
}
