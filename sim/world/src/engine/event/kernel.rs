//! The state of a world on the event engine: time, queue, trace, hosts, timers, network.
//!
//! It polls nothing: it changes state and wakes wakers. The executor owns the tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::task::Waker;

use lockstorm_platform::time::{Clock, ClockSetting, HostClocks, Nanos, Stamp};
use lockstorm_platform::trace::{Event, Happening, HostId};

use crate::engine::event::connection::{Connections, Listening};
use crate::engine::event::queue::{Due, Queue};
use crate::engine::event::waker::TaskId;
use crate::engine::state::State;

/// The first port of a connecting socket; the next socket gets the next port. After the last,
/// numbering restarts.
pub const FIRST_EPHEMERAL_PORT: u16 = 10_000;

/// The engine's state of a machine beyond its [`State`].
pub struct KernelHost {
    /// Tasks that were woken while the host was halted.
    pub parked: Vec<TaskId>,
    pub listening: BTreeMap<u16, Listening>,
    pub next_port: u16,
    /// The ports that were in use when the numbering restarted.
    pub taken: BTreeSet<u16>,
    pub spawned: u32,
    /// When a task of a host with one event loop last became ready, and its priority.
    last_ready: (Nanos, u64),
}

/// A timer; `due` is the true time of its entry in the queue.
struct Timer {
    generation: u32,
    host: HostId,
    due: Option<Nanos>,
    waker: Option<Waker>,
}

/// See the head of this file.
pub struct Kernel {
    pub state: State,
    pub connections: Connections,
    queue: Queue,
    hosts: Vec<KernelHost>,
    timers: Vec<Timer>,
    free_timers: Vec<u32>,
}

impl Kernel {
    pub fn new(state: State) -> Kernel {
        Kernel {
            state,
            connections: Connections::default(),
            queue: Queue::default(),
            hosts: Vec::new(),
            timers: Vec::new(),
            free_timers: Vec::new(),
        }
    }

    pub fn add_host(&mut self, name: &str, ip: Ipv4Addr, clocks: ClockSetting) -> HostId {
        self.hosts.push(KernelHost {
            parked: Vec::new(),
            listening: BTreeMap::new(),
            next_port: FIRST_EPHEMERAL_PORT,
            taken: BTreeSet::new(),
            spawned: 0,
            last_ready: (0, 0),
        });
        self.state.add_host(name, ip, clocks)
    }

    pub fn host(&mut self, id: HostId) -> &mut KernelHost {
        &mut self.hosts[usize::from(id.0)]
    }

    /// Makes a task wait until its host is no longer halted.
    pub fn park(&mut self, host: HostId, task: TaskId) {
        debug_assert!(self.state.machine(host).is_halted(), "tasks wait only for a halted host");
        self.host(host).parked.push(task);
        self.state.machine(host).counters.hold_back();
    }

    /// A name for the next task of a host: tasks are numbered in the order of spawning.
    pub fn name_task(&mut self, host: HostId) -> String {
        let spawned = &mut self.host(host).spawned;
        *spawned += 1;
        let nth = *spawned;
        format!("{}/{nth}", self.state.names.name(host))
    }

    /// The priority of a task that becomes ready now, given its own draw. On a host with one event
    /// loop none overtakes a task that was ready before it; among hosts the draws decide.
    pub fn priority(&mut self, host: HostId, drawn: u64) -> u64 {
        if !self.state.machine(host).is_one_loop {
            return drawn;
        }
        let now = self.state.now;
        let last = &mut self.host(host).last_ready;
        let priority = if last.0 == now { drawn.max(last.1) } else { drawn };
        *last = (now, priority);
        priority
    }

    pub fn happen(&mut self, kind: Happening, a: u32, b: u32, payload: &[u8]) {
        self.state.happen(kind, a, b, payload);
    }

    pub fn record(&mut self, host: HostId, event: Event) -> Stamp {
        let stamp = self.state.record(host, event);
        self.schedule_strikes();
        stamp
    }

    pub fn record_world(&mut self, event: Event) -> Stamp {
        let stamp = self.state.record_world(event);
        self.schedule_strikes();
        stamp
    }

    /// Puts the strikes that the last record has determined into the queue.
    fn schedule_strikes(&mut self) {
        if self.state.appointments.is_empty() {
            return;
        }
        // In order: of two strikes of one time the fault that was anchored first comes first.
        for (at, fault) in std::mem::take(&mut self.state.appointments) {
            self.strike_at(at, fault);
        }
    }

    /// Puts an event into the queue.
    pub fn schedule(&mut self, at: Nanos, due: Due) {
        debug_assert!(at >= self.state.now, "no event is scheduled in the past");
        self.queue.push(at, due);
    }

