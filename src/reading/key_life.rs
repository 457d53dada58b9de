//! The lives of the lock's key on each node: which operation created it, which changed it, what
//! ended it.
//!
//! If an operation of another grant changes a key in place, once nobody relies on the key any more,
//! or with a different owner value, the key belongs to that operation from then on. A lock whose
//! key stays, and whose value says whether it is free, is taken over in this way. An acquire that
//! was not granted takes nothing over unless it changes the expiry: it may only have incremented a
//! counter.
//!
//! Otherwise only provenance decides, because owner values may be equal.
//!
//! A key that a command handed to a waiter is the waiter's: see [`crate::reading::handed_on`].
//!
//! If several callers may hold the lock and its key is a collection, each member has lives of its
//! own.

use std::collections::BTreeMap;

use crate::history::{History, Key, OpId};
use crate::reading::moment::Moment;
use lockstorm_platform::trace::KeyChange;

/// One life of the lock's key on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLife<'a> {
    /// The node.
    pub node: &'a str,
    /// The key, or the member of the lock's key.
    pub name: &'a str,
    /// The operation that created it, if any; if its command handed the key to a waiter, the
    /// waiter's acquire.
    pub by: Option<OpId>,
    /// Index of the change that created it.
    pub born: usize,
    /// When it began.
    pub from: Moment,
    /// When it ended: [`Moment::NEVER`] if it lasted to the end of the run.
    pub to: Moment,
    /// What ended it; `None` if it lasted to the end of the run.
    pub ended: Option<LifeEnd>,
    /// Its last expiry time, on the node's wall clock in Unix milliseconds.
    pub until_ms: Option<u64>,
    /// When that was set.
    pub until_from: Moment,
}

/// The end of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeEnd {
    /// Index of the change.
    pub key: usize,
    /// What happened: a `Set` is an overwrite, a `Changed` a takeover in place.
    pub change: KeyChange,
    /// The operation that caused it, if any.
    pub by: Option<OpId>,
}

impl LifeEnd {
    /// Whether the command of a change caused it.
    pub fn is_of_command(&self, history: &History, change: &Key) -> bool {
        history.keys[self.key].is_one_command_with(change)
    }
}

/// A change of a key during its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Index of the change.
    pub change: usize,
    /// Index of the life that was changed.
    pub met: usize,
    /// The expiry time that the key had.
    pub until_ms: Option<u64>,
}

/// Every life of the lock's key, and every change that an operation made to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives<'a> {
    /// In order of their birth.
    pub lives: Vec<KeyLife<'a>>,
    /// In order of time.
    pub touches: Vec<Touch>,
}

impl<'a> Lives<'a> {
    /// Replays the changes of a lock's keys, which `is_own` selects. `takes_over` decides whether a
    /// change in place makes the key of this creator that of its own operation. `handed_on` has the
    /// acquires to which changes handed the key, by the index of the change.
    pub fn of(
        history: &'a History,
        is_own: impl Fn(&Key) -> bool,
        takes_over: impl Fn(Option<OpId>, &Key) -> bool,
        handed_on: &BTreeMap<usize, OpId>,
    ) -> Lives<'a> {
        let mut lives = Lives::default();
        let mut current: Vec<(_, Option<usize>)> = Vec::new();
        for (index, change) in history.keys.iter().enumerate() {
            if !is_own(change) {
                continue;
            }
            let named = (&change.node, &change.of, &change.key);
            let place = current.iter().position(|(known, _)| *known == named);
            let place = place.unwrap_or_else(|| {
                current.push((named, None));
                current.len() - 1
            });
            let alive = &mut current[place].1;
            let to = handed_on.get(&index).copied();
            let is_taken = alive.is_some_and(|met| {
                let takes = || to.is_some() || takes_over(lives.lives[met].by, change);
                change.change == KeyChange::Changed && takes()
            });
            *alive = lives.replay(index, change, (*alive, is_taken), to.or(change.by));
        }
        lives
    }

    /// Applies one change on a node on which `alive` is the current life, which the change takes
    /// over or not; returns the life that is current afterwards. A new life is that of `owner`.
    fn replay(
        &mut self,
        index: usize,
        change: &'a Key,
        (alive, is_taken): (Option<usize>, bool),
        owner: Option<OpId>,
    ) -> Option<usize> {
        if let (Some(met), Some(_)) = (alive, change.by) {
            let until_ms = self.lives[met].until_ms;
            self.touches.push(Touch { change: index, met, until_ms });
        }
        match (change.change, alive) {
            // The key existed, but its creation was not recorded.
            (KeyChange::Extended, None) => Some(self.born(index, change, None)),
            (KeyChange::Extended | KeyChange::Changed, Some(met)) if !is_taken => {
                self.lives[met].until_ms = change.until_ms;
                self.lives[met].until_from = change.at.into();
                alive
            }
            (KeyChange::Set | KeyChange::Changed, _) => {
                self.end(index, change, alive);
                Some(self.born(index, change, owner))
            }
            _ => {
                self.end(index, change, alive);
                None
            }
        }
    }

    fn born(&mut self, index: usize, change: &'a Key, by: Option<OpId>) -> usize {
        self.lives.push(KeyLife {
            node: &change.node,
            name: &change.key,
            by,
            born: index,
            from: change.at.into(),
            to: Moment::NEVER,
            ended: None,
            until_ms: change.until_ms,
            until_from: change.at.into(),
        });
        self.lives.len() - 1
    }

    fn end(&mut self, index: usize, change: &Key, alive: Option<usize>) {
        let Some(met) = alive else { return };
        let Key { at, change, by, .. } = change;
        self.lives[met].to = (*at).into();
        self.lives[met].ended = Some(LifeEnd { key: index, change: *change, by: *by });
    }
}
