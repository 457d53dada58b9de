//! The gate between a task and the runtime: no task of a process runs while its machine is halted,
//! or before the faults of this instant have struck.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use lockstorm_platform::host::LocalFuture;
use lockstorm_platform::trace::HostId;

use crate::engine::tasks::Tasks;
use crate::engine::tasks::life::{Incarnation, Life};

/// A task behind the gate.
pub(crate) struct Gate {
    tasks: Rc<Tasks>,
    host: HostId,
    /// Dropped before the task stops counting as alive.
    future: LocalFuture<'static, ()>,
    is_kernels: bool,
    _alive: Alive,
}

impl Gate {
    /// A task of a host's process, or of its kernel, which no pause stops.
    pub(crate) fn new(
        tasks: Rc<Tasks>,
        host: HostId,
        future: LocalFuture<'static, ()>,
        is_kernels: bool,
        alive: Alive,
    ) -> Gate {
        Gate { tasks, host, future, is_kernels, _alive: alive }
    }

    /// Whether the task must wait; it is woken when it may continue.
    fn is_shut(&self, cx: &Context<'_>) -> bool {
        self.tasks.look_at_clock();
        // No pause stops the kernel, and the network holds what a suspended machine sends.
        if self.is_kernels {
            return false;
        }
        let mut state = self.tasks.state();
        // Faults come first: one of them may halt this machine.
        if !state.strikes.is_empty() {
            self.tasks.waiting.borrow_mut().push(cx.waker().clone());
            return true;
        }
        let machine = state.machine(self.host);
        if machine.is_halted() {
            machine.counters.hold_back();
            drop(state);
            self.tasks.life(self.host, |life| life.park(cx.waker()));
            return true;
        }
        debug_assert!(machine.powered, "a machine without power runs nothing");
        false
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_shut(cx) {
            return Poll::Pending;
        }
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => {
                self.tasks.panic.replace(Some(panic));
                self.tasks.life(self.host, Life::wake_supervisor);
                self.tasks.wake_driver();
                Poll::Ready(())
            }
        }
    }
}

/// Counts a task of a process until it is dropped.
pub(crate) struct Alive {
    tasks: Rc<Tasks>,
    host: HostId,
    incarnation: Rc<Incarnation>,
}

impl Alive {
    pub(crate) fn new(tasks: &Rc<Tasks>, host: HostId, incarnation: &Rc<Incarnation>) -> Alive {
        debug_assert!(!incarnation.dead.get(), "a dead process starts no task");
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
