//! A world that somebody steers while it runs: faults that no plan knew, and a look at how things
//! stand.

use lockstorm_platform::fault::{Anchor, Fault, Watch};
use lockstorm_platform::time::{Instant, Readings};
use lockstorm_platform::trace::{Entry, HostId};

use crate::world::{Part, World};

/// How a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether its process lives.
    pub is_up: bool,
    /// Whether its process is not scheduled.
    pub is_halted: bool,
    /// What its clocks read.
    pub readings: Readings,
}

impl World {
    /// Has a fault strike that no plan knew: at once if its time has passed, else when its anchor
    /// comes.
    ///
    /// # Panics
    /// If it names a host that is not there, or has the number of another fault.
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

    /// Ends the faults that last and for which `which` holds; their number.
    pub fn relieve(&mut self, which: impl Fn(&Fault) -> bool) -> usize {
        let open: Vec<usize> = self.open().filter(|place| which(self.fault_of(*place))).collect();
        for place in &open {
            self.end_fault(u32::try_from(*place).expect("faults are counted in u32"));
        }
        open.len()
    }

    /// Forgets what waits for an event to strike.
    pub fn disarm(&mut self) {
        self.engine.state().watches.clear();
    }

    /// The faults that last, with when they struck.
    pub fn suffered(&self) -> Vec<(&Fault, Instant)> {
        self.open().map(|place| (self.fault_of(place), self.struck[place].strike.from)).collect()
    }

    fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.struck.len()).filter(|place| self.struck[*place].is_open())
    }

    /// The number of a machine.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn number(&self, name: &str) -> HostId {
        self.id(name)
    }

    /// How a machine is.
    ///
    /// # Panics
    /// If there is none of this name.
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

    /// Takes what was recorded since the last time.
    pub fn drain(&mut self) -> Vec<Entry> {
        self.engine.state().trace.drain()
    }
}
