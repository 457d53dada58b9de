//! Whether a message passes from one machine to another, and how long it takes, given their links
//! and states. For every engine.

use lockstorm_platform::time::{MICROSECOND, Nanos};
use lockstorm_platform::trace::{Happening, HostId};

use crate::engine::flow::Ordinal;
use crate::engine::state::State;

/// The minimum delay of a message: without it, a message loop between two hosts could stop time.
const MIN_LATENCY: Nanos = MICROSECOND;

impl State {
    /// Whether no message can arrive now.
    pub(crate) fn is_barred(&mut self, (from, to): (HostId, HostId)) -> bool {
        self.links.link(from, to).blocked > 0 || self.machine(to).is_silent()
    }

    /// Whether no new message can pass. A suspended machine sends nothing, but its messages in
    /// flight still arrive.
    pub(crate) fn is_cut(&mut self, hosts: (HostId, HostId)) -> bool {
        self.machine(hosts.0).suspended > 0 || self.is_barred(hosts)
    }

    /// Whether a message passes at once: nothing blocks or delays it.
    #[cfg(feature = "live")]
    pub(crate) fn is_calm(&mut self, hosts: (HostId, HostId)) -> bool {
        self.links.link(hosts.0, hosts.1).is_immediate() && !self.is_cut(hosts)
    }

    /// The delay of a message sent now, in whole grains of the engine's time.
    pub(crate) fn delay(&mut self, hosts: (HostId, HostId), ordinal: Ordinal) -> Nanos {
        let link = self.links.link(hosts.0, hosts.1);
        let extra = link.extra();
        link.counters.delayed += u64::from(extra > 0);
        let latency = match link.latency.constant() {
            Some(latency) if !link.needs_draw() => latency,
            _ => self.drawn_latency(hosts, ordinal),
        };
        let delay = latency.saturating_add(extra).max(MIN_LATENCY);
        self.on_grain(delay)
    }

    fn drawn_latency(&mut self, hosts: (HostId, HostId), ordinal: Ordinal) -> Nanos {
        let State { links, names, chance, now, .. } = self;
        let ends = (names.name(hosts.0), names.name(hosts.1));
        let link = links.link(hosts.0, hosts.1);
        let (latency, draw) = link.drawn_latency(chance, ends, ordinal, *now);
        let low = u32::try_from(ordinal.number & u64::from(u32::MAX)).expect("masked to 32 bits");
        self.happen(Happening::Draw, u32::from(hosts.0.0), low, &draw.to_le_bytes());
        latency
    }

    /// Counts a message that met a closed way: a cut link, or a suspended machine.
    pub(crate) fn count_held(&mut self, (from, to): (HostId, HostId)) {
        let link = self.links.link(from, to);
        link.counters.held += u64::from(link.blocked > 0);
        for host in [from, to] {
            let machine = self.machine(host);
            machine.counters.waited += u64::from(machine.suspended > 0);
        }
    }
}
