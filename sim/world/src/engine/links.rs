//! The plan's network for every engine: directed links between hosts, and what faults add to each.
//!
//! Connections, and how their ends notice a break, are each engine's own.

use lockstorm_platform::network::{Latency, MAX_LOST_TRIES, RETRANSMISSION};
use lockstorm_platform::rng::{Chance, Draws, Purpose, below};
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::HostId;

use crate::engine::counters::LinkCounters;
use crate::engine::flow::{Ordinal, SYN_TIMEOUT, Way};

/// What faults add to a link, as a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disturbance {
    /// Nanoseconds added to each message.
    pub(crate) extra: i64,
    /// Maximum nanoseconds of a random addition to each message.
    pub(crate) jitter: i64,
}

/// A fault that loses tries. Its end is known as it begins: a message that is sent before the end
/// may be retransmitted after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LossFault {
    /// The number of the fault.
    pub(crate) id: u32,
    /// Lost tries per million.
    pub(crate) per_million: u32,
    /// When it is over.
    pub(crate) until: Nanos,
}

/// A directed link between two hosts.
pub(crate) struct Link {
    /// The latency of an undisturbed message.
    pub(crate) latency: Latency,
    /// The number of faults that cut it.
    pub(crate) blocked: u32,
    /// What faults met on it.
    pub(crate) counters: LinkCounters,
    /// Lost tries per million without any fault.
    pub(crate) loss_per_million: u64,
    disturbance: Disturbance,
    /// The active faults that lose tries.
    losses: Vec<LossFault>,
    draws: Option<Box<(Draws, Draws)>>,
    /// The number of connections opened along it.
    dialled: u32,
}

impl Link {
    fn new(latency: Latency) -> Link {
        let disturbance = Disturbance::default();
        let counters = LinkCounters::default();
        Link {
            latency,
            blocked: 0,
            counters,
            loss_per_million: 0,
            disturbance,
            losses: Vec::new(),
            draws: None,
            dialled: 0,
        }
    }

    /// The two directions of a new connection along this link: to the server, and back.
    pub(crate) fn dial(&mut self) -> [Way; 2] {
        self.dialled += 1;
        [false, true].map(|back| Way { nth: self.dialled, back })
    }

    /// Adds one cut to the link, or removes one. Returns whether the link is now open.
    pub(crate) fn block(&mut self, blocked: bool) -> bool {
        if blocked {
            self.blocked += 1;
        } else {
            debug_assert!(self.blocked > 0, "a link is opened only as often as it was closed");
            self.blocked -= 1;
        }
        self.blocked == 0
    }

    /// Changes what faults add.
    pub(crate) fn disturb(&mut self, change: Disturbance) {
        self.disturbance.extra += change.extra;
        self.disturbance.jitter += change.jitter;
        let Disturbance { extra, jitter } = self.disturbance;
        debug_assert!(extra >= 0 && jitter >= 0, "a fault removes only what it has added");
    }

    /// Adds a fault that loses tries, or removes it.
    pub(crate) fn lose(&mut self, loss: LossFault, begin: bool) {
        if begin {
            self.losses.push(loss);
        } else {
            self.losses.retain(|own| own.id != loss.id);
        }
    }

    /// Whether the delay of a message needs a draw.
    pub(crate) fn needs_draw(&self) -> bool {
        self.latency.constant().is_none()
            || self.disturbance.jitter > 0
            || !self.losses.is_empty()
            || self.loss_per_million > 0
    }

    /// Whether it delays no message.
    #[cfg(feature = "live")]
    pub(crate) fn is_immediate(&self) -> bool {
        self.latency.constant() == Some(0) && !self.needs_draw() && self.disturbance.extra <= 0
    }

    /// The fixed delay that faults currently add to each message, in nanoseconds.
    pub(crate) fn extra(&self) -> Nanos {
        self.disturbance.extra.max(0).unsigned_abs()
    }

    /// The drawn delay of a message sent `now`, including retransmissions of lost tries, and the
    /// draw of its latency. `hosts` are the names of the link's ends.
    pub(crate) fn drawn_latency(
        &mut self,
        chance: &Chance,
        hosts: (&str, &str),
        ordinal: Ordinal,
        now: Nanos,
    ) -> (Nanos, u64) {
        let timeout = if ordinal.syn { SYN_TIMEOUT } else { RETRANSMISSION };
        let ordinal = ordinal.number;
        let (latency_draws, loss_draws) = &mut **self.draws.get_or_insert_with(|| {
            let entity = format!("{}>{}", hosts.0, hosts.1);
            let draws = |purpose| chance.draws(purpose, &entity);
            Box::new((draws(Purpose::Latency), draws(Purpose::Loss)))
        });
        // Each message has its own addresses for two latency draws and eight loss draws, so that
        // jitter or loss on one message changes no draw of another.
        let draw = latency_draws.at(ordinal * 2);
        let mut latency = self.latency.of(draw);
        let jitter = self.disturbance.jitter.max(0).unsigned_abs();
        if jitter > 0 {
            let added = below(latency_draws.at(ordinal * 2 + 1), jitter);
            self.counters.jittered += u64::from(added > 0);
            latency = latency.saturating_add(added);
        }
        let own_loss = self.loss_per_million;
        let (mut lost, mut waited) = (0, 0);
        while lost < MAX_LOST_TRIES {
            // A retransmission is lost only by faults that still last by then.
            let loss = own_loss + lost_by(&self.losses, now.saturating_add(waited));
            if loss == 0 {
                break;
            }
            let place = below(loss_draws.at(ordinal * 8 + u64::from(lost)), 1_000_000);
            if place >= loss {
                break;
            }
            // Tries below the link's own share would have been lost without the fault too.
            let by_fault = place >= own_loss;
            self.counters.lost += u64::from(by_fault);
            self.counters.lost_anyway += u64::from(!by_fault);
            lost += 1;
            waited = timeout * ((1 << lost) - 1);
        }
        (latency.saturating_add(waited), draw)
    }
}

/// The tries per million that faults lose at a time.
fn lost_by(losses: &[LossFault], at: Nanos) -> u64 {
    let active = losses.iter().filter(|loss| at < loss.until);
    active.map(|loss| u64::from(loss.per_million)).sum()
}

/// The links between all hosts.
pub(crate) struct Links {
    latency: Latency,
    links: Vec<Vec<Link>>,
}

impl Links {
    /// No links yet; new ones have this latency.
    pub(crate) fn new(latency: Latency) -> Links {
        Links { latency, links: Vec::new() }
    }

    /// Connects a new host to all the others.
    pub(crate) fn add_host(&mut self) {
        self.links.push(Vec::new());
        let hosts = self.links.len();
        for row in &mut self.links {
            row.resize_with(hosts, || Link::new(self.latency));
        }
    }

    /// The counters of each.
    pub(crate) fn counters(&self) -> impl Iterator<Item = LinkCounters> {
        self.links.iter().flatten().map(|link| link.counters)
    }

    /// Whether no fault is active on any link.
    pub(crate) fn are_undisturbed(&self) -> bool {
        let mut links = self.links.iter().flatten();
        links.all(|link| {
            link.blocked == 0
                && link.losses.is_empty()
                && link.disturbance == Disturbance::default()
        })
    }

    /// The link from one host to another.
    pub(crate) fn link(&mut self, from: HostId, to: HostId) -> &mut Link {
        &mut self.links[usize::from(from.0)][usize::from(to.0)]
    }
}
