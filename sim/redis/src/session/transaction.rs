//! The transaction of a session: queued commands, watched keys, and the commands that EXEC runs.

use crate::frame::Arguments;
use crate::keyspace::Key;

/// The state of MULTI, WATCH and EXEC.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Commands queued for EXEC.
    queued: Option<Vec<Arguments>>,
    /// Whether a command was refused since MULTI, so that EXEC must refuse.
    broken: bool,
    /// How many commands EXEC runs now.
    running: Option<usize>,
    watched: Vec<Watched>,
    /// Whether one of them was modified.
    touched: bool,
}

/// A key that WATCH named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its database.
    pub db: usize,
    /// Which key.
    pub key: Key,
    /// Whether it had already expired by then.
    pub had_expired: bool,
}

impl Transaction {
    /// Whether commands are queued.
    pub fn is_open(&self) -> bool {
        self.queued.is_some()
    }

    /// What is queued, if commands are.
    pub fn queued(&self) -> Option<&[Arguments]> {
        self.queued.as_deref()
    }

    /// MULTI: commands are queued from now on.
    pub fn open(&mut self) {
        debug_assert!(!self.is_open(), "MULTI is not nested");
        debug_assert!(!self.is_running(), "EXEC runs no MULTI");
        self.queued = Some(Vec::new());
    }

    /// Queues a command.
    pub fn push(&mut self, args: Arguments) {
        debug_assert!(self.is_open(), "nothing is queued before MULTI");
        self.queued.get_or_insert_default().push(args);
    }

    /// A command was refused: if commands are queued, EXEC must refuse.
    pub fn refused(&mut self) {
        self.broken |= self.is_open();
    }

    /// Whether a command was refused since MULTI.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Discards the queue and returns it.
    pub fn close(&mut self) -> Option<Vec<Arguments>> {
        self.broken = false;
        self.queued.take()
    }

    /// EXEC begins to run this many commands.
    pub fn run(&mut self, commands: usize) {
        debug_assert!(!self.is_open(), "what runs is queued no longer");
        debug_assert!(!self.is_running(), "EXEC runs no EXEC");
        self.running = Some(commands);
    }

    /// EXEC has run its commands.
    pub fn end_run(&mut self) {
        debug_assert!(self.is_running(), "what ends was begun");
        self.running = None;
    }

    /// Whether EXEC runs commands now.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The number of commands that are queued for EXEC or run by it.
    pub fn commands(&self) -> Option<usize> {
        self.running.or(self.queued.as_ref().map(Vec::len))
    }

    /// Watches a key; returns whether it was not watched before.
    pub fn watch(&mut self, watched: Watched) -> bool {
        let is_new =
            self.watched.iter().all(|old| (old.db, &old.key) != (watched.db, &watched.key));
        if is_new {
            self.watched.push(watched);
        }
        is_new
    }

    /// The watched keys.
    pub fn watched(&self) -> &[Watched] {
        &self.watched
    }

    /// A watched key was modified.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// Whether a watched key was modified.
    pub fn is_touched(&self) -> bool {
        self.touched
    }

    /// Stops watching all keys, and returns them.
    pub fn unwatch(&mut self) -> Vec<Watched> {
        self.touched = false;
        std::mem::take(&mut self.watched)
    }
}
