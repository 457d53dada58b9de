//! Pauses and late accesses: what is taken from a lease, added up for each time under the lock.
//!
//! A stretch runs from the call of an acquire to the end of what belongs to it: its refusal, the
//! return of its release, the loss, the death of its process. A pause counts with what of it lies
//! in the stretch, a suspend also with the wait for what the sleep kept back; an access counts
//! with what it took longer than undisturbed links explain. Another client's faults do not count.

use lockstorm_sim::time::Nanos;

use crate::check::case::{Case, PROBE};
use crate::check::moment::Moment;
use crate::history::{Condition, Op, OpId, OpKind, Outcome};
use crate::ledger::part::Part;
use crate::ledger::strike;
use crate::ledger::{Breach, above};
use crate::lock::Bounded;

/// From the call of an acquire to the end of what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// The acquire.
    pub acquire: OpId,
    /// Whose it is.
    pub process: &'a str,
    /// The acquire's call.
    pub from: Moment,
    /// The end.
    pub to: Moment,
}

/// Every stretch of a client, in order of their calls.
pub fn stretches<'a>(case: &Case<'a>) -> Vec<Stretch<'a>> {
    let acquires = case.acquires().filter(|op| op.process != PROBE);
    acquires.map(|op| stretch(case, op)).collect()
}

fn stretch<'a>(case: &Case<'a>, op: &'a Op) -> Stretch<'a> {
    let from = Moment::from(op.call);
    let open = Moment::from(case.history.end);
    let death = case.death_after(&op.process, from).unwrap_or(open);
    let to = match (&op.outcome, op.ret) {
        (Outcome::Refused { .. }, Some(ret)) => ret.into(),
        (_, Some(_)) => given_up(case, op.id).unwrap_or(open),
        (_, None) => open,
    };
    Stretch { acquire: op.id, process: &op.process, from, to: to.min(death) }
}

/// When the caller had done with a grant: the return of its last release, or its loss.
fn given_up(case: &Case, grant: OpId) -> Option<Moment> {
    let releases = || case.ops_of(grant).filter(|op| matches!(op.kind, OpKind::Release { .. }));
    if releases().any(|op| op.ret.is_none()) {
        return None;
    }
    let lost = case.ops_of(grant).filter(|op| matches!(op.kind, OpKind::Lost { .. }));
    let released = releases().filter_map(|op| op.ret).map(Moment::from).max();
    released.or(lost.map(|op| op.call.into()).min())
}

/// The breaches of what is assumed of pauses and late accesses.
pub fn breaches(case: &Case) -> Vec<Breach> {
    let bounded = [Bounded::ClientPause, Bounded::AccessDelay];
    if !case.terms.assumes.iter().any(|assumption| bounded.contains(&assumption.what)) {
        return Vec::new();
    }
    stretches(case).iter().flat_map(|stretch| breaches_of(case, stretch)).collect()
}

fn breaches_of(case: &Case, stretch: &Stretch) -> Vec<Breach> {
    let within = (stretch.from, stretch.to);
    let halts = halts_of(case, stretch.process);
    let paused = covered(case, &halts, within);
    let late = lateness(case, stretch, &halts);
    let mut halting: Vec<Part> = halts
        .iter()
        .filter(|halt| strike::meets(halt, case.history, within))
        .map(|halt| strike::part(halt))
        .collect();
    let delayed = above(case, Bounded::AccessDelay, late.total.max(late.worst), late.parts.clone());
    let mut found: Vec<Breach> = delayed.into_iter().collect();
    if paused > 0 {
        halting.extend(late.parts);
        found.extend(above(case, Bounded::ClientPause, paused + late.total, halting));
    }
    found
}

fn halts_of<'a>(case: &Case<'a>, process: &str) -> Vec<&'a Condition> {
    let conditions = case.history.conditions.iter();
    conditions.filter(|c| strike::halts(c) && strike::host(c) == Some(process)).collect()
}

/// How much of a stretch these conditions cover, overlaps counted once.
fn covered(case: &Case, conditions: &[&Condition], (from, to): (Moment, Moment)) -> Nanos {
    // Conditions stand in order of their beginning.
    let (mut sum, mut done) = (0, from);
    for condition in conditions {
        let (begin, end) = strike::lasts(condition, case.history);
        let (begin, end) = (begin.max(done), end.min(to));
        if begin < end {
            sum += end.at - begin.at;
            done = end;
        }
    }
    sum
}

/// What the accesses of a stretch were late.
#[derive(Clone, Debug, Default)]
struct Lateness {
    /// All together.
    total: Nanos,
    /// The one that arrived the latest after it was sent.
    worst: Nanos,
    /// What was at work while they were under way.
    parts: Vec<Part>,
}

/// Undisturbed, an access is a request and a reply, and the first one connects.
fn lateness(case: &Case, stretch: &Stretch, halts: &[&Condition]) -> Lateness {
    let mut late = Lateness::default();
    let (mut taken, mut messages) = (0, 2);
    for op in case.history.ops.iter().filter(|op| grant_of(op) == Some(stretch.acquire)) {
        let Some((arrived, done)) = ways(case, op) else { continue };
        let from = Moment::from(op.call);
        let lasted = |to: Moment| {
            (to.at.saturating_sub(from.at)).saturating_sub(covered(case, halts, (from, to)))
        };
        taken += lasted(done);
        messages += 2;
        if let Some(arrived) = arrived {
            late.worst = late.worst.max(lasted(arrived).saturating_sub(case.terms.message));
        }
        let conditions = case.history.conditions.iter();
        let at_work = conditions.filter(|c| {
            strike::delays_access(c, stretch.process)
                && strike::meets(c, case.history, (from, done))
        });
        late.parts.extend(at_work.map(strike::part));
    }
    late.total = taken.saturating_sub(case.terms.message.saturating_mul(messages));
    late
}

fn grant_of(op: &Op) -> Option<OpId> {
    match op.kind {
        OpKind::Read { grant } | OpKind::Write { grant, .. } | OpKind::Append { grant } => grant,
        _ => None,
    }
}

/// When an access arrived at the resource, if it did, and when it was over for good.
fn ways(case: &Case, op: &Op) -> Option<(Option<Moment>, Moment)> {
    let arrived = case.history.accesses.iter().find(|access| access.op == op.id);
    let arrived = arrived.map(|access| Moment::from(access.at));
    let returned = op.ret.map(Moment::from);
    Some((arrived, arrived.max(returned)?))
}
