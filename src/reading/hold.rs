//! Holds: from when to when a caller believes that it owns the lock, and which part of that its
//! grant covers. A hold starts at the acquire's return and ends with its
//! release, its loss or its process; deadlines count on the clock that they name.

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
    /// Its caller, by number in the index.
    pub owner: usize,
    /// The acquire's return.
    pub start: Moment,
    /// The end, not itself part of the hold.
    pub end: Moment,
    /// What ended it.
    pub ended: Ended,
    /// The parts in which the clock has not reached the deadline, in order, apart.
    pub covered: Vec<(Moment, Moment)>,
    /// Whether the caller is the liveness probe.
    pub by_probe: bool,
}

/// What ended a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The call of this release.
    Released(OpId),
    /// The caller heard of its loss by this operation.
    Lost(OpId),
    /// The caller's process died of this condition, by its index, or of its own lock.
    Died(Option<usize>),
    /// Nothing: it lasts to the end of the run.
    Open,
}

impl Hold {
    /// Whether the two holds share an instant.
    pub fn overlaps(&self, other: &Hold) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    /// From when on the hold is never covered again; its start if it never was.
    pub fn uncovered_from(&self) -> Moment {
        self.covered.last().map_or(self.start, |(_, to)| *to)
    }
}

/// A deadline and from when on it counts.
type Term = (Moment, Option<(Clock, Nanos)>);

/// The hold that an acquire of the lock began, if it was granted.
pub fn hold_of(index: &HistoryIndex, grant: OpId) -> Option<Hold> {
    let op = index.op(grant)?;
    let (Outcome::Granted { deadline, .. }, Some(ret)) = (&op.outcome, op.ret) else { return None };
    let start = Moment::from(ret);
    let (end, ended) = end_of(index, grant, &op.process, start);
    let end = end.max(start);
    let covered = covered(index, &op.process, &terms(index, grant, start, *deadline), end);
    let owner = index.caller(grant);
    Some(Hold { grant, owner, start, end, ended, covered, by_probe: op.process == PROBE })
}

/// What its caller did or heard, with which a grant was over for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// What it was: a release or a loss.
    pub ended: Ended,
    /// From when on the caller no longer counted on the grant.
    pub at: Moment,
    /// When the caller had done with it: the return; `None` if it never came.
    pub done: Option<Moment>,
}

/// Every ending of an acquire's grant: each release, each loss that the caller was told by a notice
/// or by an extend of its own. That a renewal in the background came back as lost it was not told.
pub fn endings(index: &HistoryIndex, grant: OpId) -> impl Iterator<Item = Ending> {
    index.ops_of(grant).filter_map(|op| {
        let (at, ended) = match (&op.kind, &op.outcome, op.ret) {
            (OpKind::Release { .. }, ..) => (op.call.into(), Ended::Released(op.id)),
            (OpKind::Lost { .. }, ..) => (op.call.into(), Ended::Lost(op.id)),
            (OpKind::Extend { background: false, .. }, Outcome::Lost, Some(ret)) => {
                (ret.into(), Ended::Lost(op.id))
            }
            _ => return None,
        };
        Some(Ending { ended, at, done: op.ret.map(Moment::from) })
    })
}

/// The first of its endings, the death of its process and the end of the run.
fn end_of(index: &HistoryIndex, grant: OpId, process: &str, start: Moment) -> (Moment, Ended) {
    let mut first = (Moment::from(index.history.end).max(start), Ended::Open);
    if let Some(death) = index.death_after(process, start) {
        first = (death.at, Ended::Died(death.condition));
    }
    let endings = endings(index, grant).map(|ending| (ending.at, ending.ended));
    endings.fold(first, |first, ending| if ending.0 < first.0 { ending } else { first })
}

/// The grant's deadlines, each from when on it replaced the one before. An answer to an extend that
/// was called before another which is answered already says nothing new.
fn terms(
    index: &HistoryIndex,
    grant: OpId,
    start: Moment,
    first: Option<(Clock, Nanos)>,
) -> Vec<Term> {
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

fn covered(index: &HistoryIndex, host: &str, terms: &[Term], end: Moment) -> Vec<(Moment, Moment)> {
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

/// Adds what one deadline covers between two moments, piece of the clock by piece.
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

/// Adds a part that begins after the others, as one with the last if they touch.
pub fn join(parts: &mut Vec<(Moment, Moment)>, from: Moment, until: Moment) {
    if from >= until {
        return;
    }
    match parts.last_mut() {
        Some((_, end)) if from <= *end => *end = until.max(*end),
        _ => parts.push((from, until)),
    }
}
