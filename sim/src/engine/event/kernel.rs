//! The state of a world on the event engine: time, queue, trace, hosts, timers, network.
//!
//! It polls nothing: it changes state and notes wakers. Tasks are the executor's.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::task::Waker;

use crate::engine::event::disk::Files;
use crate::engine::event::executor::TaskId;
use crate::engine::event::network::{Listening, Network};
use crate::engine::event::queue::{Due, Queue};
use crate::fault::{HostNames, Watch};
use crate::network::Latency;
use crate::platform::{HostMutex, Slowness};
use crate::rng::{Chance, Draws, Purpose};
use crate::time::{Clock, ClockSetting, HostClocks, Nanos, Readings, Stamp};
use crate::trace::{Entry, Event, Happening, HostId, Trace};

/// The world itself, where it writes events of its own.
const WORLD: HostId = HostId(u16::MAX);
/// The first port that a connecting socket gets; the next one the next port.
const FIRST_EPHEMERAL_PORT: u16 = 10_000;

/// One machine.
pub struct HostState {
    pub name: String,
    pub ip: Ipv4Addr,
    pub clocks: HostClocks,
    /// How many pauses hold its process.
    pub paused: u32,
    /// How many suspensions hold the whole machine.
    pub suspended: u32,
    pub powered: bool,
    /// Tasks that were woken while the host was halted.
    pub parked: Vec<TaskId>,
    pub listening: BTreeMap<u16, Listening>,
    pub next_port: u16,
    pub spawned: u32,
    pub disk: Rc<RefCell<Files>>,
    pub mutexes: BTreeMap<String, HostMutex>,
    pub slowness: Slowness,
    pub draws: BTreeMap<Purpose, Draws>,
}

impl HostState {
    /// Whether no task of it runs.
    pub fn is_halted(&self) -> bool {
        self.paused > 0 || self.suspended > 0
    }

    /// Whether its kernel neither sends nor takes anything.
    pub fn is_silent(&self) -> bool {
        !self.powered || self.suspended > 0
    }
}

/// A timer: `due` is the true time for which it stands in the queue.
struct Timer {
    generation: u32,
    host: HostId,
    due: Option<Nanos>,
    waker: Option<Waker>,
}

/// What came of looking at the queue.
pub enum Dispatched {
    /// An event was handled.
    Done,
    /// A fault is to strike.
    Strike(u32),
    /// The world is called.
    Call(u32),
    /// No event is due now.
    Nothing,
}

/// See the head of this file.
pub struct Kernel {
    pub now: Nanos,
    pub chance: Chance,
    pub trace: Trace,
    pub names: HostNames,
    pub watches: Vec<Watch>,
    /// Faults whose anchor has come with nothing to wait for.
    pub strikes: VecDeque<u32>,
    pub network: Network,
    pub(super) queue: Queue,
    hosts: Vec<HostState>,
    timers: Vec<Timer>,
    free_timers: Vec<u32>,
    addresses: BTreeMap<String, SocketAddrV4>,
}

impl Kernel {
    pub fn new(chance: Chance, latency: Latency, trace: Trace) -> Kernel {
        Kernel {
            now: 0,
            chance,
            trace,
            names: HostNames::default(),
            watches: Vec::new(),
            strikes: VecDeque::new(),
            network: Network::new(latency),
            queue: Queue::default(),
            hosts: Vec::new(),
            timers: Vec::new(),
            free_timers: Vec::new(),
            addresses: BTreeMap::new(),
        }
    }

    pub fn add_host(&mut self, name: &str, ip: Ipv4Addr, clocks: ClockSetting) -> HostId {
        let id = self.names.add(name, ip);
        self.network.add_host();
        self.hosts.push(HostState {
            name: name.to_owned(),
            ip,
            clocks: HostClocks::new(clocks),
            paused: 0,
            suspended: 0,
            powered: true,
            parked: Vec::new(),
            listening: BTreeMap::new(),
            next_port: FIRST_EPHEMERAL_PORT,
            spawned: 0,
            disk: Rc::default(),
            mutexes: BTreeMap::new(),
            slowness: Slowness::default(),
            draws: BTreeMap::new(),
        });
        id
    }

    pub fn host(&mut self, id: HostId) -> &mut HostState {
        &mut self.hosts[usize::from(id.0)]
    }

    pub fn set_name(&mut self, name: &str, address: SocketAddrV4) {
        self.addresses.insert(name.to_owned(), address);
    }

