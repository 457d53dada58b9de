//! Who caused a change of a key, however it came to its node: by a request, a replication stream,
//! a resynchronisation or a file.
//!
//! A node can name what comes from elsewhere by its place alone: an offset in a history, a
//! connection, a mark on a file. Entry by entry of a trace the places are joined with what was put
//! there. A history is known by its id, never by its master: a master that restarts counts another
//! one from the start again, while replicas may still apply the old one.
//!
//! - [`stream`]: who is behind each place of a history
//! - [`file`]: what stands in the files of a node
//! - [`life`]: one life of a key
//! - [`recent`]: a map that forgets

mod file;
mod life;
pub(crate) mod recent;
mod stream;

use std::collections::BTreeMap;

use lockstorm_platform::time::{MILLISECOND, Stamp};
use lockstorm_platform::trace::{
    Connection, Entry, Event, HostId, KeyChange, KeyName, Origin, Place, Request,
};

use crate::reading::provenance::file::Files;
use crate::reading::provenance::life::{Keys, Life, put};
use crate::reading::provenance::recent::{Bounds, Recent};
use crate::reading::provenance::stream::Streams;

/// What happened to a key, with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<C> {
    /// Which key.
    pub key: KeyName,
    /// What happened to it.
    pub change: KeyChange,
    /// When it ends now, as [`Life::until_ms`]; at its loss, when it was to end.
    pub until_ms: Option<u64>,
    /// Who caused it.
    pub by: Option<C>,
}

/// See the head of this file.
pub struct Provenance<C> {
    streams: Streams<C>,
    nodes: BTreeMap<HostId, Node<C>>,
    /// What masters have sent for a resynchronisation, by the connection of the replica.
    snapshots: Recent<Connection, Keys<C>>,
    bounds: Bounds,
}

struct Node<C> {
    living: Keys<C>,
    files: Files<C>,
}

impl<C: Clone + PartialEq> Default for Provenance<C> {
    fn default() -> Provenance<C> {
        Provenance::bounded(Bounds { places: usize::MAX, copies: usize::MAX })
    }
}

impl<C: Clone + PartialEq> Provenance<C> {
    /// Nothing has happened yet; the oldest is forgotten.
    pub fn bounded(bounds: Bounds) -> Provenance<C> {
        let streams = Streams::bounded(bounds.places);
        let snapshots = Recent::bounded(bounds.copies);
        Provenance { streams, nodes: BTreeMap::new(), snapshots, bounds }
    }

    /// Takes what happened next. The changes of keys that it means on its host, in order; `cause`
    /// says what is behind a request.
    pub fn take(&mut self, entry: &Entry, cause: impl Fn(Request) -> Option<C>) -> Vec<Change<C>> {
        let host = entry.host;
        match &entry.event {
            Event::Key { key, change, origin, until_ms } => {
                let by = self.cause(*origin, cause);
                let (key, change, until_ms) = (key.clone(), *change, *until_ms);
                let change = Change { key, change, until_ms, by };
                self.node(host).change(&change);
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

    fn node(&mut self, host: HostId) -> &mut Node<C> {
        let bounds = self.bounds;
        let new = || Node { living: BTreeMap::new(), files: Files::bounded(bounds) };
        self.nodes.entry(host).or_insert_with(new)
    }

    /// A node holds `keys` after a start or a resynchronisation, as they were when its file was
    /// written or the snapshot was taken.
    fn load(
        &mut self,
        host: HostId,
        stamp: &Stamp,
        keys: &[KeyName],
        resync: Option<Connection>,
        file: Option<Place>,
    ) -> Vec<Change<C>> {
        let sent = resync.map(|connection| self.snapshots.remove(&connection).unwrap_or_default());
        let node = self.node(host);
        let read = file.and_then(|place| node.files.read(place));
        let before = std::mem::take(&mut node.living);
        // Who does not tell what was read is taken to have kept what it had.
        let held = sent.or(read).unwrap_or_default();
        let life = |key: &KeyName| {
            let unknown = Life { creator: None, until_ms: None };
            let known = held.get(key).or_else(|| before.get(key));
            (key.clone(), known.cloned().unwrap_or(unknown))
        };
        node.living = keys.iter().map(life).collect();
        let lost = match resync {
            Some(_) => KeyChange::LostAtFailover,
            None => KeyChange::LostAtRestart,
        };
        differences(&before, &node.living, lost, stamp.wall / MILLISECOND)
    }
}

/// What became of the keys of a node that were put in the place of others: those that have gone
/// are lost, unless their time had passed anyway.
fn differences<C: Clone + PartialEq>(
    before: &Keys<C>,
    now: &Keys<C>,
    lost: KeyChange,
    wall_ms: u64,
) -> Vec<Change<C>> {
    let mut changes = Vec::new();
    let mut add = |key: &KeyName, change, until_ms, by| {
        changes.push(Change { key: key.clone(), change, until_ms, by });
    };
    for (key, was) in before {
        match now.get(key).filter(|is| is.continues(was)) {
            Some(is) if is.until_ms == was.until_ms => {}
            Some(is) => add(key, KeyChange::Extended, is.until_ms, None),
            None => {
                let is_over = was.until_ms.is_some_and(|until| until < wall_ms);
                let change = if is_over { KeyChange::Expired } else { lost };
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

impl<C: Clone + PartialEq> Node<C> {
    fn change(&mut self, change: &Change<C>) {
        let Change { key, change, until_ms, by } = change;
        let until_ms = *until_ms;
        let life = match change {
            KeyChange::Set => Some(Life { creator: by.clone(), until_ms }),
            KeyChange::Changed | KeyChange::Extended => {
                let creator = self.living.get(key).and_then(|life| life.creator.clone());
                Some(Life { creator, until_ms })
            }
            _ => None,
        };
        self.files.append(key, life.as_ref());
        put(&mut self.living, key, life);
    }
}

#[cfg(test)]
mod tests;
