//! A world: machines, links, clocks and faults, run on an engine to its end.
//!
//! It applies and heals faults. It does not know what the processes do.

mod faults;
mod machines;
mod met;
pub mod remains;
pub mod spec;
pub mod steering;
mod strike;

use lockstorm_platform::rng::Chance;
use lockstorm_platform::time::{Instant, Nanos};
use lockstorm_platform::trace::Trace;

use crate::engine::interface::{Engine, Stop};
use crate::world::faults::Faults;
use crate::world::machines::Machines;
use crate::world::remains::Remains;
use crate::world::spec::WorldSpec;

/// A running world.
pub struct World {
    machines: Machines,
    faults: Faults,
}

impl World {
    /// Builds the world and starts its processes; no time has passed yet.
    ///
    /// # Panics
    /// If two hosts share a name or an address, or a fault names an unknown host: plans are
    /// validated earlier.
    pub fn new(spec: WorldSpec) -> World {
        let chance = Chance::new(spec.seed, spec.draws.clone());
        let trace = Trace::new(spec.whole_trace);
        let engine = spec.engine.engine(chance, spec.latency, trace, spec.whole_ms);
        World::on(engine, spec)
    }

    /// As [`World::new`], on an existing engine.
    ///
    /// # Panics
    /// As [`World::new`].
    pub fn on(engine: Box<dyn Engine>, spec: WorldSpec) -> World {
        let mut machines = Machines::new(engine, &spec.hosts, spec.names, spec.operator);
        machines.heal_at = spec.heal_at;
        machines.set_up_links(&spec.named_links, spec.loss_per_million);
        machines.note_clocks();
        // Armed before the processes start, so that their first events can be anchors.
        let faults = Faults::new(spec.faults, &machines);
        machines.start_all();
        World { machines, faults }
    }

    /// Starts a host that was not started with the others.
    pub fn start(&mut self, name: &str) {
        let id = self.machines.id(name);
        self.machines.boot(id);
    }

    /// Runs until true time `limit`; faults strike on the way.
    pub fn run_until(&mut self, limit: Nanos) {
        loop {
            match self.machines.engine.run_until(limit) {
                Stop::Limit => return,
                Stop::Strike(fault) => self.faults.strike(fault, &mut self.machines),
                Stop::Call(index) => self.faults.end(index, &mut self.machines),
            }
        }
    }

    /// Ends every fault, disarms those that have not struck, and starts nodes that are down unless
    /// `keep_down`. Returns the instant of the heal.
    pub fn heal(&mut self, keep_down: bool) -> Instant {
        // First, because the end of a fault may be the anchor of another fault.
        self.machines.engine.forget_strikes();
        // Taken before the faults end: what their ends cause comes after the heal.
        let healed = self.instant();
        self.faults.heal(keep_down, &mut self.machines);
        // After the faults, which start the nodes they took down. Other nodes exited on their own.
        for (id, part) in self.machines.all() {
            if part.is_redis() && self.machines.is_down(id) && !keep_down {
                self.machines.boot(id);
            }
        }
        debug_assert!(
            {
                let state = self.machines.engine.state();
                state.watches.is_empty() && state.strikes.is_empty()
            },
            "no fault strikes after the heal"
        );
        let left = self.faults.active();
        debug_assert!(keep_down || left.is_empty(), "a healed world has no fault: {left:?}");
        debug_assert!(
            self.machines.engine.state().links.are_undisturbed(),
            "the links of a healed world are open"
        );
        healed
    }

    /// True time.
    pub fn now(&self) -> Nanos {
        self.machines.now()
    }

    /// The position of the next record in the trace.
    pub(crate) fn instant(&self) -> Instant {
        self.machines.instant()
    }

    /// Ends the world.
    pub fn finish(self) -> Remains {
        let World { mut machines, mut faults } = self;
        // Read first: the engine hands over the trace, and an instant is a position in it. The
        // dropped tasks also close connections, and no fault has met those last segments.
        let end = machines.instant();
        let missed = machines.missed();
        let trace = faults.finish(&mut machines);
        let strikes = faults.strikes();
        let Machines { names, clocks, .. } = machines;
        Remains { trace, names, strikes, clocks, missed, end }
    }
}
