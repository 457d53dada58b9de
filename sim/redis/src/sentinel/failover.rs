//! The steps of a failover, and the change of a master's address at its end.

use std::cmp::Reverse;
use std::net::SocketAddrV4;

use lockstorm_platform::time::Ms;

use crate::sentinel::election::desync;
use crate::sentinel::instance::{
    Instance, InstanceKey, InstanceLink, MonitoredReplica, Reconf, Role, SentinelFailover, State,
};
use crate::sentinel::{Sentinel, SentinelMoment};

impl Sentinel {
    /// Starts a failover of a master that is objectively down, unless one was started or voted for
    /// within twice the failover timeout; whether it did.
    pub fn start_failover_if_needed(&mut self, name: &str, now: SentinelMoment) -> bool {
        let Some(master) = self.masters.get(name) else { return false };
        let failover = &master.failover;
        let is_due = master.instance.o_down
            && failover.state == State::None
            && now.ms - failover.started_at >= master.failover_timeout * 2;
        if is_due {
            self.start_failover(name, now, false);
        }
        is_due
    }

    /// Begins to request votes; `forced` needs none.
    pub fn start_failover(&mut self, name: &str, now: SentinelMoment, forced: bool) {
        // Each attempt has an epoch of its own, so votes for an earlier one do not count.
        self.raise_epoch(self.epoch + 1);
        let Some(master) = self.masters.get_mut(name) else { return };
        debug_assert!(master.failover.state == State::None, "a master has one failover at a time");
        debug_assert!(master.failover.epoch < self.epoch, "epochs of failovers rise");
        master.failover = SentinelFailover {
            state: State::WaitStart,
            epoch: self.epoch,
            started_at: now.ms + desync(now.chance),
            changed_at: now.ms,
            forced,
            promoted: None,
        };
        self.emit("+try-failover", &InstanceKey::master(name), "");
    }

    /// Takes the next step.
    pub fn go_on_with_failover(&mut self, name: &str, now: SentinelMoment) {
        let Some(master) = self.masters.get(name) else { return };
        match master.failover.state {
            State::WaitStart => self.wait_for_votes(name, now),
            State::SelectReplica => self.select_replica(name, now.ms),
            State::SendNoOne => self.send_no_one(name, now.ms),
            State::WaitPromotion => self.abort_if_late(name, now.ms),
            State::Reconfigure => {
                self.reconfigure_next(name, now.ms);
                self.detect_end(name, now.ms);
            }
            State::None | State::UpdateConfig => {}
        }
    }

    fn enter(&mut self, name: &str, state: State, now: Ms) {
        if let Some(master) = self.masters.get_mut(name) {
            debug_assert!(
                state == State::None || state > master.failover.state,
                "a failover advances or is aborted"
            );
            master.failover.state = state;
            master.failover.changed_at = now;
        }
    }

    fn abort(&mut self, name: &str, event: &'static str, now: Ms) {
        let place = InstanceKey::master(name);
        self.emit(event, &place, "");
        let Some(master) = self.masters.get_mut(name) else { return };
        let promoted = master.failover.promoted.take();
        if let Some(replica) = promoted.and_then(|at| master.replicas.get_mut(&at)) {
            replica.promoted = false;
        }
        // `started_at` stays: the next attempt waits twice the failover timeout from then on.
        master.failover.forced = false;
        self.enter(name, State::None, now);
    }

    fn wait_for_votes(&mut self, name: &str, now: SentinelMoment) {
        let epoch = self.masters[name].failover.epoch;
        let is_leader = self.leader(name, epoch, now).as_ref() == Some(&self.id);
        let master = &self.masters[name];
        let place = InstanceKey::master(name);
        if !is_leader && !master.failover.forced {
            let limit = self.times.election.min(master.failover_timeout);
            if now.ms - master.failover.started_at > limit {
                self.abort(name, "-failover-abort-not-elected", now.ms);
            }
            return;
        }
        self.emit("+elected-leader", &place, "");
        if self.crashes.after_election {
            self.crashes.now = true;
            return;
        }
        self.enter(name, State::SelectReplica, now.ms);
        self.emit("+failover-state-select-slave", &place, "");
    }

    fn select_replica(&mut self, name: &str, now: Ms) {
        let Some(address) = self.best_replica(name, now) else {
            self.abort(name, "-failover-abort-no-good-slave", now);
            return;
        };
        let place = InstanceKey::replica(name, address);
        self.emit("+selected-slave", &place, "");
        if let Some(master) = self.masters.get_mut(name) {
            debug_assert!(master.failover.promoted.is_none(), "a failover promotes one replica");
            master.failover.promoted = Some(address);
            if let Some(replica) = master.replicas.get_mut(&address) {
                replica.promoted = true;
            }
        }
        self.enter(name, State::SendNoOne, now);
        self.emit("+failover-state-send-slaveof-noone", &place, "");
    }

