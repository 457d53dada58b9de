//! Corruption: the guarded resource's own invariant failed, and the cause of that.
//!
//! The accesses that the resource accepted decide, in its order; the lock's history only gives the
//! cause.

use std::collections::BTreeMap;

use lockstorm_platform::time::Nanos;

use crate::check::case::Case;
use crate::check::latch::counted_down;
use crate::check::terms::Invariant;
use crate::check::verdict::{Cause, Kind, Violation};
use crate::history::{Access, AccessKind, Op, OpId, OpKind, Outcome, segment};
use crate::reading::hold::{Hold, HoldEnd};
use crate::reading::moment::Moment;

/// One violation for each access that broke the invariant. If none did, one at the end of a run
/// whose sum is wrong.
pub fn violations(case: &Case) -> Vec<Violation> {
    match case.terms.invariant {
        Invariant::None => Vec::new(),
        Invariant::Counter => stepwise(case, (0, 1), None),
        Invariant::Stock { items } => stepwise(case, (items, -1), None),
        Invariant::Segment { nth, items } => {
            let name = segment(nth);
            let sold = stepwise(case, (items, -1), Some(&name));
            sold.into_iter().chain(turned_away(case, &name)).collect()
        }
        Invariant::Within { least, most } => beyond(case, (least, most)),
        Invariant::Taken { items } => oversold(case, items),
        Invariant::Passed { most, ends } => {
            let beyond = beyond(case, (None, Some(most)));
            beyond.into_iter().chain(endless(case, ends)).collect()
        }
        Invariant::AppendLog => ledger(case),
        Invariant::Inside { most } => crowd(case, most),
        Invariant::Latch { parties } => early(case, parties),
        Invariant::Schedule => repeated(case),
    }
}

/// Each accepted write must be the previous value plus `step`, and a stock must never be negative.
fn stepwise(case: &Case, (initial, step): (i64, i64), segment: Option<&String>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut writes = Vec::new();
    let mut value = initial;
    let in_it = |access: &Access| segment.is_none_or(|name| is_at(case, access, name));
    for (index, access) in accepted(case, AccessKind::Write).filter(|(_, it)| in_it(it)) {
        let below_zero = step < 0 && access.value < 0;
        if below_zero || Some(access.value) != value.checked_add(step) {
            found.push(violation(case, &overwritten(case, &writes, index), index));
        }
        // The next write is compared with what was written, so one lost update counts once.
        value = access.value;
        writes.push(index);
    }
    if found.is_empty() {
        found.extend(wrong_sum(case, (initial, step), value, segment));
    }
    found
}

/// Nobody may be turned away by a caller that has not looked into a segment which has items.
fn turned_away(case: &Case, segment: &str) -> Vec<Violation> {
    let entries = accepted(case, AccessKind::Append);
    let here = entries.filter(|(_, access)| is_at(case, access, segment));
    let wrong = here.filter(|(_, access)| case.turns_away_wrongly(access));
    let cause = Some(Cause::OneSegment);
    wrong.map(|(index, _)| Violation { cause, ..violation(case, &[], index) }).collect()
}

/// Whether an access was one of the resource of this name.
fn is_at(case: &Case, access: &Access, name: &str) -> bool {
    case.op(access.op).is_some_and(|op| op.object == name)
}

/// The result of an accepted addition must be within the bounds.
fn beyond(case: &Case, (least, most): (Option<i64>, Option<i64>)) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut added = Vec::new();
    for (index, access) in accepted(case, AccessKind::Add) {
        let is_low = least.is_some_and(|least| access.value < least);
        if is_low || most.is_some_and(|most| access.value > most) {
            found.push(match read_before(case, index) {
                Some(_) => violation(case, &overwritten(case, &added, index), index),
                None => {
                    let own = own_fault(case, access);
                    let cause = Some(if own == Cause::None { Cause::Test } else { own });
                    Violation { cause, ..violation(case, &[], index) }
                }
            });
        }
        added.push(index);
    }
    found
}

/// No more items may be sold than there are: a buyer has one if it was told so.
fn oversold(case: &Case, items: i64) -> Vec<Violation> {
    let is_told = |access: &Access| {
        let op = case.op(access.op);
        op.is_some_and(|op| {
            let takes = matches!(op.kind, OpKind::Add { by, .. } if by < 0);
            takes && matches!(op.outcome, Outcome::Value { value } if value >= 0)
        })
    };
    let sold = accepted(case, AccessKind::Add)
        .filter(|(_, access)| is_told(access))
        .map(|(index, _)| index);
    let many = sold.skip(usize::try_from(items).unwrap_or(0));
    many.map(|index| violation(case, &[], index)).collect()
}

