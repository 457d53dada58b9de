//! When a node saves all its keys or rewrites its append-only file, and the outcome: the state of
//! `serverCron`, BGSAVE and INFO.
//!
//! A value: the files themselves are written in `files`.

use bytes::Bytes;

/// The start of a node, while it reads its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// Whether commands come from its own file: nothing expires meanwhile.
    pub replays: bool,
    /// Since when it has been loading its files before it serves clients, in Unix milliseconds.
    pub since_ms: Option<u64>,
}

/// The state of saves and rewrites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saving {
    /// Changes of keys since the last save: `rdb_changes_since_last_save`.
    pub changes: u64,
    /// When keys were last saved, or the node started, in Unix seconds.
    pub saved_s: u64,
    /// When a background save was last tried, in Unix seconds.
    pub tried_s: u64,
    /// Whether the last try failed.
    pub failed: bool,
    /// The BGSAVE under way: when it began in Unix seconds, and the changes by then.
    pub begun: Option<(u64, u64)>,
    /// How many saves were begun, except those of FLUSHALL.
    pub saves: u64,
    /// How many seconds the last BGSAVE took.
    pub took_s: Option<u64>,
    /// Keys loaded from the file at the start, and those that had expired.
    pub loaded: [u64; 2],
    /// The RDB that FLUSHALL must save before its reply, and the changes up to there.
    pub flushed: Option<(Bytes, u64)>,
    /// The BGREWRITEAOF under way: when it began, in Unix seconds.
    pub rewriting: Option<u64>,
    /// How many rewrites were begun.
    pub rewrites: u64,
    /// How many rewrites failed in a row.
    pub failed_rewrites: u64,
    /// How many seconds the last rewrite took.
    pub rewrite_took_s: Option<u64>,
    /// Whether a save, or a rewrite, begins at the next tick at which neither is under way.
    pub scheduled: [bool; 2],
    /// Whether the append-only file could not be written.
    pub append_failed: bool,
    /// The replication offset up to which that file is synced.
    pub synced: u64,
}

impl Saving {
    /// Whether Redis would have a child process: there is at most one at a time.
    pub fn is_busy(&self) -> bool {
        self.begun.is_some() || self.rewriting.is_some()
    }

    /// Begins a background save.
    pub fn begin(&mut self, now_s: u64) {
        self.begun = Some((now_s, self.changes));
        self.tried_s = now_s;
        self.saves += 1;
    }

    /// Ends a background save.
    pub fn end(&mut self, now_s: u64, is_good: bool) {
        let (since_s, changes) = self.begun.take().unwrap_or((now_s, 0));
        self.took_s = Some(now_s.saturating_sub(since_s));
        self.failed = !is_good;
        if is_good {
            self.saved(now_s, changes);
        }
    }

    /// Notes that this many changes are saved; the failure of a foreground save is noted nowhere.
    pub fn saved(&mut self, now_s: u64, changes: u64) {
        // Changes since the snapshot are not in the file: they count for the next save.
        self.changes = self.changes.saturating_sub(changes);
        self.failed = false;
        self.saved_s = now_s;
    }

    /// Begins a rewrite of the append-only file.
    pub fn begin_rewrite(&mut self, now_s: u64) {
        self.rewriting = Some(now_s);
        self.rewrites += 1;
    }

    /// Ends a rewrite.
    pub fn end_rewrite(&mut self, now_s: u64, is_good: bool) {
        let since_s = self.rewriting.take().unwrap_or(now_s);
        self.rewrite_took_s = Some(now_s.saturating_sub(since_s));
        self.failed_rewrites = if is_good { 0 } else { self.failed_rewrites + 1 };
    }
}

#[cfg(test)]
mod tests {
    use crate::node::{Node, NodeConfig};

    /// A node whose save points are one change in 60 s or three in 10 s.
    fn node(changes: u64, at_s: u64) -> Node {
        let config = NodeConfig { save: "60 1 10 3".to_owned(), ..NodeConfig::default() };
        let mut node = Node::new(config, 1_000_000, [1, 2, 3]);
        node.saving.changes = changes;
        node.set_time((1_000 + at_s) * 1_000_000_000);
        node
    }

    #[test]
    fn save_points_count_seconds_and_changes() {
        for (changes, at_s, due) in [
            (0, 100, false),
            (1, 60, false),
            (1, 61, true),
            (2, 30, false),
            (3, 10, false),
            (3, 11, true),
        ] {
            assert_eq!(node(changes, at_s).must_save(), due, "{changes} in {at_s} s");
        }
    }

    #[test]
    fn what_failed_is_tried_again_after_a_while_and_refuses_writes_meanwhile() {
        let mut node = node(3, 20);
        node.saving.begin(1_020);
        assert!(!node.must_save(), "it is under way");
        node.saving.end(1_020, false);
        assert_eq!((node.saving.changes, node.must_save()), (3, false));
        assert!(node.disk_error().is_some_and(|text| text.starts_with("MISCONF Redis")));
        node.set_time(1_026 * 1_000_000_000);
        assert!(node.must_save());
        node.saving.begin(1_026);
        node.saving.changes += 1;
        node.saving.end(1_027, true);
        assert_eq!((node.saving.changes, node.saving.took_s), (1, Some(1)));
        assert_eq!((node.must_save(), node.disk_error()), (false, None));
    }
}
