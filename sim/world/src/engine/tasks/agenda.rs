//! What the world is to be called back for: strikes and ends of faults, by their times.

use std::collections::BTreeMap;

use lockstorm_platform::time::Nanos;

use crate::engine::interface::Stop;

/// By time, then in the order in which they were put in.
#[derive(Default)]
pub struct Agenda {
    entries: BTreeMap<(Nanos, u64), Stop>,
    count: u64,
}

impl Agenda {
    /// Has [`Agenda::pop_due`] give `stop` at a time.
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

    /// Strikes that are still to come do not come.
    pub fn forget_strikes(&mut self) {
        self.entries.retain(|_, stop| !matches!(stop, Stop::Strike(_)));
    }
}
