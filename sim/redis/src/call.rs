//! What every command receives and returns: the running [`Call`], and the types that join commands
//! with the executor.
//!
//! Commands return values and leave effects in the node. None of them writes a byte, and none
//! executes another command, except through an [`Execute`].

pub mod collection;

use bytes::Bytes;
use lockstorm_platform::trace::KeyChange;
use smallvec::SmallVec;

use crate::errors::{NOT_INTEGER, WRONGTYPE, wrong_arity};
use crate::frame::{Arguments, Reply, integer};
use crate::keyspace::hash::Hash;
use crate::keyspace::{Entry, Kept, Key, Value};
use crate::node::Node;
use crate::session::Session;
use crate::specification::Command;
use crate::specification::flags::Flags;

/// The result of a command; an error is a reply too.
pub type Outcome = Result<Reply, Reply>;

/// The function that executes a command.
pub type Run = fn(&mut Call) -> Outcome;

/// A family of commands: full names in lower case with the functions that execute them.
pub type Family = &'static [(&'static str, Run)];

/// Executes a command that passed all checks.
pub type Execute = fn(&mut Node, &mut Session, &'static Command, &[Bytes]) -> Reply;

/// A running command.
pub struct Call<'a> {
    /// The node that executes it.
    pub node: &'a mut Node,
    /// The connection (or script) that it came from.
    pub session: &'a mut Session,
    /// Its name and arguments.
    pub args: &'a [Bytes],
    /// Its entry in the table.
    pub command: &'static Command,
}

impl<'a> Call<'a> {
    /// The arguments from the nth word on.
    pub fn from(&self, nth: usize) -> &'a [Bytes] {
        self.args.get(nth..).unwrap_or(&[])
    }

    /// The nth word as an integer.
    pub fn integer(&self, nth: usize) -> Result<i64, Reply> {
        integer(&self.args[nth]).ok_or(Reply::error(NOT_INTEGER))
    }

    /// The current time for the command, in Unix milliseconds.
    pub fn time_ms(&self) -> u64 {
        self.node.time_us(self.session) / 1_000
    }

    /// The nth word in upper case. Options are short, so this allocates nothing.
    pub fn word(&self, nth: usize) -> SmallVec<[u8; 16]> {
        let mut word = SmallVec::from_slice(&self.args[nth]);
        word.make_ascii_uppercase();
        word
    }

    /// The command's name in lower case, as in error texts.
    pub fn lower_name(&self) -> String {
        self.command.lower.to_owned()
    }

    /// The live entry of a key; updates its access time. A command that only reads publishes a
    /// keyspace notification about a miss.
    pub fn entry(&mut self, key: &[u8]) -> Option<&Entry> {
        let now_ms = self.node.clock.now_ms;
        self.glance(key).inspect(|entry| entry.used_ms.set(now_ms))
    }

    /// The same without an update of the access time.
    pub fn glance(&mut self, key: &[u8]) -> Option<&Entry> {
        if !self.node.config.notify.is_empty() && self.command.flags.intersects(Flags::READONLY) {
            self.notify_miss(key);
        }
        self.node.live(self.session, key)
    }

    /// Publishes the keyspace notification of a miss, if the key does not exist.
    pub fn notify_miss(&mut self, key: &[u8]) {
        if self.node.live(self.session, key).is_none() {
            self.event(b'm', "keymiss", key);
        }
    }

    /// The string of a key.
    pub fn string(&mut self, key: &[u8]) -> Result<Option<Bytes>, Reply> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::String(bytes)) => Ok(Some(bytes.clone())),
            Some(_) => Err(Reply::error(WRONGTYPE)),
        }
    }

    /// The hash of a key.
    pub fn hash(&mut self, key: &[u8]) -> Result<Option<&Hash>, Reply> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(Reply::error(WRONGTYPE)),
        }
    }

    /// Sets a key to a string, created or overwritten.
    pub fn set(&mut self, key: &[u8], value: &[u8], until_ms: Option<u64>) {
        let value = Value::String(Bytes::copy_from_slice(value));
        self.notify_new(key);
        let key = self.node.keyspace.db_mut(self.session.db).set(key, value, until_ms);
        self.note(key, KeyChange::Set);
    }

    /// Publishes the keyspace notification of a new key, if the key does not exist.
    pub fn notify_new(&mut self, key: &[u8]) {
        if !self.node.config.notify.is_empty()
            && self.node.keyspace.db(self.session.db).get(key).is_none()
        {
            self.event(b'n', "new", key);
        }
    }

    /// Sets a key to a string, whether it exists or not, and keeps its expiry time.
    pub fn change(&mut self, key: &[u8], value: Bytes) {
        let old = self.entry(key).map(Entry::until_ms);
        self.notify_new(key);
        let db = self.node.keyspace.db_mut(self.session.db);
        let key = db.set(key, Value::String(value), old.flatten());
        self.note(key, if old.is_some() { KeyChange::Changed } else { KeyChange::Set });
    }

    /// The same for a string with an explicit encoding.
    pub fn change_kept(&mut self, key: &[u8], value: Bytes, kept: Kept) {
        self.change(key, value);
        if let Some(entry) = self.node.keyspace.db_mut(self.session.db).entry_mut(key) {
            entry.kept = kept;
        }
    }

    /// Changes the expiry time of a live key.
    pub fn set_end(&mut self, key: &[u8], until_ms: Option<u64>) {
        if let Some(key) = self.node.keyspace.db_mut(self.session.db).set_end(key, until_ms) {
            self.note(key, KeyChange::Extended);
        }
    }

    /// Removes a key; whether it existed. Propagates nothing.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some((key, _)) = self.node.keyspace.db_mut(self.session.db).remove(key) else {
            return false;
        };
        self.note(key, KeyChange::Deleted);
        true
    }

    /// Notes what the command did to a key.
    pub fn note(&mut self, key: Key, change: KeyChange) {
        self.node.note(self.session.db, key, change);
    }

    /// Publishes a keyspace notification; `class` is the letter of the event's class in
    /// `notify-keyspace-events`.
    pub fn event(&mut self, class: u8, event: &str, key: &[u8]) {
        if !self.node.config.notify.is_empty() {
            self.node.notify(self.session, class, event, key);
        }
    }

    /// Propagates the command unchanged.
    pub fn propagate_verbatim(&mut self) {
        let args = self.args;
        self.propagate(|| args.to_vec());
    }

    /// Propagates another command.
    pub fn propagate(&mut self, command: impl FnOnce() -> Arguments) {
        self.node.propagate(self.session.db, false, command);
    }
}

/// Executes a command that has subcommands; only those do anything.
pub fn container(call: &mut Call) -> Outcome {
    Err(wrong_arity(call.command.lower))
}
