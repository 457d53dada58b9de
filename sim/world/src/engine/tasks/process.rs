//! Changes of a machine and its process: start, death, pause, suspension, clocks.

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{HostClocks, Nanos};
use lockstorm_platform::trace::HostId;

use crate::engine::tasks::Tasks;
use crate::engine::tasks::life::Life;

impl Tasks {
    /// See [`crate::engine::interface::Engine::start`]. `platform` is passed to the process.
    pub(crate) fn start(&self, host: HostId, platform: Host) {
        self.kill(host);
        let mut state = self.state();
        let machine = state.machine(host);
        machine.powered = true;
        machine.paused = 0;
        let wakes_machine = std::mem::take(&mut machine.suspended) > 0;
        drop(state);
        if wakes_machine {
            self.change_clocks(host, |clocks, now| clocks.suspend(now, false));
        }
        let process = self.life(host, |life| {
            life.renew();
            life.process.clone().expect("a host that is started has a process")
        });
        platform.clone().spawn(process(platform));
    }

    /// See [`crate::engine::interface::Engine::kill`].
    pub(crate) fn kill(&self, host: HostId) {
        self.state().machine(host).counters.waiting = 0;
        self.life(host, Life::kill);
    }

    /// See [`crate::engine::interface::Engine::power_off`].
    pub(crate) fn power_off(&self, host: HostId) {
        let mut state = self.state();
        let machine = state.machine(host);
        // Powered off before the tasks are dropped: what their sockets send on closing is lost.
        machine.powered = false;
        machine.disk.borrow_mut().lose_power();
        drop(state);
        self.kill(host);
    }

    /// See [`crate::engine::interface::Engine::pause`].
    pub(crate) fn pause(&self, host: HostId, paused: bool) {
        let mut state = self.state();
        let count = &mut state.machine(host).paused;
        // Saturating: a start may have reset the count before the fault ends.
        *count = if paused { *count + 1 } else { count.saturating_sub(1) };
        drop(state);
        self.unpark(host);
    }

    /// See [`crate::engine::interface::Engine::suspend`]. Returns whether the machine now runs.
    pub(crate) fn suspend(&self, host: HostId, suspended: bool) -> bool {
        let mut state = self.state();
        let count = &mut state.machine(host).suspended;
        let before = *count;
        *count = if suspended { before + 1 } else { before.saturating_sub(1) };
        let sleeps = *count > 0;
        drop(state);
        if sleeps != (before > 0) {
            self.change_clocks(host, |clocks, now| clocks.suspend(now, sleeps));
        }
        self.unpark(host);
        !sleeps
    }

    /// See [`crate::engine::interface::Engine::change_clocks`].
    pub(crate) fn change_clocks(&self, host: HostId, change: impl Fn(&mut HostClocks, Nanos)) {
        let mut state = self.state();
        let now = state.now;
        change(&mut state.machine(host).clocks, now);
        drop(state);
        self.life(host, |life| life.clock_changed.notify_waiters());
    }

    /// Wakes the parked tasks of a machine that is no longer halted.
    fn unpark(&self, host: HostId) {
        let mut state = self.state();
        let machine = state.machine(host);
        if !machine.is_halted() {
            machine.counters.waiting = 0;
            drop(state);
            self.life(host, Life::unpark);
        }
    }
}
