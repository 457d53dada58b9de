//! One direction of a connection: the messages in flight, in order, and when each may arrive.
//!
//! It knows no link: the sender states how long a message takes and whether its way is cut.

use std::collections::VecDeque;

use lockstorm_platform::network::RETRANSMISSION;
use lockstorm_platform::time::{Nanos, SECOND};

/// The first retransmission timeout of a SYN (Linux's value).
pub const SYN_TIMEOUT: Nanos = SECOND;
/// The maximum retransmission timeout (Linux's value).
const MAX_TIMEOUT: Nanos = 120 * SECOND;

/// A direction of a connection, numbered among the connections between the same two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The number of the connection among those that the client's host has opened to the server's.
    pub nth: u32,
    /// Whether it is the direction from the server to the client.
    pub back: bool,
}

/// The address of a message for its draws, which no other fault changes. Messages that serve a
/// client's operation are counted within it. Other messages are addressed by their position in the
/// byte stream, so that it does not matter how an engine cuts the stream into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinal {
    /// The address of its draws.
    pub number: u64,
    /// Whether it opens the connection.
    pub syn: bool,
}

/// Bits of an [`Ordinal`]: addressed by stream position, towards the client, a retry.
const BY_PLACE: u64 = 1 << 58;
const BACK: u64 = 1 << 57;
const AGAIN: u64 = 1 << 56;
/// The number of stream positions with their own address; the connection's number is above it.
const PLACES: u64 = 1 << 40;
const CONNECTIONS: u64 = 1 << 16;

/// One direction of a connection: the messages in flight, in order.
///
/// A lost message arrives later (retransmission). A message that meets a closed link is held,
/// together with all that follow it, and retried with back-off after the link has opened.
pub struct Flow<T> {
    way: Way,
    under_way: VecDeque<Segment<T>>,
    last_arrival: Nanos,
    held: bool,
    tag: u32,
    /// The number of previous messages with this tag.
    counted: u64,
    /// The stream position: its bytes, and one for each SYN and FIN, as TCP counts.
    place: u64,
}

struct Segment<T> {
    sent_at: Nanos,
    arrive_at: Nanos,
    syn: bool,
    payload: T,
}

impl<T> Flow<T> {
    /// A direction in which nothing has been sent yet.
    pub fn new(way: Way) -> Flow<T> {
        let under_way = VecDeque::new();
        Flow { way, under_way, last_arrival: 0, held: false, tag: 0, counted: 0, place: 0 }
    }

    /// The address of the next message, if it serves `tag` (0: no operation) and takes `length`
    /// bytes of the stream.
    pub fn ordinal(&mut self, tag: u32, length: usize, syn: bool) -> Ordinal {
        let place = self.place;
        self.place += length as u64;
        Ordinal { number: self.number(tag, place), syn }
    }

    /// The address of the first retried message.
    pub fn ordinal_again(&mut self, tag: u32) -> Ordinal {
        Ordinal { number: self.number(tag, self.place | AGAIN), syn: false }
    }

    fn number(&mut self, tag: u32, place: u64) -> u64 {
        if self.tag != tag {
            self.tag = tag;
            self.counted = 0;
        }
        self.counted += 1;
        if tag != 0 {
            return ((self.counted - 1) << 32) | u64::from(tag);
        }
        let connection = u64::from(self.way.nth) % CONNECTIONS * PLACES;
        let back = if self.way.back { BACK } else { 0 };
        BY_PLACE | back | connection | (place & (AGAIN | (PLACES - 1)))
    }

    /// Sends a message that takes `delay`, or is held at once because the way is `cut`. Returns its
    /// arrival time; `None` if the direction is held.
    pub fn send(
        &mut self,
        payload: T,
        now: Nanos,
        delay: Nanos,
        cut: bool,
        syn: bool,
    ) -> Option<Nanos> {
        // TCP delivers in order: a message never overtakes an earlier one.
        let arrive_at = self.last_arrival.max(now.saturating_add(delay));
        self.last_arrival = arrive_at;
        let last = self.under_way.back();
        debug_assert!(
            last.is_none_or(|last| last.sent_at <= now && last.arrive_at <= arrive_at),
            "what is sent later arrives no earlier"
        );
        self.under_way.push_back(Segment { sent_at: now, arrive_at, syn, payload });
        // One message that is held also holds all that follow it: TCP delivers in order.
        self.held |= cut;
        (!self.held).then_some(arrive_at)
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The arrival time of the first message; `None` if there is none, or it is held.
    #[cfg(feature = "live")]
    pub fn next_arrival(&self) -> Option<Nanos> {
        let first = self.under_way.front().filter(|_| !self.held)?;
        Some(first.arrive_at)
    }

    /// Whether messages are held.
    pub fn is_held(&self) -> bool {
        debug_assert!(!self.held || !self.under_way.is_empty(), "a held direction has a message");
        self.held
    }

    /// Whether the first message has arrived, provided that the link is open.
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.held && self.under_way.front().is_some_and(|first| first.arrive_at <= now)
    }

