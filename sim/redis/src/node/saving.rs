//! When a node must save its keys, and whether its disk accepts writes.

use crate::node::Node;

/// After a save that failed, the save points wait this many seconds (`CONFIG_BGSAVE_RETRY_DELAY`).
const RETRY_S: u64 = 5;

/// Why writes are refused after a save that failed.
pub const MISCONF_RDB: &str = "MISCONF Redis is configured to save RDB snapshots, but it's \
    currently unable to persist to disk. Commands that may modify the data set are disabled, \
    because this instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
    error.";
/// Why writes are refused when the append-only file cannot be written.
pub const MISCONF_AOF: &str = "MISCONF Errors writing to the AOF file: No space left on device";

impl Node {
    /// The save points: pairs of seconds and the number of changes that trigger a save after them.
    pub fn save_points(&self) -> Vec<(u64, u64)> {
        let numbers = self.settings.text("save").split(' ').filter_map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Whether a save point requires a save now.
    pub fn must_save(&self) -> bool {
        let (saving, now_s) = (&self.saving, self.clock.now_ms / 1_000);
        let since_s = now_s.saturating_sub(saving.saved_s);
        let rests = saving.failed && now_s.saturating_sub(saving.tried_s) <= RETRY_S;
        let due =
            |(seconds, changes): &(u64, u64)| saving.changes >= *changes && since_s > *seconds;
        !saving.is_busy() && !rests && self.save_points().iter().any(due)
    }

    /// Why writes, and PING, are refused while the disk fails.
    pub fn disk_error(&self) -> Option<&'static str> {
        let saving = &self.saving;
        let stops = saving.failed
            && self.settings.is_on("stop-writes-on-bgsave-error")
            && !self.save_points().is_empty();
        let appends = saving.append_failed.then_some(MISCONF_AOF);
        if stops { Some(MISCONF_RDB) } else { appends }
    }
}
