//! A node as a process: the order of execution, the trace, the file.
//!
//! `command` decides what a request does; this file carries its effects to the trace, the file and
//! the replicas, in the order of Redis: execute, write to the file (and sync it under
//! `appendfsync always`), reply. One connection is in `conversation`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::host::{Host, HostMutex, Listener, Slowness};
use lockstorm_platform::rng::Purpose;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};
use lockstorm_platform::trace::{Event, KeyName, Origin, Request};

use crate::command::table::{Flags, find};
use crate::conversation::converse;
use crate::files::{Log, has_file, read_files};
use crate::frame::{Arguments, Reply};
use crate::node::{Append, Change, Effects, Node, NodeConfig};
use crate::replication::feed::Feeds;
use crate::replication::follow::follow_anew;
use crate::script::begins;
use crate::session::After;
use crate::signal::{First, Signal, first};
use crate::witness;
use crate::{cluster, cycle};

/// A running node. Its tasks share it.
pub struct Server {
    /// The machine.
    pub host: Host,
    /// The state.
    pub node: RefCell<Node>,
    /// Held while something is executed: a slow script makes all clients wait.
    pub turn: HostMutex,
    /// The replicas that are fed.
    pub feeds: RefCell<Feeds>,
    /// Raised when a replica has acknowledged, or the node became a replica.
    pub acknowledged: Signal,
    /// Raised when the node follows another master, or none.
    pub role: Signal,
    /// Raised when a key expires before the time until which the expiry cycle waits.
    pub ends: Signal,
    /// The time until which that cycle waits, in Unix milliseconds.
    pub waits_until_ms: Cell<Option<u64>>,
    /// Raised when a session blocks, so that its timeout is watched.
    pub waits: Signal,
    /// Raised when a script no longer holds the node.
    pub freed: Signal,
    /// Raised when the process must stop.
    pub ended: Signal,
    /// Raised when the cluster has something to send or do.
    pub bus: Signal,
    /// Whether the file is synced each second.
    pub syncs: Cell<bool>,
    /// Whether the timeouts of blocked sessions are watched.
    pub tended: Cell<bool>,
    wakes: RefCell<BTreeMap<u64, Rc<Signal>>>,
    /// The append-only file.
    pub log: RefCell<Log>,
    /// Whether the save points are checked.
    pub saves: Cell<bool>,
}

/// Whether a request runs a script.
fn runs_script(args: &Arguments) -> bool {
    find(&args[0]).is_some_and(|command| command.flags.any(Flags::SKIP_MONITOR))
}

/// Runs a node until its process stops.
///
/// # Panics
/// If its port is taken: a world gives each process ports of its own.
pub async fn serve(host: Host, config: NodeConfig) {
    run(&host, config).await;
    host.record(Event::Exited);
    host.exit();
}

async fn run(host: &Host, config: NodeConfig) {
    let listener = host.listen(config.port).expect("the node's port is free");
    let server = Rc::new(Server::new(host, config));
    let load_time = server.node.borrow().config.load_time;
    if load_time > 0 && has_file(host, &server.node.borrow()) {
        host.spawn(Rc::clone(&server).start_after(load_time));
    } else if !server.start() {
        return;
    }
    accept_all(server, listener).await;
}

/// Serves every connection until the process must stop.
pub async fn accept_all(server: Rc<Server>, mut listener: Listener) {
    loop {
        match first(listener.accept(), server.ended.past(0)).await {
            First::This(Ok(stream)) => {
                server.host.spawn(converse(Rc::clone(&server), stream));
            }
            _ => return,
        }
    }
}

/// Draws for the ids of a process that starts now.
pub fn ids(host: &Host) -> [u64; 3] {
    let wall = host.now(Clock::Wall);
    [0, 1, 2].map(|ordinal| host.draw(Purpose::Server, wall / MILLISECOND * 3 + ordinal))
}

impl Server {
    fn new(host: &Host, config: NodeConfig) -> Server {
        let wall = host.now(Clock::Wall);
        let mut node = Node::new(config, wall / MILLISECOND, ids(host));
        node.set_time(wall);
        if let Some(own) = host.resolve(host.name()) {
            let file = host.disk().read(cluster::file::FILE);
            let own = SocketAddrV4::new(*own.ip(), node.config.port);
            node.begin_cluster(own, &String::from_utf8_lossy(&file));
        }
        host.record(Event::Role { master: node.master });
        Server::of(host, node)
    }

