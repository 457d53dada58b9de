//! Overlaps, late losses, fences, liveness and counts, from the definitions of the table.

use std::collections::BTreeSet;

use lockstorm::check::verdict::Kind;
use lockstorm::history::{FaultInterval, Op, OpKind, Outcome, PROBE};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::SECOND;
use lockstorm_platform::trace::Leg;

use crate::brute::table::{Point, Table, point, stamp};

/// A violation as far as a brute force can determine it: kind, operations, times.
pub type Found = (Kind, Vec<u32>, u64, u64);

/// Maximal runs of points with more than k tenures.
pub fn overlaps(table: &Table) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut spans: Vec<(Point, Point)> = Vec::new();
    let mut open = false;
    for at in table.points.iter().copied() {
        let holding = table.grants().into_iter().filter(|op| table.holds(op, at));
        let holding = holding.collect::<Vec<_>>();
        let covered = holding.iter().copied().filter(|op| table.covers(op, at));
        let limit = table.terms.holders as usize;
        let dead = holding.iter().any(|op| dead_on_arrival(table, op));
        let exceeds = |began: &BTreeSet<u32>| {
            began.len() > limit && began.iter().any(|id| !table.op(*id).shared)
        };
        let double = exceeds(&tenures(table, covered)) || dead;
        let began = tenures(table, holding.iter().copied());
        if !exceeds(&began) {
            if open {
                found.last_mut().expect("one is open").3 = at.0;
                spans.last_mut().expect("one is open").1 = at;
            }
            open = false;
            continue;
        }
        if !open {
            found.push((Kind::StaleHolder, Vec::new(), at.0, at.0));
            spans.push((at, (u64::MAX, 0)));
            open = true;
        }
        let last = found.last_mut().expect("one is open");
        if double {
            last.0 = Kind::DoubleGrant;
        }
        last.1.extend(began);
        last.1.sort_unstable();
        last.1.dedup();
        last.1.sort_by_key(|id| table.op(*id).ret.map(stamp));
    }
    // Nothing can happen in zero time, except that the probe was let in and went again.
    let is_probe = |op: &&Op, (from, to): &(Point, Point)| {
        let held = table.points.iter().filter(|at| table.holds(op, **at)).collect::<Vec<_>>();
        op.process == PROBE
            && held.iter().any(|at| table.covers(op, **at))
            && held.iter().all(|at| from <= *at && *at < to)
    };
    let probed = |span: &(Point, Point)| table.grants().iter().any(|op| is_probe(op, span));
    let kept = found.into_iter().zip(&spans);
    kept.filter(|((_, _, from, to), span)| from < to || probed(span)).map(|(one, _)| one).collect()
}

fn tenures<'a>(table: &Table, ops: impl Iterator<Item = &'a Op>) -> BTreeSet<u32> {
    ops.map(|op| table.began(op.id)).collect()
}

/// Whether nothing covered the caller at the point at which it received a grant.
fn dead_on_arrival(table: &Table, op: &Op) -> bool {
    !table.keeps(table.began(op.id), stamp(op.ret.expect("granted")))
}

/// Whether a grant of a tenure covers its caller, or one that its caller gave back by a release: the
/// lease goes on with the tenure.
fn is_leased(table: &Table, began: u32, at: Point) -> bool {
    table.tenure(began).into_iter().any(|op| {
        let returned = stamp(op.ret.expect("granted")) <= at;
        let is_on = || table.holds(op, at) || was_given_back(table, op, at);
        returned && table.covers(op, at) && is_on()
    })
}

