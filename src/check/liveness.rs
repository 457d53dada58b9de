//! Liveness: stuck and never settles, from the phase after the heal.
//!
//! The probe must be granted within the maximum time to live plus a margin, counted from the moment
//! at which no caller holds the lock any more and no request sent before the heal is still to be
//! applied; time without a master is added, up to the length of that margin. If a caller died with
//! a lease that ends later, the margin begins at the end of that lease. A run that ends
//! earlier shows nothing. An operation that stays pending for this long after the heal never
//! returns.

use lockstorm_platform::time::{Instant, Nanos};
use lockstorm_platform::trace::Leg;

use crate::check::case::Case;
use crate::check::latch::known_to_have;
use crate::check::own::Findings;
use crate::check::terms::Invariant;
use crate::check::verdict::{Kind, Violation};
use crate::history::{Op, OpKind, Outcome};
use crate::history::{PROBE, PROBE_MARGIN};
use crate::reading::hold::HoldEnd;
use crate::reading::leaders;
use crate::reading::moment::Moment;

/// Judges the liveness phase, if the history has one with a probe in it.
pub fn judge(case: &Case<'_>) -> Findings {
    let probes = case.acquires().filter(|op| op.process == PROBE).collect::<Vec<_>>();
    let (Some(healed), false) = (case.history.healed, probes.is_empty()) else {
        return Findings::default();
    };
    let tries = tries(case, &probes);
    let mut liveness = match free_from(case, healed.into()) {
        Some(free) => in_time(case, &tries, free),
        None => Findings::default(),
    };
    let is_granted = tries.iter().all(|(_, probes)| granted(probes).is_some());
    liveness.violations.extend(never_settled(case, healed.into(), is_granted));
    liveness
}

/// The tries of the probe: those for each key, if it takes several locks one after the other.
fn tries<'a>(case: &'a Case, probes: &[&'a Op]) -> Vec<(Option<&'a String>, Vec<&'a Op>)> {
    if case.terms.segments.is_empty() {
        return vec![(None, probes.to_vec())];
    }
    let of = |key: &String| probes.iter().copied().filter(|op| op.is_on(key)).collect();
    case.terms.keys.iter().map(|key| (Some(key), of(key))).collect()
}

/// When the probe was first granted the lock.
fn granted(probes: &[&Op]) -> Option<Moment> {
    let granted = probes.iter().filter(|op| matches!(op.outcome, Outcome::Granted { .. }));
    granted.filter_map(|op| op.ret).map(Moment::from).min()
}

/// The moment after the heal from which on no caller holds and no request from before the heal is
/// in flight; `None` if a caller holds to the end.
fn free_from(case: &Case, healed: Moment) -> Option<Moment> {
    let holds = case.holds.iter().filter(|hold| !hold.by_probe && hold.end > healed);
    let mut free = last_arrival(case, healed).unwrap_or(healed);
    for hold in holds {
        if hold.ended == HoldEnd::Open {
            return None;
        }
        free = free.max(hold.end);
    }
    Some(free)
}

/// When the last request that was sent before a moment was applied, if that is after the moment:
/// until then it may set a key or occupy its node. A request that a slow node had not executed by
/// the end counts as applied at the end, unless the node died before.
fn last_arrival(case: &Case, moment: Moment) -> Option<Moment> {
    let late = case.history.requests.iter().filter_map(|request| {
        let (leg, sent) = request.legs.first()?;
        let queued = || {
            let is_lost = case.death_after(&request.to, Moment::from(*sent)).is_some();
            *leg == Leg::Sent && was_slow(case, &request.to, *sent, moment) && !is_lost
        };
        let applied = match request.at(Leg::Applied) {
            Some(at) => at.into(),
            None if queued() => case.history.end.into(),
            None => return None,
        };
        let counts = case.op(request.op)?.process != PROBE;
        (counts && Moment::from(*sent) <= moment && moment < applied).then_some(applied)
    });
    late.max()
}

/// Whether a fault slowed the commands of a node at some time between two moments.
fn was_slow(case: &Case, node: &str, from: Instant, to: Moment) -> bool {
    case.history.fault_intervals.iter().any(|interval| {
        let is_slow = interval.verb.slows();
        let lasts = interval.to.is_none_or(|end| from <= end);
        is_slow && interval.strikes(node) && lasts && Moment::from(interval.from) <= to
    })
}

