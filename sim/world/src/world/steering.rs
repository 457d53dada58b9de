//! Control of a world while it runs: faults that no plan contains, and queries of its state.

use lockstorm_platform::fault::{Fault, HostNames};
use lockstorm_platform::time::{Instant, Readings};
use lockstorm_platform::trace::{Entry, HostId};

use crate::world::World;
use crate::world::spec::Part;

/// The state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineStatus {
    /// Whether its process is alive.
    pub is_up: bool,
    /// Whether its process is not scheduled.
    pub is_halted: bool,
    /// The readings of its clocks.
    pub readings: Readings,
}

impl World {
    /// Adds a fault that is not in the plan: it strikes at once if its time has passed, otherwise
    /// when its anchor comes.
    ///
    /// # Panics
    /// If it names a host that is not there, or has the number of another fault.
    pub fn inject(&mut self, fault: Fault) {
        for host in fault.target.hosts() {
            self.machines.id(host);
        }
        self.faults.add(fault, &mut self.machines);
    }

    /// Ends the active faults that `which` selects; returns their number.
    pub fn end_faults(&mut self, which: impl Fn(&Fault) -> bool) -> usize {
        self.faults.end_where(which, &mut self.machines)
    }

    /// Cancels the faults that wait for an event.
    pub fn disarm(&mut self) {
        self.machines.engine.state().watches.clear();
    }

    /// The active faults, with the instants at which they struck.
    pub fn active_faults(&self) -> Vec<(&Fault, Instant)> {
        self.faults.active()
    }

    /// The number of a machine.
    ///
    /// # Panics
    /// If no machine has this name.
    pub fn number(&self, name: &str) -> HostId {
        self.machines.id(name)
    }

    /// The state of a machine.
    ///
    /// # Panics
    /// If no machine has this name.
    pub fn status(&self, name: &str) -> MachineStatus {
        let id = self.machines.id(name);
        let mut state = self.machines.engine.state();
        let readings = state.readings(id);
        let is_halted = state.machine(id).is_halted();
        MachineStatus { is_up: self.machines.is_alive(id), is_halted, readings }
    }

    /// Starts the nodes that a fault has taken down.
    pub fn start_nodes(&mut self) {
        for (id, part) in self.machines.all() {
            if part == Part::Node && !self.machines.is_alive(id) {
                self.machines.boot(id);
            }
        }
    }

    /// Takes the events recorded since the previous call; they replace the content of `into`.
    pub fn drain(&mut self, into: &mut Vec<Entry>) {
        self.machines.engine.state().trace.drain(into);
        self.faults.observe(into);
    }

    /// The names and addresses of the machines.
    pub fn names(&self) -> &HostNames {
        &self.machines.names
    }
}
