//! What caused a change of a key, however the change reached its node: by a request, a replication
//! stream, a resynchronisation or a file.
//!
//! A node can identify what comes from elsewhere only by its place: an offset in a replication
//! history, a connection, a mark on a file. The trace is read entry by entry, and each place is
//! matched with what was put there. A replication history is identified by its id, never by its
//! master: a restarted master counts a new one from the start, while replicas may still apply the
//! old one.
//!
//! - [`stream`]: the cause behind each place of a replication history
//! - [`file`]: the contents of a node's files
//! - [`recent`]: a map that forgets

mod file;
mod life;
pub(crate) mod recent;
mod stream;

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::time::{MILLISECOND, Stamp};
use lockstorm_platform::trace::{
    Connection, Entry, Event, HostId, KeyChange, KeyName, Leg, Origin, Place, Request,
};

use crate::reading::provenance::file::NodeFiles;
use crate::reading::provenance::life::{Keys, Life, put};
use crate::reading::provenance::recent::{Bounds, Recent};
use crate::reading::provenance::stream::Streams;

/// What happened to a key, with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CausedChange<C> {
    /// The key.
    pub key: KeyName,
    /// What happened to it.
    pub change: KeyChange,
    /// The current expiry time, as [`Life::until_ms`]; for a loss, the expiry time that it had.
    pub until_ms: Option<u64>,
    /// The cause.
    pub by: Option<C>,
    /// Whether a start caused it and undid only changes after which the node had sent no reply: the
    /// key is as it was when the node last replied to anybody.
    pub unacknowledged: bool,
}

/// See the module documentation.
pub struct Provenance<C> {
    streams: Streams<C>,
    nodes: BTreeMap<HostId, NodeKeys<C>>,
    /// What masters have sent for a resynchronisation, by the replica's connection.
    snapshots: Recent<Connection, Keys<C>>,
    bounds: Bounds,
}

struct NodeKeys<C> {
    living: Keys<C>,
    files: NodeFiles<C>,
    /// The keys that changed since the last reply, as they were then. A change that a replica
    /// applies is left out, because its master may have acknowledged it.
    unanswered: Unanswered<C>,
    /// Requests that a loading process declined: such a reply reveals nothing about keys.
    declined: BTreeSet<Request>,
}

/// The keys that have changed since a reply, with their state at that reply.
type Unanswered<C> = BTreeMap<KeyName, Option<Life<C>>>;

impl<C: Clone + PartialEq> Default for Provenance<C> {
    fn default() -> Provenance<C> {
        Provenance::bounded(Bounds { places: usize::MAX, copies: usize::MAX })
    }
}

impl<C: Clone + PartialEq> Provenance<C> {
    /// Empty; once a bound is reached, the oldest entries are forgotten.
    pub fn bounded(bounds: Bounds) -> Provenance<C> {
        let streams = Streams::bounded(bounds.places);
        let snapshots = Recent::bounded(bounds.copies);
        Provenance { streams, nodes: BTreeMap::new(), snapshots, bounds }
    }

    /// Processes the next entry. Returns the changes of keys that it implies on its host, in order;
    /// `cause` maps a request to its cause.
    pub fn take(
        &mut self,
        entry: &Entry,
        cause: impl Fn(Request) -> Option<C>,
    ) -> Vec<CausedChange<C>> {
        let host = entry.host;
        match &entry.event {
            Event::Key { key, change, origin, until_ms } => {
                let by = self.cause(*origin, cause);
                let (key, change, until_ms) = (key.clone(), *change, *until_ms);
                let change = CausedChange { key, change, until_ms, by, unacknowledged: false };
                let is_copy = matches!(origin, Origin::Replication { .. });
                self.node(host).change(&change, is_copy);
                return vec![change];
            }
            Event::Propagated { history, offset, origin } => {
                let by = self.cause(*origin, cause);
                self.streams.note(*history, *offset, by);
            }
            Event::Continued { history, earlier, to } => {
                self.streams.go_on(*history, *earlier, *to);
            }
            Event::Snapshot { connection } => {
                let living = self.node(host).living.clone();
                self.snapshots.insert(*connection, living);
            }
            Event::Dumped { appends } => {
                let node = self.node(host);
                node.files.dump(entry.stamp.seq, node.living.clone(), *appends);
            }
            Event::Message { leg: Leg::Replied, request, .. } => {
                let node = self.node(host);
                if !node.declined.remove(request) {
                    node.unanswered.clear();
                }
            }
            Event::Declined { request, word } if word == "LOADING" => {
                self.node(host).declined.insert(*request);
            }
            Event::Loaded { keys, resync, file } => {
                return self.load(host, &entry.stamp, keys, *resync, *file);
            }
            _ => {}
        }
        Vec::new()
    }

