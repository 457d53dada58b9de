//! Why no order of the operations is legal, in words.
//!
//! The check has already searched. For each grant it gives the time by which the turn at the lock
//! must have begun, and the time from which it can end. This file only turns these times into
//! sentences; each states one inequality.

use lockstorm_platform::time::{Instant, Nanos, SECOND};

use crate::check::verdict::{Kind, Turn, TurnEnd, Violation};
use crate::explain::hold::op;
use crate::explain::witness::Witness;
use crate::history::{History, Op, OpId, OpKind, Outcome};
use crate::quantity::{length, list, moment};

/// An argument for each set of operations that has no legal order.
pub fn arguments(witness: &Witness<'_>) -> Vec<String> {
    let violations = witness.of_kind(Kind::NotLinearizable);
    violations.map(|violation| argument(witness.history(), violation)).collect()
}

/// The argument for one set of operations.
pub fn argument(history: &History, violation: &Violation) -> String {
    let ops: Vec<&Op> = violation.ops.iter().filter_map(|id| op(history, *id)).collect();
    let set: Vec<String> = ops.iter().map(|op| name(op)).collect();
    let why: String = match &violation.turns[..] {
        [one, other] => [(one, other), (other, one)]
            .into_iter()
            .filter_map(|(first, second)| clash(history, first, second))
            .collect(),
        turns => turns.iter().filter_map(|turn| stay(history, turn)).collect(),
    };
    format!("No order is legal for {}.{why}", list(&set))
}

fn name(op: &Op) -> String {
    let what = match op.kind {
        OpKind::Acquire => "acquire",
        OpKind::Extend { .. } => "extend",
        OpKind::Release { .. } => "release",
        OpKind::Lost { .. } => "loss",
        OpKind::Read { .. } => "read",
        OpKind::Write { .. } => "write",
        OpKind::Append { .. } => "append",
        OpKind::Add { .. } => "addition",
        OpKind::Expire { .. } => "expiry",
    };
    format!("{}'s {what} at {}", op.caller, moment(op.call.at))
}

/// Whether the first turn can end only after the second must have begun.
pub fn excludes(first: &Turn, second: &Turn) -> bool {
    let after = |free: Instant| (free.at, free.seq) > (second.had_by.at, second.had_by.seq);
    first.end != TurnEnd::Contradiction && first.free_from.is_none_or(after)
}

/// Why the first turn cannot come before the second.
fn clash(history: &History, first: &Turn, second: &Turn) -> Option<String> {
    if !excludes(first, second) {
        return None;
    }
    let (one, other) = (grant(history, first)?, grant(history, second)?);
    let Some(free) = first.free_from else {
        let (never, had) = (never(history, first), had(history, second, moment)?);
        return Some(format!(" {one} cannot come first: {never}, and {other} has begun {had}."));
    };
    // Both times are shown to the millisecond, unless two different times would then look equal.
    let is_near = moment(free.at) == moment(second.had_by.at) && free.at != second.had_by.at;
    let figure = if is_near { exact_moment } else { moment };
    Some(format!(
        " {one} cannot come first: {} {}, and {other} has begun {}, {} earlier.",
        lasts(history, first)?,
        figure(free.at),
        had(history, second, figure)?,
        earlier(second.had_by, free),
    ))
}

/// By when a turn must have begun, and until when it lasts.
fn stay(history: &History, turn: &Turn) -> Option<String> {
    let (one, had) = (grant(history, turn)?, had(history, turn, moment)?);
    Some(match (turn.free_from, turn.end) {
        (_, TurnEnd::Contradiction) => {
            format!(
                " {one} has begun {had}, and the later replies to its caller fit into no order."
            )
        }
        (None, _) => format!(" {one} has begun {had}: {}.", never(history, turn)),
        (Some(free), _) => {
            format!(" {one} has begun {had}: {} {}.", lasts(history, turn)?, moment(free.at))
        }
    })
}

/// A true time to the nanosecond.
fn exact_moment(at: Nanos) -> String {
    format!("{}.{:09} s", at / SECOND, at % SECOND)
}

/// The turn of a grant as text: its caller, and when the acquire was called.
fn grant(history: &History, turn: &Turn) -> Option<String> {
    op(history, turn.grant)
        .map(|op| format!("{}'s turn requested at {}", op.caller, moment(op.call.at)))
}

/// By when a caller certainly had the lock, and which operation proves it.
fn had(history: &History, turn: &Turn, figure: fn(Nanos) -> String) -> Option<String> {
    let shown = op(history, turn.shown_by)?;
    let by = figure(turn.had_by.at);
    Some(match shown.kind {
        OpKind::Acquire => format!("by {by}"),
        _ => format!("by {by}, as {} shows", name(shown)),
    })
}

/// What ends a turn, as text that the time of that end completes.
fn lasts(history: &History, turn: &Turn) -> Option<String> {
    let vain = vain(history, turn.grant);
    Some(match turn.end {
        TurnEnd::Released(id) => {
            format!("{} cannot take effect before", name(op(history, id)?))
        }
        TurnEnd::MayBeReleased(id) => {
            format!("{} may take effect at any time, but not before", name(op(history, id)?))
        }
        TurnEnd::Lease(_) => format!("{vain}its lease does not end before"),
        TurnEnd::Never | TurnEnd::Contradiction => return None,
    })
}

fn never(history: &History, turn: &Turn) -> String {
    format!("{}nothing ends it", vain(history, turn.grant))
}

/// The release of a grant that returned "not mine", as the beginning of a sentence. Empty if there
/// is none.
fn vain(history: &History, grant: OpId) -> String {
    let mut ops = history.ops.iter();
    let release =
        ops.find(|op| op.kind == OpKind::Release { grant } && op.outcome == Outcome::NotMine);
    release.map_or_else(String::new, |op| {
        format!("{} reported that nothing was its own, and ", name(op))
    })
}

/// By how much one instant precedes another.
fn earlier(one: Instant, other: Instant) -> String {
    match other.at.saturating_sub(one.at) {
        0 => "in the same instant, but".to_owned(),
        by => length(by),
    }
}
