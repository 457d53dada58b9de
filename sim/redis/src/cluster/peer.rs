//! One node of a cluster, as another one knows it.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::rc::Rc;

use crate::cluster::slots::SlotSet;

/// A node's name: 40 hexadecimal digits.
pub type Id = Rc<str>;
/// A time or a length in milliseconds of the node's wall clock.
pub type Ms = i64;

/// What a node is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Not known yet: its name is not its own. `meets` until it was asked to let us in.
    Stranger {
        /// Whether it is still to be asked.
        meets: bool,
    },
    /// A master, with slots or without.
    Master,
    /// A replica of the node with this name.
    Replica(Id),
}

/// Whether a node answers, as far as this one knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It does.
    #[default]
    Up,
    /// Not this one, for longer than the time-out: PFAIL.
    Suspect,
    /// A majority says so, since then: FAIL.
    Failed(Ms),
}

/// The connection that a node has opened to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub line: u64,
    /// When it was opened.
    pub since: Ms,
}

/// One node of the cluster, as this one knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub id: Id,
    /// Where it serves clients.
    pub address: SocketAddrV4,
    /// What it is.
    pub part: Part,
    /// Whether it answers.
    pub health: Health,
    /// The epoch in which it got its slots: the higher one is right.
    pub config_epoch: u64,
    /// The slots that it serves.
    pub slots: SlotSet,
    /// How far its replication stream has come.
    pub offset: u64,
    /// The connection to it.
    pub link: Option<Link>,
    /// When this node began to know it.
    pub known_since: Ms,
    /// Since when an answer is waited for; 0 if none is.
    pub pinged_at: Ms,
    /// When it last answered.
    pub answered_at: Ms,
    /// When anything last came from it.
    pub heard_at: Ms,
    /// When this node last voted for a replica of it.
    pub voted_at: Ms,
    /// The masters that call it failing, and when they last did.
    pub accusers: BTreeMap<Id, Ms>,
}

impl Peer {
    /// A node that this one begins to know now.
    pub fn new(id: Id, address: SocketAddrV4, part: Part, now: Ms) -> Peer {
        Peer {
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
        self.part == Part::Master
    }

    /// Whether it is a master that serves slots: one of those who decide.
    pub fn decides(&self) -> bool {
        self.is_master() && !self.slots.is_empty()
    }

    /// Whether it is not known yet.
    pub fn is_stranger(&self) -> bool {
        matches!(self.part, Part::Stranger { .. })
    }

    /// Whether a majority has it failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.health, Health::Failed(_))
    }

    /// The name of the master that it follows.
    pub fn master(&self) -> Option<&Id> {
        match &self.part {
            Part::Replica(master) => Some(master),
            _ => None,
        }
    }
}
