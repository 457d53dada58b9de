//! The part of a world that all engines share: machines with their clocks and disks, links, names,
//! the trace and the anchors that watch it. It runs nothing: each engine has its own runtime,
//! timers, connections and process lifecycle.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use lockstorm_platform::fault::{HostNames, Watch};
use lockstorm_platform::host::{HostMutex, Slowness};
use lockstorm_platform::network::Latency;
use lockstorm_platform::rng::{Chance, Draws, Purpose};
use lockstorm_platform::time::{Clock, ClockSetting, HostClocks, Nanos, Readings, Stamp};
use lockstorm_platform::trace::{Entry, Event, Happening, HostId, Trace};

use crate::engine::counters::MachineCounters;
use crate::engine::disk::Files;
use crate::engine::links::Links;

/// The world itself, as the host of its own events.
const WORLD: HostId = HostId(u16::MAX);

/// One machine.
pub(crate) struct MachineState {
    /// Its name.
    pub(crate) name: String,
    /// Its address.
    pub(crate) ip: Ipv4Addr,
    /// Its clocks.
    pub(crate) clocks: HostClocks,
    /// The number of pauses on its process.
    pub(crate) paused: u32,
    /// The number of suspensions on the machine.
    pub(crate) suspended: u32,
    /// Whether it is powered on.
    pub(crate) powered: bool,
    /// Whether its process has one event loop, which serves what is ready in the order in which it
    /// became ready.
    pub(crate) is_one_loop: bool,
    /// Its files.
    pub(crate) disk: Rc<RefCell<Files>>,
    /// Its mutexes, by their names.
    pub(crate) mutexes: BTreeMap<String, HostMutex>,
    /// How slow faults make it.
    pub(crate) slowness: Slowness,
    /// What faults met on it.
    pub(crate) counters: MachineCounters,
    draws: BTreeMap<Purpose, Draws>,
}

impl MachineState {
    /// Whether its tasks are not scheduled.
    pub(crate) fn is_halted(&self) -> bool {
        self.paused > 0 || self.suspended > 0
    }

    /// Whether its kernel neither sends nor receives.
    pub(crate) fn is_silent(&self) -> bool {
        !self.powered || self.suspended > 0
    }
}

/// See the head of this file.
pub struct State {
    /// True time.
    pub(crate) now: Nanos,
    /// The engine's unit of time: latencies are whole multiples of it.
    pub(crate) grain: Nanos,
    /// The source of draws.
    pub(crate) chance: Chance,
    /// The trace.
    pub(crate) trace: Trace,
    /// The hosts by name and address.
    pub(crate) names: HostNames,
    /// Anchors that wait for their event.
    pub(crate) watches: Vec<Watch>,
    /// Faults whose anchor has come and that strike without delay.
    pub(crate) strikes: VecDeque<u32>,
    /// Faults whose anchor has come and that strike later, with the true times of their strikes,
    /// until the engine has scheduled them.
    pub(crate) appointments: Vec<(Nanos, u32)>,
    /// The links.
    pub(crate) links: Links,
    machines: Vec<MachineState>,
    addresses: BTreeMap<String, SocketAddrV4>,
}

impl State {
    /// A world without machines at true time zero.
    pub fn new(chance: Chance, latency: Latency, trace: Trace, grain: Nanos) -> State {
        State {
            now: 0,
            grain,
            chance,
            trace,
            names: HostNames::default(),
            watches: Vec::new(),
            strikes: VecDeque::new(),
            appointments: Vec::new(),
            links: Links::new(latency),
            machines: Vec::new(),
            addresses: BTreeMap::new(),
        }
    }

    /// The first multiple of the grain at or after `at`.
    pub(crate) fn on_grain(&self, at: Nanos) -> Nanos {
        if self.grain == 1 {
            return at;
        }
        at.checked_next_multiple_of(self.grain).unwrap_or(Nanos::MAX)
    }

    /// Adds a machine that is powered on and has its own IP address.
    pub(crate) fn add_host(&mut self, name: &str, ip: Ipv4Addr, clocks: ClockSetting) -> HostId {
        let id = self.names.add(name, ip);
        self.add_machine(name, ip, clocks);
        id
    }

