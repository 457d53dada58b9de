//! Holds as a reader wants to see them: from grant to end, and where each was covered.
//!
//! This judges nothing; the checks have their own. True times only, for sentences and pictures.

use lockstorm_sim::fault::Target;
use lockstorm_sim::time::{Clock, EPOCH, Instant, Line, Nanos};

use crate::history::{ClockPiece, Condition, History, Op, OpId, OpKind, Outcome};

/// A caller's belief that it owns the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold<'a> {
    /// The acquire that was granted.
    pub grant: &'a Op,
    /// When the acquire returned.
    pub from: Instant,
    /// When the belief ended.
    pub until: Instant,
    /// What ended it.
    pub end: End,
    /// When its clock would reach the deadline that it was granted with, as the clock ran then.
    pub lease: Option<Nanos>,
    /// Stretches of true time in which its clock had not reached its deadline.
    pub covered: Vec<(Nanos, Nanos)>,
}

/// What ended a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The call of this release.
    Released(OpId),
    /// The caller was told of its loss by this operation.
    Told(OpId),
    /// The process died of this condition, by its index.
    Died(usize),
    /// Nothing, before the run was over.
    Open,
}

impl Hold<'_> {
    /// When it last ceased to be covered, if that was before it ended.
    pub fn bare_from(&self) -> Option<Nanos> {
        let last = self.covered.last().map_or(self.from.at, |(_, end)| *end);
        (last < self.until.at).then_some(last)
    }
}

/// Every hold, in order of its beginning.
pub fn holds(history: &History) -> Vec<Hold<'_>> {
    let mut holds: Vec<Hold<'_>> =
        history.ops.iter().filter_map(|op| hold_of(history, op)).collect();
    holds.sort_by_key(|hold| hold.from);
    holds
}

/// The operation with this number.
pub fn op(history: &History, id: OpId) -> Option<&Op> {
    history.ops.binary_search_by_key(&id, |op| op.id).ok().map(|index| &history.ops[index])
}

/// The acquire that an operation belongs to: itself, or the one that it names.
pub fn grant_of(op: &Op) -> Option<OpId> {
    match op.kind {
        OpKind::Acquire => Some(op.id),
        OpKind::Extend { grant, .. } | OpKind::Release { grant } | OpKind::Lost { grant } => {
            Some(grant)
        }
        OpKind::Read { grant } | OpKind::Write { grant, .. } | OpKind::Append { grant } => grant,
    }
}

/// Whether the condition names this host as its target, or as an end of its links.
pub fn touches(condition: &Condition, host: &str) -> bool {
    match Target::try_from(condition.who.clone()) {
        Ok(target) => target.hosts().contains(&host),
        Err(_) => condition.who == host,
    }
}

/// Whether the condition ends the life of its target's process.
pub fn kills(condition: &Condition) -> bool {
    matches!(condition.what.as_str(), "crash" | "power-loss" | "restart")
}

/// Whether the condition keeps its target's process from running.
pub fn halts(condition: &Condition) -> bool {
    matches!(condition.what.as_str(), "pause" | "suspend")
}

fn hold_of<'a>(history: &'a History, op: &'a Op) -> Option<Hold<'a>> {
    let (OpKind::Acquire, Outcome::Granted { deadline, .. }) = (&op.kind, &op.outcome) else {
        return None;
    };
    let from = op.ret?.instant();
    let (until, end) = end_of(history, op, from);
    let covered = covered(history, op, *deadline, from.at, until.at);
    let lease = deadline.and_then(|(clock, reading)| {
        line_at(history, &op.process, clock, from.at).reaches(reading)
    });
    Some(Hold { grant: op, from, until, end, lease, covered })
}

fn end_of(history: &History, grant: &Op, from: Instant) -> (Instant, End) {
    let asked = history.ops.iter().filter_map(|op| match op.kind {
        OpKind::Release { grant: of } if of == grant.id => {
            Some((op.call.instant(), End::Released(op.id)))
        }
        OpKind::Lost { grant: of } if of == grant.id => Some((op.call.instant(), End::Told(op.id))),
        OpKind::Extend { grant: of, background: false }
            if of == grant.id && op.outcome == Outcome::Lost =>
        {
            Some((op.ret?.instant(), End::Told(op.id)))
        }
        _ => None,
    });
    let deaths = history.conditions.iter().enumerate().filter_map(|(index, condition)| {
        let dies = kills(condition) && touches(condition, &grant.process);
        dies.then_some((condition.from, End::Died(index)))
    });
    let ends = asked.chain(deaths).filter(|(at, _)| *at >= from);
    ends.min_by_key(|(at, _)| *at).unwrap_or((history.end, End::Open))
}

/// Cuts the hold where the deadline or the clock's line changes, and covers each part as far
/// as its line runs short of its deadline.
fn covered(
    history: &History,
    grant: &Op,
    deadline: Option<(Clock, Nanos)>,
    from: Nanos,
    until: Nanos,
) -> Vec<(Nanos, Nanos)> {
    let Some((clock, _)) = deadline else { return vec![(from, until)] };
    let kept = |op: &Op| match (&op.kind, &op.outcome) {
        (OpKind::Extend { grant: of, .. }, Outcome::Kept { deadline }) if *of == grant.id => {
            Some((op.ret?.at, *deadline))
        }
        _ => None,
    };
    let mut deadlines = vec![(from, deadline)];
    deadlines.extend(history.ops.iter().filter_map(kept));
    let mut cuts: Vec<Nanos> = deadlines.iter().map(|(at, _)| *at).collect();
    cuts.extend(pieces(history, &grant.process, clock).map(|piece| piece.from.at));
    cuts.retain(|at| (from..until).contains(at));
    cuts.sort_unstable();
    cuts.dedup();
    let mut covered: Vec<(Nanos, Nanos)> = Vec::new();
    for (index, start) in cuts.iter().enumerate() {
        let stop = cuts.get(index + 1).copied().unwrap_or(until);
        let current = deadlines.iter().rfind(|(at, _)| at <= start).and_then(|(_, d)| *d);
        let line = line_at(history, &grant.process, clock, *start);
        let end = match current {
            Some((_, reading)) if line.at(*start) >= reading => *start,
            Some((_, reading)) => line.reaches(reading).unwrap_or(stop).min(stop),
            None => stop,
        };
        match covered.last_mut() {
            Some(last) if last.1 == *start => last.1 = end,
            _ if end > *start => covered.push((*start, end)),
            _ => {}
        }
    }
    covered
}

/// The pieces of one clock of one host.
pub fn pieces<'a>(
    history: &'a History,
    host: &'a str,
    clock: Clock,
) -> impl Iterator<Item = &'a ClockPiece> {
    history.clocks.iter().filter(move |piece| piece.host == host && piece.clock == clock)
}

/// The line that a clock follows at true time `at`; one without error where none is recorded.
pub fn line_at(history: &History, host: &str, clock: Clock, at: Nanos) -> Line {
    let found = pieces(history, host, clock).filter(|piece| piece.line.since <= at).last();
    let reading = if clock == Clock::Wall { EPOCH } else { 0 };
    found.map_or(Line { since: 0, reading, rate_ppm: 0 }, |piece| piece.line)
}
