//! The contents of a node's files: what each begins with, and the changes that follow.
//!
//! A power loss truncates a file or restores an earlier one. A start reports the mark of the file
//! that it read, and how many changes it read: that many of the recorded changes are in the file,
//! and later ones are undone.

use std::collections::VecDeque;

use lockstorm_platform::trace::{KeyName, Place};

use crate::reading::provenance::life::{Keys, Life, put};
use crate::reading::provenance::recent::Bounds;

/// See the module documentation.
pub struct NodeFiles<C> {
    /// Changes of keys with the resulting life; only those that a file may contain.
    made: VecDeque<(KeyName, Option<Life<C>>)>,
    /// How many changes precede these.
    forgotten: u64,
    /// Oldest first.
    dumps: VecDeque<Dump<C>>,
    bounds: Bounds,
}

/// All keys as they were at one time, as the beginning of a file.
struct Dump<C> {
    mark: u64,
    keys: Keys<C>,
    /// Where its changes begin, if changes are appended to it.
    appends: Option<Appends>,
}

#[derive(Clone, Copy)]
struct Appends {
    /// How many of the changes that a start counts belong to the dump itself.
    own: u64,
    /// How many changes were made before it.
    from: u64,
}

impl<C: Clone> NodeFiles<C> {
    /// The files of a node that has none yet and begins its append-only file empty.
    pub fn bounded(bounds: Bounds) -> NodeFiles<C> {
        let appends = Some(Appends { own: 0, from: 0 });
        let nothing = Dump { mark: 0, keys: Keys::new(), appends };
        NodeFiles { made: VecDeque::new(), forgotten: 0, dumps: [nothing].into(), bounds }
    }

    /// Records a change of a key.
    pub fn append(&mut self, key: &KeyName, life: Option<&Life<C>>) {
        self.made.push_back((key.clone(), life.cloned()));
        if self.made.len() > self.bounds.places
            && let Some((key, life)) = self.made.pop_front()
        {
            // A forgotten change cannot be replayed, so it becomes part of the files that were
            // begun before it.
            let is_behind = |dump: &&mut Dump<C>| {
                dump.appends.is_some_and(|appends| appends.from <= self.forgotten)
            };
            for dump in self.dumps.iter_mut().filter(is_behind) {
                put(&mut dump.keys, &key, life.clone());
            }
            self.forgotten += 1;
        }
    }

    /// Records a copy of all current keys; `appends` as in [`Event::Dumped`].
    ///
    /// [`Event::Dumped`]: lockstorm_platform::trace::Event::Dumped
    pub fn dump(&mut self, mark: u64, keys: Keys<C>, appends: Option<u64>) {
        let from = self.forgotten + self.made.len() as u64;
        let appends = appends.map(|own| Appends { own, from });
        match self.dumps.iter_mut().find(|dump| dump.mark == mark) {
            // Two kinds of file at one instant have the same contents.
            Some(twin) => twin.appends = twin.appends.or(appends),
            None => self.dumps.push_back(Dump { mark, keys, appends }),
        }
        let alike = |dump: &Dump<C>| dump.appends.is_some() == appends.is_some();
        if self.dumps.iter().filter(|dump| alike(dump)).count() > self.bounds.copies
            && let Some(oldest) = self.dumps.iter().position(alike)
        {
            self.dumps.remove(oldest);
        }
    }

    /// The node starts with the contents of a place; its later changes are undone. `None` if the
    /// place is forgotten.
    pub fn read(&mut self, place: Place) -> Option<Keys<C>> {
        let dump = self.dumps.iter().find(|dump| dump.mark == place.mark)?;
        let Some(appends) = dump.appends else { return Some(dump.keys.clone()) };
        let to = appends.from + place.changes.saturating_sub(appends.own);
        let kept = usize::try_from(to.checked_sub(self.forgotten)?).ok()?;
        let mut keys = dump.keys.clone();
        self.made.truncate(kept);
        let first = usize::try_from(appends.from.saturating_sub(self.forgotten)).ok()?;
        for (key, life) in self.made.range(first.min(self.made.len())..) {
            put(&mut keys, key, life.clone());
        }
        self.dumps.retain(|dump| dump.appends.is_none_or(|appends| appends.from <= to));
        Some(keys)
    }
}