    /// As [`State::add_host`], for a machine that shares its IP address with others.
    #[cfg(feature = "live")]
    pub(crate) fn add_host_at(
        &mut self,
        name: &str,
        address: SocketAddrV4,
        clocks: ClockSetting,
    ) -> HostId {
        let id = self.names.add_at(name, address);
        self.add_machine(name, *address.ip(), clocks);
        id
    }

    fn add_machine(&mut self, name: &str, ip: Ipv4Addr, clocks: ClockSetting) {
        let named = self.names.ids().count();
        debug_assert_eq!(named, self.machines.len() + 1, "each machine has a name of its own");
        self.links.add_host();
        self.machines.push(MachineState {
            name: name.to_owned(),
            ip,
            clocks: HostClocks::new(clocks),
            paused: 0,
            suspended: 0,
            powered: true,
            is_one_loop: false,
            disk: Rc::default(),
            mutexes: BTreeMap::new(),
            slowness: Slowness::default(),
            counters: MachineCounters::default(),
            draws: BTreeMap::new(),
        });
    }

    /// A machine.
    pub(crate) fn machine(&mut self, id: HostId) -> &mut MachineState {
        &mut self.machines[usize::from(id.0)]
    }

    /// Assigns a name to an address, or moves it there.
    pub(crate) fn set_name(&mut self, name: &str, address: SocketAddrV4) {
        self.addresses.insert(name.to_owned(), address);
    }

    /// The address of a name.
    pub(crate) fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.addresses.get(name).copied()
    }

    /// The readings of a machine's clocks.
    pub(crate) fn readings(&mut self, host: HostId) -> Readings {
        let now = self.now;
        self.machine(host).clocks.readings(now)
    }

    /// The reading of one of a machine's clocks, for a process that reads it; counted.
    pub(crate) fn look(&mut self, host: HostId, clock: Clock) -> Nanos {
        let now = self.now;
        let machine = self.machine(host);
        machine.counters.looks += 1;
        machine.clocks.line(clock).at(now)
    }

    /// Counts a sleep of a process by one of its clocks.
    pub(crate) fn note_sleep(&mut self, host: HostId, clock: Clock) {
        let counters = &mut self.machine(host).counters;
        *if clock == Clock::Wall { &mut counters.looks } else { &mut counters.sleeps } += 1;
    }

    /// A draw of a machine.
    pub(crate) fn draw(&mut self, host: HostId, purpose: Purpose, ordinal: u64) -> u64 {
        let index = usize::from(host.0);
        let MachineState { draws, name, .. } = &mut self.machines[index];
        let chance = &self.chance;
        let draws = draws.entry(purpose).or_insert_with(|| chance.draws(purpose, name));
        let value = draws.at(ordinal);
        // The value is in the hash, so that a draw that moves shows where it moved.
        let low = u32::try_from(ordinal & u64::from(u32::MAX)).expect("masked to 32 bits");
        self.happen(Happening::Draw, purpose as u32, low, &value.to_le_bytes());
        value
    }

    /// Records a happening below the processes in the trace's hash.
    pub(crate) fn happen(&mut self, kind: Happening, a: u32, b: u32, payload: &[u8]) {
        self.trace.happen(self.now, kind, a, b, payload);
    }

    /// Records an event of a machine in the trace. The engine schedules the appointments that
    /// follow from it.
    pub(crate) fn record(&mut self, host: HostId, event: Event) -> Stamp {
        let readings = self.readings(host);
        let stamp = self.trace.record(self.now, readings, host, event);
        if !self.watches.is_empty() {
            self.observe_last();
        }
        stamp
    }

    /// As [`State::record`], for an event of the world itself.
    pub(crate) fn record_world(&mut self, event: Event) -> Stamp {
        let stamp = self.trace.record(self.now, Readings::default(), WORLD, event);
        self.observe_last();
        stamp
    }

    fn observe_last(&mut self) {
        let State { watches, names, trace, strikes, appointments, now, .. } = self;
        let entry: &Entry = trace.entries().last().expect("an entry was just recorded");
        // A fault without a delay strikes before any other task runs: it does not enter the queue,
        // where an event of the same time could come first.
        for (fault, plus) in watches.iter_mut().filter_map(|watch| watch.observe(entry, names)) {
            if plus == 0 {
                strikes.push_back(fault);
            } else {
                appointments.push((now.saturating_add(plus), fault));
            }
        }
    }
}
