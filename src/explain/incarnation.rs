//! The lives of the lock's key on each node: who set it, and how it ended.

use lockstorm_sim::time::Instant;
use lockstorm_sim::trace::KeyChange;

use crate::explain::hold::op;
use crate::history::{History, Key, OpId, OpKind};

/// One life of a key on one node, from the command that created it to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The node.
    pub node: String,
    /// Index of its creation in the history's `keys`.
    pub born: usize,
    /// The acquire whose key it is: the one that created it, or the one that an extend which did so
    /// is for. A release may set a key to say that the lock is free: that is nobody's.
    pub owner: Option<OpId>,
    /// When it was created.
    pub from: Instant,
    /// When it ended; the run's end if it did not.
    pub until: Instant,
    /// Index of its end in the history's `keys`.
    pub end: Option<usize>,
    /// When it would end by itself, on the node's wall clock in Unix milliseconds.
    pub until_ms: Option<u64>,
}

/// Every life of `key`, in order of creation.
pub fn incarnations(history: &History, key: &str) -> Vec<Incarnation> {
    let mut lives: Vec<Incarnation> = Vec::new();
    for (index, change) in history.keys.iter().enumerate().filter(|(_, k)| k.key == key) {
        let open = lives.iter().rposition(|life| life.node == change.node && life.end.is_none());
        match (change.change, open) {
            (KeyChange::Changed | KeyChange::Extended, Some(open)) => {
                lives[open].until_ms = change.until_ms;
            }
            (KeyChange::Set | KeyChange::Changed | KeyChange::Extended, open) => {
                close(&mut lives, open, index, change);
                lives.push(born(history, index, change));
            }
            (_, open) => close(&mut lives, open, index, change),
        }
    }
    lives
}

fn close(lives: &mut [Incarnation], open: Option<usize>, index: usize, change: &Key) {
    if let Some(open) = open {
        lives[open].end = Some(index);
        lives[open].until = change.at;
    }
}

/// The acquire whose key an operation sets.
fn owner(history: &History, by: OpId) -> Option<OpId> {
    match op(history, by)?.kind {
        OpKind::Acquire => Some(by),
        OpKind::Extend { grant, .. } => Some(grant),
        _ => None,
    }
}

fn born(history: &History, index: usize, change: &Key) -> Incarnation {
    Incarnation {
        node: change.node.clone(),
        born: index,
        owner: change.by.and_then(|by| owner(history, by)),
        from: change.at,
        until: history.end,
        end: None,
        until_ms: change.until_ms,
    }
}