    /// A process with this state.
    pub fn of(host: &Host, node: Node) -> Server {
        Server {
            host: host.clone(),
            node: RefCell::new(node),
            turn: HostMutex::default(),
            feeds: RefCell::default(),
            acknowledged: Signal::default(),
            role: Signal::default(),
            ends: Signal::default(),
            waits_until_ms: Cell::new(None),
            waits: Signal::default(),
            freed: Signal::default(),
            ended: Signal::default(),
            bus: Signal::default(),
            syncs: Cell::new(false),
            tended: Cell::new(false),
            wakes: RefCell::default(),
            log: RefCell::default(),
            saves: Cell::new(false),
        }
    }

    /// Loads from disk, records it in the trace and starts. False if the node must not start with
    /// what it found.
    fn start(self: &Rc<Server>) -> bool {
        let mut node = self.node.borrow_mut();
        node.starting_ms = None;
        let Some(place) = read_files(&self.host, &mut node) else { return false };
        let keys = node.keyspace.keys();
        self.host.record(Event::Loaded { keys, resync: None, file: Some(place) });
        let follows = node.master.is_some();
        if let Some(continued) = node.history.continued().filter(|_| !follows) {
            self.host.record(continued);
        }
        drop(node);
        cycle::start(self);
        cluster::process::start(self);
        if follows {
            follow_anew(self);
        }
        true
    }

    /// Starts after the file is loaded, which takes time; requests meanwhile get a LOADING error.
    /// Expiry is decided by the time at which loading began, as in Redis.
    async fn start_after(self: Rc<Server>, load_time: Nanos) {
        self.node.borrow_mut().starting_ms = Some(self.host.now(Clock::Wall) / MILLISECOND);
        self.host.sleep(load_time).await;
        let turn = self.turn.clone().lock().await;
        let began_ms = self.node.borrow().starting_ms.unwrap_or(0);
        self.node.borrow_mut().set_time(began_ms * MILLISECOND);
        if !self.start() {
            self.ended.raise();
        }
        drop(turn);
    }

    /// The signal that is raised when a connection has something to do that it did not request.
    pub fn wake_of(&self, id: u64) -> Rc<Signal> {
        Rc::clone(self.wakes.borrow_mut().entry(id).or_default())
    }

    /// Forgets a connection.
    pub fn disconnect(&self, id: u64) {
        self.wakes.borrow_mut().remove(&id);
        self.node.borrow_mut().disconnect(id);
    }

    /// Executes a request in its turn. Its reply is appended to the connection's output buffer.
    pub async fn execute(self: &Rc<Server>, id: u64, request: Request, args: &Arguments) {
        self.wait_for_script().await;
        let is_busy = self.node.borrow().busy.is_some();
        let turn = if is_busy { None } else { Some(self.turn.clone().lock().await) };
        let wall = self.host.now(Clock::Wall);
        let slowness = self.host.slowness();
        if slowness.command > 0 {
            self.host.slowed(Slowness { script: 0, ..slowness });
            self.host.sleep(slowness.command).await;
        }
        let is_slow = slowness.script > 0 && !is_busy && runs_script(args);
        let executed = self.node.borrow().executed;
        if !is_slow || self.run_slowly(id, args, slowness.script).await {
            self.request(id, request, wall, args);
        }
        self.publish(Origin::Request(request));
        self.wake();
        if let Some(nap) = self.settle(id, executed) {
            self.host.sleep(nap).await;
        }
        drop(turn);
    }

    /// Notes the replication offset after a session's request was executed: its effects lie at or
    /// before this offset, and WAIT uses it. Returns how long the request still holds the node.
    fn settle(&self, id: u64, executed: u64) -> Option<Nanos> {
        let mut node = self.node.borrow_mut();
        let (offset, runs) = (node.history.offset, node.executed != executed);
        let session = node.clients.get_mut(id)?;
        if runs {
            session.last_write = offset;
        }
        match session.after {
            After::Sleep(nap) => Some(nap),
            _ => None,
        }
    }

