//! The tap: turns a real server's reports into evidence in the trace. It records changes of keys
//! with their causes, in the form that simulated nodes record.
//!
//! The server does not report a key's expiry, so the tap queries it after each change. The server
//! does not report stream offsets either, so the tap joins a replica's change to its cause by key
//! and value.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use lockstorm_platform::host::{Host, Stream};
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::{Event, KeyChange, KeyName, Origin, Request, hash_of};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::resp_client::{RespClient, role};
use lockstorm_world::engine::live::outside;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::confirm::lookout::Followed;
use crate::confirm::pending::PendingRequests;
use crate::confirm::processes::ProcessSetup;
use crate::confirm::tap_event::{ASK, BEGUN, TapEvent, TapReader};

/// How long a replica's tap waits before it records a change from the master, so that the master's
/// tap has recorded the cause.
const HEAD_START: Nanos = 5 * MILLISECOND;
/// The interval between two tries to reach a server that starts or loads.
const AGAIN: Nanos = 2 * MILLISECOND;

/// The tap on one server.
pub struct Tap {
    host: Host,
    pending: Rc<PendingRequests>,
    /// A connection for queries about keys.
    questions: RespClient,
    tales: Stream,
    /// Bytes that are not parsed yet.
    buffer: BytesMut,
    /// The master that the server follows; updated by the task that polls its role.
    followed: Rc<Followed>,
    /// The existing keys, with their values if they are strings.
    living: BTreeMap<Bytes, Bytes>,
    /// Effects of a command whose line has not arrived yet.
    effects: Vec<(String, Bytes)>,
    /// The client of the last command that no script ran.
    speaker: Speaker,
}

/// The party for which the server executed a command.
#[derive(Clone, Copy)]
enum Speaker {
    /// A client.
    Client(Request),
    /// Unknown: the master, if there is one, or the operator.
    Other,
}

impl Tap {
    /// Connects, once the server replies and has loaded its keys.
    pub async fn begin(
        host: Host,
        setup: &ProcessSetup,
        pending: Rc<PendingRequests>,
        followed: Rc<Followed>,
    ) -> Tap {
        loop {
            match Tap::try_begin(&host, setup, &pending, &followed).await {
                Ok(tap) => return tap,
                Err(_) => host.sleep(AGAIN).await,
            }
        }
    }

