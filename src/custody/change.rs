//! What a change of a key means for its owner: the key is taken, extended, released, or harmed by
//! another client.

use bytes::Bytes;
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{HostId, KeyChange, KeyName, Origin, Request};

use crate::custody::finding::{Certainty, CustodyFinding, CustodyKind};
use crate::custody::life::{CustodyEnd, CustodyLife, ReplyState};
use crate::custody::requester::{Requester, carries, flushes, takes_lock};
use crate::custody::state::Custody;

/// A change of a key, as recorded in the trace.
pub struct CustodyChange {
    /// The node.
    pub host: HostId,
    /// The true time.
    pub at: Nanos,
    /// The key.
    pub key: KeyName,
    /// What happened to it.
    pub change: KeyChange,
    /// The cause.
    pub origin: Origin,
    /// The remaining time to live, if it expires.
    pub left: Option<Nanos>,
}

/// Changes of keys.
impl Custody {
    /// Processes a change of a key on a master.
    pub(super) fn change(&mut self, change: &CustodyChange) {
        let book = self.nodes.get_mut(&change.host).expect("only nodes' keys are looked at");
        let mut words = Vec::new();
        let (mut by, mut value) = (None, None);
        let is_living = book.living.contains_key(&change.key);
        if let (Origin::Request(request), true) = (change.origin, is_living) {
            // A request without recorded words is a plain `SET key value`.
            by = Some(Requester { request, command: "SET".to_owned() });
        }
        if let (Origin::Request(request), Some(present)) = (change.origin, &mut book.present)
            && present.request == request
        {
            present.has_changed |= change.change == KeyChange::Set;
            value = present.values.pop_front().flatten();
            if is_living || takes_lock(&present.words) {
                words.clone_from(&present.words);
                by = Some(Requester::new(request, &words));
            }
        }
        match change.change {
            KeyChange::Set if is_living || takes_lock(&words) => {
                self.set(change, by, &words, value.map(|value| value.to_vec()));
            }
            KeyChange::Extended if is_living => self.extend(change, by.as_ref(), &words),
            KeyChange::Deleted if is_living => self.delete(change, by.as_ref(), &words),
            KeyChange::Expired if is_living => self.end(change.host, change, CustodyEnd::Expired),
            KeyChange::Evicted if is_living => self.end(change.host, change, CustodyEnd::Evicted),
            _ => {}
        }
    }

    fn set(
        &mut self,
        change: &CustodyChange,
        by: Option<Requester>,
        words: &[Bytes],
        token: Option<Vec<u8>>,
    ) {
        let CustodyChange { host, at, key, left, .. } = change;
        let book = self.nodes.get_mut(host).expect("it is a node");
        if let Some(old) = book.living.get_mut(key) {
            // An owner that sets its own token again extends its lock.
            if old.token == token && token.is_some() {
                old.prolong(*at, *left);
                return;
            }
            // Judged before the old life ends, because the finding shows that life.
            let foreign = self.foreign(*host, key, by.as_ref(), words, true);
            if let Some(certainty) = foreign {
                let what = format!("was overwritten {}", from_whom(by.as_ref()));
                self.accuse(*host, key, CustodyKind::ForeignRelease, certainty, *at, what);
            }
            self.end(*host, change, CustodyEnd::Overwritten);
        }
        if let Some(token) = &token {
            self.past(key).tokens.note(token);
        }
        self.counts.locks += 1;
        let book = self.nodes.get_mut(host).expect("it is a node");
        let mut life = CustodyLife {
            node: book.name.clone(),
            key: key.clone(),
            token,
            by,
            from: *at,
            lease_until: None,
            ttl: None,
            reply: ReplyState::Pending,
            is_released: false,
            is_alone: false,
            refused: 0,
            end: None,
        };
        life.prolong(*at, *left);
        if let Some(request) = life.birth() {
            let pending = self.pending.entry(request.connection).or_default();
            pending.push((request.nth, *host, key.clone()));
        }
        book.living.insert(key.clone(), life);
    }

    fn extend(&mut self, change: &CustodyChange, by: Option<&Requester>, words: &[Bytes]) {
        let CustodyChange { host, at, key, left, .. } = change;
        if let Some(certainty) = self.foreign(*host, key, by, words, false) {
            let what = format!("was given another time to live {}", from_whom(by));
            self.accuse(*host, key, CustodyKind::ForeignExtend, certainty, *at, what);
        }
        let book = self.nodes.get_mut(host).expect("it is a node");
        if let Some(life) = book.living.get_mut(key) {
            life.prolong(*at, *left);
        }
    }

