//! What each verb does to the world when a fault strikes, and what is undone when it ends.

use std::cell::RefCell;
use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::fault::{Fault, Target, Verb};
use lockstorm_platform::order::Order;
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{Edge, Event, HostId};

use crate::engine::disk::Files;
use crate::engine::links::Disturbance;
use crate::world::met::Known;
use crate::world::{Part, Strike, World};

/// A fault that has struck, and whether it is still active.
pub struct Struck {
    pub strike: Strike,
    pub(super) index: usize,
    open: bool,
    /// What faults of its verb had met on its target before it struck.
    pub(super) before: u64,
}

impl Struck {
    /// Whether it is still active.
    pub fn is_open(&self) -> bool {
        self.open
    }
}

impl World {
    /// Makes the fault with this number strike now.
    pub(super) fn strike(&mut self, id: u32) {
        let index = self.faults.iter().position(|fault| fault.id == id);
        let index = index.expect("only the plan's own faults are armed");
        let fault = self.faults[index].clone();
        let from = self.engine.record(Event::Fault { id, edge: Edge::Start }).instant();
        let before = self.met_by(&fault);
        self.apply(&fault, true);
        let lasts = !fault.verb.is_momentary();
        let to = (!lasts).then_some(from);
        let strike = Strike { fault: id, from, to, met: None };
        self.struck.push(Struck { strike, index, open: lasts, before });
        if Known::of(&fault.verb) == Known::AtOnce {
            self.count_met(self.struck.len() - 1);
        }
        if let (true, Some(length)) = (lasts, fault.length) {
            let call = u32::try_from(self.struck.len() - 1).expect("faults are counted in u32");
            self.engine.call_at(self.now().saturating_add(length), call);
        }
    }

    /// Ends a fault that has struck, unless it has already ended.
    pub(super) fn end_fault(&mut self, struck: u32) {
        let place = struck as usize;
        // Closed first, so that `goes_on` does not find this strike itself.
        if !std::mem::take(&mut self.struck[place].open) {
            return;
        }
        let fault = self.fault_of(place).clone();
        if !self.goes_on(&fault) {
            self.apply(&fault, false);
        }
        if self.struck[place].strike.met.is_none() {
            self.count_met(place);
        }
        let event = Event::Fault { id: fault.id, edge: Edge::End };
        self.struck[place].strike.to = Some(self.engine.record(event).instant());
    }

    /// The fault of the strike with this index.
    pub(super) fn fault_of(&self, struck: usize) -> &Fault {
        &self.faults[self.struck[struck].index]
    }

    /// Whether another active fault still has the same effect on the host: a machine that was taken
    /// down twice is up when both faults are over. Effects that add up are undone one by one.
    fn goes_on(&self, fault: &Fault) -> bool {
        let down = |verb: &Verb| matches!(verb, Verb::Crash | Verb::PowerLoss);
        let alike = |other: &Verb| match &fault.verb {
            Verb::Crash | Verb::PowerLoss => down(other),
            Verb::ClockRate { .. } => matches!(other, Verb::ClockRate { .. }),
            Verb::ClockFreeze => matches!(other, Verb::ClockFreeze),
            Verb::LyingDisk | Verb::TearingDisk | Verb::FullDisk => *other == fault.verb,
            _ => false,
        };
        let open = self.struck.iter().filter(|struck| struck.open);
        let others = open.map(|struck| &self.faults[struck.index]);
        let mut others = others.filter(|other| other.target == fault.target);
        others.any(|other| alike(&other.verb))
    }

    /// Applies the verb's effect, or undoes it.
    fn apply(&mut self, fault: &Fault, begin: bool) {
        match &fault.target {
            Target::Host(name) => {
                let host = self.id(name);
                self.apply_to_host(&fault.verb, host, begin);
            }
            Target::Links { from, to, both } => {
                for (from, to) in from.iter().flat_map(|f| to.iter().map(move |t| (f, t))) {
                    let (from, to) = (self.id(from), self.id(to));
                    self.apply_to_link(&fault.verb, from, to, begin);
                    if *both {
                        self.apply_to_link(&fault.verb, to, from, begin);
                    }
                }
            }
        }
    }

    fn apply_to_link(&self, verb: &Verb, from: HostId, to: HostId, begin: bool) {
        let sign = if begin { 1 } else { -1 };
        let disturb = |change| self.disturb(from, to, change);
        match verb {
            Verb::Partition => self.engine.block(from, to, begin),
            Verb::Delay { extra } => {
                disturb(Disturbance { extra: sign * signed(*extra), ..Disturbance::default() });
            }
            Verb::Jitter { extra } => {
                disturb(Disturbance { jitter: sign * signed(*extra), ..Disturbance::default() });
            }
            Verb::Loss { per_million } => disturb(Disturbance {
                loss_per_million: sign * i64::from(*per_million),
                ..Disturbance::default()
            }),
            Verb::CutReply => self.note_broken(from, to, self.engine.cut_reply(from, to)),
            Verb::Reset => self.note_broken(from, to, self.engine.reset(from, to)),
            other => panic!("'{}' acts on a host, not on a link", other.word()),
        }
    }

