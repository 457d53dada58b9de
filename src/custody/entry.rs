//! Updates what is known of the nodes with each entry of the trace: requests, connections, loads.

use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::{
    Connection, Edge, Entry, Event, HostId, KeyChange, KeyName, Leg, Origin, Request,
};

use crate::custody::change::CustodyChange;
use crate::custody::life::{CustodyEnd, CustodyLife, ReplyState};
use crate::custody::requester::tries;
use crate::custody::state::{Custody, Present};
use crate::reading::provenance;

impl Custody {
    /// Processes the next entry of the trace.
    pub fn take(&mut self, entry: Entry) {
        // The provenance comes first, because a copied change below takes its cause from it.
        let joined = self.provenance.take(&entry, Some);
        let Entry { stamp, host, event } = entry;
        match event {
            Event::Message { request, leg: Leg::Applied, .. } => self.applied(host, request),
            Event::Message { request, leg: Leg::Replied, .. } => self.replied(request, stamp.at),
            Event::Words { request, db, words, values } => {
                let values = values.into();
                if let Some(book) = self.nodes.get_mut(&host) {
                    book.present = Some(Present { request, db, words, values, has_changed: false });
                }
            }
            Event::Key { key, change, origin, until_ms } if self.nodes.contains_key(&host) => {
                let wall_ms = stamp.wall / MILLISECOND;
                let left = until_ms.map(|until| until.saturating_sub(wall_ms) * MILLISECOND);
                let change = CustodyChange { host, at: stamp.at, key, change, origin, left };
                match origin {
                    Origin::Replication { .. } => self.copy(&change, joined[0].by),
                    _ => self.change(&change),
                }
            }
            Event::Ended { connection } => self.hung_up(connection),
            Event::Loaded { .. } if self.nodes.contains_key(&host) => {
                self.load(host, stamp.at, &joined);
            }
            Event::Role { master } => {
                if let Some(book) = self.nodes.get_mut(&host) {
                    book.master = master;
                }
            }
            Event::Fault { edge: Edge::Start, .. } => self.counts.faults += 1,
            _ => {}
        }
    }

    fn applied(&mut self, host: HostId, request: Request) {
        let Some(book) = self.nodes.get_mut(&host) else { return };
        let Some(present) = book.present.take() else { return };
        if present.request != request || present.has_changed {
            return;
        }
        let Some((key, token)) = tries(&present.words) else { return };
        let key = KeyName { db: present.db, name: key[..].into() };
        let Some(life) = book.living.get_mut(&key) else { return };
        if life.connection() != Some(request.connection) {
            life.refused += 1;
            self.counts.refused += 1;
        }
        let token = token.clone();
        self.past(&key).tokens.note(&token);
    }

    fn replied(&mut self, request: Request, at: Nanos) {
        let Some(pending) = self.pending.get_mut(&request.connection) else { return };
        let answered = pending.extract_if(.., |(nth, _, _)| *nth == request.nth);
        let answered: Vec<_> = answered.collect();
        if pending.is_empty() {
            self.pending.remove(&request.connection);
        }
        for (_, host, key) in answered {
            // The reply is noted first, because a majority consists of lives whose creators have
            // the reply.
            self.set_reply(host, &key, request, ReplyState::Yes);
            self.look_for_clash(host, &key, request, at);
        }
    }

    fn set_reply(&mut self, host: HostId, key: &KeyName, birth: Request, reply: ReplyState) {
        let living = self.nodes.get_mut(&host).and_then(|book| book.living.get_mut(key));
        let past = self.pasts.get_mut(key).map(|past| &mut past.running[..]).unwrap_or_default();
        let lives = living.into_iter().chain(past);
        for life in lives.filter(|life| life.birth() == Some(birth)) {
            life.reply = reply;
        }
    }

    fn hung_up(&mut self, connection: Connection) {
        for (nth, host, key) in self.pending.remove(&connection).unwrap_or_default() {
            self.set_reply(host, &key, Request { connection, nth }, ReplyState::Never);
        }
        let living = self.nodes.values_mut().flat_map(|book| book.living.values_mut());
        for life in living.filter(|life| life.connection() == Some(connection)) {
            life.is_alone = true;
        }
    }

    /// Processes a change that a replica applied from its master, on behalf of `by`.
    fn copy(&mut self, change: &CustodyChange, by: Option<Request>) {
        let CustodyChange { host, at, key, left, .. } = change;
        let book = self.nodes.get_mut(host).expect("it is a node");
        match change.change {
            KeyChange::Set => self.adopt(*host, key, by),
            KeyChange::Changed => {}
            KeyChange::Extended => {
                if let Some(life) = book.living.get_mut(key) {
                    life.prolong(*at, *left);
                }
            }
            _ => drop(book.living.remove(key)),
        }
    }

    /// A node has adopted a key that a request created elsewhere or earlier: that life continues
    /// here. A key whose owner is unknown there has no owner here either.
    fn adopt(&mut self, host: HostId, key: &KeyName, birth: Option<Request>) {
        let elsewhere = self.nodes.values().filter_map(|book| book.living.get(key));
        let running = self.pasts.get(key).map(|past| &past.running[..]).unwrap_or_default();
        let is_it = |life: &&CustodyLife| birth.is_some() && life.birth() == birth;
        let life = elsewhere.chain(running).find(is_it).cloned();
        let book = self.nodes.get_mut(&host).expect("it is a node");
        book.living.remove(key);
        if let Some(life) = life {
            let node = book.name.clone();
            book.living.insert(key.clone(), CustodyLife { node, end: None, ..life });
        }
    }

    /// A node has started, or has received a master's data set: processes the keys that it lost and
    /// received. The lease of a key that still exists is the one that its owner requested last.
    fn load(&mut self, host: HostId, at: Nanos, joined: &[provenance::CausedChange<Request>]) {
        self.nodes.get_mut(&host).expect("it is a node").present = None;
        for change in joined {
            let key = &change.key;
            match change.change {
                KeyChange::Set => self.adopt(host, key, change.by),
                KeyChange::LostAtRestart => self.end_life(host, key, at, CustodyEnd::LostAtRestart),
                KeyChange::LostAtFailover => {
                    self.end_life(host, key, at, CustodyEnd::LostAtFailover)
                }
                KeyChange::Expired => self.end_life(host, key, at, CustodyEnd::Expired),
                _ => {}
            }
        }
    }
}