/// The first lock that the probe did not get in time. For one that it takes after another, the
/// time begins with its first try.
fn in_time(case: &Case, tries: &[(Option<&String>, Vec<&Op>)], free: Moment) -> Findings {
    let judged = tries.iter().filter_map(|(key, probes)| {
        let begun = probes.first()?.call;
        let free = if key.is_some() { free.max(begun.into()) } else { free };
        let found = granted_in_time(case, probes, free);
        let of_key = |stuck| Violation { key: key.cloned(), ..stuck };
        let violations = found.violations.into_iter().map(of_key).collect();
        Some(Findings { violations, ..found })
    });
    let mut wrong = judged.filter(|found| *found != Findings::default());
    wrong.next().unwrap_or_default()
}

fn granted_in_time(case: &Case, probes: &[&Op], free: Moment) -> Findings {
    let granted = granted(probes);
    let wait = case.terms.longest_ttl.saturating_add(PROBE_MARGIN);
    let in_time = |limit| granted.is_some_and(|granted| granted.at <= limit);
    let promised = promised_to_the_dead(case).saturating_add(PROBE_MARGIN);
    let limit = free.at.saturating_add(wait).max(promised);
    if in_time(limit) {
        return Findings::default();
    }
    let limit = limit.saturating_add(leaderless_after(case, free).min(PROBE_MARGIN));
    if in_time(limit) {
        return Findings::default();
    }
    if case.history.end.at < limit {
        let why = "the run ended before the probe's time limit".to_owned();
        return Findings { unknown: vec![why], ..Findings::default() };
    }
    // The probe is a party as well. While one is missing, nobody may be let in.
    let until = granted.unwrap_or(case.history.end.into());
    let is_open = |parties| known_to_have(case, until) >= parties as usize;
    if matches!(case.terms.invariant, Invariant::Latch { parties } if !is_open(parties)) {
        return Findings::default();
    }
    let ops = [probes.first(), probes.last()].into_iter().flatten().map(|op| op.id);
    let mut ops = ops.collect::<Vec<_>>();
    ops.dedup();
    let to = granted.unwrap_or(case.history.end.into()).instant(case.history);
    let stuck = Violation { ops, ..Violation::new(Kind::Stuck, free.instant(case.history), to) };
    vec![stuck].into()
}

/// The end of the last lease that a caller knew of before it died: until then its key has to stay,
/// however long the lock makes its leases. The caller's clock counts as it ran at the call, because
/// a later step of it moves no key.
fn promised_to_the_dead(case: &Case) -> Nanos {
    let died = case.holds.iter().filter(|hold| matches!(hold.ended, HoldEnd::Died(_)));
    let ops = died.filter(|hold| !hold.by_probe).flat_map(|hold| {
        let grant = case.op(hold.grant).into_iter();
        grant.chain(case.ops_of(hold.grant)).filter(|op| op.ret.is_some())
    });
    let ends = ops.filter_map(|op| match op.outcome {
        Outcome::Granted { deadline, .. } | Outcome::Kept { deadline } => {
            let (clock, reading) = deadline?;
            case.clocks.line(&op.process, clock, op.call.into())?.reaches(reading)
        }
        _ => None,
    });
    ends.max().unwrap_or(0)
}

/// For how long there was no master after a moment.
fn leaderless_after(case: &Case, moment: Moment) -> Nanos {
    let gaps = leaders::leaderless(case, case.terms.site.quorum).into_iter();
    gaps.map(|(from, to)| to.at.saturating_sub(from.at.max(moment.at))).sum()
}

/// Operations that did not return although their process was alive from the call to the end, for at
/// least as long after the heal as the probe may take. While no caller is granted the lock, an
/// acquire may wait for ever.
fn never_settled(case: &Case, healed: Moment, granted: bool) -> Vec<Violation> {
    let patience = case.terms.longest_ttl.saturating_add(PROBE_MARGIN);
    let pending = case.history.ops.iter().filter(|op| op.ret.is_none() && op.process != PROBE);
    let alive = pending.filter(|op| {
        let from = healed.max(op.call.into());
        !matches!(op.kind, OpKind::Lost { .. })
            && (granted || op.kind != OpKind::Acquire)
            && from.at.saturating_add(patience) <= case.history.end.at
            && case.death_after(&op.process, op.call.into()).is_none()
    });
    let violation = |op: &Op| Violation {
        ops: vec![op.id],
        ..Violation::new(Kind::NeverSettles, op.call.instant(), case.history.end)
    };
    alive.map(violation).collect()
}
