//! The lifecycle of a machine's process: its tasks run under a supervisor that never exits, so that
//! a dead process leaves a live machine that refuses connections.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::task::{Poll, Waker};

use lockstorm_platform::host::LocalFuture;
use lockstorm_platform::trace::HostId;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::engine::Process;
use crate::engine::tasks::Tasks;
use crate::engine::tasks::gate::Gate;

/// The process state of a machine.
#[derive(Default)]
pub struct Life {
    /// What its process runs.
    pub process: Option<Process>,
    /// Notified whenever one of its clocks is changed.
    pub clock_changed: Rc<Notify>,
    /// Listening ports.
    pub ports: BTreeSet<u16>,
    incarnation: Rc<Incarnation>,
    dying: Vec<Rc<Incarnation>>,
    /// Tasks of the process that were woken while the machine was halted.
    parked: Vec<Waker>,
    /// Tasks that the supervisor must start.
    inbox: Vec<Task>,
    supervisor: Option<Waker>,
}

/// One run of a process, from its start to its death.
#[derive(Default)]
pub struct Incarnation {
    dead: Cell<bool>,
    /// The number of tasks that are not dropped yet.
    alive: Cell<u32>,
    handles: RefCell<Vec<AbortHandle>>,
}

impl Incarnation {
    /// Keeps the handle of a task. Handles of finished tasks are dropped from time to time, because
    /// a process may start any number of tasks.
    fn keep(&self, handle: AbortHandle) {
        let mut handles = self.handles.borrow_mut();
        if handles.len() >= 64 + 2 * self.alive.get() as usize {
            handles.retain(|handle| !handle.is_finished());
        }
        handles.push(handle);
    }
}

/// A task to be started.
pub struct Task {
    incarnation: Rc<Incarnation>,
    future: LocalFuture<'static, ()>,
    is_kernels: bool,
    handle: Rc<Job>,
}

/// A task that can be cancelled.
#[derive(Default)]
pub struct Job {
    called_off: Cell<bool>,
    handle: RefCell<Option<AbortHandle>>,
}

impl Job {
    /// Drops the task, if it runs.
    pub fn call_off(&self) {
        self.called_off.set(true);
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
        self.inbox.push(Task { incarnation, future, is_kernels, handle: Rc::clone(&handle) });
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
    pub fn end(&mut self) {
        self.incarnation.dead.set(true);
        for handle in self.incarnation.handles.take() {
            handle.abort();
        }
        self.parked.clear();
        self.wake_supervisor();
    }

    /// Assigns subsequent tasks to a new run of the process, which starts when the last task of the
    /// previous one has been dropped.
    pub fn renew(&mut self) {
        let before = std::mem::take(&mut self.incarnation);
        self.dying.push(before);
    }

    /// Drops what refers to the world.
    pub fn clear(&mut self) {
        self.process = None;
        self.inbox.clear();
        self.parked.clear();
    }

    /// Makes the supervisor check again.
    pub fn wake_supervisor(&mut self) {
        if let Some(waker) = self.supervisor.take() {
            waker.wake();
        }
    }
}

impl Life {
    /// The tasks that can be started now.
    fn poll_inbox(&mut self, panicked: bool, waker: &Waker) -> Poll<Vec<Task>> {
        self.dying.retain(|incarnation| incarnation.alive.get() > 0);
        if !panicked && (self.inbox.is_empty() || !self.dying.is_empty()) {
            self.supervisor = Some(waker.clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut self.inbox))
    }
}

/// Starts a machine's tasks, forever.
pub async fn supervise(tasks: Rc<Tasks>, host: HostId) -> ! {
    let index = usize::from(host.0);
    loop {
        let inbox = std::future::poll_fn(|cx| {
            let panicked = tasks.fails_in_host && tasks.panic.borrow().is_some();
            tasks.lives.borrow_mut()[index].poll_inbox(panicked, cx.waker())
        });
        for task in inbox.await {
            task.start(&tasks, host);
        }
        // In a user's own simulation, a panic must surface in the host that panicked.
        if tasks.fails_in_host
            && let Some(panic) = tasks.panic.take()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Task {
    fn start(self, tasks: &Rc<Tasks>, host: HostId) {
        let Task { incarnation, future, is_kernels, handle } = self;
        if incarnation.dead.get() || handle.called_off.get() {
            return;
        }
        let alive = Alive::new(tasks, host, &incarnation);
        let gate = Gate::new(Rc::clone(tasks), host, future, is_kernels, alive);
        let abort = tokio::task::spawn_local(gate).abort_handle();
        incarnation.keep(abort.clone());
        *handle.handle.borrow_mut() = Some(abort);
    }
}

/// Counts a task of a process until it is dropped.
pub struct Alive {
    tasks: Rc<Tasks>,
    host: HostId,
    incarnation: Rc<Incarnation>,
}

impl Alive {
    fn new(tasks: &Rc<Tasks>, host: HostId, incarnation: &Rc<Incarnation>) -> Alive {
        incarnation.alive.set(incarnation.alive.get() + 1);
        Alive { tasks: Rc::clone(tasks), host, incarnation: Rc::clone(incarnation) }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.incarnation.alive.set(self.incarnation.alive.get() - 1);
        if self.incarnation.dead.get() {
            self.tasks.lives.borrow_mut()[usize::from(self.host.0)].wake_supervisor();
        }
    }
}
