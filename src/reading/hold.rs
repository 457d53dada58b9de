//! Holds: the interval in which a caller believes that it owns the lock, and which part of it the
//! grant covers. A hold starts at the acquire's return and ends with its release, its loss or its
//! process; a deadline counts on the clock that it names.

use lockstorm_platform::time::{Clock, Nanos};

use crate::history::{OpId, OpKind, Outcome, PROBE};
use crate::reading::clocks;
use crate::reading::index::HistoryIndex;
use crate::reading::moment::Moment;

/// The interval in which a caller believes that it owns the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The acquire.
    pub grant: OpId,
    /// Its caller, by its number in the reading.
    pub owner: usize,
    /// The acquire's return.
    pub start: Moment,
    /// The end (exclusive).
    pub end: Moment,
    /// What ended it.
    pub ended: HoldEnd,
    /// The disjoint parts in which the clock has not reached the deadline, in order.
    pub covered: Vec<(Moment, Moment)>,
    /// Whether the caller is the liveness probe.
    pub by_probe: bool,
    /// Whether it is one in shared mode.
    pub shared: bool,
}

/// What ended a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The call of this release.
    Released(OpId),
    /// This operation notified the caller of the loss.
    Lost(OpId),
    /// The caller's process died of the fault interval with this index, or of its own lock.
    Died(Option<usize>),
    /// Nothing: it lasts to the end of the run.
    Open,
}

impl Hold {
    /// Whether the two holds share an instant.
    pub fn overlaps(&self, other: &Hold) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    /// Whether the grant covers the hold at a moment.
    pub fn covers(&self, moment: Moment) -> bool {
        self.covered.iter().any(|(from, to)| *from <= moment && moment < *to)
    }

    /// The moment from which on the hold is never covered again; its start if it never was covered.
    pub fn uncovered_from(&self) -> Moment {
        self.covered.last().map_or(self.start, |(_, to)| *to)
    }
}

/// A deadline and the moment from which on it counts.
type LeaseTerm = (Moment, Option<(Clock, Nanos)>);

/// The hold that an acquire of the lock began, if it was granted.
pub fn hold_of(index: &HistoryIndex, grant: OpId) -> Option<Hold> {
    let op = index.op(grant)?;
    let (Outcome::Granted { deadline, .. }, Some(ret)) = (&op.outcome, op.ret) else { return None };
    let start = Moment::from(ret);
    let (end, ended) = end_of(index, grant, &op.process, start);
    let end = end.max(start);
    let covered = covered(index, &op.process, &terms(index, grant, start, *deadline), end);
    let owner = index.caller(grant);
    let (by_probe, shared) = (op.process == PROBE, op.shared);
    Some(Hold { grant, owner, start, end, ended, covered, by_probe, shared })
}

/// The moment from which on no deadline that an acquire's grant showed its caller covers it any
/// more, up to `end`, although the caller may have released the grant before.
pub fn lease_end(index: &HistoryIndex, grant: OpId, end: Moment) -> Option<Moment> {
    let op = index.op(grant)?;
    let (Outcome::Granted { deadline, .. }, Some(ret)) = (&op.outcome, op.ret) else { return None };
    let terms = terms(index, grant, ret.into(), *deadline);
    covered(index, &op.process, &terms, end).last().map(|(_, to)| *to)
}

/// What ended a grant for its caller: an operation or a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldEnding {
    /// The kind: a release or a loss.
    pub ended: HoldEnd,
    /// The moment from which on the caller no longer relied on the grant.
    pub at: Moment,
    /// The return of the operation; `None` if it never returned.
    pub done: Option<Moment>,
}

