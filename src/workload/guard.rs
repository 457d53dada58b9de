//! The guard of one process, whose lock nobody has read: it sees each call that the lock makes to
//! its machine, each run of its tasks, and what it panics with.
//!
//! A lock that takes too many steps in one instant would stop the world, in which time passes only
//! when all have done what they can; one that takes tiny steps for ever all but stops it. The guard
//! unwinds out of it. A loop that makes no step at all is seen from outside alone: see
//! [`crate::workload::progress`].

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

use crate::history::{Breach, OpId, Outcome};
use crate::lock::Call;
use crate::promise::contract::{Clause, MAX_STEPS};
use crate::workload::progress::Pulse;
use crate::workload::recorder::Recorder;

/// Characters of a panic's text that are kept.
const MOST_TEXT: usize = 500;

/// See the head of this file.
pub struct Guard {
    /// The machine itself.
    host: Host,
    recorder: Recorder,
    pulse: Pulse,
    /// The operation that the caller is in now.
    call: Rc<Cell<Call>>,
    /// A reading of the monotonic clock, and the steps that were taken in the second from it on.
    steps: Cell<(Nanos, u32)>,
    /// Whether the process goes no further.
    ended: Cell<bool>,
    /// Renewals that were said to be dropped since the lock was last polled, and whether they were
    /// under way.
    abandoned: RefCell<Vec<(OpId, bool)>>,
}

/// The lock has taken too many steps, which is written down: what is unwound with.
struct TooManySteps;

/// What a lock works on. However it is dropped, nothing unwinds out of it.
struct Work<'a, T>(Option<LocalFuture<'a, T>>);

impl<T> Drop for Work<'_, T> {
    fn drop(&mut self) {
        bury(self.0.take());
    }
}

/// Drops what is the lock's, as the system does with what is left of a process: nobody hears
/// what it panics with.
pub fn bury<T>(remains: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(remains)));
}

/// The process goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl Guard {
    /// The guard of the process on `host`.
    pub fn new(host: &Host, recorder: &Recorder, pulse: &Pulse, call: Rc<Cell<Call>>) -> Rc<Guard> {
        Rc::new(Guard {
            host: host.clone(),
            recorder: recorder.clone(),
            pulse: Pulse::clone(pulse),
            call,
            steps: Cell::default(),
            ended: Cell::new(false),
            abandoned: RefCell::default(),
        })
    }

    /// Lets the lock work on one thing until it is done.
    ///
    /// # Errors
    /// If the process ends on the way.
    pub async fn watch<T>(&self, work: LocalFuture<'_, T>) -> Result<T, Ended> {
        let mut work = Work(Some(work));
        std::future::poll_fn(|cx| self.poll(&mut work, cx)).await
    }

    fn poll<T>(&self, work: &mut Work<'_, T>, cx: &mut Context<'_>) -> Poll<Result<T, Ended>> {
        let polled = self.within(|| {
            self.pass();
            let polled = work.0.as_mut().map_or(Poll::Pending, |work| work.as_mut().poll(cx));
            if polled.is_ready() {
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
    /// If the process has ended, or does now.
    pub fn within<T>(&self, code: impl FnOnce() -> T) -> Result<T, Ended> {
        if self.ended.get() {
            return Err(Ended);
        }
        self.pulse.fetch_add(1, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(code));
        self.pulse.fetch_add(1, Ordering::Relaxed);
        self.close_abandoned();
        result.map_err(|panic| match panic.is::<TooManySteps>() {
            true => Ended,
            false => self.end(Clause::NoPanic, format!("it panicked: {}", message(&*panic))),
        })
    }

    /// Whether the process goes no further.
    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// The renewal was dropped half-way. It is written down once the lock's code is back: what
    /// is dropped because its process dies has not been answered by anybody.
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

    /// Writes down that a notice named a renewal that is not under way.
    pub fn unknown_renewal(&self, op: OpId) {
        let details = format!("no renewal with the number {op} is under way");
        self.breach(Clause::KnownRenewal, details);
    }

    /// Writes down that the lock broke a line of its contract.
    pub fn breach(&self, clause: Clause, details: String) {
        let text = format!("broken contract: {}; {details}", clause.line());
        let at = self.host.record(Event::Note { text }).instant();
        let process = self.host.name().to_owned();
        let op = self.call.get().operation();
        self.recorder.breach(Breach { at, process, op, clause, details });
    }

    fn end(&self, clause: Clause, details: String) -> Ended {
        self.ended.set(true);
        self.breach(clause, details);
        Ended
    }
}

/// The guard where the lock reaches its machine.
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
    /// The machine as the lock gets it.
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
        // Only once: what runs while the stack unwinds may make steps as well. It is written down
        // at once, since the code may be in a task of a runtime that keeps panics to itself.
        if steps == MAX_STEPS + 1 {
            self.end(Clause::TimePasses, format!("it took {steps}, and was not done"));
            resume_unwind(Box::new(TooManySteps));
        }
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().copied();
    let text = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // It is printed as it stands, and a terminal obeys what it is sent.
    let text = text.unwrap_or("no text").chars().take(MOST_TEXT);
    text.map(|c| if c.is_control() { ' ' } else { c }).collect()
}
