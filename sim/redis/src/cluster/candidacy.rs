//! How far a replica is that is to take the place of its master.

use crate::cluster::peer::{Id, Ms};

/// A replica's attempt to become master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Election {
    /// When it asks for votes.
    pub at: Ms,
    /// How many replicas of its master have more of the stream.
    pub rank: u64,
    /// The epoch in which it has asked.
    pub asked_in: Option<u64>,
    /// How many masters have voted for it.
    pub votes: usize,
}

/// A failover that CLUSTER FAILOVER asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manual {
    /// Until when; 0 if there is none.
    pub until: Ms,
    /// Whether the replica may ask for votes.
    pub may_start: bool,
    /// How far the master has come, which has paused.
    pub offset: Option<u64>,
    /// At the master: the replica that takes over.
    pub replica: Option<Id>,
}
