//! What stands between a task and turmoil's runtime: nothing of a process runs while its machine
//! is halted, or before the faults of this instant have struck.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::engine::turmoil::Shared;
use crate::engine::turmoil::life::{Alive, Life};
use crate::platform::LocalFuture;
use crate::trace::HostId;

/// A task behind the gate.
pub struct Gate {
    shared: Rc<Shared>,
    host: HostId,
    /// Dropped before the task stops counting as alive.
    future: LocalFuture<'static, ()>,
    is_kernels: bool,
    _alive: Alive,
}

impl Gate {
    /// A task of a host's process, or of its kernel, which no pause stops.
    pub fn new(
        shared: Rc<Shared>,
        host: HostId,
        future: LocalFuture<'static, ()>,
        is_kernels: bool,
        alive: Alive,
    ) -> Gate {
        Gate { shared, host, future, is_kernels, _alive: alive }
    }

    /// Whether the task has to wait; it is woken when it may go on.
    fn is_shut(&self, cx: &Context<'_>) -> bool {
        if self.is_kernels {
            return false;
        }
        let mut state = self.shared.state();
        if !state.strikes.is_empty() {
            self.shared.struck.borrow_mut().push(cx.waker().clone());
            return true;
        }
        if state.machine(self.host).is_halted() {
            self.shared.lives.borrow_mut()[usize::from(self.host.0)].park(cx.waker());
            return true;
        }
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
                self.shared.panic.replace(Some(panic));
                self.shared.life(self.host, Life::wake_supervisor);
                Poll::Ready(())
            }
        }
    }
}
