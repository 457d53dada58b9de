//! A node as a process: the order of execution, the trace, the file.
//!
//! What a request does is decided by `command`; here its effects go to the trace, the file and the
//! replicas, in the order of Redis: executed, written to the file (and synced, if every write is),
//! answered. What is said on one connection is in `conversation`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::BytesMut;

use crate::platform::{Host, HostMutex};
use crate::redis::command::table::{Flags, find};
use crate::redis::conversation::converse;
use crate::redis::frame::{Arguments, Reply};
use crate::redis::node::{Append, Change, Effects, Node, NodeConfig, Told};
use crate::redis::persistence::{FILE, Script, load, snapshot};
use crate::redis::replication::{Feeds, follow_anew};
use crate::redis::script::begins;
use crate::redis::session::After;
use crate::redis::signal::{First, Signal, first};
use crate::redis::witness;
use crate::redis::{cluster, cycle};
use crate::rng::Purpose;
use crate::time::{Clock, MILLISECOND, Nanos};
use crate::trace::{Event, KeyName, Origin, Request};

/// A running node. Its tasks share it.
pub struct Server {
    /// The machine.
    pub host: Host,
    /// The state.
    pub node: RefCell<Node>,
    /// Held while something is executed: a slow script lets everybody wait.
    pub turn: HostMutex,
    /// The replicas that are fed.
    pub feeds: RefCell<Feeds>,
    /// Raised when a replica has acknowledged, or the node became one.
    pub acknowledged: Signal,
    /// Raised when the node follows another master, or none.
    pub role: Signal,
    /// Raised when a key has an earlier end than the expiry cycle waits for.
    pub ends: Signal,
    /// Until when that cycle waits, in Unix milliseconds.
    pub waits_until_ms: Cell<Option<u64>>,
    /// Raised when somebody begins to wait, so that the end of his time is looked for.
    pub waits: Signal,
    /// Raised when a script no longer holds the node.
    pub freed: Signal,
    /// Raised when the process is to end.
    pub ended: Signal,
    /// Raised when the cluster wants something done.
    pub bus: Signal,
    /// Whether the file is synced each second.
    pub syncs: Cell<bool>,
    /// Whether the ends of waits are looked for.
    pub tended: Cell<bool>,
    wakes: RefCell<BTreeMap<u64, Rc<Signal>>>,
    log: RefCell<Log>,
}

/// Whether a request runs a script.
fn runs_script(args: &Arguments) -> bool {
    find(&args[0]).is_some_and(|command| command.flags.any(Flags::SKIP_MONITOR))
}

/// The append-only file between execution and disk.
#[derive(Default)]
struct Log {
    script: Script,
    /// Executed and not yet written.
    pending: BytesMut,
    /// Bytes written since the start, and how many of them are known to be synced.
    written: u64,
    synced: u64,
}

/// Runs a node until its process ends.
///
/// # Panics
/// If its port is taken: a world gives each process ports of its own.
pub async fn serve(host: Host, config: NodeConfig) {
    let mut listener = host.listen(config.port).expect("the node's port is free");
    let server = Rc::new(Server::start(&host, config));
    cycle::start(&server);
    cluster::process::start(&server);
    if server.node.borrow().master.is_some() {
        follow_anew(&server);
    }
    loop {
        match first(listener.accept(), server.ended.past(0)).await {
            First::This(Ok(stream)) => host.spawn(converse(Rc::clone(&server), stream)),
            _ => return,
        }
    }
}

