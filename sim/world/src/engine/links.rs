//! The plan's network model, shared by every engine: directed links and message latency.
//!
//! Connections, and how their ends are notified when they break, are up to each engine.

use std::collections::VecDeque;

use lockstorm_platform::network::{Latency, MOST_LOST_TRIES, RETRANSMISSION};
use lockstorm_platform::rng::{Draws, Purpose, below};
use lockstorm_platform::time::{MICROSECOND, Nanos, SECOND};
use lockstorm_platform::trace::{Happening, HostId};

use crate::engine::met::LinkMet;
use crate::engine::state::State;

/// The minimum latency of a message: without it a loop of two hosts could stop time.
const LEAST_LATENCY: Nanos = MICROSECOND;
/// The first retransmission timeout of a SYN, and the maximum of any timeout (Linux's values).
const SYN_TIMEOUT: Nanos = SECOND;
const LONGEST_TIMEOUT: Nanos = 120 * SECOND;

/// What faults add to a link, as a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Nanoseconds added to each message.
    pub extra: i64,
    /// Maximum nanoseconds of a random addition to each message.
    pub jitter: i64,
    /// Lost tries per million.
    pub loss_per_million: i64,
}

/// A directed link between two hosts.
pub struct Link {
    /// The latency of an undisturbed message.
    pub latency: Latency,
    /// The number of faults that cut it.
    pub blocked: u32,
    /// What faults met on it.
    pub met: LinkMet,
    /// Lost tries per million without any fault.
    pub loss_per_million: u64,
    disturbance: Disturbance,
    draws: Option<Box<(Draws, Draws)>>,
    /// The number of connections dialled along it.
    dialled: u32,
}

impl Link {
    fn new(latency: Latency) -> Link {
        let disturbance = Disturbance::default();
        let met = LinkMet::default();
        Link { latency, blocked: 0, met, loss_per_million: 0, disturbance, draws: None, dialled: 0 }
    }

    /// The two directions of a new connection along this link: to the server, and back.
    pub fn dial(&mut self) -> [Way; 2] {
        self.dialled += 1;
        [false, true].map(|back| Way { nth: self.dialled, back })
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
            || self.loss_per_million > 0
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

    /// Connects a new host to all the others.
    pub fn add_host(&mut self) {
        self.links.push(Vec::new());
        let hosts = self.links.len();
        for row in &mut self.links {
            row.resize_with(hosts, || Link::new(self.latency));
        }
    }

    /// What faults met on each link.
    pub fn met(&self) -> impl Iterator<Item = LinkMet> {
        self.links.iter().flatten().map(|link| link.met)
    }

    /// The link from one host to another.
    pub fn link(&mut self, from: HostId, to: HostId) -> &mut Link {
        &mut self.links[usize::from(from.0)][usize::from(to.0)]
    }
}

/// A direction of a connection, numbered among the connections between the same two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The number of the connection among those that the same client host opened to this server
    /// host.
    pub nth: u32,
    /// Whether it leads back to the client.
    pub back: bool,
}

/// The address of a message for its draws, which no other fault changes. Messages that serve a
/// client's operation are counted within it. Other messages are addressed by their position in the
/// byte stream, so that it does not matter how an engine cuts the stream into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinal {
    number: u64,
    /// Whether it opens the connection.
    syn: bool,
}

