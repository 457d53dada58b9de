//! What a verb does to its target, for code to which only that matters.

use crate::fault::Verb;
use crate::fault::verbs::{ActsOn, Strains};

impl Verb {
    /// Whether the verb acts on links between hosts; otherwise it acts on one host.
    pub fn acts_on_links(&self) -> bool {
        self.row().acts_on == ActsOn::Links
    }

    /// Whether the verb acts at one instant and needs no heal.
    pub fn is_momentary(&self) -> bool {
        self.row().is_momentary
    }

    /// Whether the verb kills its target's process.
    pub fn kills(&self) -> bool {
        self.row().strains == Strains::Life
    }

    /// Whether the target is down until the fault ends; a restart is up again at once.
    pub fn takes_down(&self) -> bool {
        matches!(self, Verb::Crash | Verb::PowerLoss)
    }

    /// Whether the verb stops its target's process from being scheduled.
    pub fn halts(&self) -> bool {
        self.row().strains == Strains::Schedule
    }

    /// Whether it disturbs clocks.
    pub fn disturbs_clocks(&self) -> bool {
        matches!(self.row().strains, Strains::WallClock | Strains::Rate)
    }

    /// Whether commands of a node take longer.
    pub fn slows(&self) -> bool {
        matches!(self, Verb::SlowNode { .. } | Verb::SlowScript { .. })
    }

    /// Whether it is a clock step of zero.
    pub fn steps_by_nothing(&self) -> bool {
        matches!(self, Verb::ClockStep { by: 0 })
    }

    /// Whether it makes clocks run at the correct rate, whatever their previous rate was.
    pub fn makes_clocks_true(&self) -> bool {
        matches!(self, Verb::ClockRate { ppm: 0 })
    }

    /// Whether a disk reports a sync that it has not done.
    pub fn lies(&self) -> bool {
        matches!(self, Verb::LyingDisk)
    }

    /// Whether a machine loses power, and with it all data that its disk has not synced.
    pub fn cuts_power(&self) -> bool {
        matches!(self, Verb::PowerLoss)
    }
}
