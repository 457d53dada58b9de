//! The live engine: the platform on real sockets and in real time, for any client.
//!
//! True time is the real time since the start, and wall clocks begin at the real time of day. To
//! the world, all outside clients are one host. Links have no effect unless a fault disturbs them:
//! then bytes wait in [`wire`] until the network model lets them pass. A run cannot be repeated, so
//! the trace has no hash.

mod machine;
pub mod outside;
pub mod ports;
mod socket;
pub mod stop;
mod wire;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;

use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::order::Naming;
use lockstorm_platform::rng::Chance;
use lockstorm_platform::time::{ClockSetting, EPOCH, HostClocks, Nanos, Stamp};
use lockstorm_platform::trace::{Connection, Event, HostId, Leg, Request, Trace};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::engine::live::machine::Machine;
use crate::engine::live::ports::Ports;
use crate::engine::live::wire::Wire;
use crate::engine::state::State;
use crate::engine::tasks::Tasks;
use crate::engine::tasks::life::{Life, supervise};
use crate::engine::{Engine, Process, Stop};

/// After this many events the world is called, so that a caller may take them out.
const MANY: usize = 2048;

/// See the head of this file. Dropping it drops every task and closes every socket.
pub struct LiveEngine {
    shared: Rc<Shared>,
    runtime: Runtime,
    local: Option<LocalSet>,
    /// How far the wall clocks' epoch is behind the real time of day, in nanoseconds.
    ahead: i64,
}

/// The state that tasks, streams and timers share.
struct Shared {
    tasks: Rc<Tasks>,
    ports: RefCell<Ports>,
    /// The listening address of each machine, as its peers know it.
    addresses: RefCell<BTreeMap<HostId, SocketAddrV4>>,
    /// Client ends of connections that machines of this world have opened.
    dialled: RefCell<BTreeMap<SocketAddrV4, HostId>>,
    wires: RefCell<BTreeMap<u64, Weak<Wire>>>,
    wires_made: Cell<u64>,
    /// Sockets of machines without power: silent until the machine is up again.
    graves: RefCell<BTreeMap<HostId, Grave>>,
    listeners: RefCell<BTreeMap<HostId, Vec<Weak<TcpListener>>>>,
    /// Whether many events were recorded since the last call of the world.
    is_full: Cell<bool>,
    /// Pending requests whose words were recorded.
    unanswered: RefCell<BTreeSet<Request>>,
    /// The connection of the request to which the last strike was anchored.
    waited_for: Cell<Option<Connection>>,
    /// Whether every client belongs to this world: see [`LiveEngine::closed`].
    is_closed: bool,
}

/// The sockets of a machine without power.
#[derive(Default)]
struct Grave {
    streams: Vec<TcpStream>,
    _listeners: Vec<Rc<TcpListener>>,
}

impl Drop for Grave {
    fn drop(&mut self) {
        // A rebooted machine does not know its old connections: it replies with a reset.
        for stream in &self.streams {
            let _ = stream.set_zero_linger();
        }
    }
}

impl Shared {
    fn record(&self, host: Option<HostId>, event: Event) -> Stamp {
        if !self.is_worth_keeping(&event) {
            let mut state = self.tasks.state();
            let readings = host.map(|host| state.readings(host)).unwrap_or_default();
            return Stamp::new(state.trace.next_instant(state.now), readings);
        }
        let request = match &event {
            Event::Message { request, .. } => Some(request.connection),
            _ => None,
        };
        let stamp = self.tasks.record(host, event);
        let state = self.tasks.state();
        if request.is_some() && !state.strikes.is_empty() {
            self.waited_for.set(request);
        }
        if state.trace.entries().len().is_multiple_of(MANY) {
            self.is_full.set(true);
            self.tasks.wake_driver();
        }
        stamp
    }

    /// The progress of a request is recorded only if an anchor waits for it or its words were
    /// recorded: most requests of a busy service are neither.
    fn is_worth_keeping(&self, event: &Event) -> bool {
        if self.is_closed {
            return true;
        }
        let mut unanswered = self.unanswered.borrow_mut();
        match event {
            Event::Words { request, .. } => {
                unanswered.insert(*request);
            }
            Event::Ended { connection } => {
                let mut later = unanswered.split_off(&Request { connection: *connection, nth: 0 });
                later.retain(|request| request.connection != *connection);
                unanswered.append(&mut later);
            }
            Event::Message { request, leg, .. } => {
                let is_known = match leg {
                    Leg::Replied => unanswered.remove(request),
                    _ => unanswered.contains(request),
                };
                return is_known || !self.tasks.state().watches.is_empty();
            }
            _ => {}
        }
        true
    }

    /// The IP address from which a machine connects to another.
    fn source(&self, own: HostId, to: SocketAddrV4) -> Ipv4Addr {
        let ip = *self.addresses.borrow()[&own].ip();
        match (self.is_closed && ip.is_loopback(), to.ip().is_loopback()) {
            (true, _) => ip,
            (_, true) => Ipv4Addr::LOCALHOST,
            _ => Ipv4Addr::UNSPECIFIED,
        }
    }

