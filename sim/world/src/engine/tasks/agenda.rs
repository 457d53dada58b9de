//! The agenda of the world: strikes and ends of faults, by their times.

use std::collections::BTreeMap;

use lockstorm_platform::time::Nanos;

use crate::engine::interface::Stop;

/// Ordered by time, then by insertion.
#[derive(Default)]
pub struct Agenda {
    entries: BTreeMap<(Nanos, u64), Stop>,
    count: u64,
}

impl Agenda {
    /// Makes [`Agenda::pop_due`] return `stop` at a time.
    pub fn push(&mut self, at: Nanos, stop: Stop) {
        self.count += 1;
        self.entries.insert((at, self.count), stop);
    }

    /// The first entry, if it is due.
    pub fn pop_due(&mut self, now: Nanos) -> Option<Stop> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the first entry is due.
    pub fn next_at(&self) -> Option<Nanos> {
        self.entries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Cancels scheduled strikes.
    pub fn forget_strikes(&mut self) {
        self.entries.retain(|_, stop| !matches!(stop, Stop::Strike(_)));
    }
}