/// The last counter must have an end, once it is older than it may be.
fn endless(case: &Case, ends: Option<Nanos>) -> Option<Violation> {
    let (first, begun) = accepted(case, AccessKind::Add).filter(|(_, a)| a.value == 1).last()?;
    let end = case.history.end;
    let is_old = end.at.saturating_sub(begun.at.at) > ends?;
    let is_set = accepted(case, AccessKind::Expire).any(|(index, _)| index > first);
    (is_old && !is_set).then(|| Violation {
        ops: vec![begun.op],
        accesses: vec![first],
        cause: Some(Cause::Endless),
        ..Violation::new(Kind::Corruption, end, end)
    })
}

/// A violation if the resource confirmed more updates to callers than it has, or more sales than it
/// had items.
fn wrong_sum(
    case: &Case,
    (initial, step): (i64, i64),
    last: i64,
    segment: Option<&String>,
) -> Option<Violation> {
    let key = case.terms.lock_key.as_str();
    let acknowledged = case.history.ops.iter().filter(|op| {
        matches!(op.kind, OpKind::Write { .. })
            && op.outcome == Outcome::Accepted
            && segment.map_or(op.object != key, |name| op.object == *name)
    });
    let acknowledged = acknowledged.map(|op| op.id).collect::<Vec<_>>();
    let made = if step > 0 { last.saturating_sub(initial) } else { initial };
    if i64::try_from(acknowledged.len()).unwrap_or(i64::MAX) <= made {
        return None;
    }
    let end = case.history.end;
    Some(Violation {
        ops: acknowledged,
        cause: Some(Cause::None),
        ..Violation::new(Kind::Corruption, end, end)
    })
}

/// The writes whose effect the access undid: those since its caller's last read in the same tenure;
/// if there is no such read or write, the last write.
fn overwritten(case: &Case, writes: &[usize], index: usize) -> Vec<usize> {
    let since = read_before(case, index)
        .map_or(writes.len(), |read| writes.partition_point(|write| *write < read));
    let since = since.min(writes.len().saturating_sub(1));
    writes[since..].to_vec()
}

/// The last read of an access's caller in the same tenure.
fn read_before(case: &Case, index: usize) -> Option<usize> {
    let accesses = &case.history.accesses;
    let writer = &accesses[index];
    (0..index).rev().find(|earlier| {
        let access = &accesses[*earlier];
        access.kind == AccessKind::Read
            && access.caller == writer.caller
            && tenure(case, access) == tenure(case, writer)
    })
}

/// An accepted entry must not belong to an earlier tenure than an entry that already exists.
fn ledger(case: &Case) -> Vec<Violation> {
    let mut found = Vec::new();
    // The first entry of each tenure.
    let mut firsts: Vec<(&Op, usize)> = Vec::new();
    for (index, access) in accepted(case, AccessKind::Append) {
        let Some(own) = granted(case, access) else { continue };
        let later = firsts.iter().rev().find(|(there, _)| precedes(own, there));
        found.extend(later.map(|(_, entry)| violation(case, &[*entry], index)));
        if !firsts.iter().any(|(there, _)| there.id == own.id) {
            firsts.push((own, index));
        }
    }
    found
}

/// No tenure may write its first entry while `most` others are inside: each of them has written
/// one and writes another later. A tenure without a later entry may have ended, as its caller dies.
fn crowd(case: &Case, most: u32) -> Vec<Violation> {
    // The first and the last entry of each tenure.
    let mut stays: BTreeMap<OpId, (usize, usize)> = BTreeMap::new();
    for (index, access) in accepted(case, AccessKind::Append) {
        let Some(own) = granted(case, access) else { continue };
        stays.entry(own.id).and_modify(|(_, last)| *last = index).or_insert((index, index));
    }
    let mut entered: Vec<usize> = stays.values().map(|(first, _)| *first).collect();
    entered.sort_unstable();
    let mut found = Vec::new();
    for index in entered {
        let is_inside = |(first, last): &&(usize, usize)| *first < index && index < *last;
        let mut inside: Vec<usize> =
            stays.values().filter(is_inside).map(|(first, _)| *first).collect();
        if inside.len() >= most as usize {
            inside.sort_unstable();
            let cause = Some(cause_of_crowd(case, &inside, index));
            found.push(Violation { cause, ..violation(case, &inside, index) });
        }
    }
    found
}

/// An access without a grant or after its hold, or too many holds at once.
fn cause_of_crowd(case: &Case, inside: &[usize], index: usize) -> Cause {
    let accesses = &case.history.accesses;
    let own = own_fault(case, &accesses[index]);
    if own != Cause::None {
        return own;
    }
    let at = Moment::from(accesses[index].at);
    let mut others = inside.iter().map(|other| accesses[*other].grant);
    let is_over = |hold: &Hold| hold.ended != HoldEnd::Open && hold.end <= at;
    match others.any(|grant| grant.and_then(|grant| held(case, grant)).is_none_or(is_over)) {
        true => Cause::InFlight,
        false => Cause::Overlap,
    }
}

