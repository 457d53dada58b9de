//! The guard of one process with an untrusted lock. It sees each call of the lock to its machine,
//! each run of its tasks, and its panics.
//!
//! Time in the world passes only when all tasks have done what they can. So a lock that takes too
//! many steps in one instant would stop time, and a lock that takes tiny steps for ever would
//! almost stop it. The guard unwinds out of such a lock. A loop without any step is visible only
//! from outside: see [`crate::workload::progress`].

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use lockstorm_platform::host::guarded::Gatekeeper;
use lockstorm_platform::host::{Host, LocalFuture};
use lockstorm_platform::time::{Clock, Nanos, SECOND};
use lockstorm_platform::trace::Event;

use crate::history::{ContractBreach, OpId, Outcome};
use crate::lock::Call;
use crate::promise::contract::{Clause, MAX_STEPS};
use crate::workload::progress::Pulse;
use crate::workload::recorder::Recorder;

/// The maximum number of characters of a panic's text that are kept.
const MAX_TEXT: usize = 500;

/// See the module documentation.
pub struct Guard {
    /// The machine itself.
    host: Host,
    recorder: Recorder,
    pulse: Pulse,
    /// The caller's current operation.
    call: Rc<Cell<Call>>,
    /// A reading of the monotonic clock, and the steps taken in the second that follows it.
    steps: Cell<(Nanos, u32)>,
    /// Whether the process has ended.
    ending: Ending,
    /// Whether this lock has ended it.
    has_broken: Cell<bool>,
    /// Renewals that were reported as dropped since the lock was last polled, and whether they were
    /// pending.
    abandoned: RefCell<Vec<(OpId, bool)>>,
}

/// Whether a process has ended: all its callers share one value.
pub type Ending = Rc<Cell<bool>>;

/// The payload of the unwinding out of a lock that took too many steps, which is already recorded.
struct TooManySteps;

/// A future of the lock. However it is dropped, no panic unwinds out of it.
struct GuardedWork<'a, T>(Option<LocalFuture<'a, T>>);

impl<T> Drop for GuardedWork<'_, T> {
    fn drop(&mut self) {
        bury(self.0.take());
    }
}

/// Drops values of the lock, as the system does with the remains of a process. It ignores panics.
pub fn bury<T>(remains: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(remains)));
}

/// The process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished;

impl Guard {
    /// The guard of one caller in the process on `host`.
    pub fn new(
        host: &Host,
        (recorder, pulse): (&Recorder, &Pulse),
        call: Rc<Cell<Call>>,
        ending: Ending,
    ) -> Rc<Guard> {
        Rc::new(Guard {
            host: host.clone(),
            recorder: recorder.clone(),
            pulse: Pulse::clone(pulse),
            call,
            steps: Cell::default(),
            ending,
            has_broken: Cell::new(false),
            abandoned: RefCell::default(),
        })
    }

    /// Lets the lock work on one operation until it is done.
    ///
    /// # Errors
    /// If the process ends before that.
    pub async fn watch<T>(&self, work: LocalFuture<'_, T>) -> Result<T, Finished> {
        let mut work = GuardedWork(Some(work));
        std::future::poll_fn(|cx| self.poll(&mut work, cx)).await
    }

    fn poll<T>(
        &self,
        work: &mut GuardedWork<'_, T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, Finished>> {
        let polled = self.within(|| {
            self.pass();
            let polled = work.0.as_mut().map_or(Poll::Pending, |work| work.as_mut().poll(cx));
            if polled.is_ready() {
                // Dropped here and not by the caller, so that a panic of its destructor is caught
                // as well.
                work.0 = None;
            }
            polled
        });
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(ended) => Poll::Ready(Err(ended)),
        }
    }

    /// Runs code of the lock.
    ///
    /// # Errors
    /// If the process has ended, or ends now.
    pub fn within<T>(&self, code: impl FnOnce() -> T) -> Result<T, Finished> {
        self.lives()?;
        self.pulse.fetch_add(1, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(code));
        self.pulse.fetch_add(1, Ordering::Relaxed);
        self.close_abandoned();
        result.map_err(|panic| match panic.is::<TooManySteps>() {
            true => Finished,
            false => self.end(Clause::NoPanic, format!("it panicked: {}", message(&*panic))),
        })
    }

    /// Asks before an operation begins: the lock of another caller may have ended the process.
    ///
    /// # Errors
    /// If it has ended.
    pub fn lives(&self) -> Result<(), Finished> {
        if self.ending.get() { Err(Finished) } else { Ok(()) }
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.ending.get()
    }

    /// Whether it is this caller's lock that has ended the process.
    pub fn has_broken(&self) -> bool {
        self.has_broken.get()
    }

    /// Notes a renewal that was dropped before its reply. It is recorded once the lock's code
    /// returns: a renewal that is dropped because its process dies has no outcome.
    pub fn abandon(&self, op: OpId, is_under_way: bool) {
        self.abandoned.borrow_mut().push((op, is_under_way));
    }

    fn close_abandoned(&self) {
        for (op, is_under_way) in self.abandoned.take() {
            match is_under_way {
                true => self.recorder.close(&self.host, op, Outcome::Unknown),
                false => self.unknown_renewal(op),
            }
        }
    }

    /// Records that a notice named a renewal that is not pending.
    pub fn unknown_renewal(&self, op: OpId) {
        let details = format!("no renewal with the number {op} is under way");
        self.breach(Clause::KnownRenewal, details);
    }

    /// Records that the lock broke a line of its contract.
    pub fn breach(&self, clause: Clause, details: String) {
        let text = format!("broken contract: {}; {details}", clause.line());
        let at = self.host.record(Event::Note { text }).instant();
        let process = self.host.name().to_owned();
        let op = self.call.get().operation();
        self.recorder.breach(ContractBreach { at, process, op, clause, details });
    }

    fn end(&self, clause: Clause, details: String) -> Finished {
        self.ending.set(true);
        self.has_broken.set(true);
        self.breach(clause, details);
        Finished
    }
}

/// The guard between the lock and its machine.
struct Gate(Rc<Guard>);

impl Gatekeeper for Gate {
    fn pass(&self) {
        self.0.pass();
    }

    fn admit(&self, task: LocalFuture<'static, ()>) -> LocalFuture<'static, ()> {
        let guard = Rc::clone(&self.0);
        Box::pin(async move { guard.watch(task).await.unwrap_or(()) })
    }
}

impl Guard {
    /// The machine as the lock receives it.
    pub fn gate(self: &Rc<Guard>) -> Host {
        self.host.behind(Rc::new(Gate(Rc::clone(self))))
    }

    /// Counts a step.
    pub fn pass(&self) {
        let now = self.host.now(Clock::Monotonic);
        let (since, steps) = match self.steps.get() {
            (then, steps) if now - then < SECOND => (then, steps + 1),
            _ => (now, 1),
        };
        self.steps.set((since, steps));
        // Recorded only once, because code that runs during the unwinding may take steps as well.
        // Recorded at once, because the code may be in a task of a runtime that swallows panics.
        if steps == MAX_STEPS + 1 {
            self.end(Clause::TimePasses, format!("it took {steps} steps without finishing"));
            resume_unwind(Box::new(TooManySteps));
        }
    }
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().copied();
    let text = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // The text is printed to a terminal, which interprets control characters.
    let text = text.unwrap_or("no text").chars().take(MAX_TEXT);
    text.map(|c| if c.is_control() { ' ' } else { c }).collect()
}