    pub fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.addresses.get(name).copied()
    }

    /// A name for the next task of a host: its tasks are counted in the order of spawning.
    pub fn name_task(&mut self, host: HostId) -> String {
        let host = self.host(host);
        host.spawned += 1;
        format!("{}/{}", host.name, host.spawned)
    }

    pub fn readings(&mut self, host: HostId) -> Readings {
        let now = self.now;
        self.host(host).clocks.readings(now)
    }

    pub fn draw(&mut self, host: HostId, purpose: Purpose, ordinal: u64) -> u64 {
        let index = usize::from(host.0);
        let HostState { draws, name, .. } = &mut self.hosts[index];
        let chance = &self.chance;
        let draws = draws.entry(purpose).or_insert_with(|| chance.draws(purpose, name));
        let value = draws.at(ordinal);
        let low = u32::try_from(ordinal & u64::from(u32::MAX)).expect("masked to 32 bits");
        self.happen(Happening::Draw, purpose as u32, low, &value.to_le_bytes());
        value
    }

    pub fn happen(&mut self, kind: Happening, a: u32, b: u32, payload: &[u8]) {
        self.trace.happen(self.now, kind, a, b, payload);
    }

    pub fn record(&mut self, host: HostId, event: Event) -> Stamp {
        let readings = self.readings(host);
        let stamp = self.trace.record(self.now, readings, host, event);
        if !self.watches.is_empty() {
            self.observe_last();
        }
        stamp
    }

    pub fn record_world(&mut self, event: Event) -> Stamp {
        let stamp = self.trace.record(self.now, Readings::default(), WORLD, event);
        self.observe_last();
        stamp
    }

    fn observe_last(&mut self) {
        let Kernel { watches, names, trace, .. } = self;
        let entry: &Entry = trace.entries().last().expect("an entry was just recorded");
        let hits: Vec<(u32, Nanos)> =
            watches.iter_mut().filter_map(|watch| watch.observe(entry, names)).collect();
        for (fault, plus) in hits {
            if plus == 0 {
                self.strikes.push_back(fault);
            } else {
                self.strike_at(self.now.saturating_add(plus), fault);
            }
        }
    }

    pub fn strike_at(&mut self, at: Nanos, fault: u32) {
        self.queue.push(at, Due::Strike(fault));
    }

    pub fn call_at(&mut self, at: Nanos, call: u32) {
        self.queue.push(at, Due::Call(call));
    }

    pub fn forget_strikes(&mut self) {
        self.watches.clear();
        self.strikes.clear();
        self.queue.retain(|due| !matches!(due, Due::Strike(_)));
    }

    pub fn forget_events(&mut self) {
        self.queue.clear();
        self.watches.clear();
    }

    /// Handles one event that is due now.
    pub fn dispatch_due(&mut self) -> Dispatched {
        match self.queue.pop_due(self.now) {
            None => return Dispatched::Nothing,
            Some(Due::Strike(fault)) => return Dispatched::Strike(fault),
            Some(Due::Call(call)) => return Dispatched::Call(call),
            Some(Due::Timer { slot, generation }) => self.fire(slot, generation),
            Some(Due::Arrival { connection, side }) => self.arrive(connection, side),
        }
        Dispatched::Done
    }

    /// Jumps to the next event that is still alive, or to `limit` if that comes first; whether
    /// there is an event. A dead timer moves no clock.
    pub fn advance(&mut self, limit: Nanos) -> bool {
        while let Some((at, due)) = self.queue.first() {
            if let Due::Timer { slot, generation } = due
                && self.timers[slot as usize].generation != generation
            {
                self.queue.discard_first();
                continue;
            }
            if at > limit {
                break;
            }
            assert!(at >= self.now, "an event lies in the past");
            self.now = at;
            return true;
        }
        self.now = self.now.max(limit);
        false
    }
}

/// Timers.
impl Kernel {
    /// Arms a timer for the true time at which `clock` reads `reading`, or wakes nobody until
    /// the clock is changed. `None` if it reads that already.
    pub fn arm(
        &mut self,
        host: HostId,
        clock: Clock,
        reading: Nanos,
        waker: &Waker,
    ) -> Option<u32> {
        let now = self.now;
        let line = self.host(host).clocks.line(clock);
        if line.at(now) >= reading {
            return None;
        }
        let slot = self.free_timers.pop().unwrap_or_else(|| {
            let slot = u32::try_from(self.timers.len()).expect("a world has under 2^32 timers");
            self.timers.push(Timer { generation: 0, host, due: None, waker: None });
            slot
        });
        let timer = &mut self.timers[slot as usize];
        timer.host = host;
        timer.due = line.reaches(reading);
        timer.waker = Some(waker.clone());
        if let Some(due) = timer.due {
            self.queue.push(due, Due::Timer { slot, generation: timer.generation });
        }
        Some(slot)
    }

    /// Whether an armed timer still stands for the right time; then `waker` takes its place.
    pub fn still_armed(&mut self, slot: u32, clock: Clock, reading: Nanos, waker: &Waker) -> bool {
        let host = self.timers[slot as usize].host;
        let due = self.host(host).clocks.line(clock).reaches(reading);
        let now = self.now;
        let timer = &mut self.timers[slot as usize];
        let armed = timer.due == due && due.is_none_or(|due| due > now);
        if armed && !timer.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            timer.waker = Some(waker.clone());
        }
        armed
    }

    /// Gives a timer back.
    pub fn disarm(&mut self, slot: u32) {
        let timer = &mut self.timers[slot as usize];
        timer.generation = timer.generation.wrapping_add(1);
        timer.waker = None;
        self.free_timers.push(slot);
    }

    fn fire(&mut self, slot: u32, generation: u32) {
        let timer = &mut self.timers[slot as usize];
        if timer.generation != generation {
            return;
        }
        let host = timer.host;
        if let Some(waker) = timer.waker.take() {
            waker.wake();
        }
        self.happen(Happening::Timer, u32::from(host.0), slot, &[]);
    }

    /// Changes a host's clocks and lets its sleepers look at them again.
    pub fn change_clocks(&mut self, host: HostId, change: impl FnOnce(&mut HostClocks, Nanos)) {
        let now = self.now;
        change(&mut self.host(host).clocks, now);
        for timer in self.timers.iter_mut().filter(|timer| timer.host == host) {
            if let Some(waker) = timer.waker.take() {
                waker.wake();
            }
        }
    }
}