/// Whether what ended a grant for its caller was a release of it, called by that point.
fn was_given_back(table: &Table, grant: &Op, at: Point) -> bool {
    let ends = |op: &&Op| match (&op.kind, &op.outcome) {
        (OpKind::Release { grant: of } | OpKind::Lost { grant: of }, _) => *of == grant.id,
        (OpKind::Extend { grant: of, background: false }, Outcome::Lost) => *of == grant.id,
        _ => false,
    };
    let when = |op: &&Op| match op.kind {
        OpKind::Extend { .. } => op.ret.map(stamp),
        _ => Some(stamp(op.call)),
    };
    let first =
        table.history.ops.iter().filter(ends).filter(|op| when(op).is_some()).min_by_key(when);
    first.is_some_and(|op| {
        matches!(op.kind, OpKind::Release { .. }) && when(&op).is_some_and(|end| end <= at)
    })
}

/// For each tenure: the last point at which its lease was over, or the end of a halt then.
pub fn late_losses(table: &Table) -> Vec<Found> {
    let mut found = Vec::new();
    for op in table.tenures().into_iter().map(|id| table.op(id)) {
        let held = table.points.iter().copied().filter(|at| table.has(op.id, *at));
        let held = held.collect::<Vec<_>>();
        let Some(last) = held.last() else { continue };
        let after = table.points.iter().copied().find(|at| at > last).expect("the end");
        let uncovered = held.iter().rev().take_while(|at| !is_leased(table, op.id, **at));
        let Some(mut from) = uncovered.last().map(|at| at.0) else { continue };
        let pauses = || {
            table.history.fault_intervals.iter().filter(|interval| {
                interval.target == Target::Host(op.process.clone())
                    && matches!(interval.verb, Verb::Pause | Verb::Suspend)
            })
        };
        while let Some(resumed) = pauses()
            .map(|pause| {
                let end = point(pause.to.unwrap_or(table.history.end));
                let mut points = table.points.iter().copied().filter(|at| *at <= end);
                let died = points.find(|at| table.dies(&op.process, point(pause.from), *at));
                (pause.from.at, died.unwrap_or(end).0)
            })
            .find(|(start, end)| *start <= from && from < *end)
        {
            from = resumed.1;
        }
        if from < after.0 {
            found.push((Kind::LateLoss, vec![op.id], after.0 - from, after.0));
        }
    }
    found
}

/// The fence number of a grant.
pub fn fence(grant: &Op) -> Option<u64> {
    match grant.outcome {
        Outcome::Granted { fence, .. } => fence,
        _ => None,
    }
}

/// Grants whose number is not larger than that of an earlier grant, or of one that was released
/// before they were covered, or is shared with another tenure.
pub fn fence_regresses(table: &Table) -> Vec<u32> {
    let numbered = |op: &&Op| fence(op).is_some() && !op.shared;
    let grants = table.grants().into_iter().filter(numbered).collect::<Vec<_>>();
    let wrong = grants.iter().filter(|later| {
        grants.iter().any(|other| {
            let before = stamp(other.ret.expect("granted")) < stamp(later.call);
            let same = fence(other) == fence(later) && stamp(other.call) < stamp(later.call);
            let apart = table.began(other.id) != table.began(later.id);
            let at = stamp(later.ret.expect("granted"));
            let covered = table.keeps(table.began(later.id), at);
            let left = table.left(table.began(other.id));
            let given_back = table.history.ops.iter().any(|op| {
                let OpKind::Release { grant } = op.kind else { return false };
                let returned = op.ret.map(stamp).filter(|ret| *ret < at);
                let returned = returned.filter(|_| left <= stamp(op.call));
                table.began(grant) == table.began(other.id)
                    && op.outcome == Outcome::Released
                    && returned.is_some()
            });
            let outdone = !table.may_meet() && apart && covered && given_back;
            let less = fence(later) < fence(other);
            other.id != later.id && (less && (before || outdone) || same && apart)
        })
    });
    let mut wrong = wrong.map(|op| op.id).collect::<Vec<_>>();
    wrong.sort_unstable();
    wrong
}