impl Server {
    /// Loads what the disk holds and tells the trace.
    fn start(host: &Host, config: NodeConfig) -> Server {
        let wall = host.now(Clock::Wall);
        let id =
            [0, 1, 2].map(|ordinal| host.draw(Purpose::Server, wall / MILLISECOND * 3 + ordinal));
        let mut node = Node::new(config, wall / MILLISECOND, id);
        node.set_time(wall);
        if node.config.append != Append::None {
            let bytes = host.disk().read(FILE);
            let whole = load(&mut node, &bytes);
            if whole < bytes.len() {
                host.disk().replace(FILE, &bytes[..whole]);
            }
            node.propagates = true;
        }
        if let Some(own) = host.resolve(host.name()) {
            let file = host.disk().read(cluster::file::FILE);
            let own = SocketAddrV4::new(*own.ip(), node.config.port);
            node.begin_cluster(own, &String::from_utf8_lossy(&file));
        }
        host.record(Event::Role { master: node.master });
        host.record(Event::Loaded { keys: node.keyspace.keys(), resync: None });
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
        }
    }

    /// What is raised when a connection has something to look at that nobody asked for.
    pub fn wake_of(&self, id: u64) -> Rc<Signal> {
        Rc::clone(self.wakes.borrow_mut().entry(id).or_default())
    }

    /// Forgets a connection.
    pub fn disconnect(&self, id: u64) {
        self.wakes.borrow_mut().remove(&id);
        self.node.borrow_mut().disconnect(id);
    }

    /// Executes a request when it is its turn. Its reply is put behind the connection's output.
    pub async fn execute(self: &Rc<Server>, id: u64, request: Request, args: &Arguments) {
        self.wait_for_script().await;
        let is_busy = self.node.borrow().busy.is_some();
        let turn = if is_busy { None } else { Some(self.turn.clone().lock().await) };
        let wall = self.host.now(Clock::Wall);
        let slowness = self.host.slowness();
        if slowness.command > 0 {
            self.host.sleep(slowness.command).await;
        }
        let is_slow = slowness.script > 0 && !is_busy && runs_script(args);
        if !is_slow || self.run_slowly(id, args, slowness.script).await {
            self.request(id, request, wall, args);
        }
        let passed = self.publish(Origin::Request(request));
        self.wake();
        if let Some(nap) = self.settle(id, passed) {
            self.host.sleep(nap).await;
        }
        drop(turn);
    }

    /// Notes how far the stream has come with a session's write; how long it holds the node yet.
    fn settle(&self, id: u64, passed: bool) -> Option<Nanos> {
        let mut node = self.node.borrow_mut();
        let offset = node.offset;
        let session = node.clients.get_mut(id)?;
        if passed {
            session.last_write = offset;
        }
        match session.after {
            After::Sleep(nap) => Some(nap),
            _ => None,
        }
    }

    /// While a script holds the node, requests are looked at when others are to be told BUSY.
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

    /// From when on others are told BUSY, if a script holds the node.
    fn busy_from(&self) -> Option<Nanos> {
        let node = self.node.borrow();
        let busy = node.busy.as_ref()?;
        Some((busy.since_ms + node.config.busy_after_ms) * MILLISECOND)
    }

    /// A script that a fault makes slow holds the node before it does anything. False if it was
    /// killed meanwhile: then its caller has been told.
    async fn run_slowly(&self, id: u64, args: &Arguments, length: Nanos) -> bool {
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

    /// Wakes the connections that were told something, and the task that ends waits.
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

    /// Tells trace, file and replicas what was done; whether a command was passed on.
    pub fn publish(&self, origin: Origin) -> bool {
        let mut node = self.node.borrow_mut();
        if node.effects.is_empty() {
            return false;
        }
        let Effects { mut changes, mut commands } = std::mem::take(&mut node.effects);
        let next = changes.iter().filter_map(|change| change.until_ms).min();
        for change in changes.drain(..) {
            let origin = if change.by_node { Origin::Node } else { origin };
            let Change { db, key, change, until_ms, .. } = change;
            let key = KeyName::new(db, key);
            self.host.record(Event::Key { key, change, origin, until_ms });
        }
        let passed = !commands.is_empty();
        if passed && node.config.append != Append::None {
            let mut log = self.log.borrow_mut();
            let Log { script, pending, .. } = &mut *log;
            if commands.iter().any(Told::is_said_only) {
                let kept: Vec<Told> =
                    commands.iter().filter(|told| !told.is_said_only()).cloned().collect();
                script.write(&kept, pending, |_, _| {});
            } else {
                script.write(&commands, pending, |_, _| {});
            }
        }
        if passed && node.master.is_none() {
            self.feeds.borrow_mut().send(&self.host, &mut node, &commands, origin);
        }
        commands.clear();
        node.effects = Effects { changes, commands };
        self.watch_ends(&node, next);
        passed
    }

    /// Wakes the expiry cycle if it waits too long for a key that ends then.
    fn watch_ends(&self, node: &Node, next: Option<u64>) {
        let waits = self.waits_until_ms.get();
        let is_early = next.is_some_and(|next| waits.is_none_or(|waits| next < waits));
        if is_early && node.master.is_none() {
            self.ends.raise();
        }
    }

    /// Writes what was executed to the file, and syncs it if every write is: to be done before
    /// any reply goes out.
    pub async fn write_log(&self) {
        self.append_pending();
        if self.node.borrow().config.append == Append::Always {
            self.sync_log().await;
        }
    }

    fn append_pending(&self) {
        let mut log = self.log.borrow_mut();
        if !log.pending.is_empty() {
            self.host.disk().append(FILE, &log.pending);
            log.written += log.pending.len() as u64;
            log.pending.clear();
        }
    }

    /// Syncs the file, if anything was written that is not known to be synced. Who comes while
    /// another sync is under way waits for one of his own.
    pub async fn sync_log(&self) {
        let written = self.log.borrow().written;
        if self.log.borrow().synced < written {
            self.host.disk().sync(FILE).await;
            let mut log = self.log.borrow_mut();
            log.synced = log.synced.max(written);
        }
    }

    /// Begins a file with what the node holds: `appendonly` was turned on.
    pub async fn begin_log(self: &Rc<Server>) {
        let bytes = snapshot(&self.node.borrow());
        cycle::sync_from_now_on(self);
        self.rewrite_log(&bytes).await;
    }

    /// Puts this keyspace in the place of the file, after a full resynchronisation.
    pub async fn rewrite_log(&self, bytes: &[u8]) {
        if self.node.borrow().config.append == Append::None {
            return;
        }
        self.host.disk().replace(FILE, bytes);
        *self.log.borrow_mut() = Log { written: 1, ..Log::default() };
        self.sync_log().await;
    }
}