    /// While a script holds the node, requests wait until the BUSY threshold.
    async fn wait_for_script(&self) {
        loop {
            let seen = self.freed.count();
            let Some(told_from) = self.busy_from() else { return };
            if self.host.now(Clock::Wall) >= told_from {
                return;
            }
            let told = self.host.sleep_until(Clock::Wall, told_from);
            first(self.freed.past(seen), told).await;
        }
    }

    /// The time from which others get the BUSY reply, if a script holds the node.
    fn busy_from(&self) -> Option<Nanos> {
        let node = self.node.borrow();
        let busy = node.busy.as_ref()?;
        let told_from_ms = busy.since_ms.saturating_add(node.config.busy_after_ms);
        Some(told_from_ms.saturating_mul(MILLISECOND))
    }

    /// Lets a script that a fault makes slow hold the node before it does anything. False if it was
    /// killed meanwhile: then its caller already has the reply.
    async fn run_slowly(&self, id: u64, args: &Arguments, length: Nanos) -> bool {
        self.host.slowed(Slowness { command: 0, script: length });
        let since_ms = self.host.now(Clock::Wall) / MILLISECOND;
        let busy = begins(&self.node.borrow(), id, since_ms, args);
        let text = busy.killed.clone();
        let seen = self.freed.count();
        self.node.borrow_mut().busy = Some(busy);
        if let First::This(()) = first(self.host.sleep(length), self.freed.past(seen)).await {
            self.node.borrow_mut().busy = None;
            self.freed.raise();
            return true;
        }
        if let Some(session) = self.node.borrow_mut().clients.get_mut(id) {
            session.push(&Reply::Error(text));
        }
        false
    }

    fn request(&self, id: u64, request: Request, wall: Nanos, args: &Arguments) {
        let mut node = self.node.borrow_mut();
        node.set_time(wall);
        node.clock_us = self.host.now(Clock::Wall) / 1_000;
        let was_busy = node.busy.is_some();
        let heard = witness::hear(&self.host, &node, id, args);
        node.request(id, args);
        witness::tell(&self.host, &node, id, request, args, heard);
        if was_busy && node.busy.is_none() {
            self.freed.raise();
        }
    }

    /// Wakes the connections with new output, and the task that watches timeouts.
    pub fn wake(self: &Rc<Server>) {
        let mut node = self.node.borrow_mut();
        if node.clients.has_woken() {
            for id in node.clients.take_woken() {
                if let Some(wake) = self.wakes.borrow().get(&id) {
                    wake.raise();
                }
            }
        }
        if node.cluster.as_ref().is_some_and(|cluster| cluster.wants_something()) {
            self.bus.raise();
        }
        if node.clients.take_new_wait() {
            self.watch_ends(&node, node.keyspace.next_end_ms());
            drop(node);
            self.waits.raise();
            if !self.tended.replace(true) {
                self.host.spawn(cycle::end_waits_in_time(Rc::clone(self)));
            }
        }
    }

    /// Propagates effects to trace, file and replicas; whether a command was propagated.
    pub fn publish(&self, origin: Origin) -> bool {
        let mut node = self.node.borrow_mut();
        if node.effects.is_empty() {
            return false;
        }
        let Effects { mut changes, mut commands } = std::mem::take(&mut node.effects);
        let next = changes.iter().filter_map(|change| change.until_ms).min();
        node.saving.changes += changes.iter().filter(|change| !change.by_node).count() as u64;
        for change in changes.drain(..) {
            let origin = if change.by_node { Origin::Node } else { origin };
            let Change { db, key, change, until_ms, .. } = change;
            let key = KeyName::new(db, key);
            self.host.record(Event::Key { key, change, origin, until_ms });
        }
        let passed = !commands.is_empty();
        if passed && node.config.append != Append::None {
            self.log.borrow_mut().take(&commands);
        }
        if passed && node.master.is_none() {
            self.feeds.borrow_mut().send(&self.host, &mut node, &commands, origin);
        }
        commands.clear();
        node.effects = Effects { changes, commands };
        self.watch_ends(&node, next);
        passed
    }

    /// Wakes the expiry cycle if a key expires before the time until which it waits.
    fn watch_ends(&self, node: &Node, next: Option<u64>) {
        let waits = self.waits_until_ms.get();
        let is_early = next.is_some_and(|next| waits.is_none_or(|waits| next < waits));
        if is_early && node.master.is_none() {
            self.ends.raise();
        }
    }
}
