//! Faults that tested nothing: they never struck, struck nothing, or came after all work.
//!
//! The world counts what a fault touched, in [`FaultInterval::met`]. Without a count, the fault is
//! assumed to have touched something. A process that is halted in a hold counts as touched even if
//! it only waited meanwhile: the question is whether the hold outlasts the halt. Every process
//! reads its clock, so the count says little about clocks. A clock fault touched nothing if it is a
//! step of zero, or if it makes a clock run true that already did. A fault of a node's clock
//! touched nothing if the node never had the lock's key from then on and no node was promoted,
//! because all nodes of a cluster time their votes by their clocks. A lying disk has no effect
//! until its machine loses power.
//!
//! All work is over once every operation of the clients has returned and no caller holds the lock:
//! a later fault cannot change any outcome.
//!
//! The faults of a scenario are chosen deliberately: each must strike something, otherwise the run
//! does not answer the question. A hunt draws its faults, and in most plans some of several drawn
//! faults strike nothing: there, one that strikes something is enough. Neither rule removes a
//! violation: they decide only between `Holds` and `Unknown`.

use std::collections::BTreeSet;

use lockstorm_platform::time::Clock;

use crate::check::case::Case;
use crate::history::{FaultInterval, PROBE};
use crate::reading::history::Reading;
use crate::reading::hold::Hold;
use crate::reading::leaders;
use crate::reading::moment::Moment;

/// Why the faults make the run test nothing: a reason for each fault that tested nothing.
pub fn reasons(case: &Case) -> Vec<String> {
    let found: Vec<String> = found(case).into_iter().map(|(_, reason)| reason).collect();
    if case.terms.is_drawn && found.len() < case.terms.faults.len() {
        return Vec::new();
    }
    found
}

/// The faults that tested nothing, by number.
pub fn faults(case: &Case) -> BTreeSet<u32> {
    found(case).into_iter().map(|(fault, _)| fault).collect()
}

fn found(case: &Case) -> Vec<(u32, String)> {
    let over = work_is_over(case);
    let faults = case.terms.faults.iter();
    faults.filter_map(|fault| Some((*fault, reason(case, *fault, over)?))).collect()
}

/// Why a fault tested nothing; `None` if it tested something.
fn reason(case: &Case, fault: u32, over: Option<Moment>) -> Option<String> {
    let strikes = || case.history.fault_intervals.iter().filter(|found| found.fault == fault);
    let Some(first) = strikes().next() else { return Some(format!("fault {fault} never struck")) };
    let name = format!("fault {fault} ({} on {})", first.verb.word(), first.target);
    if strikes().all(|found| touched_nothing(case, found)) {
        return Some(format!("{name} struck nothing"));
    }
    if strikes().all(|found| is_a_lie_without_harm(case, found)) {
        return Some(format!("{name} struck a machine that did not lose power afterwards"));
    }
    let nodes = &case.terms.site.nodes;
    if strikes().all(|found| is_of_an_idle_clock(case, nodes, found)) {
        return Some(format!("{name} struck a node that did not have the lock's key"));
    }
    let late = |found: &FaultInterval| over.is_some_and(|over| case.acts(found).0 > over);
    let all_late = strikes().all(late);
    all_late.then(|| format!("{name} struck after all work was done"))
}

/// Whether a fault could have no effect on these nodes of the lock: it touched nothing, its lie had
/// no effect, or it struck the clock of a node without the lock's key.
pub fn did_nothing(reading: &Reading, nodes: &[String], interval: &FaultInterval) -> bool {
    touched_nothing(reading, interval)
        || is_a_lie_without_harm(reading, interval)
        || is_of_an_idle_clock(reading, nodes, interval)
}

/// Whether a fault left everything as it was.
fn touched_nothing(reading: &Reading, interval: &FaultInterval) -> bool {
    interval.verb.steps_by_nothing()
        || is_of_a_true_clock(reading, interval)
        || interval.met == Some(0) && !halts_a_holder(reading, interval)
}

/// Whether a fault makes only clocks run true that already did.
fn is_of_a_true_clock(reading: &Reading, interval: &FaultInterval) -> bool {
    let before = |host: &str| {
        let pieces = reading.clocks.pieces(host, Clock::Monotonic);
        pieces.iter().rfind(|piece| Moment::from(piece.from) < Moment::from(interval.from))
    };
    let ran_true = |host: &str| before(host).is_none_or(|piece| piece.line.rate_ppm == 0);
    interval.verb.makes_clocks_true() && interval.target.hosts().iter().all(|host| ran_true(host))
}

/// Whether a fault halts a process while a caller on it holds the lock.
fn halts_a_holder(reading: &Reading, interval: &FaultInterval) -> bool {
    let at = Moment::from(interval.from);
    let is_struck = |hold: &Hold| {
        let op = reading.op(hold.grant);
        let on = op.is_some_and(|op| interval.strikes(&op.process));
        on && hold.start < at && at < hold.end
    };
    interval.verb.halts() && reading.holds.iter().any(is_struck)
}

/// Whether a fault makes a disk lie about what it has synced, on a machine that does not lose power
/// afterwards.
fn is_a_lie_without_harm(reading: &Reading, interval: &FaultInterval) -> bool {
    let mut fault_intervals = reading.history.fault_intervals.iter();
    let loses_power = fault_intervals.any(|other| {
        other.verb.cuts_power() && other.target == interval.target && other.from > interval.from
    });
    interval.verb.lies() && !loses_power
}

/// Whether a fault disturbs the clocks of nodes that never have the lock's key from then on, while
/// no node was promoted.
fn is_of_an_idle_clock(reading: &Reading, nodes: &[String], interval: &FaultInterval) -> bool {
    let hosts = interval.target.hosts();
    let are_nodes = || hosts.iter().all(|host| nodes.iter().any(|node| node == host));
    let has_key = || {
        let mut keys = reading.lives.lives.iter();
        keys.any(|key| hosts.contains(&key.node) && key.to > Moment::from(interval.from))
    };
    interval.verb.disturbs_clocks()
        && !reading.lives.lives.is_empty()
        && are_nodes()
        && !has_key()
        && leaders::promoted(reading).is_empty()
}

/// When the last operation of a client had returned, or had died with its process, and the last
/// hold had ended. `None` if there was no work.
fn work_is_over(case: &Case) -> Option<Moment> {
    let ops = case.history.ops.iter().filter(|op| op.process != PROBE);
    let returns = ops.map(|op| {
        let returned = op.ret.map(Moment::from);
        let returned = returned.or_else(|| Some(case.death_after(&op.process, op.call.into())?.at));
        returned.unwrap_or(Moment::from(case.history.end))
    });
    let holds = case.holds.iter().filter(|hold| !hold.by_probe).map(|hold| hold.end);
    returns.chain(holds).max()
}
