//! The fake side: a node without a machine, with a clock set by the test.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use lockstorm_redis::compat::Compat;
use lockstorm_redis::effects::Effects;
use lockstorm_redis::frame::Reply;
use lockstorm_redis::node::{Node, NodeConfig};
use lockstorm_redis::requests;
use lockstorm_redis::session::{After, Block, Closing};

use crate::corpus::{Echo, Heard, Words};

/// The maximum time that a request on the connection without a name waits for its reply.
pub const PATIENCE_MS: u64 = 500;
/// After a pause of this length the active expire cycle has checked every key.
const CYCLE_MS: u64 = 200;

/// See the head of this file.
pub struct Fake {
    /// The node.
    pub node: Node,
    connections: BTreeMap<String, u64>,
    /// The connections that wait for replicas, with their deadlines.
    waits: BTreeMap<String, u64>,
    now_ms: u64,
}

impl Fake {
    /// An empty node with these settings, at this time.
    pub fn start(settings: &[(String, String)], now_ms: u64) -> Fake {
        Fake::start_like(Compat::default(), settings, now_ms)
    }

    /// The same, compatible with another server.
    pub fn start_like(compat: Compat, settings: &[(String, String)], now_ms: u64) -> Fake {
        let mut config = NodeConfig { compat, ..NodeConfig::default() };
        for (name, value) in settings {
            let number = || value.parse().unwrap_or_else(|_| panic!("a number for {name}"));
            match &name[..] {
                "maxmemory" => config.max_memory = number(),
                "notify-keyspace-events" => config.notify.clone_from(value),
                "requirepass" => config.password = Bytes::from(value.clone()),
                "min-replicas-to-write" => {
                    config.min_replicas_to_write = u32::try_from(number()).expect("a small number");
                }
                other => panic!("no such setting of the fake node: {other}"),
            }
        }
        Fake::of(Node::new(config, now_ms, [1, 2, 3]), now_ms)
    }

    /// Wraps an existing node.
    pub fn of(node: Node, now_ms: u64) -> Fake {
        let mut fake =
            Fake { node, connections: BTreeMap::new(), waits: BTreeMap::new(), now_ms: 0 };
        fake.set_time(now_ms);
        fake
    }

    /// Advances the clock, never backwards, and ends the waits that have timed out.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms.max(self.now_ms);
        self.node.set_time(self.now_ms * 1_000_000);
        requests::end_waits(&mut self.node);
        let late = self.waits.iter().filter(|(_, until)| **until <= now_ms);
        let ended: Vec<String> = late.map(|(name, _)| name.clone()).collect();
        ended.iter().for_each(|name| self.answer_wait(name));
    }

    /// Advances the clock by `ms`.
    pub fn pass(&mut self, ms: u64) {
        self.set_time(self.now_ms + ms);
        if ms >= CYCLE_MS {
            self.node.expire_all();
        }
    }

    /// Sends a request on a connection, which is opened if necessary.
    pub fn request(&mut self, name: &str, words: &Words) {
        let nowhere = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let id = match self.connections.get(name) {
            Some(id) => *id,
            None => {
                let id = self.node.connect([nowhere; 2]);
                self.connections.insert(name.to_owned(), id);
                id
            }
        };
        let args: Vec<Bytes> = words.iter().map(|word| Bytes::copy_from_slice(word)).collect();
        requests::request(&mut self.node, id, &args);
        self.node.effects = Effects::default();
        let session = self.node.clients.get_mut(id).expect("it has just asked");
        match std::mem::take(&mut session.after) {
            After::Wait => {
                let ms = match session.blocked {
                    Some(Block::Acknowledgement(quorum)) => quorum.timeout_ms,
                    _ => 0,
                };
                let until = if ms == 0 { u64::MAX } else { self.now_ms.saturating_add(ms) };
                self.waits.insert(name.to_owned(), until);
            }
            After::Sleep(ns) => self.set_time(self.now_ms + ns / 1_000_000),
            After::Follow(master) => {
                self.node.peers.master = master;
                self.node.clients.end_waits_by_role();
            }
            After::ShutDown { .. } => session.replies.closing = Some(Closing::AtOnce),
            After::Save { in_background: false } => session.replies.push(&Reply::OK),
            After::Save { .. } | After::Rewrite | After::InTurn => {}
            After::WatchSaves | After::BeginFile | After::Nothing => {}
            After::Feed(_) | After::FailOver | After::AbortFailover => {}
        }
    }

    /// Replies to a WAIT that has timed out with the acknowledged count: there are no replicas.
    fn answer_wait(&mut self, name: &str) {
        self.waits.remove(name);
        self.node.look_for_quorum(self.connections[name], true);
    }

    /// Whether a connection waits for the reply to its last request.
    pub fn is_waiting(&self, name: &str) -> bool {
        let session = self.connections.get(name).and_then(|id| self.node.clients.get(*id));
        session.is_some_and(|session| session.blocked.is_some())
    }

    /// Advances the clock until a connection gets its reply, if that is soon.
    pub fn be_patient(&mut self, name: &str) {
        while self.is_waiting(name) {
            let ends = self.waits.values().copied().chain(self.node.clients.next_deadline_ms());
            match ends.min() {
                Some(until) if until <= self.now_ms + PATIENCE_MS => self.set_time(until),
                _ => return,
            }
        }
    }

    /// What all connections received.
    pub fn heard(&mut self) -> Echo {
        let mut echo = Echo::new();
        for (name, id) in &self.connections {
            let session = self.node.clients.get_mut(*id).expect("it is connected");
            let mut bytes = std::mem::take(&mut session.replies.buffer).to_vec();
            if session.replies.closing == Some(Closing::AtOnce) {
                bytes.clear();
            }
            let heard = Heard { bytes, closed: session.replies.closing.is_some() };
            if heard != Heard::default() {
                echo.insert(name.clone(), heard);
            }
        }
        let closed = echo.iter().filter(|(_, heard)| heard.closed).map(|(name, _)| name.clone());
        closed.collect::<Vec<_>>().iter().for_each(|name| self.close(name));
        self.node.clients.take_woken();
        echo
    }

    /// Closes a connection from the client's side.
    pub fn close(&mut self, name: &str) {
        if let Some(id) = self.connections.remove(name) {
            self.node.clients.disconnect(id);
        }
        self.waits.remove(name);
    }
}
