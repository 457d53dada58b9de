//! One node of a cluster, as another one knows it.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::time::Ms;

use crate::cluster::slots::SlotSet;

/// A node's id: 40 hexadecimal digits.
pub type Id = Rc<str>;

/// The role of a node in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterRole {
    /// In handshake: its id is not yet known. `meets` until MEET was sent to it.
    Stranger {
        /// Whether MEET is still to be sent.
        meets: bool,
    },
    /// A master, with slots or without.
    Master,
    /// A replica of the node with this id.
    Replica(Id),
}

/// Whether a node replies, as far as this one knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It replies.
    #[default]
    Up,
    /// It did not reply to this node for longer than the timeout: PFAIL.
    Suspect,
    /// A majority reported so, since then: FAIL.
    Failed(Ms),
}

/// The connection that this node has opened to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusLink {
    /// Its number.
    pub line: u64,
    /// When it was opened.
    pub since: Ms,
}

/// One node of the cluster, as this one knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its id.
    pub id: Id,
    /// Its client address.
    pub address: SocketAddrV4,
    /// Its role.
    pub part: ClusterRole,
    /// Whether it replies.
    pub health: Health,
    /// The epoch in which it got its slots: the higher epoch wins a conflict.
    pub config_epoch: u64,
    /// The slots that it serves.
    pub slots: SlotSet,
    /// Its replication offset.
    pub offset: u64,
    /// The connection to it.
    pub link: Option<BusLink>,
    /// Since when this node has known it.
    pub known_since: Ms,
    /// When the pending PING was sent; 0 if there is none.
    pub pinged_at: Ms,
    /// When its last PONG arrived.
    pub answered_at: Ms,
    /// When its last message arrived.
    pub heard_at: Ms,
    /// When this node last voted for one of its replicas.
    pub voted_at: Ms,
    /// The masters that report it as failing, and when they last did.
    pub accusers: BTreeMap<Id, Ms>,
}

impl ClusterNode {
    /// A node that this one begins to know now.
    pub fn new(id: Id, address: SocketAddrV4, part: ClusterRole, now: Ms) -> ClusterNode {
        ClusterNode {
            id,
            address,
            part,
            health: Health::Up,
            config_epoch: 0,
            slots: SlotSet::default(),
            offset: 0,
            link: None,
            known_since: now,
            pinged_at: 0,
            answered_at: 0,
            heard_at: 0,
            voted_at: 0,
            accusers: BTreeMap::new(),
        }
    }

    /// Whether it is a master.
    pub fn is_master(&self) -> bool {
        self.part == ClusterRole::Master
    }

    /// Whether it is a master that serves slots: only those vote.
    pub fn decides(&self) -> bool {
        self.is_master() && !self.slots.is_empty()
    }

    /// Whether it is in handshake.
    pub fn is_stranger(&self) -> bool {
        matches!(self.part, ClusterRole::Stranger { .. })
    }

    /// Whether a majority considers it failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.health, Health::Failed(_))
    }

    /// The id of the master that it follows.
    pub fn master(&self) -> Option<&Id> {
        match &self.part {
            ClusterRole::Replica(master) => Some(master),
            _ => None,
        }
    }
}