/// Every ending of an acquire's grant: each release, and each loss of which the caller learned by a
/// notice or by an extend of its own. The caller does not learn of a background renewal that
/// returned lost.
pub fn endings(index: &HistoryIndex, grant: OpId) -> impl Iterator<Item = HoldEnding> {
    index.ops_of(grant).filter_map(|op| {
        let (at, ended) = match (&op.kind, &op.outcome, op.ret) {
            (OpKind::Release { .. }, ..) => (op.call.into(), HoldEnd::Released(op.id)),
            (OpKind::Lost { .. }, ..) => (op.call.into(), HoldEnd::Lost(op.id)),
            (OpKind::Extend { background: false, .. }, Outcome::Lost, Some(ret)) => {
                (ret.into(), HoldEnd::Lost(op.id))
            }
            _ => return None,
        };
        Some(HoldEnding { ended, at, done: op.ret.map(Moment::from) })
    })
}

/// The first of: its endings, the death of its process, the end of the run.
fn end_of(index: &HistoryIndex, grant: OpId, process: &str, start: Moment) -> (Moment, HoldEnd) {
    let mut first = (Moment::from(index.history.end).max(start), HoldEnd::Open);
    if let Some(death) = index.death_after(process, start) {
        first = (death.at, HoldEnd::Died(death.interval));
    }
    let endings = endings(index, grant).map(|ending| (ending.at, ending.ended));
    endings.fold(first, |first, ending| if ending.0 < first.0 { ending } else { first })
}

/// The grant's deadlines, each with the moment at which it replaced the previous one. The reply to
/// an extend is ignored if an extend that was called later has already returned.
fn terms(
    index: &HistoryIndex,
    grant: OpId,
    start: Moment,
    first: Option<(Clock, Nanos)>,
) -> Vec<LeaseTerm> {
    let mut terms = vec![(start, Moment::default(), first)];
    for op in index.ops_of(grant) {
        if let (OpKind::Extend { .. }, Outcome::Kept { deadline }, Some(ret)) =
            (&op.kind, &op.outcome, op.ret)
        {
            terms.push((start.max(ret.into()), Moment::from(op.call), *deadline));
        }
    }
    terms.sort_by_key(|(from, ..)| *from);
    let mut newest = Moment::default();
    terms.retain(|(_, call, _)| {
        newest = newest.max(*call);
        *call == newest
    });
    terms.into_iter().map(|(from, _, deadline)| (from, deadline)).collect()
}

fn covered(
    index: &HistoryIndex,
    host: &str,
    terms: &[LeaseTerm],
    end: Moment,
) -> Vec<(Moment, Moment)> {
    let mut parts = Vec::new();
    for (place, (from, deadline)) in terms.iter().enumerate() {
        let until = terms.get(place + 1).map_or(end, |(next, _)| *next).min(end);
        match deadline {
            Some(deadline) => cover(index, host, *deadline, (*from, until), &mut parts),
            None => join(&mut parts, *from, until),
        }
    }
    parts
}

/// Adds what one deadline covers between two moments, one piece of the clock at a time.
fn cover(
    index: &HistoryIndex,
    host: &str,
    (clock, deadline): (Clock, Nanos),
    (from, until): (Moment, Moment),
    parts: &mut Vec<(Moment, Moment)>,
) {
    let pieces = index.clocks.pieces(host, clock);
    let later = pieces.partition_point(|piece| Moment::from(piece.from) <= from);
    for place in later.saturating_sub(1)..pieces.len() {
        let from = from.max(pieces[place].from.into());
        let next = pieces.get(place + 1).map_or(until, |next| next.from.into()).min(until);
        if from >= next {
            break;
        }
        let end = clocks::passing(pieces[place].line, from, next, deadline).unwrap_or(next);
        join(parts, from, end);
    }
}

/// Adds a part that begins after the others; merges it with the last if they touch.
pub fn join(parts: &mut Vec<(Moment, Moment)>, from: Moment, until: Moment) {
    if from >= until {
        return;
    }
    match parts.last_mut() {
        Some((_, end)) if from <= *end => *end = until.max(*end),
        _ => parts.push((from, until)),
    }
}
