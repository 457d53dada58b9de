//! The messages between nodes on the bus, and their bytes.
//!
//! A message is encoded as a request in RESP, so that a trace is readable. Its first word is
//! `KIND name ip:port current-epoch config-epoch master offset flags`, the second the slots; the
//! fields of its kind follow. A replica sends its master's slots and epoch, as in Redis.

use std::net::SocketAddrV4;

use lockstorm_platform::time::Ms;

use bytes::{Bytes, BytesMut};

use crate::cluster::Cluster;
use crate::cluster::peer::{ClusterNode, ClusterRole, Health, Id};
use crate::cluster::slots::SlotSet;
use crate::frame::encode_request;

/// Initial buffer size, sufficient for most messages.
const ROOM: usize = 768;
/// Number of healthy nodes in the gossip of a ping.
const IN_TURN: usize = 3;

/// The header of every message: the sender and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's id.
    pub id: Id,
    /// Its client address.
    pub address: SocketAddrV4,
    /// The highest epoch that it has seen.
    pub current_epoch: u64,
    /// The epoch of the slots.
    pub config_epoch: u64,
    /// The master that it follows.
    pub master: Option<Id>,
    /// Its replication offset.
    pub offset: u64,
    /// Whether it has paused writes for a manual failover.
    pub paused: bool,
    /// Its slots, or its master's.
    pub slots: SlotSet,
}

/// A gossip entry: what a node reports about another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rumour {
    /// The id of the other node.
    pub id: Id,
    /// Its client address.
    pub address: SocketAddrV4,
    /// Its role.
    pub part: ClusterRole,
    /// Whether the sender suspects it or considers it failed.
    pub fails: bool,
    /// When the sender last received its PONG.
    pub answered_at: Ms,
}

/// The type of a message, with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// PING, with gossip.
    Ping(Vec<Rumour>),
    /// The reply to a PING or MEET, with gossip.
    Pong(Vec<Rumour>),
    /// A request to be added to the cluster.
    Meet(Vec<Rumour>),
    /// This node has failed.
    Fail(Id),
    /// A vote request; `force` requests it even though the master has not failed.
    AuthRequest {
        /// See above.
        force: bool,
    },
    /// A vote.
    AuthAck,
    /// The owner of these slots, since this epoch.
    Update {
        /// The owner.
        id: Id,
        /// Its config epoch.
        epoch: u64,
        /// The slots.
        slots: SlotSet,
    },
    /// A request to pause writes: the sender is about to take over.
    FailoverStart,
    /// A published message.
    Publish {
        /// The channel.
        channel: Bytes,
        /// The message.
        message: Bytes,
        /// Whether it is a shard channel.
        shard: bool,
    },
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender and its state.
    pub head: Header,
    /// Its type and fields.
    pub kind: MessageKind,
}

impl MessageKind {
    /// Its name in the counters of CLUSTER INFO.
    pub fn word(&self) -> &'static str {
        match self {
            MessageKind::Ping(_) => "ping",
            MessageKind::Pong(_) => "pong",
            MessageKind::Meet(_) => "meet",
            MessageKind::Fail(_) => "fail",
            MessageKind::AuthRequest { .. } => "auth-req",
            MessageKind::AuthAck => "auth-ack",
            MessageKind::Update { .. } => "update",
            MessageKind::FailoverStart => "mfstart",
            MessageKind::Publish { shard: false, .. } => "publish",
            MessageKind::Publish { shard: true, .. } => "publishshard",
        }
    }
}

impl Cluster {
    /// The current header of this node's messages.
    pub fn head(&self) -> Header {
        let own = self.myself();
        let speaks_of = self.own_master().unwrap_or(own);
        Header {
            id: self.me.clone(),
            address: own.address,
            current_epoch: self.current_epoch,
            config_epoch: speaks_of.config_epoch,
            master: own.master().cloned(),
            offset: self.moment.offset,
            paused: own.is_master() && self.is_paused(),
            slots: speaks_of.slots.clone(),
        }
    }

    /// Gossip about all failing nodes, and about three others in turn.
    pub fn rumours(&self) -> Vec<Rumour> {
        let turn = usize::try_from(self.ticks % 1_000).unwrap_or(0);
        let all = self.nodes.len();
        let has_turn = |nth: usize| (nth + turn * IN_TURN) % all < IN_TURN;
        let belongs = |(nth, peer): &(usize, &ClusterNode)| {
            let is_known = peer.id != self.me && !peer.is_stranger();
            is_known && (peer.health != Health::Up || has_turn(*nth))
        };
        let rumour = |peer: &ClusterNode| Rumour {
            id: peer.id.clone(),
            address: peer.address,
            part: peer.part.clone(),
            fails: peer.health != Health::Up,
            answered_at: peer.answered_at,
        };
        self.nodes.values().enumerate().filter(belongs).map(|(_, peer)| rumour(peer)).collect()
    }
}

