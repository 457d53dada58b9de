//! The life of a host's process on the event engine: start, pause, crash, power loss.

use std::rc::Rc;

use crate::engine::event::machine::Machine;
use crate::engine::event::{Engine, Process};
use crate::trace::{Happening, HostId};

impl Engine {
    /// Says what the host's process runs.
    pub fn install(&self, host: HostId, process: Process) {
        self.shared.processes.borrow_mut()[usize::from(host.0)] = Some(process);
    }

    /// Switches the machine on, if it is off, and starts its process anew. What was paused or
    /// suspended is so no longer.
    pub fn start(&self, host: HostId) {
        self.kill(host);
        self.note(host, 1);
        let mut kernel = self.shared.kernel.borrow_mut();
        let state = kernel.host(host);
        state.powered = true;
        state.paused = 0;
        let wakes_machine = std::mem::take(&mut state.suspended) > 0;
        if wakes_machine {
            kernel.change_clocks(host, |clocks, now| clocks.suspend(now, false));
        }
        kernel.retry_all(host);
        drop(kernel);
        let process = self.shared.processes.borrow()[usize::from(host.0)].clone();
        let process = process.expect("a host that is started has a process");
        let platform = Machine::host(&self.shared, host);
        platform.clone().spawn(process(platform));
    }

    /// Kills the process: its tasks are dropped, its kernel closes its connections.
    pub fn kill(&self, host: HostId) {
        self.note(host, 0);
        let tasks = self.shared.tasks.borrow_mut().take_of(host);
        drop(tasks);
        self.shared.kernel.borrow_mut().host(host).parked.clear();
    }

    /// Cuts the power: nothing is said to anybody, and what was not synced is gone.
    pub fn power_off(&self, host: HostId) {
        let mut kernel = self.shared.kernel.borrow_mut();
        kernel.forget_connections(host);
        kernel.host(host).powered = false;
        let disk = Rc::clone(&kernel.host(host).disk);
        drop(kernel);
        disk.borrow_mut().lose_power();
        self.kill(host);
    }

    /// Stops scheduling the process, or goes on with it. Counted.
    pub fn pause(&self, host: HostId, paused: bool) {
        self.note(host, if paused { 2 } else { 3 });
        let mut kernel = self.shared.kernel.borrow_mut();
        let state = kernel.host(host);
        state.paused = if paused { state.paused + 1 } else { state.paused.saturating_sub(1) };
        drop(kernel);
        self.unpark(host);
    }

    /// Puts the whole machine to sleep, or wakes it. Counted.
    pub fn suspend(&self, host: HostId, suspended: bool) {
        self.note(host, if suspended { 4 } else { 5 });
        let mut kernel = self.shared.kernel.borrow_mut();
        let state = kernel.host(host);
        let before = state.suspended;
        state.suspended = if suspended { before + 1 } else { before.saturating_sub(1) };
        let sleeps = state.suspended > 0;
        if sleeps != (before > 0) {
            kernel.change_clocks(host, |clocks, now| clocks.suspend(now, sleeps));
        }
        if !sleeps {
            kernel.retry_all(host);
        }
        drop(kernel);
        self.unpark(host);
    }

    fn unpark(&self, host: HostId) {
        let mut kernel = self.shared.kernel.borrow_mut();
        if kernel.host(host).is_halted() {
            return;
        }
        let parked = std::mem::take(&mut kernel.host(host).parked);
        self.shared.tasks.borrow_mut().unpark(&mut kernel, parked);
    }

    fn note(&self, host: HostId, what: u32) {
        let mut kernel = self.shared.kernel.borrow_mut();
        kernel.happen(Happening::Process, u32::from(host.0), what, &[]);
    }
}
