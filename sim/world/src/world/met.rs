//! What a fault met: the number of messages, tasks, commands, writes or keys it touched.
//!
//! Engines count where a fault acts ([`crate::engine::counters`]); the difference of the counts at
//! its strike and at its end is what it met. For an operator's commands the trace has the effects.
//! If two other faults of a verb overlap on a target, both met whatever occurred during both.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::{Fault, Target, Verb};
use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{Connection, Entry, Event, HostId, KeyChange, Leg, Origin};

use crate::engine::counters::LinkCounters;
use crate::engine::state::State;
use crate::world::machines::Machines;
use crate::world::remains::Missed;

/// When it is known what a fault met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
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
    pub(crate) fn of(verb: &Verb) -> Known {
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
    pub(crate) fn missed(&self) -> Option<Missed> {
        let state = &*self.engine.state();
        let sum = |sum: Missed, link: LinkCounters| Missed {
            lost: sum.lost + link.lost + link.lost_anyway,
            cut: sum.cut + link.held,
        };
        let missed = state.links.counters().fold(Missed::default(), sum);
        self.engine.counts_faults().then_some(missed)
    }

    /// What faults of this verb have met on this target since the world began.
    pub(crate) fn met_by(&self, fault: &Fault) -> u64 {
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

    /// The tasks that already wait on a halted machine when another halt strikes it. The new fault
    /// met them too.
    pub(crate) fn held_already(&self, fault: &Fault) -> u64 {
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

/// The effects of a fault's commands, in order.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// On its target: the keys that a command removed, or the node's promotion.
    pub(crate) on_target: Vec<Instant>,
    /// On other nodes: they follow another master.
    pub(crate) elsewhere: u64,
}

/// Finds the effects of the commands that an operator sends for a fault to a node, event by event.
/// A real server does not report whose command it executes. There (`is_exact` is false) every
/// effect of the fault's kind counts, from the time at which the command was sent.
pub(crate) struct ByCommand {
    /// The fault's number.
    pub(crate) fault: u32,
    /// What was found.
    pub(crate) effects: Effects,
    verb: Verb,
    node: HostId,
    is_exact: bool,
    sent: BTreeSet<Connection>,
    /// The change of a role that no command has explained yet, of each node.
    roles: BTreeMap<HostId, Instant>,
}

impl ByCommand {
    /// For a fault that acts by command on a host; `None` for another.
    pub(crate) fn of(fault: &Fault, machines: &Machines) -> Option<ByCommand> {
        let (Known::FromTheTrace, Target::Host(name)) = (Known::of(&fault.verb), &fault.target)
        else {
            return None;
        };
        Some(ByCommand {
            fault: fault.id,
            effects: Effects::default(),
            verb: fault.verb.clone(),
            node: machines.id(name),
            is_exact: machines.engine.counts_faults(),
            sent: BTreeSet::new(),
            roles: BTreeMap::new(),
        })
    }

    /// Takes the next event of the trace.
    pub(crate) fn take(&mut self, Entry { stamp, host, event }: &Entry) {
        let (at, is_target) = (stamp.instant(), *host == self.node);
        match event {
            Event::Ordered { fault, connection } if *fault == self.fault => {
                self.sent.insert(*connection);
            }
            Event::Key { origin: Origin::Request(request), .. } if is_target => {
                let is_own = self.sent.contains(&request.connection);
                self.effects.on_target.extend(is_own.then_some(at));
            }
            event if !self.is_exact && is_target => {
                let is_own = !self.sent.is_empty() && is_of_kind(&self.verb, event);
                self.effects.on_target.extend(is_own.then_some(at));
            }
            Event::Role { .. } => drop(self.roles.insert(*host, at)),
            // A node executes a command in no time, and then reports the execution.
            Event::Message { request, leg: Leg::Applied, .. } => {
                let changed = self.roles.remove(host).filter(|changed| changed.at == at.at);
                let changed = changed.filter(|_| self.sent.contains(&request.connection));
                match is_target {
                    true => self.effects.on_target.extend(changed),
                    false => self.effects.elsewhere += u64::from(changed.is_some()),
                }
            }
            _ => {}
        }
    }
}

/// Whether the event is an effect of this verb's command.
fn is_of_kind(verb: &Verb, event: &Event) -> bool {
    match event {
        Event::Key { change: KeyChange::Deleted, origin: Origin::Node, .. } => *verb == Verb::Flush,
        Event::Role { master: None } => *verb == Verb::Failover,
        _ => false,
    }
}
