//! The lives of the lock's key for presentation: in trace positions, with their owners. The reading
//! defines what lives are.

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::Leg;

use crate::history::{OpId, Request};
use crate::reading::history::Reading;
use crate::reading::key_life;

/// One life of a key on one node, from the command that created it to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryLife {
    /// The node.
    pub node: String,
    /// Index of its creation in the history's `keys`.
    pub born: usize,
    /// The acquire that owns the key: the one that created it, or that of the extend which created
    /// it. A key that a release sets to mark the lock as free has no owner.
    pub owner: Option<OpId>,
    /// When it was created.
    pub from: Instant,
    /// When it ended; the run's end if it did not.
    pub until: Instant,
    /// Index of its end in the history's `keys`.
    pub end: Option<usize>,
    /// When it would expire, on the node's wall clock in Unix milliseconds.
    pub until_ms: Option<u64>,
}

impl StoryLife {
    /// Whether a request was executed on its node while it existed.
    pub fn is_met_by(&self, request: &Request) -> bool {
        let is_met = |at: Instant| self.from <= at && at < self.until;
        request.to == self.node && !request.declined && request.at(Leg::Applied).is_some_and(is_met)
    }
}

/// Every life of the lock's key, in order of creation.
pub fn lives(reading: &Reading) -> Vec<StoryLife> {
    reading.lives.lives.iter().map(|life| shown(reading, life)).collect()
}

fn shown(reading: &Reading, life: &key_life::KeyLife) -> StoryLife {
    StoryLife {
        node: life.node.to_owned(),
        born: life.born,
        owner: reading.owner_of(life),
        from: life.from.instant(reading.history),
        until: life.to.instant(reading.history),
        end: life.ended.map(|end| end.key),
        until_ms: life.until_ms,
    }
}