/// Bits of an [`Ordinal`]: addressed by position, towards the client, retransmitted.
const BY_PLACE: u64 = 1 << 58;
const BACK: u64 = 1 << 57;
const AGAIN: u64 = 1 << 56;
/// The number of distinct byte positions in a stream, and of connections between two hosts.
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
            return (u64::from(tag) << 16) | (self.counted - 1);
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
        let arrive_at = self.last_arrival.max(now.saturating_add(delay));
        self.last_arrival = arrive_at;
        self.under_way.push_back(Segment { sent_at: now, arrive_at, syn, payload });
        self.held |= cut;
        (!self.held).then_some(arrive_at)
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The arrival time of the first message; `None` if there is none, or it is held.
    pub fn next_arrival(&self) -> Option<Nanos> {
        let first = self.under_way.front().filter(|_| !self.held)?;
        Some(first.arrive_at)
    }

    /// Whether messages are held.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Whether the first message has arrived, provided that the link is open.
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.held && self.under_way.front().is_some_and(|first| first.arrive_at <= now)
    }

    /// The first message has met a closed link. If its sender `is_dead`, it is never retransmitted.
    pub fn hold(&mut self, is_dead: bool) {
        self.held = true;
        if is_dead {
            self.clear();
        }
    }

    /// The sender is dead: held messages are dropped, because they would need retransmission.
    pub fn die(&mut self) {
        if self.held {
            self.clear();
        }
    }

    /// Takes the first message.
    pub fn take(&mut self) -> Option<T> {
        self.under_way.pop_front().map(|first| first.payload)
    }

    /// The link is open again: the sender's back-off decides when the first held message is
    /// retried, which then takes `latency`. Returns the arrival times of all messages.
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

    /// Drops all messages in flight.
    pub fn clear(&mut self) {
        self.under_way.clear();
        self.held = false;
    }
}

impl State {
    /// Whether no message can arrive.
    pub fn is_barred(&mut self, (from, to): (HostId, HostId)) -> bool {
        self.links.link(from, to).blocked > 0 || self.machine(to).is_silent()
    }

    /// Whether no message can be sent and arrive. A suspended host sends nothing, but its messages
    /// in flight continue.
    pub fn is_cut(&mut self, hosts: (HostId, HostId)) -> bool {
        self.machine(hosts.0).suspended > 0 || self.is_barred(hosts)
    }

    /// Whether a message passes at once: nothing blocks or delays it.
    pub fn is_calm(&mut self, hosts: (HostId, HostId)) -> bool {
        let link = self.links.link(hosts.0, hosts.1);
        let at_once =
            link.latency.constant() == Some(0) && !link.needs_draw() && link.disturbance.extra <= 0;
        at_once && !self.is_cut(hosts)
    }

    /// The delay of a message sent now, in whole grains of the engine's time.
    pub fn delay(&mut self, hosts: (HostId, HostId), ordinal: Ordinal) -> Nanos {
        let link = self.links.link(hosts.0, hosts.1);
        let extra = link.disturbance.extra.max(0).unsigned_abs();
        link.met.delayed += u64::from(extra > 0);
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
        let ordinal = ordinal.number;
        let draws = link.draws.get_or_insert_with(|| {
            let entity = format!("{}>{}", names.name(hosts.0), names.name(hosts.1));
            let draws = |purpose| chance.draws(purpose, &entity);
            Box::new((draws(Purpose::Latency), draws(Purpose::Loss)))
        });
        let draw = draws.0.at(ordinal * 2);
        let mut latency = link.latency.of(draw);
        let jitter = link.disturbance.jitter.max(0).unsigned_abs();
        if jitter > 0 {
            let added = below(draws.0.at(ordinal * 2 + 1), jitter);
            link.met.jittered += u64::from(added > 0);
            latency = latency.saturating_add(added);
        }
        let own_loss = link.loss_per_million;
        let loss = link.disturbance.loss_per_million.max(0).unsigned_abs() + own_loss;
        let mut lost = 0;
        while loss > 0 && lost < MOST_LOST_TRIES {
            let try_draw = draws.1.at(ordinal * 8 + u64::from(lost));
            let place = below(try_draw, 1_000_000);
            if place >= loss {
                break;
            }
            let by_fault = place >= own_loss;
            link.met.lost += u64::from(by_fault);
            link.met.lost_anyway += u64::from(!by_fault);
            lost += 1;
        }
        let low = u32::try_from(ordinal & u64::from(u32::MAX)).expect("masked to 32 bits");
        self.happen(Happening::Draw, u32::from(hosts.0.0), low, &draw.to_le_bytes());
        latency.saturating_add(timeout * ((1 << lost) - 1))
    }
}

/// The first retransmission at or after `from` of a message first sent at `sent_at`: the timeout
/// doubles with each try, up to two minutes.
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
    use lockstorm_platform::network::{RETRANSMISSION, longest_wait};
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
            assert!(next_try(0, outage, RETRANSMISSION) <= longest_wait(outage));
        }
    }
}
