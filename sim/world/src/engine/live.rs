//! The live engine: the platform on real sockets and in real time, for any client.
//!
//! True time is the real time since the start, and wall clocks begin at the real time of day. To
//! the world, all outside clients are one host. Links have no effect unless a fault disturbs them:
//! then bytes wait in [`wire`] until the network model lets them pass. A run cannot be repeated, so
//! the trace has no hash.

mod lane;
mod machine;
pub mod outside;
pub mod ports;
mod recorder;
mod shared;
mod socket;
pub mod stop;
mod wire;

use std::cell::RefMut;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::order::Naming;
use lockstorm_platform::rng::Chance;
use lockstorm_platform::time::{ClockSetting, EPOCH, HostClocks, Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId, Trace};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use crate::engine::interface::{Engine, Process, Stop};
use crate::engine::live::machine::LiveMachine;
use crate::engine::live::ports::Ports;
use crate::engine::live::shared::LiveShared;
use crate::engine::state::State;
use crate::engine::tasks::Tasks;
use crate::engine::tasks::life::Life;
use crate::engine::tasks::supervisor::supervise;

/// See the head of this file. Dropping it drops every task and closes every socket.
pub struct LiveEngine {
    shared: Rc<LiveShared>,
    runtime: Runtime,
    local: Option<LocalSet>,
    /// How far the wall clocks' epoch is behind the real time of day, in nanoseconds.
    ahead: i64,
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
        let tasks = Tasks::new(state, Some(Box::new(elapsed)));
        LiveEngine {
            shared: Rc::new(LiveShared::new(tasks, ports, is_closed)),
            runtime: runtime.expect("the system gives an event queue"),
            local: Some(LocalSet::new()),
            ahead: i64::try_from(i128::from(unix) - i128::from(EPOCH)).unwrap_or(0),
        }
    }

    /// Makes [`Engine::run_until`] return early; any thread may ring it with `notify_one`.
    pub fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.bell)
    }

    fn end(&mut self) {
        let runtime = self.runtime.enter();
        drop(self.local.take());
        self.shared.tasks.clear();
        self.shared.silent.borrow_mut().clear();
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
        LiveMachine::host(&self.shared, id)
    }

    fn start(&self, host: HostId) {
        // First, because the silent sockets still hold the ports on which the new process listens.
        drop(self.shared.silent.borrow_mut().remove(&host));
        self.shared.tasks.start(host, LiveMachine::host(&self.shared, host));
        // After the power is on, because held bytes pass only to and from a machine that is up.
        self.shared.wires.retry(|wire| wire.own == host || wire.peer == host);
    }

    fn kill(&self, host: HostId) {
        self.shared.tasks.kill(host);
    }

    fn power_off(&self, host: HostId) {
        // Before the tasks are dropped: their sockets would close the connections.
        self.shared.silence(host);
        self.shared.tasks.power_off(host);
    }

    fn pause(&self, host: HostId, paused: bool) {
        self.shared.tasks.pause(host, paused);
    }

    fn suspend(&self, host: HostId, suspended: bool) {
        if self.shared.tasks.suspend(host, suspended) {
            self.shared.wires.retry(|wire| wire.own == host || wire.peer == host);
        }
    }

    fn change_clocks(&self, host: HostId, change: &dyn Fn(&mut HostClocks, Nanos)) {
        // Faults strike between task runs, where no other code has read the clock.
        self.shared.tasks.look_at_clock();
        self.shared.tasks.change_clocks(host, change);
    }

    fn block(&self, from: HostId, to: HostId, blocked: bool) {
        let mut state = self.state();
        state.links.link(from, to).block(blocked);
        drop(state);
        self.shared.wires.retry(|wire| [(from, to), (to, from)].contains(&(wire.own, wire.peer)));
    }

    fn reset(&self, one: HostId, other: HostId) -> u64 {
        let ends = [(one, other), (other, one)];
        self.shared.wires.reset_where(|wire| ends.contains(&(wire.own, wire.peer)))
    }

    fn cut_reply(&self, one: HostId, other: HostId) -> u64 {
        let Some(connection) = self.shared.recorder.waited_for.take() else {
            return self.reset(one, other);
        };
        self.shared.wires.reset_where(|wire| wire.connection == connection)
    }

    fn counts_faults(&self) -> bool {
        false
    }

    fn record(&self, event: Event) -> Stamp {
        self.shared.tasks.look_at_clock();
        self.shared.recorder.record(None, event)
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
        // First, because the tasks record the ends of their connections as they are dropped.
        self.end();
        std::mem::replace(&mut self.state().trace, Trace::unhashed())
    }
}

/// Waits until the world must act, while the tasks run.
async fn next_stop(shared: &LiveShared, limit: Nanos) -> Stop {
    let tasks = &*shared.tasks;
    loop {
        tasks.look_at_clock();
        let now = tasks.state().now;
        // A panic comes first: the caller resumes it before the world acts again.
        if tasks.panic.borrow().is_some() {
            return Stop::Limit;
        }
        if let Some(fault) = tasks.state().strikes.pop_front() {
            return Stop::Strike(fault);
        }
        // All strikes of this instant are done: the tasks that waited for them may continue.
        shared.recorder.waited_for.set(None);
        tasks.wake_waiting();
        if let Some(stop) = tasks.agenda.borrow_mut().pop_due(now) {
            return stop;
        }
        if now >= limit || shared.recorder.is_full.take() {
            return Stop::Limit;
        }
        let next = tasks.agenda.borrow().next_at().unwrap_or(limit).min(limit);
        next_call(shared, Duration::from_nanos(next - now)).await;
    }
}

/// Waits for at most `limit`, or until a task has work for the world.
#[expect(clippy::disallowed_methods, reason = "here the world's time is the real one")]
async fn next_call(shared: &LiveShared, limit: Duration) {
    let tasks = &shared.tasks;
    let mut alarm = pin!(tokio::time::sleep(limit));
    let mut bell = pin!(shared.bell.notified());
    std::future::poll_fn(|cx| {
        if bell.as_mut().poll(cx).is_ready() {
            // Makes `next_stop` return, so that the owner of the world gets control.
            shared.recorder.is_full.set(true);
            return Poll::Ready(());
        }
        let is_called = shared.recorder.is_full.get() || tasks.panic.borrow().is_some();
        if is_called || !tasks.state().strikes.is_empty() {
            return Poll::Ready(());
        }
        tasks.driver.replace(Some(cx.waker().clone()));
        alarm.as_mut().poll(cx)
    })
    .await;
}
