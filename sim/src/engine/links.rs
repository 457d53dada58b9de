//! The plan's network as every engine carries it: directed links, and how long a message takes.
//!
//! What a connection is, and who is told when it breaks, is each engine's own.

use std::collections::VecDeque;

use crate::engine::state::State;
use crate::network::{Latency, MOST_LOST_TRIES, RETRANSMISSION};
use crate::rng::{Draws, Purpose, below};
use crate::time::{MICROSECOND, Nanos, SECOND};
use crate::trace::{Happening, HostId};

/// The least time that a message takes: without it a loop of two hosts could stop time.
const LEAST_LATENCY: Nanos = MICROSECOND;
/// First retransmission time-out of a SYN, and the longest of all (Linux's figures).
const SYN_TIMEOUT: Nanos = SECOND;
const LONGEST_TIMEOUT: Nanos = 120 * SECOND;

/// What faults add to a link, as a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Nanoseconds added to each message.
    pub extra: i64,
    /// Nanoseconds of which up to so many are added to each message.
    pub jitter: i64,
    /// Lost tries in a million.
    pub loss_per_million: i64,
}

/// A directed link between two hosts.
pub struct Link {
    /// How long a message takes where nothing disturbs it.
    pub latency: Latency,
    /// How many faults cut it.
    pub blocked: u32,
    disturbance: Disturbance,
    draws: Option<Box<(Draws, Draws)>>,
    untagged: u64,
}

impl Link {
    fn new(latency: Latency) -> Link {
        let disturbance = Disturbance::default();
        Link { latency, blocked: 0, disturbance, draws: None, untagged: 0 }
    }

    /// Changes what faults add.
    pub fn disturb(&mut self, change: Disturbance) {
        self.disturbance.extra += change.extra;
        self.disturbance.jitter += change.jitter;
        self.disturbance.loss_per_million += change.loss_per_million;
    }

    fn needs_draw(&self) -> bool {
        self.latency.constant().is_none()
            || self.disturbance.jitter > 0
            || self.disturbance.loss_per_million > 0
    }
}

/// The links between all hosts.
pub struct Links {
    latency: Latency,
    links: Vec<Vec<Link>>,
}

impl Links {
    /// No links yet; new ones have this latency.
    pub fn new(latency: Latency) -> Links {
        Links { latency, links: Vec::new() }
    }

    /// Connects one more host with all the others.
    pub fn add_host(&mut self) {
        self.links.push(Vec::new());
        let hosts = self.links.len();
        for row in &mut self.links {
            row.resize_with(hosts, || Link::new(self.latency));
        }
    }

    /// The link from one host to another.
    pub fn link(&mut self, from: HostId, to: HostId) -> &mut Link {
        &mut self.links[usize::from(from.0)][usize::from(to.0)]
    }
}

/// Which message of a connection's direction this is: an address for its draws that no other
/// fault moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinal {
    /// The operation and attempt that it serves, or 0.
    pub tag: u32,
    /// How many went the same way under the same tag before.
    pub counted: u64,
    /// Whether it opens the connection.
    pub syn: bool,
}

/// One direction of a connection: what is under way, in order.
///
/// What is lost comes later (retransmission); what meets a closed link is held, with all that
/// follows it, and tried again with back-off after the link has opened.
pub struct Flow<T> {
    under_way: VecDeque<Segment<T>>,
    last_arrival: Nanos,
    held: bool,
    tag: u32,
    counted: u64,
}

struct Segment<T> {
    sent_at: Nanos,
    arrive_at: Nanos,
    syn: bool,
    payload: T,
}

impl<T> Default for Flow<T> {
    fn default() -> Flow<T> {
        Flow { under_way: VecDeque::new(), last_arrival: 0, held: false, tag: 0, counted: 0 }
    }
}

impl<T> Flow<T> {
    /// Which of its direction the next message is, if it serves `tag`.
    pub fn ordinal(&mut self, tag: u32, syn: bool) -> Ordinal {
        if self.tag != tag {
            self.tag = tag;
            self.counted = 0;
        }
        self.counted += 1;
        Ordinal { tag, counted: self.counted - 1, syn }
    }

    /// Sends something that takes `delay`, or is held at once because the way is `cut`. When it
    /// may arrive; `None` if the direction is held.
    pub fn send(
        &mut self,
        payload: T,
        now: Nanos,
        delay: Nanos,
        cut: bool,
        syn: bool,
    ) -> Option<Nanos> {
        let arrive_at = self.last_arrival.max(now.saturating_add(delay));
        self.last_arrival = arrive_at;
        self.under_way.push_back(Segment { sent_at: now, arrive_at, syn, payload });
        self.held |= cut;
        (!self.held).then_some(arrive_at)
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// When the first message may arrive; `None` if there is none, or it is held.
    pub fn next_arrival(&self) -> Option<Nanos> {
        let first = self.under_way.front().filter(|_| !self.held)?;
        Some(first.arrive_at)
    }

    /// Whether something is held.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Whether the first message has arrived, if nothing bars its way.
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.held && self.under_way.front().is_some_and(|first| first.arrive_at <= now)
    }

    /// The first message has met a closed link.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Takes the first message out.
    pub fn take(&mut self) -> Option<T> {
        self.under_way.pop_front().map(|first| first.payload)
    }

