//! Faults that tested nothing: they never struck, struck nothing, or came after all work.
//!
//! What a fault touched is counted in the world and stands in [`Condition::met`]; where nobody
//! counted, it is taken to have touched something. All work is over once every operation of the
//! clients has returned and nobody holds the lock: a fault behind that can change no answer.
//!
//! A person chose each fault of a scenario: there each must strike something, or the run does not
//! answer the question. A hunt draws its faults, and of several that are drawn some come to
//! nothing in most plans: there one that strikes something is enough. Neither takes a violation
//! back: that only decides between `Holds` and `Unknown`.

use crate::check::case::Case;
use crate::history::{Condition, PROBE};
use crate::reading::moment::Moment;

/// Why the run tested nothing, as far as faults go: a reason for each that tested nothing.
pub fn reasons(case: &Case) -> Vec<String> {
    let over = work_is_over(case);
    let faults = &case.terms.faults;
    let found: Vec<String> = faults.iter().filter_map(|fault| reason(case, *fault, over)).collect();
    if case.terms.is_drawn && found.len() < faults.len() {
        return Vec::new();
    }
    found
}

/// Why a fault tested nothing; `None` if it tested something.
fn reason(case: &Case, fault: u32, over: Option<Moment>) -> Option<String> {
    let strikes = || case.history.conditions.iter().filter(|found| found.fault == fault);
    let Some(first) = strikes().next() else { return Some(format!("fault {fault} never struck")) };
    let name = format!("fault {fault} ({} on {})", first.verb.word(), first.target);
    if strikes().all(|found| found.met == Some(0)) {
        return Some(format!("{name} struck nothing"));
    }
    let late = |found: &Condition| over.is_some_and(|over| Moment::from(found.from) > over);
    let all_late = strikes().all(late);
    all_late.then(|| format!("{name} struck when all work was done"))
}

/// When the last operation of a client had returned, or had died with its process, and the last
/// hold was over. `None` if there was no work.
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
