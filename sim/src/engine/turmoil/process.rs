//! What happens to a machine and its process: start, death, pause, sleep, clocks.

use std::rc::Rc;

use crate::engine::turmoil::machine::Machine;
use crate::engine::turmoil::{Life, Shared, network};
use crate::time::{HostClocks, Nanos};
use crate::trace::HostId;

impl Shared {
    pub fn life<T>(&self, host: HostId, act: impl FnOnce(&mut Life) -> T) -> T {
        act(&mut self.lives.borrow_mut()[usize::from(host.0)])
    }

    /// See [`crate::engine::Engine::start`].
    pub fn start(self: &Rc<Shared>, host: HostId) {
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
        network::retry_all(self, host);
        let process = self.life(host, |life| {
            life.renew();
            life.process.clone().expect("a host that is started has a process")
        });
        let platform = Machine::host(self, host);
        platform.clone().spawn(process(platform));
    }

    /// See [`crate::engine::Engine::kill`].
    pub fn kill(&self, host: HostId) {
        self.life(host, Life::end);
    }

    /// See [`crate::engine::Engine::power_off`].
    pub fn power_off(&self, host: HostId) {
        let mut state = self.state();
        let machine = state.machine(host);
        machine.powered = false;
        machine.disk.borrow_mut().lose_power();
        drop(state);
        self.kill(host);
    }

    /// See [`crate::engine::Engine::pause`].
    pub fn pause(&self, host: HostId, paused: bool) {
        let mut state = self.state();
        let count = &mut state.machine(host).paused;
        *count = if paused { *count + 1 } else { count.saturating_sub(1) };
        drop(state);
        self.unpark(host);
    }

    /// See [`crate::engine::Engine::suspend`].
    pub fn suspend(&self, host: HostId, suspended: bool) {
        let mut state = self.state();
        let count = &mut state.machine(host).suspended;
        let before = *count;
        *count = if suspended { before + 1 } else { before.saturating_sub(1) };
        let sleeps = *count > 0;
        drop(state);
        if sleeps != (before > 0) {
            self.change_clocks(host, |clocks, now| clocks.suspend(now, sleeps));
        }
        if !sleeps {
            network::retry_all(self, host);
        }
        self.unpark(host);
    }

    /// See [`crate::engine::Engine::change_clocks`].
    pub fn change_clocks(&self, host: HostId, change: impl Fn(&mut HostClocks, Nanos)) {
        let mut state = self.state();
        let now = state.now;
        change(&mut state.machine(host).clocks, now);
        drop(state);
        self.life(host, |life| life.clock_changed.notify_waiters());
    }

    /// Lets the tasks of a machine go on that is no longer halted.
    fn unpark(&self, host: HostId) {
        if !self.state().machine(host).is_halted() {
            self.life(host, Life::unpark);
        }
    }
}