    /// The replica to promote: of those that reply, whose INFO is fresh and that were not
    /// disconnected from their master for long, the one with the lowest priority, then with the
    /// largest offset, then with the smallest run id (`sentinelSelectSlave`).
    pub fn best_replica(&self, name: &str, now: Ms) -> Option<SocketAddrV4> {
        let master = self.masters.get(name)?;
        let s_down = master.instance.s_down;
        let down_for = if s_down { now - master.instance.s_down_at } else { 0 };
        let longest_cut = down_for + master.down_after * 10;
        let freshness = if s_down { self.times.ping * 5 } else { self.times.info * 3 };
        let is_good = |Instance { s_down, o_down, link, report, .. }: &Instance| {
            !s_down
                && !o_down
                && !link.disconnected
                && now - link.available_at <= self.times.ping * 5
                && report.priority != 0
                && report.at != 0
                && now - report.at <= freshness
                && report.link_down <= longest_cut
        };
        let good = master.replicas.iter().filter(|(_, replica)| is_good(&replica.instance));
        let better = |replica: &MonitoredReplica| {
            let Instance { report, run_id, .. } = &replica.instance;
            let id = (run_id.is_empty(), run_id.clone());
            (report.priority, Reverse(report.offset), id)
        };
        good.min_by_key(|(_, replica)| better(replica)).map(|(address, _)| *address)
    }

    fn send_no_one(&mut self, name: &str, now: Ms) {
        let Some(promoted) = self.masters[name].failover.promoted else { return };
        let place = InstanceKey::replica(name, promoted);
        if self.get_mut(&place).is_none_or(|instance| instance.link.disconnected) {
            self.abort_if_late(name, now);
        } else if self.send_slaveof(&place, None) {
            self.emit("+failover-state-wait-promotion", &place, "");
            self.enter(name, State::WaitPromotion, now);
        }
    }

    /// `report` detects the promotion, from INFO.
    fn abort_if_late(&mut self, name: &str, now: Ms) {
        let master = &self.masters[name];
        if now - master.failover.changed_at > master.failover_timeout {
            self.abort(name, "-failover-abort-slave-timeout", now);
        }
    }

    /// Reconfigures some of the other replicas, at most `parallel-syncs` at a time.
    fn reconfigure_next(&mut self, name: &str, now: Ms) {
        let Some(master) = self.masters.get(name) else { return };
        let Some(promoted) = master.failover.promoted else { return };
        let is_busy = |replica: &&MonitoredReplica| {
            matches!(replica.reconf, Reconf::Sent | Reconf::InProgress)
        };
        let mut busy = master.replicas.values().filter(is_busy).count();
        let most = usize::try_from(master.parallel_syncs).unwrap_or(usize::MAX);
        let addresses: Vec<SocketAddrV4> = master.replicas.keys().copied().collect();
        for address in addresses {
            if busy >= most {
                return;
            }
            let replica = &self.masters[name].replicas[&address];
            let place = InstanceKey::replica(name, address);
            let is_late = now - replica.reconf_sent_at > self.times.reconf;
            let is_next = replica.reconf == Reconf::None && !replica.instance.link.disconnected;
            // Counted as done, so that no other replica waits for it: `mend_replica` corrects it.
            if replica.reconf == Reconf::Sent && is_late {
                self.emit("-slave-reconf-sent-timeout", &place, "");
                self.set_reconf(name, address, Reconf::Done, now);
            } else if is_next && !replica.promoted && self.send_slaveof(&place, Some(promoted)) {
                self.set_reconf(name, address, Reconf::Sent, now);
                self.emit("+slave-reconf-sent", &place, "");
                busy += 1;
            }
        }
    }

    fn set_reconf(&mut self, name: &str, address: SocketAddrV4, reconf: Reconf, now: Ms) {
        let master = self.masters.get_mut(name);
        if let Some(replica) = master.and_then(|master| master.replicas.get_mut(&address)) {
            replica.reconf = reconf;
            replica.reconf_sent_at =
                if reconf == Reconf::Sent { now } else { replica.reconf_sent_at };
        }
    }

    /// A failover ends when all reachable replicas follow the new master, or at its timeout: then
    /// replicas that were not yet reconfigured are sent the command once.
    fn detect_end(&mut self, name: &str, now: Ms) {
        let Some(master) = self.masters.get(name) else { return };
        let promoted = master.failover.promoted;
        let Some(new) = promoted.and_then(|at| master.replicas.get(&at)) else { return };
        // A failover is not over while the new master is unreachable (`sentinelFailoverDetectEnd`).
        if new.instance.s_down {
            return;
        }
        let lacks = |replica: &&MonitoredReplica| {
            !replica.promoted && replica.reconf != Reconf::Done && !replica.instance.s_down
        };
        let lacking = master.replicas.values().filter(lacks).count();
        let is_late = now - master.failover.changed_at > master.failover_timeout;
        let place = InstanceKey::master(name);
        if is_late {
            self.emit("+failover-end-for-timeout", &place, "");
        }
        if lacking == 0 || is_late {
            self.emit("+failover-end", &place, "");
            self.enter(name, State::UpdateConfig, now);
        }
        if is_late {
            self.reconfigure_the_rest(name, now);
        }
    }

