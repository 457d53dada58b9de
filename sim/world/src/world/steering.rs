//! Control of a world while it runs: faults that no plan contains, and queries of its condition.

use lockstorm_platform::fault::{Anchor, Fault, Watch};
use lockstorm_platform::time::{Instant, Readings};
use lockstorm_platform::trace::{Entry, HostId};

use crate::world::{Part, World};

/// The condition of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
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
    /// If it names an unknown host, or has the number of another fault.
    pub fn suffer(&mut self, fault: Fault) {
        let id = fault.id;
        assert!(self.faults.iter().all(|other| other.id != id), "two faults are number {id}");
        for host in fault.target.hosts() {
            self.id(host);
        }
        let (anchor, watch) = (fault.anchor.clone(), Watch::of(&fault));
        self.faults.push(fault);
        match anchor {
            Anchor::At(at) if at <= self.now() => self.strike(id),
            Anchor::At(at) => self.engine.strike_at(at, id),
            Anchor::After { .. } => self.engine.state().watches.extend(watch),
        }
    }

    /// Ends the active faults that `which` selects; returns their number.
    pub fn relieve(&mut self, which: impl Fn(&Fault) -> bool) -> usize {
        let open: Vec<usize> = self.open().filter(|place| which(self.fault_of(*place))).collect();
        for place in &open {
            self.end_fault(u32::try_from(*place).expect("faults are counted in u32"));
        }
        open.len()
    }

    /// Cancels the faults that wait for an event.
    pub fn disarm(&mut self) {
        self.engine.state().watches.clear();
    }

    /// The active faults, with the instants at which they struck.
    pub fn suffered(&self) -> Vec<(&Fault, Instant)> {
        self.open().map(|place| (self.fault_of(place), self.struck[place].strike.from)).collect()
    }

    fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.struck.len()).filter(|place| self.struck[*place].is_open())
    }

    /// The number of a machine.
    ///
    /// # Panics
    /// If no machine has this name.
    pub fn number(&self, name: &str) -> HostId {
        self.id(name)
    }

    /// The condition of a machine.
    ///
    /// # Panics
    /// If no machine has this name.
    pub fn condition(&self, name: &str) -> Condition {
        let id = self.id(name);
        let mut state = self.engine.state();
        let readings = state.readings(id);
        let is_halted = state.machine(id).is_halted();
        Condition { is_up: self.alive[usize::from(id.0)], is_halted, readings }
    }

    /// Starts the nodes that are down.
    pub fn raise(&mut self) {
        let nodes = self.names.ids().zip(self.parts.clone()).filter(|(_, p)| *p == Part::Node);
        for (id, _) in nodes.collect::<Vec<_>>() {
            if !self.alive[usize::from(id.0)] {
                self.boot(id);
            }
        }
    }

    /// Takes the events recorded since the previous call.
    pub fn drain(&mut self) -> Vec<Entry> {
        self.engine.state().trace.drain()
    }
}