/// Stuck, pending operations, and whether the verdict is unknown.
pub fn liveness(table: &Table) -> (bool, Vec<u32>, bool) {
    let history = table.history;
    let probes = history.ops.iter().filter(|op| op.process == "probe");
    let probes = probes.filter(|op| op.kind == OpKind::Acquire).collect::<Vec<_>>();
    let (Some(healed), false) = (history.healed, probes.is_empty()) else {
        return (false, Vec::new(), false);
    };
    let granted = probes.iter().filter(|op| matches!(op.outcome, Outcome::Granted { .. }));
    let granted = granted.filter_map(|op| op.ret).map(|ret| ret.at).min();
    let pending = history.ops.iter().filter(|op| {
        let from = op.call.at.max(healed.at);
        op.ret.is_none()
            && op.process != "probe"
            && (op.kind != OpKind::Acquire || granted.is_some())
            && history.end.at >= from + table.terms.longest_ttl + 5 * SECOND
            && !table.dies(&op.process, stamp(op.call), point(history.end))
    });
    let pending = pending.map(|op| op.id).collect();
    let mine = table.grants().into_iter().filter(|op| op.process != "probe").collect::<Vec<_>>();
    let held_at = |at: Point| mine.iter().any(|op| table.holds(op, at));
    if mine.iter().any(|op| !table.over(op, point(history.end))) {
        return (false, pending, false);
    }
    let last = table.points.iter().rev().find(|at| held_at(**at));
    let last = last.and_then(|last| table.points.iter().find(|at| *at > last));
    let free = last.map_or(healed.at, |last| last.0.max(healed.at));
    let is_acquire = |op: &Op| op.kind == OpKind::Acquire && op.process != "probe";
    let late = history.requests.iter().filter(|request| is_acquire(table.op(request.op)));
    let late = late.filter(|request| point(request.legs[0].1) <= point(healed));
    let arrivals = late.flat_map(|request| &request.legs).filter(|leg| leg.0 == Leg::Applied);
    let free = arrivals.map(|(_, at)| at.at).fold(free, u64::max);
    let limit = free + table.terms.longest_ttl + 5 * SECOND;
    let dead = mine.iter().filter(|op| died_holding(table, op));
    let limit = dead.map(|op| promised(table, op) + 5 * SECOND).fold(limit, u64::max);
    let in_time = granted.is_some_and(|granted| granted <= limit);
    let ran_out = history.end.at >= limit;
    (!in_time && ran_out, pending, !in_time && !ran_out)
}

/// Whether the death of its process ended a grant's hold.
fn died_holding(table: &Table, op: &Op) -> bool {
    let start = stamp(op.ret.expect("granted"));
    let deaths = table.points.iter().filter(|at| {
        let before = table.points.iter().rfind(|other| other < at).copied().unwrap_or(start);
        **at > start && table.dies(&op.process, before.max(start), **at)
    });
    let mut deaths = deaths.copied();
    let gave_up = |other: &Op, at: Point| match other.kind {
        OpKind::Release { grant } | OpKind::Lost { grant } => {
            grant == op.id && stamp(other.call) < at
        }
        OpKind::Extend { grant, background: false } => {
            let lost = other.ret.filter(|_| other.outcome == Outcome::Lost);
            grant == op.id && lost.is_some_and(|ret| stamp(ret) < at)
        }
        _ => false,
    };
    let first = deaths.next();
    first.is_some_and(|at| !table.history.ops.iter().any(|other| gave_up(other, at)))
}

