//! The effect of each verb on the machines when a fault strikes, and what its end undoes.

use std::cell::RefCell;
use std::rc::Rc;

use lockstorm_platform::fault::{Fault, Target, Verb};
use lockstorm_platform::order::Order;
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::HostId;

use crate::engine::disk::Files;
use crate::engine::links::{Disturbance, LossFault};
use crate::world::machines::Machines;

impl Machines {
    /// Applies the effect of the verb, or undoes it.
    pub(crate) fn apply(&mut self, fault: &Fault, begin: bool) {
        match &fault.target {
            Target::Host(name) => {
                let host = self.id(name);
                self.apply_to_host(fault, host, begin);
            }
            Target::Links { from, to, both } => {
                for (from, to) in from.iter().flat_map(|f| to.iter().map(move |t| (f, t))) {
                    let (from, to) = (self.id(from), self.id(to));
                    self.apply_to_link(fault, from, to, begin);
                    if *both {
                        self.apply_to_link(fault, to, from, begin);
                    }
                }
            }
        }
    }

    fn apply_to_link(&self, fault: &Fault, from: HostId, to: HostId, begin: bool) {
        let sign = if begin { 1 } else { -1 };
        let disturb = |change| self.disturb(from, to, change);
        match &fault.verb {
            Verb::Partition => self.engine.block(from, to, begin),
            Verb::Delay { extra } => {
                disturb(Disturbance { extra: sign * signed(*extra), ..Disturbance::default() });
            }
            Verb::Jitter { extra } => {
                disturb(Disturbance { jitter: sign * signed(*extra), ..Disturbance::default() });
            }
            Verb::Loss { per_million } => {
                // The heal may come before the fault's own end, and no try is lost after it.
                let over = fault.length.map(|length| self.now().saturating_add(length));
                let until = over.into_iter().chain(self.heal_at).min().unwrap_or(Nanos::MAX);
                let loss = LossFault { id: fault.id, per_million: *per_million, until };
                self.engine.state().links.link(from, to).lose(loss, begin);
            }
            Verb::CutReply => self.count_broken(from, to, self.engine.cut_reply(from, to)),
            Verb::Reset => self.count_broken(from, to, self.engine.reset(from, to)),
            other => panic!("'{}' acts on a host, not on a link", other.word()),
        }
    }

    fn count_broken(&self, from: HostId, to: HostId, connections: u64) {
        self.engine.state().links.link(from, to).counters.broken += connections;
    }

    fn apply_to_host(&mut self, fault: &Fault, host: HostId, begin: bool) {
        match &fault.verb {
            Verb::Pause => self.engine.pause(host, begin),
            Verb::Suspend => {
                self.engine.suspend(host, begin);
                self.note_clocks_of(host);
            }
            Verb::Crash if begin => self.take_down(host, false),
            Verb::PowerLoss if begin => self.take_down(host, true),
            // A restart may already have started the process: another start would kill it.
            Verb::Crash | Verb::PowerLoss if !self.is_down(host) => {}
            Verb::Crash | Verb::PowerLoss | Verb::Restart => self.boot(host),
            Verb::ClockStep { .. } | Verb::ClockRate { .. } | Verb::ClockFreeze => {
                self.disturb_clock(&fault.verb, host, begin);
            }
            // A sum, not a flag: overlapping faults add up, and each undoes its own share.
            Verb::SlowNode { extra } => {
                let state = &mut *self.engine.state();
                let sum = &mut state.machine(host).slowness.command;
                debug_assert!(begin || *sum >= *extra, "a fault removes only what it has added");
                *sum = if begin { *sum + extra } else { *sum - extra };
            }
            Verb::SlowScript { extra } => {
                let state = &mut *self.engine.state();
                let sum = &mut state.machine(host).slowness.script;
                debug_assert!(begin || *sum >= *extra, "a fault removes only what it has added");
                *sum = if begin { *sum + extra } else { *sum - extra };
            }
            Verb::ReplicaLag { extra } => self.lag(host, *extra, begin),
            // A flag: `Faults::goes_on` keeps it set while another such fault is active.
            Verb::LyingDisk => self.disk(host).borrow_mut().lies = begin,
            Verb::TearingDisk => self.disk(host).borrow_mut().tears = begin,
            Verb::FullDisk => self.disk(host).borrow_mut().is_full = begin,
            Verb::Failover | Verb::Evict { .. } | Verb::Flush => self.command(fault, host),
            other => panic!("'{}' acts on links, not on a host", other.word()),
        }
    }

    fn disk(&self, host: HostId) -> Rc<RefCell<Files>> {
        Rc::clone(&self.engine.state().machine(host).disk)
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
        for node in self.other_nodes(replica) {
            self.disturb(node, replica, Disturbance { extra, ..Disturbance::default() });
        }
    }

    /// Makes the operator carry out a fault that acts by command.
    fn command(&self, fault: &Fault, host: HostId) {
        let order = Order {
            host: self.desk.clone(),
            fault: fault.id,
            verb: fault.verb.clone(),
            node: self.address(host),
            others: self.other_nodes(host).map(|id| self.address(id)).collect(),
            masters: self.masters.clone(),
            move_name: self.engine.naming(),
        };
        let operator = self.operator.as_ref();
        let operator = operator.expect("a world whose faults act by command has an operator");
        self.desk.spawn(operator(order));
    }
}

/// A length of a plan as a signed number; plans are bounded far below the type's maximum.
fn signed(length: Nanos) -> i64 {
    i64::try_from(length).expect("lengths of plans are bounded")
}