fn or_dash(id: Option<&Id>) -> String {
    id.map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn of_dash(word: &str) -> Option<Id> {
    (word != "-").then(|| word.into())
}

impl Rumour {
    fn write(&self) -> String {
        let master = match &self.part {
            ClusterRole::Replica(master) => Some(master),
            _ => None,
        };
        let health = if self.fails { "fails" } else { "answers" };
        let Rumour { id, address, answered_at, .. } = self;
        format!("{id} {address} {} {health} {answered_at}", or_dash(master))
    }

    fn read(word: &Bytes) -> Option<Rumour> {
        let mut parts = std::str::from_utf8(word).ok()?.split(' ');
        Some(Rumour {
            id: parts.next()?.into(),
            address: parts.next()?.parse().ok()?,
            part: of_dash(parts.next()?).map_or(ClusterRole::Master, ClusterRole::Replica),
            fails: parts.next()? == "fails",
            answered_at: parts.next()?.parse().ok()?,
        })
    }
}

impl Message {
    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let Header { id, address, current_epoch, config_epoch, offset, slots, .. } = &self.head;
        let (kind, master) = (self.kind.word(), or_dash(self.head.master.as_ref()));
        let flags = if self.head.paused { "paused" } else { "-" };
        let head = format!(
            "{kind} {id} {address} {current_epoch} {config_epoch} {master} {offset} {flags}"
        );
        let mut words: Vec<Bytes> = vec![head.into(), slots.to_string().into()];
        match &self.kind {
            MessageKind::Ping(rumours)
            | MessageKind::Pong(rumours)
            | MessageKind::Meet(rumours) => {
                words.extend(rumours.iter().map(|rumour| Bytes::from(rumour.write())));
            }
            MessageKind::Fail(id) => words.push(id.to_string().into()),
            MessageKind::AuthRequest { force } => {
                words.push(if *force { "force" } else { "-" }.into())
            }
            MessageKind::AuthAck | MessageKind::FailoverStart => {}
            MessageKind::Update { id, epoch, slots } => {
                words.extend(
                    [id.to_string(), epoch.to_string(), slots.to_string()].map(Bytes::from),
                );
            }
            MessageKind::Publish { channel, message, .. } => {
                words.extend([channel.clone(), message.clone()]);
            }
        }
        let mut bytes = BytesMut::with_capacity(ROOM);
        encode_request(&mut bytes, &words);
        bytes.freeze()
    }

    /// Decodes words; `None` if they are not a message.
    pub fn decode(words: &[Bytes]) -> Option<Message> {
        let [head, slots, rest @ ..] = words else { return None };
        let mut parts = std::str::from_utf8(head).ok()?.split(' ');
        let kind = decode_kind(parts.next()?, rest)?;
        let head = Header {
            id: parts.next()?.into(),
            address: parts.next()?.parse().ok()?,
            current_epoch: parts.next()?.parse().ok()?,
            config_epoch: parts.next()?.parse().ok()?,
            master: of_dash(parts.next()?),
            offset: parts.next()?.parse().ok()?,
            paused: parts.next()? == "paused",
            slots: std::str::from_utf8(slots).ok()?.parse().ok()?,
        };
        Some(Message { head, kind })
    }
}

fn decode_kind(word: &str, rest: &[Bytes]) -> Option<MessageKind> {
    let rumours = || rest.iter().map(Rumour::read).collect::<Option<Vec<Rumour>>>();
    let text = |nth: usize| std::str::from_utf8(rest.get(nth)?).ok();
    Some(match word {
        "ping" => MessageKind::Ping(rumours()?),
        "pong" => MessageKind::Pong(rumours()?),
        "meet" => MessageKind::Meet(rumours()?),
        "fail" => MessageKind::Fail(text(0)?.into()),
        "auth-req" => MessageKind::AuthRequest { force: text(0)? == "force" },
        "auth-ack" => MessageKind::AuthAck,
        "update" => MessageKind::Update {
            id: text(0)?.into(),
            epoch: text(1)?.parse().ok()?,
            slots: text(2)?.parse().ok()?,
        },
        "mfstart" => MessageKind::FailoverStart,
        "publish" | "publishshard" => MessageKind::Publish {
            channel: Bytes::copy_from_slice(rest.first()?),
            message: Bytes::copy_from_slice(rest.get(1)?),
            shard: word == "publishshard",
        },
        _ => return None,
    })
}