    fn delete(&mut self, change: &CustodyChange, by: Option<&Requester>, words: &[Bytes]) {
        let CustodyChange { host, at, key, .. } = change;
        if flushes(words) {
            return self.end(*host, change, CustodyEnd::Flushed);
        }
        // Judged before the life ends, because the finding shows that life.
        let end = match self.foreign(*host, key, by, words, false) {
            None => CustodyEnd::Released,
            Some(certainty) => {
                let what = format!("was removed {}", from_whom(by));
                self.accuse(*host, key, CustodyKind::ForeignRelease, certainty, *at, what);
                match certainty {
                    Certainty::Unproven => CustodyEnd::Removed,
                    Certainty::Proven | Certainty::ByConnection => CustodyEnd::ForeignRelease,
                }
            }
        };
        self.end(*host, change, end);
    }

    /// How certain it is that a request does not come from the owner of a living key; `None` if it
    /// may well be the owner's.
    fn foreign(
        &mut self,
        host: HostId,
        key: &KeyName,
        by: Option<&Requester>,
        words: &[Bytes],
        puts_token: bool,
    ) -> Option<Certainty> {
        let life = self.nodes.get(&host)?.living.get(key)?;
        let by = by?;
        let same = life.connection() == Some(by.request.connection);
        if let Some(token) = &life.token {
            if carries(words, token) {
                // One owner has two open connections, so connections prove nothing here.
                self.is_pooled |= !same && !life.is_alone && life.by.is_some();
                return None;
            }
            let others = self.pasts.get(key).map(|past| past.tokens.others(token));
            let speaks_for_another =
                others.is_some_and(|others| others.iter().any(|other| carries(words, other)));
            if speaks_for_another && !puts_token {
                return Some(Certainty::Proven);
            }
        }
        match (same, life.by.is_some() && !life.is_alone) {
            (true, _) => None,
            (false, true) => Some(Certainty::ByConnection),
            (false, false) => Some(Certainty::Unproven),
        }
    }

    fn accuse(
        &mut self,
        host: HostId,
        key: &KeyName,
        kind: CustodyKind,
        certainty: Certainty,
        at: Nanos,
        what: String,
    ) {
        let owner = self.nodes.get(&host).and_then(|book| book.living.get(key)).cloned();
        let owner = owner.expect("the key lives");
        self.find(CustodyFinding { kind, certainty, at, owner, what });
    }

    fn end(&mut self, host: HostId, change: &CustodyChange, end: CustodyEnd) {
        self.end_life(host, &change.key, change.at, end);
    }

    /// Ends a life.
    pub(super) fn end_life(&mut self, host: HostId, key: &KeyName, at: Nanos, end: CustodyEnd) {
        let book = self.nodes.get_mut(&host).expect("it is a node");
        let Some(mut life) = book.living.remove(key) else { return };
        life.is_released |= end == CustodyEnd::Released;
        life.end = Some((at, end));
        if life.reply == ReplyState::Never && life.refused > 0 && end != CustodyEnd::Released {
            let what = "was left by a request that was never answered, and made others' tries fail";
            let (owner, what) = (life.clone(), what.to_owned());
            self.find(CustodyFinding {
                kind: CustodyKind::Leak,
                certainty: Certainty::Proven,
                at,
                owner,
                what,
            });
        }
        if let (CustodyEnd::Released, Some(birth)) = (end, life.birth()) {
            self.release_copies(key, birth);
        }
        if !matches!(end, CustodyEnd::Released | CustodyEnd::Removed) && life.runs(at) {
            let past = self.past(key);
            past.running.retain(|other| other.runs(at));
            past.running.push(life.clone());
        }
        self.ended.push(life);
    }

    /// A release on one node also releases the copies on other nodes.
    fn release_copies(&mut self, key: &KeyName, birth: Request) {
        let copies = self.nodes.values_mut().filter_map(|book| book.living.get_mut(key));
        for life in copies.filter(|life| life.birth() == Some(birth)) {
            life.is_released = true;
        }
        if let Some(past) = self.pasts.get_mut(key) {
            past.running.retain(|life| life.birth() != Some(birth));
        }
    }
}

/// The sender, as the end of a sentence.
fn from_whom(by: Option<&Requester>) -> String {
    match by {
        None => "by the node".to_owned(),
        Some(by) => format!(
            "by {} from {}, which does not carry its token",
            by.command, by.request.connection.client
        ),
    }
}