    async fn try_begin(
        host: &Host,
        setup: &ProcessSetup,
        pending: &Rc<PendingRequests>,
        followed: &Rc<Followed>,
    ) -> io::Result<Tap> {
        let mut questions = RespClient::new(outside::connect(setup.own).await?);
        // A cluster replica serves its keys only after this command; other servers accept it too.
        questions.request(&["READONLY"]).await?;
        let Reply::Array(keys) = questions.request(&["KEYS", "*"]).await? else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let Some(master) = role(&questions.request(&["ROLE"]).await?) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let mut tales = outside::connect(setup.own).await?;
        tales.write_all(ASK).await?;
        let mut buffer = BytesMut::new();
        let begun = loop {
            if let Some(place) = buffer.windows(BEGUN.len()).position(|part| part == BEGUN) {
                break place + BEGUN.len();
            }
            if tales.read_buf(&mut buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let mut tap = Tap {
            host: host.clone(),
            pending: Rc::clone(pending),
            questions,
            tales,
            buffer: buffer.split_off(begun),
            followed: Rc::clone(followed),
            living: BTreeMap::new(),
            effects: Vec::new(),
            speaker: Speaker::Other,
        };
        for key in keys.iter().filter_map(text) {
            let (_, value) = tap.look(&key).await?;
            tap.living.insert(key, value);
        }
        let keys = tap.living.keys().map(name).collect();
        host.record(Event::Loaded { keys, resync: None, file: None });
        if followed.replace(master) != master {
            host.record(Event::Role { master });
        }
        Ok(tap)
    }

    /// Listens until the server closes the connection.
    pub async fn listen(mut self) {
        // An error means that the server is down, or that its role changed.
        let _ = self.hear_all().await;
    }

    async fn hear_all(&mut self) -> io::Result<()> {
        let mut reader = TapReader::default();
        loop {
            while let Some(event) = reader.next(&mut self.buffer) {
                self.hear(event).await?;
            }
            self.pending.settle();
            if self.tales.read_buf(&mut self.buffer).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn hear(&mut self, event: TapEvent) -> io::Result<()> {
        let (by, name) = match event {
            TapEvent::Effect { what, key } => match what.as_str() {
                "expired" => return self.change(key, KeyChange::Expired, Origin::Node).await,
                "evicted" => return self.change(key, KeyChange::Evicted, Origin::Node).await,
                _ => {
                    self.effects.push((what, key));
                    return Ok(());
                }
            },
            TapEvent::Command { by, name } => (by, name),
        };
        // The tap's own queries are reported too.
        if by == Some(self.questions.stream.connection().client) {
            return Ok(());
        }
        if let Some(by) = by {
            let request = self.pending.reported(by, &name);
            self.speaker = request.map_or(Speaker::Other, Speaker::Client);
        }
        // For a flush Redis reports no effect on single keys.
        if matches!(name.as_str(), "FLUSHALL" | "FLUSHDB") {
            let keys = self.living.keys().cloned();
            self.effects.extend(keys.map(|key| ("del".to_owned(), key)));
        }
        self.take_effects().await
    }

    /// Records the effects of one command. A set together with its expiry is one change.
    async fn take_effects(&mut self) -> io::Result<()> {
        let effects = std::mem::take(&mut self.effects);
        for (place, (what, key)) in effects.iter().enumerate() {
            let is_more = effects[..place].iter().any(|(_, known)| known == key);
            if what == "expire" && is_more {
                continue;
            }
            let change = kind(what, self.living.contains_key(key));
            let origin = match self.speaker {
                Speaker::Client(request) => Origin::Request(request),
                Speaker::Other => Origin::Replication { history: 0, offset: 0 },
            };
            self.change(key.clone(), change, origin).await?;
        }
        Ok(())
    }

    async fn change(&mut self, key: Bytes, change: KeyChange, origin: Origin) -> io::Result<()> {
        let goes = !change.leaves_key();
        let (until_ms, value) = if goes {
            (None, self.living.remove(&key).unwrap_or_default())
        } else {
            let (until_ms, value) = self.look(&key).await?;
            self.living.insert(key.clone(), value.clone());
            (until_ms, value)
        };
        let offset = number(&key, change, &value);
        let origin = match (origin, self.followed.get()) {
            (Origin::Replication { .. }, Some(master)) => {
                self.host.sleep(HEAD_START).await;
                Origin::Replication { history: history_of(master), offset }
            }
            // A server that follows no master received the command from the operator.
            (Origin::Replication { .. }, None) => Origin::Node,
            (other, _) => other,
        };
        if let Some(own) = self.host.resolve(self.host.name()) {
            self.host.record(Event::Propagated { history: history_of(own), offset, origin });
        }
        let key = name(&key);
        self.host.record(Event::Key { key, change, origin, until_ms });
        Ok(())
    }

    /// A key's expiry in Unix milliseconds, and its value if it is a string.
    async fn look(&mut self, key: &[u8]) -> io::Result<(Option<u64>, Bytes)> {
        let until = match self.questions.request(&[b"PEXPIRETIME", key]).await? {
            Reply::Integer(until) => u64::try_from(until).ok(),
            _ => None,
        };
        let value = self.questions.request(&[b"GET", key]).await?;
        Ok((until, text(&value).unwrap_or_default()))
    }
}

/// A key as the trace names it. The tap listens to database 0 only.
fn name(key: &Bytes) -> KeyName {
    KeyName::new(0, Rc::from(&key[..]))
}

/// A copy of a bulk reply; `None` for other replies.
fn text(reply: &Reply) -> Option<Bytes> {
    match reply {
        Reply::Bulk(text) => Some(Bytes::copy_from_slice(text)),
        _ => None,
    }
}

/// The change of a key that the server names with this word.
fn kind(what: &str, lives: bool) -> KeyChange {
    match what {
        "set" | "rename_to" | "restore" | "copy_to" => KeyChange::Set,
        "del" | "rename_from" | "move_from" => KeyChange::Deleted,
        "expire" | "persist" => KeyChange::Extended,
        _ if lives => KeyChange::Changed,
        _ => KeyChange::Set,
    }
}

/// A substitute for the id of a master's history, which is not reported.
fn history_of(master: SocketAddrV4) -> u64 {
    hash_of(&master.ip().octets())
}

/// A substitute for a change's offset in the replication stream: equal on master and replica.
fn number(key: &[u8], change: KeyChange, value: &[u8]) -> u64 {
    hash_of(&[key, &[b' ', change as u8, b' '], value].concat())
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::trace::KeyChange;

    use super::{kind, number};

    #[test]
    fn words_of_the_server_are_changes() {
        for (what, lives, wanted) in [
            ("set", true, KeyChange::Set),
            ("del", true, KeyChange::Deleted),
            ("expire", true, KeyChange::Extended),
            ("incrby", false, KeyChange::Set),
            ("incrby", true, KeyChange::Changed),
        ] {
            assert_eq!(kind(what, lives), wanted, "{what}");
        }
    }

    #[test]
    fn the_same_change_has_the_same_number_and_another_has_not() {
        let set = number(b"lock", KeyChange::Set, b"t1");
        assert_eq!(set, number(b"lock", KeyChange::Set, b"t1"));
        for other in [
            number(b"lock", KeyChange::Set, b"t2"),
            number(b"lock", KeyChange::Deleted, b"t1"),
            number(b"block", KeyChange::Set, b"t1"),
        ] {
            assert_ne!(set, other);
        }
    }
}
