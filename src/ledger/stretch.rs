//! Pauses and late accesses: the time that they take from a lease, added up for each stretch under
//! the lock.
//!
//! A stretch runs from the call of an acquire to the end of what belongs to it: its refusal, the
//! return of its release, the loss, the death of its process. A re-entry belongs to the stretch in
//! which it is called, with any outcome. A pause that held something back counts for the part of it
//! that lies in the stretch; a suspension also counts for the wait for what it held back. An access
//! counts for the time beyond what undisturbed links explain. If accesses are too late by
//! themselves, they are not added to a pause beside them. Faults of other clients do not count.

use lockstorm_platform::time::Nanos;

use crate::history::{Op, OpId, PROBE};
use crate::ledger::breach::{Breach, Ledger, above};
use crate::ledger::part::Part;
use crate::ledger::strike;
use crate::promise::Bounded;
use crate::reading::hold;
use crate::reading::hold::{HoldEnd, HoldEnding};
use crate::reading::index::{Halt, standing};
use crate::reading::moment::Moment;

/// From the call of an acquire to the end of what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// The acquire, and those of its tenure.
    pub acquires: Vec<OpId>,
    /// The client process.
    pub process: &'a str,
    /// The acquire's call.
    pub from: Moment,
    /// The end.
    pub to: Moment,
}

/// The stretches of all clients, in order of their calls.
pub fn stretches<'a>(ledger: &Ledger<'a>) -> Vec<Stretch<'a>> {
    let acquires = ledger.reading.acquires().filter(|op| op.process != PROBE);
    let first = acquires.filter(|op| ledger.reading.outermost(op.id) == op.id);
    first.map(|op| stretch(ledger, op)).collect()
}

fn stretch<'a>(ledger: &Ledger<'a>, op: &'a Op) -> Stretch<'a> {
    let from = Moment::from(op.call);
    let open = Moment::from(ledger.reading.history.end);
    let death = ledger.reading.death_after(&op.process, from).map_or(open, |death| death.at);
    let acquires = ledger.reading.together(op.id);
    let ends = acquires.iter().filter_map(|id| ledger.reading.op(*id));
    let ends = ends.map(|member| done_with(ledger, member, member.id != op.id).unwrap_or(open));
    let to = ends.max().unwrap_or(open).min(death);
    Stretch { acquires, process: &op.process, from, to }
}

/// When the caller had finished with an acquire and its grant: the return of its last release, or
/// its loss. A failed re-entry is finished when it returns.
fn done_with(ledger: &Ledger, op: &Op, is_inner: bool) -> Option<Moment> {
    let ret = op.ret.map(Moment::from)?;
    if op.is_refused() {
        return Some(ret);
    }
    let is_release = |ending: &HoldEnding| matches!(ending.ended, HoldEnd::Released(_));
    let (releases, losses): (Vec<HoldEnding>, Vec<HoldEnding>) =
        hold::endings(ledger.reading, op.id).partition(is_release);
    if releases.iter().any(|release| release.done.is_none()) {
        return None;
    }
    let released = releases.iter().filter_map(|release| release.done).max();
    let lost = losses.iter().filter_map(|loss| loss.done).min();
    let in_vain = is_inner && !ledger.reading.is_granted(op.id);
    released.or(lost).or(in_vain.then_some(ret))
}

/// The breaches of assumptions about pauses and late accesses.
pub fn breaches(ledger: &Ledger) -> Vec<Breach> {
    let bounded = [Bounded::ClientPause, Bounded::HoldPause, Bounded::AccessDelay];
    if !ledger.site.assumes.iter().any(|assumption| bounded.contains(&assumption.what)) {
        return Vec::new();
    }
    let accesses = accesses(ledger);
    stretches(ledger).iter().flat_map(|stretch| breaches_of(ledger, &accesses, stretch)).collect()
}

/// The accesses to the resource with their acquires, ordered by acquire.
type Accesses<'a> = Vec<(OpId, &'a Op)>;

fn accesses<'a>(ledger: &Ledger<'a>) -> Accesses<'a> {
    let ops = ledger.reading.history.ops.iter();
    let mut found: Accesses = ops.filter_map(|op| Some((op.kind.access_grant()?, op))).collect();
    found.sort_by_key(|(grant, _)| *grant);
    found
}