/// No tenure may write before so many parties have counted down, as the node has seen it.
fn early(case: &Case, parties: u32) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, access) in accepted(case, AccessKind::Append) {
        let Some(own) = granted(case, access) else { continue };
        let opened = own.ret.map_or(Moment::NEVER, Moment::from);
        if counted_down(case, opened) < parties as usize {
            let cause = Some(own_fault(case, access));
            found.push(Violation { cause, ..violation(case, &[], index) });
        }
    }
    found
}

/// No two accepted writes may register the same period.
fn repeated(case: &Case) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut first: BTreeMap<i64, usize> = BTreeMap::new();
    for (index, access) in accepted(case, AccessKind::Write) {
        let earlier = *first.entry(access.value).or_insert(index);
        if earlier != index {
            let again = violation(case, &[earlier], index);
            let cause = again.cause.filter(|cause| *cause != Cause::None).or(Some(Cause::Again));
            found.push(Violation { cause, ..again });
        }
    }
    found
}

/// Whether the lock was granted to one before the other. If they were called concurrently, their
/// fence numbers decide: a reply may have arrived late.
fn precedes(one: &Op, other: &Op) -> bool {
    let granted_at = |op: &Op| op.ret.map_or(Moment::NEVER, Moment::from);
    let before = |one: &Op, other: &Op| granted_at(one) <= other.call.into();
    match (fence(one), fence(other)) {
        (Some(low), Some(high)) if !before(one, other) && !before(other, one) => low < high,
        _ => granted_at(one) < granted_at(other),
    }
}

fn fence(op: &Op) -> Option<u64> {
    let Outcome::Granted { fence, .. } = op.outcome else { return None };
    fence
}

fn accepted<'a>(
    case: &Case<'a>,
    kind: AccessKind,
) -> impl Iterator<Item = (usize, &'a Access)> + use<'a> {
    let accesses = case.history.accesses.iter().enumerate();
    accesses.filter(move |(_, access)| access.accepted && access.kind == kind)
}

/// The granted acquire that began the tenure in which an access was sent.
fn granted<'a>(case: &Case<'a>, access: &Access) -> Option<&'a Op> {
    case.op(case.outermost(access.grant.filter(|grant| case.is_granted(*grant))?))
}

/// The acquire that represents an access's tenure, if it was sent under any acquire.
fn tenure(case: &Case, access: &Access) -> Option<OpId> {
    access.grant.map(|grant| case.outermost(grant))
}

fn violation(case: &Case, harmed: &[usize], index: usize) -> Violation {
    let accesses = harmed.iter().copied().chain([index]).collect::<Vec<_>>();
    let ops = accesses.iter().map(|access| case.history.accesses[*access].op).collect();
    let at = case.history.accesses[index].at;
    let cause = Some(cause(case, harmed, &case.history.accesses[index]));
    Violation { ops, accesses, cause, ..Violation::new(Kind::Corruption, at, at) }
}

/// The access's own fault first, then an overlap of the tenures that are involved, then the harmed
/// access's own fault, then an overlap with any other tenure.
fn cause(case: &Case, harmed: &[usize], access: &Access) -> Cause {
    let harmed = harmed.iter().map(|index| &case.history.accesses[*index]).collect::<Vec<_>>();
    let own = own_fault(case, access);
    if own != Cause::None {
        return own;
    }
    let grants = harmed.iter().filter_map(|harmed| harmed.grant).chain(access.grant);
    let involved: Vec<&Hold> = grants.filter_map(|grant| held(case, grant)).collect();
    let at = Moment::from(access.at);
    let has_met = |hold: &&&Hold| involved.iter().any(|other| overlapped_before(hold, other, at));
    if involved.iter().find(has_met).is_some() {
        return Cause::Overlap;
    }
    let mut faults = harmed.into_iter().map(|harmed| own_fault(case, harmed));
    if let Some(fault) = faults.find(|fault| *fault != Cause::None) {
        return fault;
    }
    let met_any = |hold: &&&Hold| case.holds.iter().any(|other| overlapped_before(hold, other, at));
    involved.iter().find(met_any).map_or(Cause::None, |_| Cause::Overlap)
}

/// Whether an access was sent without a grant or after its tenure, or arrived after its tenure.
fn own_fault(case: &Case, access: &Access) -> Cause {
    if case.is_sent_outside_a_hold(access) {
        return Cause::Caller;
    }
    let over = |hold: &Hold| hold.ended != HoldEnd::Open && hold.end <= access.at.into();
    let is_late = access.grant.and_then(|grant| held(case, grant)).is_some_and(over);
    if is_late { Cause::InFlight } else { Cause::None }
}

/// The whole tenure of a grant.
fn held<'a>(case: &'a Case, grant: OpId) -> Option<&'a Hold> {
    case.tenure(grant).filter(|_| case.is_granted(grant)).map(|tenure| &tenure.whole)
}

fn overlapped_before(hold: &Hold, other: &Hold, moment: Moment) -> bool {
    other.owner != hold.owner && other.overlaps(hold) && other.start.max(hold.start) < moment
}
