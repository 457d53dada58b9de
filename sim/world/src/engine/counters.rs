//! Counts of what faults met, taken where they act: the evidence that a fault had an effect.
//!
//! Each count but `waiting` only grows, and only while a fault is active; the difference of two
//! readings is what one fault met. Nothing here enters the trace or decides anything.

use lockstorm_platform::host::Slowness;

/// Messages and connections of a directed link that faults touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Messages that met the closed link.
    pub held: u64,
    /// Messages with a fixed added delay.
    pub delayed: u64,
    /// Messages with a drawn added delay.
    pub jittered: u64,
    /// Tries lost by faults.
    pub lost: u64,
    /// Tries lost by the link's own loss, without a fault.
    pub lost_anyway: u64,
    /// Connections that were broken.
    pub broken: u64,
}

/// What faults touched on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCounters {
    /// Tasks and messages that had to wait while the machine was halted.
    pub waited: u64,
    /// Those of its tasks that wait now: a further halt holds them back too.
    pub waiting: u64,
    /// Readings of its clocks by its processes, and sleeps until a time of day.
    pub looks: u64,
    /// Sleeps for a length.
    pub sleeps: u64,
    /// Commands that were slowed down.
    pub commands: u64,
    /// Scripts that were slowed down.
    pub scripts: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that were started.
    pub starts: u64,
}

/// What faults touched on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Syncs that returned without syncing pending data.
    pub unsynced: u64,
    /// Files that a loss of power tore.
    pub torn: u64,
    /// Writes that were refused.
    pub refused: u64,
}

impl MachineCounters {
    /// Counts a task that has to wait until the machine is no longer halted.
    pub fn hold_back(&mut self) {
        self.waited += 1;
        self.waiting += 1;
        debug_assert!(self.waiting <= self.waited, "a task that waits now is counted as waited");
    }

    /// Counts a command or a script that a fault slowed.
    pub fn slow(&mut self, by: Slowness) {
        self.commands += u64::from(by.command > 0);
        self.scripts += u64::from(by.script > 0);
    }
}
