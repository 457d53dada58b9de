//! The append-only file between execution and disk.

use bytes::BytesMut;

use crate::effects::PropagatedCommand;
use crate::persistence::Script;

/// The state of the append-only file.
#[derive(Default)]
pub struct Log {
    script: Script,
    /// Commands that are executed and not yet written.
    pending: BytesMut,
    /// Bytes written since the start, and how many of them are known to be synced.
    written: u64,
    synced: u64,
    /// The replication offset up to which they are written.
    offset: u64,
    /// Whether the disk refused the keys of a resynchronisation: the file on disk is outdated, and
    /// nothing can be appended to it.
    is_stale: bool,
}

impl Log {
    /// The log of a file that has just replaced the previous one, if the disk accepted it.
    pub fn anew(good: bool) -> Log {
        // One written byte represents the new file itself, which is not synced yet.
        Log { written: 1, is_stale: !good, ..Log::default() }
    }

    /// Takes the executed commands. Those for replicas alone are not kept.
    pub fn take(&mut self, commands: &[PropagatedCommand]) {
        if commands.iter().any(PropagatedCommand::is_publish) {
            let kept: Vec<PropagatedCommand> =
                commands.iter().filter(|command| !command.is_publish()).cloned().collect();
            self.script.write(&kept, &mut self.pending, |_, _| {});
        } else {
            self.script.write(commands, &mut self.pending, |_, _| {});
        }
    }

    /// Makes the next command begin with SELECT.
    pub fn forget_database(&mut self) {
        self.script.forget_database();
    }

    /// The bytes to be written.
    pub fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Whether the file on disk is outdated, so that nothing can be appended to it.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whether the disk has all executed commands.
    pub fn is_whole(&self) -> bool {
        self.pending.is_empty() && !self.is_stale
    }

    /// The disk has accepted the pending bytes.
    pub fn wrote_pending(&mut self) {
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.is_stale = false;
    }

    /// The disk has accepted a file in place of the previous one, which must be synced.
    pub fn wrote_anew(&mut self) {
        // One byte represents the new file, as in `anew`.
        self.written += 1;
    }

    /// Notes that everything is written up to this replication offset; returns whether it is synced
    /// too.
    pub fn reach(&mut self, offset: u64) -> bool {
        debug_assert!(self.pending.is_empty(), "what waits is not written");
        self.offset = offset;
        self.synced == self.written
    }

    /// How much is written, and up to which replication offset, unless it is known to be synced.
    pub fn unsynced(&self) -> Option<(u64, u64)> {
        debug_assert!(self.synced <= self.written, "no more is synced than was written");
        (self.synced < self.written).then_some((self.written, self.offset))
    }

    /// Notes that this much of what was written is synced.
    pub fn note_synced(&mut self, written: u64) {
        self.synced = self.synced.max(written);
    }
}