    pub fn strike_at(&mut self, at: Nanos, fault: u32) {
        self.schedule(self.state.on_grain(at), Due::Strike(fault));
    }

    pub fn call_at(&mut self, at: Nanos, call: u32) {
        self.schedule(self.state.on_grain(at), Due::Call(call));
    }

    pub fn forget_strikes(&mut self) {
        self.state.watches.clear();
        // An anchor that has just come counts as one that waits: its fault has not struck yet.
        self.state.strikes.clear();
        self.queue.retain(|due| !matches!(due, Due::Strike(_)));
    }

    pub fn forget_events(&mut self) {
        self.queue.clear();
        self.state.watches.clear();
    }

    /// Takes the first event that is due now.
    pub fn pop_due(&mut self) -> Option<Due> {
        let next = self.queue.first();
        debug_assert!(next.is_none_or(|(at, _)| at >= self.state.now), "no event is overdue");
        self.queue.pop_due(self.state.now)
    }

    /// Jumps to the next live event, or to `limit` if that comes first; returns whether there is an
    /// event. A disarmed timer advances no time.
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
            assert!(at >= self.state.now, "an event lies in the past");
            self.state.now = at;
            return true;
        }
        // A caller may pass a limit that has passed already; time never goes back.
        self.state.now = self.state.now.max(limit);
        false
    }
}

/// Timers.
impl Kernel {
    /// Arms a timer for the true time at which `clock` reads `reading`; if it never does, the timer
    /// fires only after a change of the clock. `None` if it already reads that.
    pub fn arm(
        &mut self,
        host: HostId,
        clock: Clock,
        reading: Nanos,
        waker: &Waker,
    ) -> Option<u32> {
        let now = self.state.now;
        let line = self.state.machine(host).clocks.line(clock);
        if line.at(now) >= reading {
            return None;
        }
        self.state.note_sleep(host, clock);
        let slot = self.free_timers.pop().unwrap_or_else(|| {
            let slot = u32::try_from(self.timers.len()).expect("a world has under 2^32 timers");
            self.timers.push(Timer { generation: 0, host, due: None, waker: None });
            slot
        });
        let timer = &mut self.timers[slot as usize];
        debug_assert!(timer.waker.is_none(), "a free timer has no waker");
        timer.host = host;
        timer.due = line.reaches(reading).map(|due| self.state.on_grain(due));
        timer.waker = Some(waker.clone());
        let generation = timer.generation;
        if let Some(due) = timer.due {
            debug_assert!(due > now, "a timer fires later than it is armed");
            self.schedule(due, Due::Timer { slot, generation });
        }
        Some(slot)
    }

    /// Whether an armed timer still has the correct due time; if so, `waker` replaces its waker.
    pub fn still_armed(&mut self, slot: u32, clock: Clock, reading: Nanos, waker: &Waker) -> bool {
        let host = self.timers[slot as usize].host;
        let due = self.state.machine(host).clocks.line(clock).reaches(reading);
        let due = due.map(|due| self.state.on_grain(due));
        let now = self.state.now;
        let timer = &mut self.timers[slot as usize];
        // A timer that is due now does not count: it may have fired, and fires only once.
        let armed = timer.due == due && due.is_none_or(|due| due > now);
        if armed && !timer.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            timer.waker = Some(waker.clone());
        }
        armed
    }

    /// Disarms and frees a timer.
    pub fn disarm(&mut self, slot: u32) {
        let timer = &mut self.timers[slot as usize];
        // The timer's entry stays in the queue; its old generation makes it stale.
        timer.generation = timer.generation.wrapping_add(1);
        timer.waker = None;
        self.free_timers.push(slot);
    }

    /// Fires a timer, unless it was disarmed meanwhile.
    pub fn fire(&mut self, slot: u32, generation: u32) {
        let timer = &mut self.timers[slot as usize];
        if timer.generation != generation {
            return;
        }
        let now = self.state.now;
        debug_assert!(timer.due.is_some_and(|due| due <= now), "a timer fires at its time");
        let host = timer.host;
        if let Some(waker) = timer.waker.take() {
            waker.wake();
        }
        self.happen(Happening::Timer, u32::from(host.0), slot, &[]);
    }

    /// Changes a host's clocks and makes its sleepers check them again.
    pub fn change_clocks(&mut self, host: HostId, change: impl FnOnce(&mut HostClocks, Nanos)) {
        let now = self.state.now;
        change(&mut self.state.machine(host).clocks, now);
        // Every sleeper, because a timer does not know which clock it follows.
        for timer in self.timers.iter_mut().filter(|timer| timer.host == host) {
            if let Some(waker) = timer.waker.take() {
                waker.wake();
            }
        }
    }
}
