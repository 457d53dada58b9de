//! Why a set of grants has no legal order, as far as inequalities show it: when each grant must
//! have begun its turn at the lock, and the earliest moment at which its turn can end.
//!
//! Two turns have no order if each can end only after the other must have begun. For three or more
//! this is not the whole argument, but each figure is true. Nested grants have one turn.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::case::Case;
use crate::check::linear::search::{self, Item};
use crate::check::linear::spec::{self, LockAction, LockModel};
use crate::check::verdict::{Turn, TurnEnd};
use crate::history::{OpId, OpKind};
use crate::reading::moment::Moment;
use lockstorm_platform::time::Instant;

type Turns<'a> = Vec<&'a Item<LockAction>>;
/// The holder, and the moment from which on its hold can end.
type State = Option<(i64, Moment)>;

/// The turns of the grants to which these operations belong, the earliest acquire first.
pub fn turns(case: &Case, ops: &[OpId]) -> Vec<Turn> {
    let items = spec::lock_items(case);
    let acquires = ops.iter().filter_map(|id| case.op(*id).filter(|op| op.kind == OpKind::Acquire));
    let first: BTreeSet<OpId> = acquires.map(|op| case.outermost(op.id)).collect();
    let turns = first.into_iter().filter_map(|id| case.op(id)).filter_map(|op| {
        let own = items.iter().filter(|item| item.is_certain && item.block == i64::from(op.id));
        let own: Turns = own.collect();
        let shown_by = spec::proven_by(case, op)?;
        let end = earliest_end(&own);
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

/// The earliest moment at which the lock can be free of a grant with these items; when the grant
/// expires, if it is not released; and the last item. `None` if no order places all. A
/// configuration that was already reached at an earlier point is not expanded again, because many
/// concurrent extends have too many orders to try them all.
fn earliest_end<'a>(
    own: &[&'a Item<LockAction>],
) -> Option<(Moment, Option<Moment>, &'a Item<LockAction>)> {
    let mut open = vec![(vec![false; own.len()], None, Moment::default(), None)];
    let mut reached: BTreeMap<(Vec<bool>, State), Moment> = BTreeMap::new();
    let mut best: Option<(Moment, Option<Moment>, &Item<LockAction>)> = None;
    while let Some((placed, state, now, last)) = open.pop() {
        if let Some(last) = last.filter(|_| placed.iter().all(|is_placed| *is_placed)) {
            let ends = state.map(|(_, ends)| ends);
            let free = ends.map_or(now, |ends| now.max(ends));
            if best.is_none_or(|(known, ..)| free < known) {
                best = Some((free, ends, last));
            }
            continue;
        }
        if !search::is_earliest(&mut reached, (placed.clone(), state), now) {
            continue;
        }
        // Pushed in reverse, so that the first item is on top of the stack.
        for (index, item) in own.iter().enumerate().rev().filter(|(index, _)| !placed[*index]) {
            let steps = search::steps(&LockModel, state, item, now.max(item.call));
            for (state, now) in steps.collect::<Vec<_>>().into_iter().rev() {
                let mut next = placed.clone();
                next[index] = true;
                // Every item that is left still has to take effect before its return.
                let left = own.iter().zip(&next).filter(|(_, is_placed)| !**is_placed);
                if now <= item.ret && left.map(|(item, _)| item.ret).all(|ret| ret >= now) {
                    open.push((next, state, now, Some(*item)));
                }
            }
        }
    }
    best
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
