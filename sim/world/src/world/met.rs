//! What a fault met: the number of messages, tasks, commands, writes or keys it touched.
//!
//! Engines count where a fault acts ([`crate::engine::counters`]); the difference of the counts at
//! its strike and at its end is what it met. For an operator's commands the trace has the effects.
//! If two faults of a verb overlap on a target, both met whatever occurred during both.

use lockstorm_platform::fault::{Fault, Target, Verb};
use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{Entry, Event, HostId, KeyChange, Origin, Trace};

use crate::engine::counters::LinkCounters;
use crate::engine::state::State;
use crate::world::machines::{Machines, OPERATOR_ADDRESS};
use crate::world::remains::Missed;

/// When it is known what a fault met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// At once: it acts at one instant.
    AtOnce,
    /// When it ends.
    AtItsEnd,
    /// At the heal: a stepped clock stays stepped.
    AtTheHeal,
    /// From the trace, after the reply to the operator's command.
    FromTheTrace,
}

impl Known {
    pub fn of(verb: &Verb) -> Known {
        match verb {
            Verb::CutReply | Verb::Reset | Verb::Restart => Known::AtOnce,
            Verb::ClockStep { .. } => Known::AtTheHeal,
            Verb::Failover | Verb::Evict { .. } | Verb::Flush => Known::FromTheTrace,
            Verb::Partition
            | Verb::Delay { .. }
            | Verb::Jitter { .. }
            | Verb::Loss { .. }
            | Verb::Pause
            | Verb::Suspend
            | Verb::Crash
            | Verb::PowerLoss
            | Verb::ClockRate { .. }
            | Verb::ClockFreeze
            | Verb::SlowNode { .. }
            | Verb::SlowScript { .. }
            | Verb::ReplicaLag { .. }
            | Verb::LyingDisk
            | Verb::TearingDisk
            | Verb::FullDisk => Known::AtItsEnd,
        }
    }
}

impl Machines {
    /// The number of messages lost or cut on all links, if the engine counts them.
    pub fn missed(&self) -> Option<Missed> {
        let state = &*self.engine.state();
        let sum = |sum: Missed, link: LinkCounters| Missed {
            lost: sum.lost + link.lost + link.lost_anyway,
            cut: sum.cut + link.held,
        };
        let missed = state.links.counters().fold(Missed::default(), sum);
        self.engine.counts_faults().then_some(missed)
    }

    /// What faults of this verb have met on this target since the world began.
    pub fn met_by(&self, fault: &Fault) -> u64 {
        let state = &mut *self.engine.state();
        match &fault.target {
            Target::Host(name) => self.on_host(state, &fault.verb, self.id(name)),
            Target::Links { from, to, both } => {
                let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (from, to)));
                let met = |state: &mut State, from, to| on_link(state, &fault.verb, from, to);
                let pairs = pairs.map(|(from, to)| (self.id(from), self.id(to)));
                let mut sum = 0;
                for (from, to) in pairs {
                    sum += met(state, from, to);
                    sum += if *both { met(state, to, from) } else { 0 };
                }
                sum
            }
        }
    }

    /// The tasks that wait on a halted machine when a further halt strikes it: it met them too.
    pub fn held_already(&self, fault: &Fault) -> u64 {
        let (Verb::Pause | Verb::Suspend, Target::Host(name)) = (&fault.verb, &fault.target) else {
            return 0;
        };
        self.engine.state().machine(self.id(name)).counters.waiting
    }

    fn on_host(&self, state: &mut State, verb: &Verb, host: HostId) -> u64 {
        let met = state.machine(host).counters;
        let disk = state.machine(host).disk.borrow().counters;
        match verb {
            Verb::Pause | Verb::Suspend => met.waited,
            // A start restores the process, even if it had already exited.
            Verb::Crash | Verb::PowerLoss => met.kills + met.starts,
            Verb::Restart => met.starts,
            Verb::ClockStep { .. } | Verb::ClockFreeze => met.looks,
            Verb::ClockRate { .. } => met.looks + met.sleeps,
            Verb::SlowNode { .. } => met.commands,
            Verb::SlowScript { .. } => met.scripts,
            Verb::LyingDisk => disk.unsynced,
            Verb::TearingDisk => disk.torn,
            Verb::FullDisk => disk.refused,
            Verb::ReplicaLag { .. } => {
                let nodes = self.other_nodes(host);
                nodes.map(|node| state.links.link(node, host).counters.delayed).sum()
            }
            _ => 0,
        }
    }
}

fn on_link(state: &mut State, verb: &Verb, from: HostId, to: HostId) -> u64 {
    let met = state.links.link(from, to).counters;
    match verb {
        Verb::Partition => met.held,
        Verb::Delay { .. } => met.delayed,
        Verb::Jitter { .. } => met.jittered,
        Verb::Loss { .. } => met.lost,
        Verb::CutReply | Verb::Reset => met.broken,
        _ => 0,
    }
}

/// The effects of an operator's command on a node between two instants: the keys that it removed,
/// or the node's promotions to master.
pub fn by_command(trace: &Trace, verb: &Verb, node: HostId, during: [Instant; 2]) -> u64 {
    let [from, to] = during;
    debug_assert!(from <= to, "a command is over after it was given");
    let within = |entry: &&Entry| (from..to).contains(&entry.stamp.instant());
    let entries = trace.entries().iter().filter(|entry| entry.host == node).filter(within);
    let removes = match verb {
        Verb::Evict { .. } => KeyChange::Evicted,
        _ => KeyChange::Deleted,
    };
    let does = |entry: &&Entry| match (&entry.event, verb) {
        (Event::Role { master }, Verb::Failover) => master.is_none(),
        (Event::Key { change, origin: Origin::Request(request), .. }, _) => {
            let by_hand = request.connection.client.ip() == OPERATOR_ADDRESS.ip();
            by_hand && *change == removes
        }
        _ => false,
    };
    u64::try_from(entries.filter(does).count()).unwrap_or(u64::MAX)
}
