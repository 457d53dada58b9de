//! A running node: what its tasks share, and how the effects of commands are published.
//!
//! `command` decides what a request does; this file carries its effects to the trace, the file and
//! the replicas, in the order of Redis: execute, write to the file (and sync it under
//! `appendfsync always`), reply. One connection is in `conversation`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use lockstorm_platform::host::{Host, HostMutex};
use lockstorm_platform::trace::{Event, KeyName, Origin, Request};

use crate::append_only_file::Log;
use crate::effects::{Change, Effects};
use crate::feeds::Feeds;
use crate::frame::Arguments;
use crate::keyspace::Entry;
use crate::node::{Append, Node, NodeConfig};
use crate::peers::LinkState;
use crate::signal::Signal;

/// Time between two runs of `serverCron` (hz 10).
pub(crate) const TICK_MS: u64 = 100;

/// Starts the task that makes a node follow its master.
pub(crate) type Follow = fn(&Rc<Server>);

/// Observes each request of a node before its execution, in addition to the trace.
pub(crate) type Observer = Rc<dyn Fn(Request, &Arguments)>;

/// A running node. Its tasks share it.
pub struct Server {
    /// The machine.
    pub(crate) host: Host,
    /// The state.
    pub node: RefCell<Node>,
    /// Held while something is executed: a slow script makes all clients wait.
    pub(crate) turn: HostMutex,
    /// The replicas that are fed.
    pub(crate) feeds: RefCell<Feeds>,
    /// Raised when a replica has acknowledged, or the node became a replica.
    pub(crate) acknowledged: Signal,
    /// Raised when the node follows another master, or none.
    pub(crate) role: Signal,
    /// Raised when a key expires before the time until which the expiry cycle waits.
    pub(crate) ends: Signal,
    /// The time until which that cycle waits, in Unix milliseconds.
    pub(crate) waits_until_ms: Cell<Option<u64>>,
    /// Raised when a session blocks, so that its timeout is watched.
    pub(crate) waits: Signal,
    /// Raised when a script no longer holds the node.
    pub(crate) freed: Signal,
    /// Raised when the process must stop.
    pub(crate) ended: Signal,
    /// Raised when the cluster has something to send or do.
    pub(crate) bus: Signal,
    /// Whether the file is synced each second.
    pub(crate) syncs: Cell<bool>,
    /// Whether the timeouts of blocked sessions are watched.
    pub(crate) tended: Cell<bool>,
    /// Starts to follow the node's master.
    pub(crate) follow: Follow,
    wakes: RefCell<BTreeMap<u64, Rc<Signal>>>,
    /// The append-only file.
    pub(crate) log: RefCell<Log>,
    /// Whether the save points are checked.
    pub(crate) saves: Cell<bool>,
    /// Observes its requests, for a test that asserts what was requested.
    pub observer: RefCell<Option<Observer>>,
}

impl Server {
    /// A process with this node state.
    pub(crate) fn new(host: &Host, node: Node, follow: Follow) -> Server {
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
            follow,
            wakes: RefCell::default(),
            log: RefCell::default(),
            saves: Cell::new(false),
            observer: RefCell::default(),
        }
    }

    /// The signal that is raised when a connection has something to do that it did not request.
    pub(crate) fn wake_of(&self, id: u64) -> Rc<Signal> {
        Rc::clone(self.wakes.borrow_mut().entry(id).or_default())
    }

    /// Raises these signals for the connections with new output.
    pub(crate) fn raise_wakes(&self, node: &mut Node) {
        for id in node.clients.take_woken() {
            if let Some(wake) = self.wakes.borrow().get(&id) {
                wake.raise();
            }
        }
    }

    /// Removes a connection.
    pub(crate) fn disconnect(&self, id: u64) {
        self.wakes.borrow_mut().remove(&id);
        self.node.borrow_mut().clients.disconnect(id);
    }

    /// Propagates effects to trace, file and replicas; whether a command was propagated.
    pub(crate) fn publish(&self, origin: Origin) -> bool {
        let mut node = self.node.borrow_mut();
        debug_assert!(
            node.peers.master.is_some() || node.peers.link.state == LinkState::Connect,
            "a master has no link to a master"
        );
        if node.effects.is_empty() {
            return false;
        }
        let Effects { mut changes, mut commands } = std::mem::take(&mut node.effects);
        let next = changes.iter().filter_map(|change| change.until_ms).min();
        let reports = node.config.reports_members || node.config.reports_contents;
        let changed = changes.iter().filter(|_| reports);
        let changed: BTreeSet<KeyName> =
            changed.map(|change| KeyName::new(change.db, change.key.clone())).collect();
        node.saving.changes += changes.iter().filter(|change| !change.by_node).count() as u64;
        for change in changes.drain(..) {
            let origin = if change.by_node { Origin::Node } else { origin };
            let Change { db, key, change, until_ms, .. } = change;
            let key = KeyName::new(db, key);
            self.host.record(Event::Key { key, change, origin, until_ms });
        }
        self.report_contents(&node, changed, false);
        let passed = !commands.is_empty();
        if passed && node.config.append != Append::None {
            self.log.borrow_mut().take(&commands);
        }
        // A replica forwards its master's bytes unchanged instead (`follow`).
        if passed && node.peers.master.is_none() {
            self.feeds.borrow_mut().send(&self.host, &mut node, &commands, origin);
        }
        // Put back empty: their allocations serve the next request.
        commands.clear();
        node.effects = Effects { changes, commands };
        self.watch_ends(&node, next);
        passed
    }

    /// Records what these keys hold, as far as the node does so: the members of collections, or a
    /// digest.
    pub(crate) fn report_contents(
        &self,
        node: &Node,
        keys: impl IntoIterator<Item = KeyName>,
        is_loaded: bool,
    ) {
        let NodeConfig { reports_members, reports_contents, .. } = *node.config;
        for key in keys.into_iter().filter(|_| reports_members || reports_contents) {
            let entry = node.keyspace.db(usize::from(key.db)).get(&key.name);
            let Some(Entry { value, .. }) = entry else { continue };
            if let Some(members) = value.members().filter(|_| reports_members) {
                self.host.record(Event::Members { key, members, is_loaded });
            } else if reports_contents {
                self.host.record(Event::Content { key, digest: value.digest() });
            }
        }
    }

    /// Wakes the expiry cycle if a key expires before the time until which it waits.
    pub(crate) fn watch_ends(&self, node: &Node, next: Option<u64>) {
        let waits = self.waits_until_ms.get();
        let is_early = next.is_some_and(|next| waits.is_none_or(|waits| next < waits));
        if is_early && node.peers.master.is_none() {
            self.ends.raise();
        }
    }
}