    /// All ends of open connections.
    fn wires(&self) -> Vec<Rc<Wire>> {
        self.wires.borrow().values().filter_map(Weak::upgrade).collect()
    }

    /// Resets the selected connections; returns their number.
    fn reset_where(&self, which: impl Fn(&Wire) -> bool) -> u64 {
        let wires = self.wires();
        let chosen = wires.iter().filter(|wire| which(wire));
        chosen.map(|wire| wire.reset()).count() as u64
    }

    fn bury(&self, host: HostId) {
        let own = |wire: &Rc<Wire>| wire.own == host;
        let streams = self.wires().into_iter().filter(own).filter_map(|wire| wire.give_up());
        let listeners = self.listeners.borrow_mut().remove(&host).unwrap_or_default();
        let grave = Grave {
            streams: streams.collect(),
            _listeners: listeners.iter().filter_map(Weak::upgrade).collect(),
        };
        self.graves.borrow_mut().insert(host, grave);
    }

    /// Retries what was held on the selected wires, where nothing blocks it now.
    fn retry(&self, concerns: impl Fn(&Wire) -> bool) {
        for wire in self.wires().into_iter().filter(|wire| concerns(wire)) {
            wire.retry();
        }
    }
}

/// The state for this engine: undisturbed links delay nothing.
pub fn state(seed: u64) -> State {
    let chance = Chance::new(seed, BTreeMap::new());
    State::new(chance, Latency::Constant(0), Trace::unhashed(), 1)
}

impl LiveEngine {
    /// An engine without hosts at true time zero, with already bound ports.
    ///
    /// # Panics
    /// If the system provides no event queue.
    pub fn new(state: State, ports: Ports) -> LiveEngine {
        LiveEngine::begin(state, ports, false)
    }

    /// As [`LiveEngine::new`], for a finite world that includes all its clients: the progress of
    /// each request is recorded, each machine has its own IP address, and connections from that
    /// address belong to it, even those of a process outside this world.
    ///
    /// # Panics
    /// As [`LiveEngine::new`].
    pub fn closed(state: State, ports: Ports) -> LiveEngine {
        LiveEngine::begin(state, ports, true)
    }

    #[expect(clippy::disallowed_methods, reason = "here the world's time is the real one")]
    #[expect(clippy::disallowed_types, reason = "clients of this world live in real time")]
    fn begin(state: State, ports: Ports, is_closed: bool) -> LiveEngine {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let start = std::time::Instant::now();
        let elapsed = move || Some(nanos(start.elapsed()));
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let unix = unix.map_or(EPOCH, nanos);
        let shared = Shared {
            tasks: Rc::new(Tasks::new(state, Some(Box::new(elapsed)))),
            ports: RefCell::new(ports),
            addresses: RefCell::default(),
            dialled: RefCell::default(),
            wires: RefCell::default(),
            wires_made: Cell::new(0),
            graves: RefCell::default(),
            listeners: RefCell::default(),
            is_full: Cell::new(false),
            unanswered: RefCell::default(),
            waited_for: Cell::new(None),
            is_closed,
        };
        LiveEngine {
            shared: Rc::new(shared),
            runtime: runtime.expect("the system gives an event queue"),
            local: Some(LocalSet::new()),
            ahead: i64::try_from(i128::from(unix) - i128::from(EPOCH)).unwrap_or(0),
        }
    }

    fn end(&mut self) {
        let runtime = self.runtime.enter();
        drop(self.local.take());
        self.shared.tasks.clear();
        self.shared.graves.borrow_mut().clear();
        drop(runtime);
    }
}

fn nanos(length: Duration) -> Nanos {
    Nanos::try_from(length.as_nanos()).expect("under 584 years")
}

impl Drop for LiveEngine {
    fn drop(&mut self) {
        self.end();
    }
}

