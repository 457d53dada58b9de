//! Pub/sub channels: subscriptions and published messages.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::clients::Clients;
use crate::frame::Reply;
use crate::glob::matches;
use crate::session::{Channel, Session};

impl Clients {
    fn listeners(&mut self, kind: Channel) -> &mut BTreeMap<Bytes, Vec<u64>> {
        match kind {
            Channel::Plain => &mut self.channels,
            Channel::Pattern => &mut self.patterns,
            Channel::Shard => &mut self.shards,
        }
    }

    /// Channels, or patterns, with subscribers, and their numbers of subscribers.
    pub fn listened(&self, kind: Channel) -> impl Iterator<Item = (&Bytes, usize)> {
        let map = match kind {
            Channel::Plain => &self.channels,
            Channel::Pattern => &self.patterns,
            Channel::Shard => &self.shards,
        };
        map.iter().map(|(name, ids)| (name, ids.len()))
    }

    /// The number of subscribers to a channel by its name.
    pub fn heard(&self, kind: Channel, name: &[u8]) -> usize {
        let map = if kind == Channel::Shard { &self.shards } else { &self.channels };
        map.get(name).map_or(0, Vec::len)
    }

    /// Subscribes a session to a channel.
    pub fn listen(&mut self, session: &mut Session, kind: Channel, name: &Bytes) {
        let name = Bytes::copy_from_slice(name);
        let own = session.subscriptions.of(kind);
        if own.insert(name.clone()) {
            self.listeners(kind).entry(name).or_default().push(session.id);
        }
    }

    /// Unsubscribes a session from a channel.
    pub fn unlisten(&mut self, session: &mut Session, kind: Channel, name: &[u8]) {
        if !session.subscriptions.of(kind).remove(name) {
            return;
        }
        let listeners = self.listeners(kind);
        debug_assert!(listeners.contains_key(name), "a subscribed channel lists its subscribers");
        if let Some(ids) = listeners.get_mut(name) {
            ids.retain(|id| *id != session.id);
            if ids.is_empty() {
                listeners.remove(name);
            }
        }
    }

    /// Removes all watched keys and subscriptions of a session, and ends its MONITOR mode.
    pub fn forget_interests(&mut self, session: &mut Session) {
        self.unwatch(session);
        self.monitors.remove(&session.id);
        session.monitors = false;
        for kind in [Channel::Plain, Channel::Pattern, Channel::Shard] {
            for name in session.subscriptions.of(kind).clone() {
                self.unlisten(session, kind, &name);
            }
        }
    }

    /// Sends a message to all subscribers of a channel; returns their number.
    pub fn publish(
        &mut self,
        session: &mut Session,
        kind: Channel,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let (name, text) = (Reply::bulk(channel), Reply::bulk(message));
        let direct = self.listeners(kind).get(channel).cloned().unwrap_or_default();
        let head = if kind == Channel::Shard { "smessage" } else { "message" };
        let push = Reply::Push(vec![Reply::word(head), name.clone(), text.clone()]);
        direct.iter().for_each(|id| self.send_push(*id, session, &push));
        let mut receivers = direct.len();
        if kind == Channel::Shard {
            return receivers;
        }
        let fits = |(pattern, _): &(&Bytes, &Vec<u64>)| matches(pattern, channel);
        let by_pattern: Vec<(Bytes, Vec<u64>)> = self
            .patterns
            .iter()
            .filter(fits)
            .map(|(pattern, ids)| (pattern.clone(), ids.clone()))
            .collect();
        for (pattern, ids) in by_pattern {
            let parts = [Reply::word("pmessage"), Reply::Bulk(pattern), name.clone(), text.clone()];
            let push = Reply::Push(parts.to_vec());
            ids.iter().for_each(|id| self.send_push(*id, session, &push));
            receivers += ids.len();
        }
        receivers
    }
}

/// The confirmation of a change of subscriptions.
pub fn confirmation(session: &Session, what: &'static str, name: Option<&Bytes>) -> Reply {
    let subscriptions = &session.subscriptions;
    let count = match what {
        "ssubscribe" | "sunsubscribe" => subscriptions.shards.len(),
        _ => subscriptions.channels.len() + subscriptions.patterns.len(),
    };
    let name = name.map_or(Reply::Nil, |name| Reply::Bulk(name.clone()));
    Reply::Push(vec![Reply::word(what), name, Reply::count(count)])
}