    fn reconfigure_the_rest(&mut self, name: &str, now: Ms) {
        let Some(master) = self.masters.get(name) else { return };
        let promoted = master.failover.promoted;
        let pending = |(_, replica): &(&SocketAddrV4, &MonitoredReplica)| {
            !replica.promoted
                && !matches!(replica.reconf, Reconf::Sent | Reconf::Done)
                && !replica.instance.link.disconnected
        };
        let rest: Vec<SocketAddrV4> =
            master.replicas.iter().filter(pending).map(|(address, _)| *address).collect();
        for address in rest {
            let place = InstanceKey::replica(name, address);
            if self.send_slaveof(&place, promoted) {
                self.emit("+slave-reconf-sent-be", &place, "");
                self.set_reconf(name, address, Reconf::Sent, now);
            }
        }
    }

    /// Makes the promoted replica the master, and the old master a replica.
    pub fn switch_to_promoted(&mut self, name: &str, now: Ms) {
        let Some(master) = self.masters.get(name) else { return };
        debug_assert!(
            master.failover.promoted.is_some(),
            "only a promoted replica replaces its master"
        );
        let (old, new) = (master.instance.address, master.current_address());
        self.emit_switch(name, old, new);
        self.change_address(name, new, now);
    }

    /// Publishes the event to which clients subscribe.
    pub fn emit_switch(&mut self, name: &str, old: SocketAddrV4, new: SocketAddrV4) {
        let text = format!("{name} {} {} {} {}", old.ip(), old.port(), new.ip(), new.port());
        self.events.push(("+switch-master", text));
    }

    /// Changes a master's address; all other replicas stay replicas, and the old master becomes
    /// one.
    pub fn change_address(&mut self, name: &str, new: SocketAddrV4, now: Ms) {
        let Some(master) = self.masters.get(name) else { return };
        let old = master.instance.address;
        // Collected first: `reset` drops the replicas.
        let mut replicas: Vec<SocketAddrV4> = master.replicas.keys().copied().collect();
        replicas.push(old);
        replicas.retain(|address| *address != new);
        self.reset(name, now);
        let Some(master) = self.masters.get_mut(name) else { return };
        master.instance.address = new;
        master.instance.s_down_at = 0;
        master.instance.o_down_at = 0;
        for address in replicas {
            let Some(master) = self.masters.get_mut(name) else { return };
            if master.add_replica(address, now) {
                self.emit("+slave", &InstanceKey::replica(name, address), "");
            }
        }
        self.unsaved = true;
    }

    /// Resets a master's state except its address, its epochs and the other Sentinels.
    pub fn reset(&mut self, name: &str, now: Ms) {
        let Some(master) = self.masters.get(name) else { return };
        let replicas = master.replicas.keys().map(|address| InstanceKey::replica(name, *address));
        let places: Vec<InstanceKey> = replicas.chain([InstanceKey::master(name)]).collect();
        places.iter().for_each(|place| self.close_all(place));
        let Some(master) = self.masters.get_mut(name) else { return };
        master.replicas.clear();
        master.leader = None;
        master.failover =
            SentinelFailover { epoch: master.failover.epoch, ..SentinelFailover::default() };
        let old = &master.instance;
        let (s_down_at, o_down_at) = (old.s_down_at, old.o_down_at);
        let (published_at, tried_at, asked_at) =
            (old.published_at, old.link.tried_at, old.report.at);
        let mut instance = Instance::new(old.address, Role::Master, now);
        (instance.s_down_at, instance.o_down_at) = (s_down_at, o_down_at);
        instance.published_at = published_at;
        instance.report.at = asked_at;
        instance.link = InstanceLink { tried_at, ..InstanceLink::new(now) };
        master.instance = instance;
    }

    /// Like [`Sentinel::reset`], the other Sentinels included: SENTINEL RESET.
    pub fn reset_with_sentinels(&mut self, name: &str, now: Ms) {
        self.forget_sentinels(name);
        self.reset(name, now);
        self.emit("+reset-master", &InstanceKey::master(name), "");
        self.unsaved = true;
    }

    /// Stops monitoring a master.
    pub fn forget(&mut self, name: &str, now: Ms) {
        self.forget_sentinels(name);
        self.reset(name, now);
        self.masters.remove(name);
        self.unsaved = true;
    }

    fn forget_sentinels(&mut self, name: &str) {
        let Some(master) = self.masters.get(name) else { return };
        let peers: Vec<InstanceKey> =
            master.sentinels.keys().map(|id| InstanceKey::sentinel(name, id)).collect();
        peers.iter().for_each(|place| self.close_all(place));
        if let Some(master) = self.masters.get_mut(name) {
            master.sentinels.clear();
        }
    }
}
