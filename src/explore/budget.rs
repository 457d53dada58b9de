//! The time budget of a piece of work: a search, shrinking, the explanation of one violation. The
//! caller provides the clock: no world knows it. Whatever is skipped is reported.

use std::sync::Mutex;
use std::time::Duration;

use crate::explain::experiment::Cut;

/// How long a piece of work may take in real time.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The length.
    pub length: Duration,
    /// The time since some fixed moment.
    pub clock: fn() -> Duration,
    /// Receives the name of each piece of work that begins.
    pub report: fn(&str),
    /// Whether the user has stopped the work: then the clock is past every end.
    pub is_stopped: fn() -> bool,
}

/// A running budget, and what was skipped because it was used up.
pub struct Spending {
    ends: Option<(Duration, fn() -> Duration)>,
    report: fn(&str),
    is_stopped: fn() -> bool,
    undone: Mutex<Vec<String>>,
}

impl Spending {
    /// Starts now. Without a budget everything is done, however long it takes.
    pub fn of(budget: Option<Budget>) -> Spending {
        let ends = budget.map(|budget| (budget.clock)().saturating_add(budget.length));
        Spending {
            ends: ends.zip(budget.map(|budget| budget.clock)),
            report: budget.map_or(|_| {}, |budget| budget.report),
            is_stopped: budget.map_or(|| false, |budget| budget.is_stopped),
            undone: Mutex::default(),
        }
    }

    /// Reports what begins.
    pub fn begin(&self, name: &str) {
        (self.report)(name);
    }

    /// Does a piece of the work, unless the budget is used up: then it is recorded as skipped.
    pub fn within<T>(&self, name: &str, work: impl FnOnce() -> T) -> Option<T> {
        if self.is_used_up() {
            self.skip(name);
            return None;
        }
        self.begin(name);
        Some(work())
    }

    /// Whether the budget is used up.
    pub fn is_used_up(&self) -> bool {
        self.ends.is_some_and(|(end, clock)| clock() >= end)
    }

    /// Whether and why nothing more is to be done.
    pub fn cut(&self) -> Option<Cut> {
        let why = if (self.is_stopped)() { Cut::Stopped } else { Cut::Budget };
        self.is_used_up().then_some(why)
    }

    /// Records a piece of the work as skipped.
    pub fn skip(&self, name: &str) {
        self.undone.lock().expect("nobody panics with it").push(name.to_owned());
    }

    /// What was skipped, in alphabetical order.
    pub fn undone(self) -> Vec<String> {
        let mut undone = self.undone.into_inner().expect("nobody panics with it");
        undone.sort_unstable();
        undone
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Budget, Spending};
    use crate::explain::experiment::Cut;

    #[test]
    fn what_comes_after_the_end_is_left_out_and_named() {
        let still = Budget {
            length: Duration::from_secs(1),
            clock: || Duration::ZERO,
            report: |_| {},
            is_stopped: || false,
        };
        let over = Budget { length: Duration::ZERO, ..still };
        for (budget, done) in [(None, true), (Some(still), true), (Some(over), false)] {
            let spending = Spending::of(budget);
            assert_eq!(spending.within("the threshold of lock.ttl", || 7), done.then_some(7));
            assert_eq!(spending.cut(), (!done).then_some(Cut::Budget));
            assert_eq!(spending.undone().is_empty(), done);
        }
        let stopped = Budget { is_stopped: || true, ..over };
        assert_eq!(Spending::of(Some(stopped)).cut(), Some(Cut::Stopped));
    }
}
