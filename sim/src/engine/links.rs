//! The plan's network as every engine carries it: directed links, and how long a message takes.
//!
//! What a connection is, and who is told when it breaks, is each engine's own.

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
        let timeout = first_timeout(ordinal.syn);
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

/// How long the sender waits before it tries a first time again.
pub fn first_timeout(syn: bool) -> Nanos {
    if syn { SYN_TIMEOUT } else { RETRANSMISSION }
}

/// The first retransmission at or after `from` of something first sent at `sent_at`: the
/// time-out doubles with each try up to two minutes.
pub fn next_try(sent_at: Nanos, from: Nanos, timeout: Nanos) -> Nanos {
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
