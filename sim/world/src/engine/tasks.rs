//! Processes as tasks of a tokio runtime, for every engine that runs on one: a gate before each
//! task, the process lifecycle, sleeps by a machine's clocks, the world's agenda.
//!
//! Runtime, true time and connections belong to the engine.

pub(crate) mod agenda;
mod gate;
pub(crate) mod life;
mod process;
pub(crate) mod sleep;
pub(crate) mod supervisor;

use std::any::Any;
use std::cell::{RefCell, RefMut};
use std::task::{Context, Poll, Waker};

use lockstorm_platform::time::{Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId};

use crate::engine::interface::Stop;
use crate::engine::state::State;
use crate::engine::tasks::agenda::Agenda;
use crate::engine::tasks::life::Life;

/// The source of true time, where the engine's loop does not advance it.
pub(crate) type TrueTime = Box<dyn Fn() -> Option<Nanos>>;

/// The state that tasks, timers and the engine share.
pub(crate) struct Tasks {
    /// The parts of the world.
    pub(crate) state: RefCell<State>,
    /// The times at which the world must act.
    pub(crate) agenda: RefCell<Agenda>,
    /// The process of each machine.
    pub(crate) lives: RefCell<Vec<Life>>,
    /// Tasks that wait until the faults of this instant have struck.
    pub(crate) waiting: RefCell<Vec<Waker>>,
    /// The panic of a task, which tokio would swallow.
    pub(crate) panic: RefCell<Option<Box<dyn Any + Send>>>,
    /// The engine's driver, while it waits for work.
    pub(crate) driver: RefCell<Option<Waker>>,
    true_time: Option<TrueTime>,
    /// Whether the machine's supervisor resumes a panic.
    pub(crate) fails_in_host: bool,
}

impl Tasks {
    /// No machine runs anything yet.
    pub(crate) fn new(state: State, true_time: Option<TrueTime>) -> Tasks {
        Tasks {
            state: RefCell::new(state),
            agenda: RefCell::default(),
            lives: RefCell::default(),
            waiting: RefCell::default(),
            panic: RefCell::default(),
            driver: RefCell::default(),
            true_time,
            fails_in_host: false,
        }
    }

    /// Advances the world's time to the true time. Called before each task runs: no time passes
    /// within one run of a task.
    pub(crate) fn look_at_clock(&self) {
        if let Some(now) = self.true_time.as_ref().and_then(|true_time| true_time()) {
            let mut state = self.state.borrow_mut();
            // The maximum, because true time never goes back, whatever the source returns.
            state.now = state.now.max(now);
        }
    }

    /// The state.
    pub(crate) fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Calls `act` on a machine's process state.
    pub(crate) fn life<T>(&self, host: HostId, act: impl FnOnce(&mut Life) -> T) -> T {
        act(&mut self.lives.borrow_mut()[usize::from(host.0)])
    }

    /// Records an event of a machine, or of the world itself, in the trace.
    pub(crate) fn record(&self, host: Option<HostId>, event: Event) -> Stamp {
        let mut state = self.state();
        let stamp = match host {
            Some(host) => state.record(host, event),
            None => state.record_world(event),
        };
        // The driver sleeps until the next entry of the agenda; this record may be due earlier.
        if !state.appointments.is_empty() || !state.strikes.is_empty() {
            self.wake_driver();
        }
        for (at, fault) in std::mem::take(&mut state.appointments) {
            let at = state.on_grain(at);
            self.agenda.borrow_mut().push(at, Stop::Strike(fault));
        }
        stamp
    }

    /// Ready when no fault is waiting to strike at this instant.
    pub(crate) fn poll_struck(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.state().strikes.is_empty() {
            return Poll::Ready(());
        }
        self.waiting.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// Cancels every waiting anchor and every scheduled strike.
    pub(crate) fn forget_strikes(&self) {
        let mut state = self.state();
        state.watches.clear();
        state.strikes.clear();
        self.agenda.borrow_mut().forget_strikes();
    }

    /// Makes the engine's loop check again.
    pub(crate) fn wake_driver(&self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Wakes the tasks that waited for the faults of this instant.
    pub(crate) fn wake_waiting(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Drops the process of every machine.
    pub(crate) fn clear(&self) {
        self.lives.borrow_mut().iter_mut().for_each(Life::clear);
    }
}
