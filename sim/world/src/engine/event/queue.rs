//! The queue of events: by time, then by insertion.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use lockstorm_platform::time::Nanos;

/// Something that happens at a known time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The first segments in flight to this side of a connection may have arrived.
    Arrival { connection: u32, side: u8 },
    /// A timer fires, if its generation is unchanged.
    Timer { slot: u32, generation: u32 },
    /// A fault strikes.
    Strike(u32),
    /// The world is called.
    Call(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queued {
    at: Nanos,
    order: u64,
    due: Due,
}

impl Ord for Queued {
    /// The earliest is the greatest, because `BinaryHeap` returns the greatest first.
    fn cmp(&self, other: &Queued) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Future events.
#[derive(Default)]
pub struct Queue {
    heap: BinaryHeap<Queued>,
    order: u64,
}

impl Queue {
    /// Inserts an event.
    pub fn push(&mut self, at: Nanos, due: Due) {
        self.order += 1;
        self.heap.push(Queued { at, order: self.order, due });
    }

    /// Removes and returns the first event if it is due at `now`.
    pub fn pop_due(&mut self, now: Nanos) -> Option<Due> {
        if self.heap.peek()?.at > now {
            return None;
        }
        self.heap.pop().map(|queued| {
            debug_assert!(
                self.heap.peek().is_none_or(|next| *next < queued),
                "events come by time, then in the order of insertion"
            );
            queued.due
        })
    }

    /// The first event and its time.
    pub fn first(&self) -> Option<(Nanos, Due)> {
        self.heap.peek().map(|queued| (queued.at, queued.due))
    }

    /// Removes the first event.
    pub fn discard_first(&mut self) {
        self.heap.pop();
    }

    /// Keeps only the events that `keep` selects.
    pub fn retain(&mut self, keep: impl Fn(Due) -> bool) {
        self.heap.retain(|queued| keep(queued.due));
    }

    /// Removes all events.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, Queue};

    #[test]
    fn events_come_by_time_and_then_in_order_of_entry() {
        let mut queue = Queue::default();
        for (at, call) in [(5, 1), (3, 2), (5, 3), (3, 4)] {
            queue.push(at, Due::Call(call));
        }
        assert_eq!(queue.pop_due(2), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_due(5)).collect();
        assert_eq!(order, [2, 4, 1, 3].map(Due::Call));
    }
}