    /// The first message has met a closed link. If its sender `is_dead`, it is never retransmitted.
    pub fn hold(&mut self, is_dead: bool) {
        debug_assert!(!self.under_way.is_empty(), "a held direction has a message");
        debug_assert!(!self.held, "what is held does not arrive");
        self.held = true;
        if is_dead {
            self.clear();
        }
    }

    /// The sender is dead: held messages are dropped, because they would need retransmission.
    pub fn drop_held(&mut self) {
        if self.held {
            self.clear();
        }
    }

    /// Takes the first message.
    pub fn take(&mut self) -> Option<T> {
        debug_assert!(!self.held, "what is held does not arrive");
        debug_assert!(
            self.under_way.iter().take(2).is_sorted_by_key(|segment| segment.arrive_at),
            "messages arrive in the order in which they were sent"
        );
        self.under_way.pop_front().map(|first| first.payload)
    }

    /// The link is open again: the sender's back-off decides when the first held message is
    /// retried, which then takes `latency`. Returns the arrival times of all messages.
    pub fn send_again(&mut self, now: Nanos, latency: Nanos) -> Vec<Nanos> {
        debug_assert!(self.held, "only held messages are retried");
        self.held = false;
        let first = self.under_way.front().expect("a held direction has a message");
        let timeout = if first.syn { SYN_TIMEOUT } else { RETRANSMISSION };
        let again = next_try(first.sent_at, now, timeout).saturating_add(latency);
        debug_assert!(first.sent_at <= now && now <= again, "a retry arrives later");
        for segment in &mut self.under_way {
            segment.arrive_at = segment.arrive_at.max(again);
        }
        // Messages sent from now on queue behind the retried ones.
        self.last_arrival = self.last_arrival.max(again);
        self.under_way.iter().map(|segment| segment.arrive_at).collect()
    }

    /// Drops all messages in flight.
    pub fn clear(&mut self) {
        self.under_way.clear();
        self.held = false;
    }
}

/// The first retransmission at or after `from` of a message first sent at `sent_at`: the timeout
/// doubles with each try, up to two minutes.
fn next_try(sent_at: Nanos, from: Nanos, timeout: Nanos) -> Nanos {
    let (mut at, mut wait) = (sent_at, timeout);
    while at < from {
        at = at.saturating_add(wait);
        wait = (wait * 2).min(MAX_TIMEOUT);
    }
    at
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::network::{RETRANSMISSION, max_outage_delay};
    use lockstorm_platform::time::MILLISECOND;

    use super::{Flow, Way, next_try};

    #[test]
    fn what_hosts_say_by_themselves_is_addressed_by_its_place_however_it_is_cut() {
        let last = |way, lengths: &[usize]| {
            let mut flow = Flow::<()>::new(way);
            for length in lengths {
                flow.ordinal(0, *length, false);
            }
            flow.ordinal(0, 7, false)
        };
        let way = Way { nth: 1, back: false };
        assert_eq!(last(way, &[1, 10, 5]), last(way, &[1, 15]));
        assert_ne!(last(way, &[1, 10, 5]), last(way, &[1, 10]));
        assert_ne!(last(way, &[1]), last(Way { back: true, ..way }, &[1]));
        assert_ne!(last(way, &[1]), last(Way { nth: 2, ..way }, &[1]));
    }

    #[test]
    fn what_serves_an_operation_is_counted_within_it() {
        let mut flow = Flow::<()>::new(Way::default());
        let before = [flow.ordinal(8, 3, false), flow.ordinal(8, 3, false)];
        let mut later = Flow::<()>::new(Way { nth: 5, back: false });
        later.ordinal(0, 99, false);
        assert_eq!(before, [later.ordinal(8, 4, false), later.ordinal(8, 4, false)]);
        assert_ne!(before[0], before[1]);
    }

    #[test]
    fn retransmission_doubles_its_wait() {
        let ms = |from| next_try(0, from * MILLISECOND, 200 * MILLISECOND) / MILLISECOND;
        assert_eq!([0, 1, 200, 201, 601, 1_401].map(ms), [0, 200, 200, 600, 1_400, 3_000]);
        for outage in (0..20_000).map(|ms| ms * MILLISECOND) {
            assert!(next_try(0, outage, RETRANSMISSION) <= max_outage_delay(outage));
        }
    }
}