    /// The way is open again: the sender's back-off decides when the first that was held is tried
    /// again, and takes `latency`. When each may arrive.
    pub fn send_again(&mut self, now: Nanos, latency: Nanos) -> Vec<Nanos> {
        self.held = false;
        let first = self.under_way.front().expect("a held direction has a message");
        let timeout = if first.syn { SYN_TIMEOUT } else { RETRANSMISSION };
        let again = next_try(first.sent_at, now, timeout).saturating_add(latency);
        for segment in &mut self.under_way {
            segment.arrive_at = segment.arrive_at.max(again);
        }
        self.last_arrival = self.last_arrival.max(again);
        self.under_way.iter().map(|segment| segment.arrive_at).collect()
    }

    /// Forgets what is under way.
    pub fn clear(&mut self) {
        self.under_way.clear();
        self.held = false;
    }
}

impl State {
    /// Whether nothing can arrive.
    pub fn is_barred(&mut self, (from, to): (HostId, HostId)) -> bool {
        self.links.link(from, to).blocked > 0 || self.machine(to).is_silent()
    }

    /// Whether nothing can be sent and arrive: who sleeps sends nothing, but what has left him
    /// before goes on.
    pub fn is_cut(&mut self, hosts: (HostId, HostId)) -> bool {
        self.machine(hosts.0).suspended > 0 || self.is_barred(hosts)
    }

    /// Whether a message passes at once: nothing bars its way, and nothing makes it late.
    pub fn is_calm(&mut self, hosts: (HostId, HostId)) -> bool {
        let link = self.links.link(hosts.0, hosts.1);
        let at_once =
            link.latency.constant() == Some(0) && !link.needs_draw() && link.disturbance.extra <= 0;
        at_once && !self.is_cut(hosts)
    }

    /// How long a message takes that is sent now, on whole grains of the engine's time.
    pub fn delay(&mut self, hosts: (HostId, HostId), ordinal: Ordinal) -> Nanos {
        let link = self.links.link(hosts.0, hosts.1);
        let extra = link.disturbance.extra.max(0).unsigned_abs();
        let latency = match link.latency.constant() {
            Some(latency) if !link.needs_draw() => latency,
            _ => self.drawn_latency(hosts, ordinal),
        };
        let delay = latency.saturating_add(extra).max(LEAST_LATENCY);
        self.on_grain(delay)
    }

    fn drawn_latency(&mut self, hosts: (HostId, HostId), ordinal: Ordinal) -> Nanos {
        let timeout = if ordinal.syn { SYN_TIMEOUT } else { RETRANSMISSION };
        let State { links, names, chance, .. } = self;
        let link = links.link(hosts.0, hosts.1);
        let ordinal = if ordinal.tag == 0 {
            link.untagged += 1;
            (1 << 56) | link.untagged
        } else {
            (u64::from(ordinal.tag) << 16) | ordinal.counted
        };
        let draws = link.draws.get_or_insert_with(|| {
            let entity = format!("{}>{}", names.name(hosts.0), names.name(hosts.1));
            let draws = |purpose| chance.draws(purpose, &entity);
            Box::new((draws(Purpose::Latency), draws(Purpose::Loss)))
        });
        let draw = draws.0.at(ordinal * 2);
        let mut latency = link.latency.of(draw);
        let jitter = link.disturbance.jitter.max(0).unsigned_abs();
        if jitter > 0 {
            latency = latency.saturating_add(below(draws.0.at(ordinal * 2 + 1), jitter));
        }
        let loss = link.disturbance.loss_per_million.max(0).unsigned_abs();
        let mut lost = 0;
        while loss > 0 && lost < MOST_LOST_TRIES {
            let try_draw = draws.1.at(ordinal * 8 + u64::from(lost));
            if below(try_draw, 1_000_000) >= loss {
                break;
            }
            lost += 1;
        }
        let low = u32::try_from(ordinal & u64::from(u32::MAX)).expect("masked to 32 bits");
        self.happen(Happening::Draw, u32::from(hosts.0.0), low, &draw.to_le_bytes());
        latency.saturating_add(timeout * ((1 << lost) - 1))
    }
}

/// The first retransmission at or after `from` of something first sent at `sent_at`: the
/// time-out doubles with each try up to two minutes.
fn next_try(sent_at: Nanos, from: Nanos, timeout: Nanos) -> Nanos {
    let (mut at, mut wait) = (sent_at, timeout);
    while at < from {
        at = at.saturating_add(wait);
        wait = (wait * 2).min(LONGEST_TIMEOUT);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::next_try;
    use crate::network::{RETRANSMISSION, longest_wait};
    use crate::time::MILLISECOND;

    #[test]
    fn retransmission_doubles_its_wait() {
        let ms = |from| next_try(0, from * MILLISECOND, 200 * MILLISECOND) / MILLISECOND;
        assert_eq!([0, 1, 200, 201, 601, 1_401].map(ms), [0, 200, 200, 600, 1_400, 3_000]);
        for outage in (0..20_000).map(|ms| ms * MILLISECOND) {
            assert!(next_try(0, outage, RETRANSMISSION) <= longest_wait(outage));
        }
    }
}
