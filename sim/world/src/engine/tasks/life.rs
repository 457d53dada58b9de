//! The lifecycle of a machine's process: its tasks run under a supervisor that never exits, so that
//! a dead process leaves a live machine that refuses connections.

use std::cell::{Cell, RefCell};
#[cfg(feature = "turmoil")]
use std::collections::BTreeSet;
use std::rc::Rc;
use std::task::{Poll, Waker};

use lockstorm_platform::host::LocalFuture;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::engine::interface::Process;

/// The process state of a machine.
#[derive(Default)]
pub struct Life {
    /// What its process runs.
    pub process: Option<Process>,
    /// Notified whenever one of its clocks is changed.
    pub clock_changed: Rc<Notify>,
    /// Listening ports.
    #[cfg(feature = "turmoil")]
    pub ports: BTreeSet<u16>,
    incarnation: Rc<Incarnation>,
    dying: Vec<Rc<Incarnation>>,
    /// Tasks of the process that were woken while the machine was halted.
    parked: Vec<Waker>,
    /// Tasks that the supervisor must start.
    inbox: Vec<PendingTask>,
    supervisor: Option<Waker>,
}

/// One run of a process, from its start to its death.
#[derive(Default)]
pub struct Incarnation {
    pub dead: Cell<bool>,
    /// The number of tasks that are not dropped yet.
    pub alive: Cell<u32>,
    handles: RefCell<Vec<AbortHandle>>,
}

impl Incarnation {
    /// Keeps the handle of a task. Handles of finished tasks are dropped from time to time, because
    /// a process may start any number of tasks.
    pub fn keep(&self, handle: AbortHandle) {
        let mut handles = self.handles.borrow_mut();
        if handles.len() >= 64 + 2 * self.alive.get() as usize {
            handles.retain(|handle| !handle.is_finished());
        }
        handles.push(handle);
    }
}

/// A task to be started.
pub struct PendingTask {
    pub incarnation: Rc<Incarnation>,
    pub future: LocalFuture<'static, ()>,
    /// Whether it is a kernel task, which no pause stops.
    pub is_kernels: bool,
    pub handle: Rc<Job>,
}

/// A task that can be cancelled.
#[derive(Default)]
pub struct Job {
    cancelled: Cell<bool>,
    handle: RefCell<Option<AbortHandle>>,
}

impl Job {
    /// Whether it was cancelled before it could be started.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }

    /// Notes that the task runs.
    pub fn started(&self, handle: AbortHandle) {
        *self.handle.borrow_mut() = Some(handle);
    }

    /// Drops the task, if it runs.
    #[cfg(feature = "turmoil")]
    pub fn cancel(&self) {
        self.cancelled.set(true);
        if let Some(handle) = self.handle.borrow().as_ref() {
            handle.abort();
        }
    }
}

impl Life {
    /// Makes the supervisor start a task. A kernel task runs while the process is paused, but is
    /// dropped with it.
    pub fn spawn(&mut self, future: LocalFuture<'static, ()>, is_kernels: bool) -> Rc<Job> {
        let handle = Rc::<Job>::default();
        let incarnation = Rc::clone(&self.incarnation);
        self.inbox.push(PendingTask {
            incarnation,
            future,
            is_kernels,
            handle: Rc::clone(&handle),
        });
        self.wake_supervisor();
        handle
    }

    /// Makes a task wait until the machine runs again.
    pub fn park(&mut self, waker: &Waker) {
        self.parked.push(waker.clone());
    }

    /// Wakes the parked tasks.
    pub fn unpark(&mut self) {
        self.parked.drain(..).for_each(Waker::wake);
    }

    /// Kills the process. Its tasks are dropped before any of them runs again.
    pub fn kill(&mut self) {
        // Before the aborts: a task that is dropped after the death wakes the supervisor.
        self.incarnation.dead.set(true);
        for handle in self.incarnation.handles.take() {
            handle.abort();
        }
        self.parked.clear();
        // The inbox may still contain tasks of the dead process: the supervisor drops them.
        self.wake_supervisor();
    }

    /// Assigns subsequent tasks to a new run of the process, which starts when the last task of the
    /// previous one has been dropped.
    pub fn renew(&mut self) {
        debug_assert!(self.incarnation.dead.get(), "a process is killed before it starts anew");
        let before = std::mem::take(&mut self.incarnation);
        self.dying.push(before);
    }

    /// Drops what refers to the world.
    pub fn clear(&mut self) {
        self.process = None;
        self.inbox.clear();
        self.parked.clear();
    }

    /// Makes the supervisor check the inbox again.
    pub fn wake_supervisor(&mut self) {
        if let Some(waker) = self.supervisor.take() {
            waker.wake();
        }
    }

    /// The tasks that can be started now.
    pub fn poll_inbox(&mut self, panicked: bool, waker: &Waker) -> Poll<Vec<PendingTask>> {
        self.dying.retain(|incarnation| incarnation.alive.get() > 0);
        // The new process waits for the old one, whose tasks own its ports until they are dropped.
        if !panicked && (self.inbox.is_empty() || !self.dying.is_empty()) {
            self.supervisor = Some(waker.clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut self.inbox))
    }
}
