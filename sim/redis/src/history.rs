//! The replication history of a node's data: its id, its offset, and the backlog for replicas that
//! fell behind.
//!
//! A value: `replication` feeds replicas from it.

use std::collections::VecDeque;

use lockstorm_platform::trace::{Event, hash_of};

/// The id that is reported if there is none.
pub const NO_ID: &str = "0000000000000000000000000000000000000000";

/// A replication history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Its id: 40 hexadecimal digits.
    pub id: String,
    /// The previous id after a change of master, and the first offset that is no longer valid for
    /// it (`replid2`, `second_repl_offset`).
    pub second: Option<(String, u64)>,
    /// The replication offset: length of the stream in bytes.
    pub offset: u64,
    /// The last bytes of the stream: the backlog. Without it nothing is counted.
    backlog: Option<VecDeque<u8>>,
}

impl History {
    /// An empty history with this id.
    pub fn new(id: String) -> History {
        History { id, ..History::default() }
    }

    /// The number that represents its id in the trace.
    pub fn number(&self) -> u64 {
        hash_of(self.id.as_bytes())
    }

    /// The trace event that it continues another history, if it does.
    pub fn continued(&self) -> Option<Event> {
        let (earlier, end) = self.second.as_ref()?;
        debug_assert!(
            (1..=self.offset + 1).contains(end),
            "the previous history ended at or before the current offset"
        );
        let (earlier, to) = (hash_of(earlier.as_bytes()), end - 1);
        Some(Event::Continued { history: self.number(), earlier, to })
    }

    /// Whether the stream is counted and has a backlog.
    pub fn is_kept(&self) -> bool {
        self.backlog.is_some()
    }

    /// Counts the stream from now on, under the current id.
    pub fn keep(&mut self) {
        self.backlog.get_or_insert_default();
    }

    /// Counts the stream from now on. No replica knows what was not counted, so a history that
    /// begins here gets a fresh id (the callers of `createReplicationBacklog`).
    pub fn begin(&mut self, fresh: String) {
        debug_assert!(!self.is_kept(), "it is counted already");
        self.id = fresh;
        self.second = None;
        self.keep();
    }

    /// Adds bytes to the stream; the backlog keeps at most `most` of them.
    pub fn add(&mut self, bytes: &[u8], most: usize) {
        let Some(backlog) = &mut self.backlog else { return };
        self.offset += bytes.len() as u64;
        // Of a write that is larger than the backlog only the end fits.
        backlog.extend(&bytes[bytes.len().saturating_sub(most)..]);
        backlog.drain(..backlog.len().saturating_sub(most));
        debug_assert!(backlog.len() as u64 <= self.offset, "the backlog is the end of the stream");
    }

    /// Counts commands that are propagated to no replica, one byte each: WAITAOF needs the offset
    /// (`replicationFeedSlaves` since Redis 7.2).
    pub fn count(&mut self, commands: u64) {
        debug_assert!(!self.is_kept(), "a stream is counted by its bytes");
        self.offset += commands;
    }

    /// The offset of the first byte in the backlog, and the length of the backlog; `None` without
    /// one.
    pub fn kept(&self) -> Option<(u64, u64)> {
        let length = self.backlog.as_ref()?.len() as u64;
        Some((self.offset + 1 - length, length))
    }

    /// The bytes that a replica lacks if it has this history, or the previous one, up to the byte
    /// before `next`. `None` if a part of them is no longer in the backlog or the histories differ
    /// (`masterTryPartialResync`).
    pub fn since(&self, id: &[u8], next: i64) -> Option<Vec<u8>> {
        let next = u64::try_from(next).ok()?;
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(id);
        // Beyond the promotion the previous history went on elsewhere, with other bytes.
        let before = |(known, end): &(String, u64)| is(known) && next <= *end;
        let (first, length) = self.kept()?;
        let shared = is(&self.id) || self.second.as_ref().is_some_and(before);
        if !shared || next < first || next > first + length {
            return None;
        }
        let missing = usize::try_from(next - first).ok()?;
        Some(self.backlog.as_ref()?.iter().skip(missing).copied().collect())
    }

    /// Continues under another id: a replica became a master (`shiftReplicationId`), or its master
    /// did.
    pub fn go_on_as(&mut self, id: String) {
        let before = std::mem::replace(&mut self.id, id);
        // A replica of the previous master may lack bytes up to here, but has none beyond.
        self.second = Some((before, self.offset + 1));
    }

    /// Takes over another history as it is, after a full resynchronisation.
    pub fn take_over(&mut self, id: String, offset: u64) {
        // The file brought the data and not its stream, so no replica can be fed from before it.
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

    /// Fact 13: a partial resynchronisation if the id is the current one, or the previous one and
    /// the offset not beyond the promotion, and the offset is within the backlog.
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