fn breaches_of(ledger: &Ledger, accesses: &Accesses, stretch: &Stretch) -> Vec<Breach> {
    // A halt that held nothing back took nothing from the lease.
    let struck = ledger.reading.halts(stretch.process).filter(|h| h.interval.met != Some(0));
    let halts: Vec<Halt> = struck.collect();
    let late = lateness(ledger, accesses, stretch, &halts);
    let delayed =
        above(ledger, Bounded::AccessDelay, late.total.max(late.worst), late.parts.clone());
    let mut found: Vec<Breach> = delayed.into_iter().collect();
    let is_late = !found.is_empty();
    let held = granted_at(ledger, stretch).map(|granted| (Bounded::HoldPause, granted));
    for (what, from) in [(Bounded::ClientPause, stretch.from)].into_iter().chain(held) {
        let within = (from, stretch.to);
        let paused = standing(&halts, within);
        let meets = |halt: &&Halt| halt.from <= within.1 && within.0 <= halt.to;
        let mut halting: Vec<Part> =
            halts.iter().filter(meets).map(|halt| strike::part(halt.interval)).collect();
        // Accesses that are too late by themselves are no reason to blame a pause.
        let counts = paused > 0 && !is_late;
        if counts {
            halting.extend(late.parts.iter().copied());
        }
        let taken = if counts { paused + late.total } else { paused };
        found.extend(above(ledger, what, taken, halting));
    }
    found
}

/// When the first grant of a stretch returned.
fn granted_at(ledger: &Ledger, stretch: &Stretch) -> Option<Moment> {
    let granted = stretch.acquires.iter().filter(|id| ledger.reading.is_granted(**id));
    granted.filter_map(|id| ledger.reading.op(*id)?.ret.map(Moment::from)).min()
}

/// How late the accesses of a stretch were.
#[derive(Clone, Debug, Default)]
struct Lateness {
    /// The sum.
    total: Nanos,
    /// The maximum delay between sending and arrival.
    worst: Nanos,
    /// The parts that were active while the accesses were in flight.
    parts: Vec<Part>,
}

/// Compares with undisturbed accesses: each takes a request and a reply, and the first one of a
/// process connects.
fn lateness(ledger: &Ledger, accesses: &Accesses, stretch: &Stretch, halts: &[Halt]) -> Lateness {
    let mut late = Lateness::default();
    let (mut taken, mut messages) = (0, 2);
    for op in stretch.acquires.iter().flat_map(|acquire| of(accesses, *acquire)) {
        let Some((arrived, done)) = ways(ledger, op) else { continue };
        let from = Moment::from(op.call);
        let lasted = |to: Moment| {
            (to.at.saturating_sub(from.at)).saturating_sub(standing(halts, (from, to)))
        };
        taken += lasted(done);
        messages += 2;
        if let Some(arrived) = arrived {
            let ways = if ledger.reading.connects(op) { 3 } else { 1 };
            let planned = ledger.site.message.saturating_mul(ways);
            late.worst = late.worst.max(lasted(arrived).saturating_sub(planned));
        }
        let fault_intervals = ledger.reading.history.fault_intervals.iter();
        let at_work = fault_intervals.filter(|c| {
            strike::delays_access(c, stretch.process)
                && strike::meets(c, ledger.reading, (from, done))
        });
        late.parts.extend(at_work.map(strike::part));
    }
    late.total = taken.saturating_sub(ledger.site.message.saturating_mul(messages));
    late
}

/// The accesses of one acquire.
fn of<'a>(accesses: &Accesses<'a>, acquire: OpId) -> impl Iterator<Item = &'a Op> {
    let first = accesses.partition_point(|(grant, _)| *grant < acquire);
    let own = accesses[first..].iter().take_while(move |(grant, _)| *grant == acquire);
    own.map(|(_, op)| *op)
}

/// When an access arrived at the resource, if it did, and when it was over: at its arrival or its
/// return, whichever is later.
fn ways(ledger: &Ledger, op: &Op) -> Option<(Option<Moment>, Moment)> {
    let arrived = ledger.reading.history.accesses.iter().find(|access| access.op == op.id);
    let arrived = arrived.map(|access| Moment::from(access.at));
    let returned = op.ret.map(Moment::from);
    Some((arrived, arrived.max(returned)?))
}