impl Engine for LiveEngine {
    fn state(&self) -> RefMut<'_, State> {
        self.shared.tasks.state()
    }

    fn add_host(&mut self, name: &str, address: SocketAddrV4, clocks: ClockSetting) -> HostId {
        let wall_offset = clocks.wall_offset.saturating_add(self.ahead);
        let clocks = ClockSetting { wall_offset, ..clocks };
        let id = match self.shared.is_closed {
            true => self.state().add_host(name, *address.ip(), clocks),
            false => self.state().add_host_at(name, address, clocks),
        };
        self.shared.addresses.borrow_mut().insert(id, address);
        let tasks = Rc::clone(&self.shared.tasks);
        tasks.lives.borrow_mut().push(Life::default());
        let local = self.local.as_ref().expect("the world has not ended");
        local.spawn_local(async move { supervise(tasks, id).await });
        id
    }

    fn install(&mut self, host: HostId, process: Process) {
        self.shared.tasks.life(host, |life| life.process = Some(process));
    }

    fn host(&self, id: HostId) -> Host {
        Machine::host(&self.shared, id)
    }

    fn start(&self, host: HostId) {
        drop(self.shared.graves.borrow_mut().remove(&host));
        self.shared.tasks.start(host, Machine::host(&self.shared, host));
        self.shared.retry(|wire| wire.own == host || wire.peer == host);
    }

    fn kill(&self, host: HostId) {
        self.shared.tasks.kill(host);
    }

    fn power_off(&self, host: HostId) {
        // Before the kill, which would close the sockets and so notify the peers.
        self.shared.bury(host);
        self.shared.tasks.power_off(host);
    }

    fn pause(&self, host: HostId, paused: bool) {
        self.shared.tasks.pause(host, paused);
    }

    fn suspend(&self, host: HostId, suspended: bool) {
        if self.shared.tasks.suspend(host, suspended) {
            self.shared.retry(|wire| wire.own == host || wire.peer == host);
        }
    }

    fn change_clocks(&self, host: HostId, change: &dyn Fn(&mut HostClocks, Nanos)) {
        self.shared.tasks.look_at_clock();
        self.shared.tasks.change_clocks(host, change);
    }

    fn block(&self, from: HostId, to: HostId, blocked: bool) {
        let mut state = self.state();
        let count = &mut state.links.link(from, to).blocked;
        *count = if blocked { *count + 1 } else { count.saturating_sub(1) };
        drop(state);
        self.shared.retry(|wire| [(from, to), (to, from)].contains(&(wire.own, wire.peer)));
    }

    fn reset(&self, one: HostId, other: HostId) -> u64 {
        let ends = [(one, other), (other, one)];
        self.shared.reset_where(|wire| ends.contains(&(wire.own, wire.peer)))
    }

    fn cut_reply(&self, one: HostId, other: HostId) -> u64 {
        let Some(connection) = self.shared.waited_for.take() else {
            return self.reset(one, other);
        };
        self.shared.reset_where(|wire| wire.connection == connection)
    }

    fn counts_met(&self) -> bool {
        false
    }

    fn record(&self, event: Event) -> Stamp {
        self.shared.tasks.look_at_clock();
        self.shared.record(None, event)
    }

    fn strike_at(&self, at: Nanos, fault: u32) {
        self.shared.tasks.agenda.borrow_mut().push(at, Stop::Strike(fault));
    }

    fn call_at(&self, at: Nanos, call: u32) {
        self.shared.tasks.agenda.borrow_mut().push(at, Stop::Call(call));
    }

    fn forget_strikes(&self) {
        self.shared.tasks.forget_strikes();
    }

    fn naming(&self) -> Naming {
        let shared = Rc::clone(&self.shared);
        Rc::new(move |name, address| shared.tasks.state().set_name(name, address))
    }

    fn run_until(&mut self, limit: Nanos) -> Stop {
        let tasks = Rc::clone(&self.shared.tasks);
        let local = self.local.as_ref().expect("the world has not ended");
        let stop = self.runtime.block_on(local.run_until(next_stop(&self.shared, limit)));
        if let Some(panic) = tasks.panic.take() {
            std::panic::resume_unwind(panic);
        }
        stop
    }

    fn finish(&mut self) -> Trace {
        self.end();
        std::mem::replace(&mut self.state().trace, Trace::unhashed())
    }
}

/// Waits until the world must act, while the tasks run.
async fn next_stop(shared: &Shared, limit: Nanos) -> Stop {
    let tasks = &*shared.tasks;
    loop {
        tasks.look_at_clock();
        let now = tasks.state().now;
        if tasks.panic.borrow().is_some() {
            return Stop::Limit;
        }
        if let Some(fault) = tasks.state().strikes.pop_front() {
            return Stop::Strike(fault);
        }
        shared.waited_for.set(None);
        tasks.go_on();
        if let Some(stop) = tasks.agenda.borrow_mut().pop_due(now) {
            return stop;
        }
        if now >= limit || shared.is_full.take() {
            return Stop::Limit;
        }
        let next = tasks.agenda.borrow().next_at().unwrap_or(limit).min(limit);
        called(shared, Duration::from_nanos(next - now)).await;
    }
}

/// Waits for at most `longest`, or until a task has work for the world.
#[expect(clippy::disallowed_methods, reason = "here the world's time is the real one")]
async fn called(shared: &Shared, longest: Duration) {
    let tasks = &shared.tasks;
    let mut alarm = pin!(tokio::time::sleep(longest));
    std::future::poll_fn(|cx| {
        let is_called = shared.is_full.get() || tasks.panic.borrow().is_some();
        if is_called || !tasks.state().strikes.is_empty() {
            return Poll::Ready(());
        }
        tasks.driver.replace(Some(cx.waker().clone()));
        alarm.as_mut().poll(cx)
    })
    .await;
}
