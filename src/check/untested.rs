//! What a run left untested, so that its verdict is no pass: see `docs/verdicts.md`.

use serde::{Deserialize, Serialize};

use crate::check::case::Case;
use crate::check::counts::{self, Counts};
use crate::check::idle;
use crate::history::{Outcome, PROBE};

/// Why a run tested nothing, or nothing of a promise of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Untested {
    /// A fault struck nothing.
    Faults,
    /// No two callers wanted the lock at once.
    Contention,
    /// Nobody stood in the queue that the lock promises.
    Queue,
    /// No grant carried a fence, though the lock gives them.
    Fences,
    /// Nobody was granted the lock before the heal.
    Grants,
}

impl Untested {
    /// All of them, in order.
    pub const ALL: [Untested; 5] = [
        Untested::Faults,
        Untested::Contention,
        Untested::Queue,
        Untested::Fences,
        Untested::Grants,
    ];

    /// What was so in some plans of a hunt, and what would change that.
    pub fn of_plans(self) -> &'static str {
        match self {
            Untested::Faults => "no fault struck anything",
            Untested::Contention => {
                "no two callers wanted the lock at the same time (a lock needs two clients, or two \
                 callers, to be tested)"
            }
            Untested::Queue => {
                "nobody stood in the queue that the lock promises (`queue` in its Promise names \
                 the key in which its waiters stand; a lock without an order leaves it out)"
            }
            Untested::Fences => {
                "no grant carried a fence (a lock with `fences: true` fills in Grant::fence)"
            }
            Untested::Grants => "nobody was granted the lock before the heal",
        }
    }
}

/// What the run of a case left untested, each with its reason.
pub fn found(case: &Case, counts: &Counts) -> Vec<(Untested, String)> {
    let idle = idle::reasons(case).into_iter();
    let mut all: Vec<(Untested, String)> =
        idle.map(|why| (Untested::Faults, format!("nothing was tested: {why}"))).collect();
    if case.terms.contends && counts.contended == 0 {
        let why = "nothing was tested: no two callers wanted the lock at the same time";
        all.push((Untested::Contention, why.to_owned()));
    }
    all.extend(no_queue(case, counts).map(|why| (Untested::Queue, why)));
    all.extend(no_fence(case, counts).map(|why| (Untested::Fences, why)));
    all.extend(nobody_granted(case).map(|why| (Untested::Grants, why)));
    all
}

/// The reason "nobody stood in the queue", though callers wanted the lock at the same time.
fn no_queue(case: &Case, counts: &Counts) -> Option<String> {
    let queue = case.terms.queue.as_ref().filter(|_| counts.contended > 0)?;
    let has_place = case.history.keys.iter().any(|key| key.of.as_ref() == Some(queue));
    (!has_place).then(|| format!("no order was tested: nobody ever stood in the queue '{queue}'"))
}

/// The reason "no fence", though the lock gives them and granted itself.
fn no_fence(case: &Case, counts: &Counts) -> Option<String> {
    let has_fence = |outcome: &Outcome| matches!(outcome, Outcome::Granted { fence: Some(_), .. });
    let mut own = case.acquires().filter(|op| op.process != PROBE);
    let is_missing =
        case.terms.fences && counts.grants > 0 && !own.any(|op| has_fence(&op.outcome));
    is_missing.then(|| "no fence was tested: no grant carried one".to_owned())
}

/// The reason "nobody was granted the lock before the heal", if the number of grants of the same
/// plan without its faults is known.
fn nobody_granted(case: &Case) -> Option<String> {
    let without = match case.terms.grants_without_faults? {
        0 => "nor is anybody without faults".to_owned(),
        1 => "and without faults there is 1 grant".to_owned(),
        calm => format!("and without faults there are {calm} grants"),
    };
    let granted = counts::granted_before_heal(case.history, case.terms);
    (granted == 0).then(|| {
        format!("nothing was tested: nobody was granted the lock before the heal, {without}")
    })
}
