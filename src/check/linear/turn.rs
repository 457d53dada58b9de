//! Why a set of grants has no legal order, as far as inequalities show it: when each grant must
//! have begun its turn at the lock, and the earliest moment at which its turn can end.
//!
//! Two turns have no order if each can end only after the other must have begun. For three or more
//! this is not the whole argument, but each figure is true. Nested grants have one turn.

use std::collections::BTreeSet;

use crate::check::case::Case;
use crate::check::linear::search::{self, Item};
use crate::check::linear::spec::{self, LockAction, LockModel};
use crate::check::verdict::{Turn, TurnEnd};
use crate::history::{OpId, OpKind};
use crate::reading::moment::Moment;
use lockstorm_platform::time::Instant;

type Turns<'a> = Vec<&'a Item<LockAction>>;

/// The turns of the grants to which these operations belong, the earliest acquire first.
pub fn turns(case: &Case, ops: &[OpId]) -> Vec<Turn> {
    let items = spec::lock_items(case);
    let acquires = ops.iter().filter_map(|id| case.op(*id).filter(|op| op.kind == OpKind::Acquire));
    let first: BTreeSet<OpId> = acquires.map(|op| case.outermost(op.id)).collect();
    let turns = first.into_iter().filter_map(|id| case.op(id)).filter_map(|op| {
        let own = items.iter().filter(|item| item.is_certain && item.block == i64::from(op.id));
        let own: Turns = own.collect();
        let shown_by = spec::proven_by(case, op)?;
        let end = earliest_end(&own, None, Moment::default());
        let (free, end) = match end {
            Some((free, ends, last)) => (free, reason(case, op.id, &own, ends, last)),
            None => (Moment::NEVER, TurnEnd::Contradiction),
        };
        let free_from = (free != Moment::NEVER).then(|| instant(case, free));
        let had_by = shown_by.ret?.instant();
        Some(Turn { grant: op.id, had_by, shown_by: shown_by.id, free_from, end })
    });
    let mut turns = turns.collect::<Vec<_>>();
    turns.sort_by_key(|turn| case.op(turn.grant).map(|op| op.call.seq));
    turns
}

/// The earliest moment at which the lock can be free of a grant whose items `left` are not yet
/// placed; when the grant expires, if it is not released; and the last item. `None` if no order
/// places what is left.
fn earliest_end<'a>(
    left: &[&'a Item<LockAction>],
    state: Option<(i64, Moment)>,
    now: Moment,
) -> Option<(Moment, Option<Moment>, &'a Item<LockAction>)> {
    let items = left.iter().enumerate();
    let steps = items.flat_map(|(index, item)| {
        let steps = search::steps(&LockModel, state, item, now.max(item.call));
        steps.map(move |step| (index, item, step))
    });
    let ends = steps.filter_map(|(index, item, (state, now))| {
        let mut rest = left.to_vec();
        rest.remove(index);
        if now > item.ret || rest.iter().any(|item| item.ret < now) {
            return None;
        }
        match (rest.is_empty(), state) {
            (false, _) => earliest_end(&rest, state, now),
            (true, None) => Some((now, None, *item)),
            (true, Some((_, ends))) => Some((now.max(ends), Some(ends), *item)),
        }
    });
    ends.min_by_key(|(free, ..)| *free)
}

fn reason(
    case: &Case,
    grant: OpId,
    own: &[&Item<LockAction>],
    ends: Option<Moment>,
    last: &Item<LockAction>,
) -> TurnEnd {
    let Some(ends) = ends else { return TurnEnd::Released(last.op) };
    match spec::released_from(case, grant) {
        Some((from, release)) if from == ends => return TurnEnd::MayBeReleased(release),
        _ if ends == Moment::NEVER => return TurnEnd::Never,
        _ => {}
    }
    // A re-entry after the previous lease has expired can be free from its own release on.
    let mut again = case.ops_of(last.op).filter(|op| matches!(op.kind, OpKind::Release { .. }));
    if let Some(release) = again.find(|op| Moment::from(op.call) == ends) {
        return TurnEnd::MayBeReleased(release.id);
    }
    let lasts = |item: &&&Item<LockAction>| match item.action {
        LockAction::Acquire(to) | LockAction::Extend(to) | LockAction::Reenter(to, _) => to == ends,
        LockAction::Release => false,
    };
    TurnEnd::Lease(own.iter().find(lasts).map_or(last.op, |item| item.op))
}

/// The moment with its own time, even if that is after the end of the run.
fn instant(case: &Case, moment: Moment) -> Instant {
    Instant { at: moment.at, ..moment.instant(case.history) }
}
