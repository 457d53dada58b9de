//! The lifecycle of a host's process on the event engine: start, pause, crash, power loss.

use std::rc::Rc;

use lockstorm_platform::trace::{Happening, HostId};

use crate::engine::event::machine::EventMachine;
use crate::engine::event::shared::EventShared;

/// What happens to a process, by the number under which it enters the trace's hash.
#[derive(Clone, Copy)]
enum ProcessChange {
    Killed = 0,
    Started = 1,
    Paused = 2,
    Resumed = 3,
    Suspended = 4,
    Woken = 5,
}

impl EventShared {
    /// See [`crate::engine::interface::Engine::start`].
    pub fn start(self: &Rc<EventShared>, host: HostId) {
        self.kill(host);
        self.note(host, ProcessChange::Started);
        let mut kernel = self.kernel.borrow_mut();
        let state = kernel.state.machine(host);
        state.powered = true;
        state.paused = 0;
        let wakes_machine = std::mem::take(&mut state.suspended) > 0;
        if wakes_machine {
            kernel.change_clocks(host, |clocks, now| clocks.suspend(now, false));
        }
        // After the power is on, because held segments pass only to and from a machine that is up.
        kernel.retry_all(host);
        debug_assert!(kernel.host(host).parked.is_empty(), "a dead process has no waiting task");
        // The host and the process, which may use it at once, borrow the kernel themselves.
        drop(kernel);
        let process = self.processes.borrow()[usize::from(host.0)].clone();
        let process = process.expect("a host that is started has a process");
        let platform = EventMachine::host(self, host);
        platform.clone().spawn(process(platform));
    }

    /// See [`crate::engine::interface::Engine::kill`].
    pub fn kill(&self, host: HostId) {
        self.note(host, ProcessChange::Killed);
        // Dropped while nothing is borrowed: tasks close their streams and free their timers.
        let tasks = self.executor.borrow_mut().take_of(host);
        drop(tasks);
        let mut kernel = self.kernel.borrow_mut();
        kernel.host(host).parked.clear();
        kernel.state.machine(host).counters.waiting = 0;
    }

    /// Drops what is left of processes that have exited on their own.
    pub fn reap(&self) {
        let exited = std::mem::take(&mut *self.exited.borrow_mut());
        exited.into_iter().for_each(|host| self.kill(host));
    }

    /// See [`crate::engine::interface::Engine::power_off`].
    pub fn power_off(&self, host: HostId) {
        let mut kernel = self.kernel.borrow_mut();
        // Before the kill, so that the dropped streams send neither FIN nor reset.
        kernel.forget_connections(host);
        kernel.state.machine(host).powered = false;
        let disk = Rc::clone(&kernel.state.machine(host).disk);
        drop(kernel);
        disk.borrow_mut().lose_power();
        self.kill(host);
    }

    /// See [`crate::engine::interface::Engine::pause`].
    pub fn pause(&self, host: HostId, paused: bool) {
        self.note(host, if paused { ProcessChange::Paused } else { ProcessChange::Resumed });
        let mut kernel = self.kernel.borrow_mut();
        let state = kernel.state.machine(host);
        // Saturating: a start may have reset the count before the fault ends.
        state.paused = if paused { state.paused + 1 } else { state.paused.saturating_sub(1) };
        drop(kernel);
        self.unpark(host);
    }

    /// See [`crate::engine::interface::Engine::suspend`].
    pub fn suspend(&self, host: HostId, suspended: bool) {
        self.note(host, if suspended { ProcessChange::Suspended } else { ProcessChange::Woken });
        let mut kernel = self.kernel.borrow_mut();
        let state = kernel.state.machine(host);
        let before = state.suspended;
        state.suspended = if suspended { before + 1 } else { before.saturating_sub(1) };
        let sleeps = state.suspended > 0;
        if sleeps != (before > 0) {
            kernel.change_clocks(host, |clocks, now| clocks.suspend(now, sleeps));
        }
        // After the count is down, because a suspended machine sends and receives nothing.
        if !sleeps {
            kernel.retry_all(host);
        }
        drop(kernel);
        self.unpark(host);
    }

    fn unpark(&self, host: HostId) {
        let mut kernel = self.kernel.borrow_mut();
        if kernel.state.machine(host).is_halted() {
            return;
        }
        kernel.state.machine(host).counters.waiting = 0;
        let parked = std::mem::take(&mut kernel.host(host).parked);
        self.executor.borrow_mut().unpark(&mut kernel, parked);
    }

    fn note(&self, host: HostId, change: ProcessChange) {
        let mut kernel = self.kernel.borrow_mut();
        kernel.happen(Happening::Process, u32::from(host.0), change as u32, &[]);
    }
}
