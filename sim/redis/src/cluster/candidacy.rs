//! The state of a replica's attempt to replace its master.

use lockstorm_platform::time::Ms;

use crate::cluster::peer::Id;

/// A replica's attempt to become master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Election {
    /// When it requests votes.
    pub at: Ms,
    /// Its rank: how many replicas of its master have a larger offset.
    pub rank: u64,
    /// The epoch in which it requested votes.
    pub requested_in: Option<u64>,
    /// How many masters have voted for it.
    pub votes: usize,
}

/// A manual failover: CLUSTER FAILOVER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manual {
    /// Its deadline; 0 if there is none.
    pub until: Ms,
    /// Whether the replica may request votes.
    pub may_start: bool,
    /// The replication offset of the paused master.
    pub offset: Option<u64>,
    /// At the master: the replica that takes over.
    pub replica: Option<Id>,
}