    fn note_broken(&self, from: HostId, to: HostId, connections: u64) {
        self.engine.state().links.link(from, to).met.broken += connections;
    }

    fn apply_to_host(&mut self, verb: &Verb, host: HostId, begin: bool) {
        match verb {
            Verb::Pause => self.engine.pause(host, begin),
            Verb::Suspend => {
                self.engine.suspend(host, begin);
                self.note_clocks_of(host);
            }
            Verb::Crash if begin => self.fell(host, false),
            Verb::PowerLoss if begin => self.fell(host, true),
            // A restart may have come before the fault's end.
            Verb::Crash | Verb::PowerLoss if !self.is_down(usize::from(host.0)) => {}
            Verb::Crash | Verb::PowerLoss | Verb::Restart => self.boot(host),
            Verb::ClockStep { .. } | Verb::ClockRate { .. } | Verb::ClockFreeze => {
                self.disturb_clock(verb, host, begin);
            }
            Verb::SlowNode { extra } => {
                let state = &mut *self.engine.state();
                let sum = &mut state.machine(host).slowness.command;
                *sum = if begin { *sum + extra } else { *sum - extra };
            }
            Verb::SlowScript { extra } => {
                let state = &mut *self.engine.state();
                let sum = &mut state.machine(host).slowness.script;
                *sum = if begin { *sum + extra } else { *sum - extra };
            }
            Verb::ReplicaLag { extra } => self.lag(host, *extra, begin),
            Verb::LyingDisk => self.disk(host).borrow_mut().lies = begin,
            Verb::TearingDisk => self.disk(host).borrow_mut().tears = begin,
            Verb::FullDisk => self.disk(host).borrow_mut().is_full = begin,
            Verb::Failover | Verb::Evict { .. } | Verb::Flush => self.command(verb, host),
            other => panic!("'{}' acts on links, not on a host", other.word()),
        }
    }

    fn disk(&self, host: HostId) -> Rc<RefCell<Files>> {
        Rc::clone(&self.engine.state().machine(host).disk)
    }

    fn fell(&mut self, host: HostId, power: bool) {
        let runs = !self.is_down(usize::from(host.0));
        self.engine.state().machine(host).met.kills += u64::from(runs);
        if power {
            self.engine.power_off(host);
        } else {
            self.engine.kill(host);
        }
        self.alive[usize::from(host.0)] = false;
    }

    fn disturb_clock(&mut self, verb: &Verb, host: HostId, begin: bool) {
        self.engine.change_clocks(host, &|clocks, now| match verb {
            Verb::ClockStep { by } => clocks.step_wall(now, *by),
            Verb::ClockRate { ppm } => clocks.set_rate(now, begin.then_some(*ppm)),
            _ => clocks.freeze_wall(now, begin),
        });
        self.note_clocks_of(host);
    }

    /// Delays what other nodes send to the replica.
    fn lag(&self, replica: HostId, extra: Nanos, begin: bool) {
        let extra = if begin { signed(extra) } else { -signed(extra) };
        let nodes = self.names.ids().zip(&self.parts).filter(|(_, part)| **part == Part::Node);
        for (node, _) in nodes.filter(|(node, _)| *node != replica) {
            self.disturb(node, replica, Disturbance { extra, ..Disturbance::default() });
        }
    }

    /// Has the operator carry out a fault that acts by command.
    fn command(&self, verb: &Verb, host: HostId) {
        let parts = self.names.ids().zip(&self.parts);
        let others = parts.filter(|(id, part)| **part == Part::Node && *id != host);
        let order = Order {
            host: self.desk.clone(),
            verb: verb.clone(),
            node: self.address(host),
            others: others.map(|(id, _)| self.address(id)).collect(),
            masters: self.masters.clone(),
            move_name: self.engine.naming(),
        };
        let operator = self.operator.as_ref();
        let operator = operator.expect("a world whose faults act by command has an operator");
        self.desk.spawn(operator(order));
    }

    fn address(&self, host: HostId) -> SocketAddrV4 {
        self.desk.resolve(self.names.name(host)).expect("every host has an address")
    }
}

/// A length of a plan as a signed number; plans are bounded far below the type's maximum.
fn signed(length: Nanos) -> i64 {
    i64::try_from(length).expect("lengths of plans are bounded")
}
