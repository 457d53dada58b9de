//! The history of a node's data as replication counts it: whose it is, how long it is, and how
//! much of its end is kept for those who fell behind.
//!
//! A value: who is fed from it is in `replication`.

use std::collections::VecDeque;

use lockstorm_platform::trace::{Event, hash_of};

/// What stands for an id where there is none.
pub const NO_ID: &str = "0000000000000000000000000000000000000000";

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Its id: 40 hexadecimal digits.
    pub id: String,
    /// The id that it had before a change of master, and the first offset that is no longer
    /// the older one's.
    pub second: Option<(String, u64)>,
    /// How many bytes of stream there were.
    pub offset: u64,
    /// The last of them: the backlog. Without it nothing is counted.
    backlog: Option<VecDeque<u8>>,
}

impl History {
    /// A history of this id in which nothing has happened.
    pub fn new(id: String) -> History {
        History { id, ..History::default() }
    }

    /// What stands for its id in the trace.
    pub fn number(&self) -> u64 {
        hash_of(self.id.as_bytes())
    }

    /// For the trace: that it goes on from another one, if it does.
    pub fn continued(&self) -> Option<Event> {
        let (earlier, end) = self.second.as_ref()?;
        let (earlier, to) = (hash_of(earlier.as_bytes()), end - 1);
        Some(Event::Continued { history: self.number(), earlier, to })
    }

    /// Whether the stream is counted and its end kept.
    pub fn is_kept(&self) -> bool {
        self.backlog.is_some()
    }

    /// Counts the stream from now on, under the id that it has.
    pub fn keep(&mut self) {
        self.backlog.get_or_insert_default();
    }

    /// Counts the stream from now on. What was not counted is not known to anybody, so a history
    /// that begins here has an id of its own (`createReplicationBacklog`'s callers).
    pub fn begin(&mut self, fresh: String) {
        debug_assert!(!self.is_kept(), "it is counted already");
        self.id = fresh;
        self.second = None;
        self.keep();
    }

    /// Adds bytes to the stream; the backlog keeps `most` of them.
    pub fn add(&mut self, bytes: &[u8], most: usize) {
        let Some(backlog) = &mut self.backlog else { return };
        self.offset += bytes.len() as u64;
        backlog.extend(&bytes[bytes.len().saturating_sub(most)..]);
        backlog.drain(..backlog.len().saturating_sub(most));
    }

    /// Counts commands that nobody is told, as a byte each: WAITAOF asks for the offset
    /// (`replicationFeedSlaves` since Redis 7.2).
    pub fn count(&mut self, commands: u64) {
        debug_assert!(!self.is_kept(), "a stream is counted by its bytes");
        self.offset += commands;
    }

    /// The offset of the first byte that is kept, and how many are; `None` if none can be.
    pub fn kept(&self) -> Option<(u64, u64)> {
        let length = self.backlog.as_ref()?.len() as u64;
        Some((self.offset + 1 - length, length))
    }

    /// What somebody lacks who has this history, or the one before it, up to the byte before
    /// `next`. `None` if a part of it is no longer kept, or never was the same
    /// (`masterTryPartialResync`).
    pub fn since(&self, id: &[u8], next: i64) -> Option<Vec<u8>> {
        let next = u64::try_from(next).ok()?;
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(id);
        let before = |(known, end): &(String, u64)| is(known) && next <= *end;
        let (first, length) = self.kept()?;
        let shared = is(&self.id) || self.second.as_ref().is_some_and(before);
        if !shared || next < first || next > first + length {
            return None;
        }
        let missing = usize::try_from(next - first).ok()?;
        Some(self.backlog.as_ref()?.iter().skip(missing).copied().collect())
    }

    /// Goes on under another id: a replica became a master (`shiftReplicationId`), or its master
    /// did.
    pub fn go_on_as(&mut self, id: String) {
        let before = std::mem::replace(&mut self.id, id);
        self.second = Some((before, self.offset + 1));
    }

    /// Takes over another history as it stands, after a full resynchronisation.
    pub fn take_over(&mut self, id: String, offset: u64) {
        *self = History { id, second: None, offset, backlog: Some(VecDeque::new()) };
    }
}

#[cfg(test)]
mod tests {
    use super::History;

    fn history() -> History {
        let mut history = History::new("a".repeat(40));
        history.begin("b".repeat(40));
        history.add(b"one", 8);
        history
    }

    /// Fact 13: a partial resynchronisation if the id is ours, or the one before and the offset
    /// not beyond the promotion, and the offset within the backlog.
    #[test]
    fn fact_13_who_is_given_only_what_he_lacks() {
        let mut history = history();
        history.go_on_as("c".repeat(40));
        history.add(b"two", 8);
        let (old, own) = ("b".repeat(40), "C".repeat(40));
        for (id, next, lacks) in [
            (&own, 1, Some("onetwo")),
            (&own, 4, Some("two")),
            (&own, 7, Some("")),
            (&own, 8, None),
            (&own, 0, None),
            (&own, -1, None),
            (&old, 2, Some("netwo")),
            (&old, 4, Some("two")),
            (&old, 5, None),
            (&"a".repeat(40), 1, None),
        ] {
            let given = history.since(id.as_bytes(), next);
            assert_eq!(given, lacks.map(|text| text.as_bytes().to_vec()), "{id} {next}");
        }
        history.add(b"three", 8);
        assert_eq!((history.kept(), history.offset), (Some((4, 8)), 11));
        assert_eq!(history.since(own.as_bytes(), 3), None, "it is no longer kept");
        history.add(b"0123456789", 8);
        assert_eq!(history.since(own.as_bytes(), 14), Some(b"23456789".to_vec()));
    }

    #[test]
    fn nothing_is_counted_before_the_first_replica_and_that_has_an_id_of_its_own() {
        let mut history = History::new("a".repeat(40));
        history.add(b"one", 8);
        assert_eq!((history.offset, history.kept()), (0, None));
        assert_eq!(history.since("a".repeat(40).as_bytes(), 1), None);
        assert_eq!(self::history().id, "b".repeat(40));
        let mut follower = self::history();
        follower.take_over("d".repeat(40), 90);
        assert_eq!((follower.kept(), follower.second), (Some((91, 0)), None));
    }
}