/// The last true time at which a lease ends that a grant's caller was told of.
fn promised(table: &Table, op: &Op) -> u64 {
    let kept = table.history.ops.iter().filter_map(|other| match (&other.kind, &other.outcome) {
        (OpKind::Extend { grant, .. }, Outcome::Kept { deadline }) if *grant == op.id => {
            Some((other.ret?, other.call, (*deadline)?))
        }
        _ => None,
    });
    let own = match op.outcome {
        Outcome::Granted { deadline: Some(deadline), .. } => {
            op.ret.map(|ret| (ret, op.call, deadline))
        }
        _ => None,
    };
    let ends = kept.chain(own).filter_map(|(_, call, (clock, reading))| {
        let pieces = table.history.clocks.iter();
        let mut own = pieces.filter(|piece| piece.host == op.process && piece.clock == clock);
        let line = own.rfind(|piece| point(piece.from) <= stamp(call))?.line;
        let shows = |at: u64| {
            let passed = i128::from(at - line.since);
            let speed = 1_000_000 + i128::from(line.rate_ppm);
            i128::from(line.reading) + passed * speed / 1_000_000 >= i128::from(reading)
        };
        // The first nanosecond that shows it, if any does in a million seconds.
        let (mut low, mut high) = (line.since, line.since + (1 << 50));
        if shows(low) || !shows(high) {
            return shows(low).then_some(low);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            *(if shows(middle) { &mut high } else { &mut low }) = middle;
        }
        Some(high)
    });
    ends.max().unwrap_or(0)
}

/// Acquires during which another caller wanted or had the lock.
pub fn contended(table: &Table) -> usize {
    let end = point(table.history.end);
    let acquires = table.history.ops.iter().filter(|op| op.kind == OpKind::Acquire);
    let acquires = acquires.filter(|op| op.process != "probe").collect::<Vec<_>>();
    let wants = |op: &Op, at: Point| {
        let returned = op.ret.is_some_and(|ret| stamp(ret) <= at);
        let dead = op.ret.is_none() && table.dies(&op.process, stamp(op.call), at);
        stamp(op.call) <= at && at < end && !returned && !dead
    };
    let met = acquires.iter().filter(|op| {
        table.points.iter().any(|at| {
            let other = |other: &&&Op| other.caller != op.caller;
            wants(op, *at)
                && acquires
                    .iter()
                    .filter(other)
                    .any(|other| wants(other, *at) || is_held(table, other, *at))
        })
    });
    met.count()
}

fn is_held(table: &Table, op: &Op, at: Point) -> bool {
    matches!(op.outcome, Outcome::Granted { .. }) && table.holds(op, at)
}

/// The number of faults that tested nothing, if that matters: no strike touched anything, or each
/// came after all operations and holds of clients.
pub fn idle_faults(table: &Table) -> usize {
    let struck = |fault: u32| {
        let all = table.history.fault_intervals.iter();
        all.filter(move |found| found.fault == fault).collect::<Vec<_>>()
    };
    let halts = |found: &FaultInterval| {
        let at = point(found.from);
        let mut granted = table.history.ops.iter().filter(|op| {
            let is_granted = matches!(op.outcome, Outcome::Granted { .. });
            is_granted && found.target == Target::Host(op.process.clone())
        });
        let holds = |op: &Op| op.ret.is_some_and(|ret| stamp(ret) < at) && table.holds(op, at);
        matches!(found.verb, Verb::Pause | Verb::Suspend) && granted.any(holds)
    };
    let touches =
        |fault: u32| struck(fault).iter().any(|found| found.met != Some(0) || halts(found));
    let in_time = |fault: u32| struck(fault).iter().any(|found| is_work(table, point(found.from)));
    let faults = table.terms.faults.iter();
    let idle = faults.filter(|fault| !(touches(**fault) && in_time(**fault))).count();
    let one_is_enough = table.terms.is_drawn && idle < table.terms.faults.len();
    if one_is_enough { 0 } else { idle }
}

/// Whether an operation or a hold of a client lasts up to a point, or begins there or later.
fn is_work(table: &Table, at: Point) -> bool {
    let ops = || table.history.ops.iter().filter(|op| op.process != "probe");
    let Some(before) = table.points.iter().copied().rfind(|point| *point < at) else { return true };
    let lasts = |op: &Op| {
        let returned = op.ret.is_some_and(|ret| stamp(ret) <= before);
        let died = op.ret.is_none() && table.dies(&op.process, stamp(op.call), before);
        let granted = matches!(op.outcome, Outcome::Granted { .. });
        !(returned || died) || (granted && table.holds(op, before))
    };
    ops().next().is_none() || ops().any(lasts)
}