    fn cause(&self, origin: Origin, cause: impl Fn(Request) -> Option<C>) -> Option<C> {
        match origin {
            Origin::Node => None,
            Origin::Request(request) => cause(request),
            Origin::Replication { history, offset } => self.streams.cause(history, offset),
        }
    }

    fn node(&mut self, host: HostId) -> &mut NodeKeys<C> {
        let bounds = self.bounds;
        let new = || NodeKeys {
            living: BTreeMap::new(),
            files: NodeFiles::bounded(bounds),
            unanswered: BTreeMap::new(),
            declined: BTreeSet::new(),
        };
        self.nodes.entry(host).or_insert_with(new)
    }

    /// Sets a node's keys to `keys` after a start or a resynchronisation, as they were when its
    /// file was written or the snapshot was taken.
    fn load(
        &mut self,
        host: HostId,
        stamp: &Stamp,
        keys: &[KeyName],
        resync: Option<Connection>,
        file: Option<Place>,
    ) -> Vec<CausedChange<C>> {
        let sent = resync.map(|connection| self.snapshots.remove(&connection).unwrap_or_default());
        let node = self.node(host);
        let read = file.and_then(|place| node.files.read(place));
        let before = std::mem::take(&mut node.living);
        // A node that does not report what it read is assumed to have kept what it had.
        let held = sent.or(read).unwrap_or_default();
        let life = |key: &KeyName| {
            let unknown = Life { creator: None, writer: None, until_ms: None };
            let known = held.get(key).or_else(|| before.get(key));
            (key.clone(), known.cloned().unwrap_or(unknown))
        };
        node.living = keys.iter().map(life).collect();
        let lost = match resync {
            Some(_) => KeyChange::LostAtFailover,
            None => KeyChange::LostAtRestart,
        };
        let wall_ms = stamp.wall / MILLISECOND;
        let mut changes = differences(&before, &node.living, lost, wall_ms);
        node.declined.clear();
        let unanswered = std::mem::take(&mut node.unanswered);
        if resync.is_none() {
            for change in &mut changes {
                let Some(then) = unanswered.get(&change.key) else { continue };
                let now = node.living.get(&change.key);
                // An expired key may remain until a request accesses it, so its absence changes
                // nothing.
                let is_over = then.as_ref().is_some_and(|life| life.is_over(wall_ms));
                change.unacknowledged = now == then.as_ref() || is_over && now.is_none();
            }
        }
        changes
    }
}

/// The changes between a node's keys and those that replaced them: missing keys are lost, unless
/// they had expired anyway, and others have another expiry time or an earlier value.
fn differences<C: Clone + PartialEq>(
    before: &Keys<C>,
    now: &Keys<C>,
    lost: KeyChange,
    wall_ms: u64,
) -> Vec<CausedChange<C>> {
    let mut changes = Vec::new();
    let mut add = |key: &KeyName, change, until_ms, by| {
        let unacknowledged = false;
        changes.push(CausedChange { key: key.clone(), change, until_ms, by, unacknowledged });
    };
    for (key, was) in before {
        match now.get(key).filter(|is| is.continues(was)) {
            Some(is) if is.until_ms != was.until_ms => {
                add(key, KeyChange::Extended, is.until_ms, None);
            }
            Some(is) if is.writer != was.writer => {
                add(key, KeyChange::Changed, is.until_ms, None);
            }
            Some(_) => {}
            None => {
                let change = if was.is_over(wall_ms) { KeyChange::Expired } else { lost };
                add(key, change, was.until_ms, None);
            }
        }
    }
    for (key, is) in now {
        if !before.get(key).is_some_and(|was| is.continues(was)) {
            add(key, KeyChange::Set, is.until_ms, is.creator.clone());
        }
    }
    changes
}

impl<C: Clone + PartialEq> NodeKeys<C> {
    fn change(&mut self, change: &CausedChange<C>, is_copy: bool) {
        let CausedChange { key, change, until_ms, by, .. } = change;
        let until_ms = *until_ms;
        // Before the change is applied: the state at the last reply is what is kept.
        if is_copy {
            self.unanswered.remove(key);
        } else if !self.unanswered.contains_key(key) {
            self.unanswered.insert(key.clone(), self.living.get(key).cloned());
        }
        let life = match change {
            KeyChange::Set => Some(Life { creator: by.clone(), writer: by.clone(), until_ms }),
            KeyChange::Changed | KeyChange::Extended => {
                let (creator, before) = match self.living.get(key) {
                    Some(life) => (life.creator.clone(), life.writer.clone()),
                    None => (None, None),
                };
                let writer = if *change == KeyChange::Changed { by.clone() } else { before };
                Some(Life { creator, writer, until_ms })
            }
            _ => None,
        };
        self.files.append(key, life.as_ref());
        put(&mut self.living, key, life);
    }
}

#[cfg(test)]
mod tests;
