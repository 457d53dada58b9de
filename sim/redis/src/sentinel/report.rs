//! The INFO of a master or replica, and the reaction to it (`sentinelRefreshInstanceInfo`).

use std::net::SocketAddrV4;

use lockstorm_platform::time::Ms;

use crate::sentinel::Sentinel;
use crate::sentinel::instance::{Instance, InstanceKey, Reconf, Role, State, Who};

impl Sentinel {
    /// Takes the text of an INFO: first stores its contents, then reacts to them.
    pub(crate) fn refresh(&mut self, place: &InstanceKey, text: &str, now: Ms) {
        let Some(instance) = self.get_mut(place) else { return };
        let rebooted = note_run_id(instance, text);
        let old = instance.report.role;
        note_report(instance, text, now);
        let role = instance.report.role;
        if rebooted {
            self.emit("+reboot", place, "");
        }
        if place.who == Who::Master {
            self.note_replicas(&place.master, text, now);
        }
        if role != old {
            let fits = (place.who == Who::Master) == (role == Role::Master);
            let event = if fits { "+role-change" } else { "-role-change" };
            self.emit(event, place, &format!(" new reported role is {}", role.word()));
        }
        // In TILT mode times are not trusted: INFO is stored, but nothing follows from it.
        if self.tilt_since.is_some() {
            return;
        }
        match (&place.who, role) {
            (Who::Replica(address), Role::Master) => self.meet_new_master(place, *address, now),
            (Who::Replica(address), Role::Replica) => {
                self.mend_replica(place, now);
                self.note_reconfiguration(place, *address);
            }
            _ => {}
        }
    }

    fn note_replicas(&mut self, name: &str, text: &str, now: Ms) {
        for address in text.split("\r\n").filter_map(replica_line) {
            let Some(master) = self.masters.get_mut(name) else { return };
            if master.add_replica(address, now) {
                self.unsaved = true;
                self.emit("+slave", &InstanceKey::replica(name, address), "");
            }
        }
    }

    /// A replica reports that it is a master: the promoted one, or one that came back.
    ///
    /// One that came back, like the old master, is made a replica only after it has reported that,
    /// and was up, for four hello periods: there may be a newer configuration.
    fn meet_new_master(&mut self, place: &InstanceKey, address: SocketAddrV4, now: Ms) {
        let times = self.times.clone();
        let Some(master) = self.masters.get_mut(&place.master) else { return };
        let Some(replica) = master.replicas.get(&address) else { return };
        if replica.promoted && master.failover.state == State::WaitPromotion {
            // The new address gets the epoch of the election, so that it wins over older
            // configurations.
            master.config_epoch = master.failover.epoch;
            master.failover.state = State::Reconfigure;
            master.failover.changed_at = now;
            self.unsaved = true;
            self.emit("+promoted-slave", place, "");
            if self.crashes.after_promotion {
                self.crashes.now = true;
                return;
            }
            let whole = InstanceKey::master(&place.master);
            self.emit("+failover-state-reconf-slaves", &whole, "");
            self.hurry_hello(&place.master);
            return;
        }
        let stable = times.publish * 4;
        let instance = &replica.instance;
        let is_stable = instance.was_up_for(stable, now) && now - instance.report.role_at > stable;
        if !replica.promoted && master.looks_sane(times.info, now) && is_stable {
            let follow = master.instance.address;
            if self.send_slaveof(place, Some(follow)) {
                self.emit("+convert-to-slave", place, "");
            }
        }
    }

    /// Makes the next tick send the new configuration to all.
    fn hurry_hello(&mut self, name: &str) {
        let publish = self.times.publish;
        let Some(master) = self.masters.get_mut(name) else { return };
        let replicas = master.replicas.values_mut().map(|replica| &mut replica.instance);
        let sentinels = master.sentinels.values_mut().map(|peer| &mut peer.instance);
        for instance in replicas.chain(sentinels).chain([&mut master.instance]) {
            instance.published_at -= publish + 1;
        }
    }

    /// Reconfigures a replica that has followed another master for long.
    fn mend_replica(&mut self, place: &InstanceKey, now: Ms) {
        let Some(master) = self.masters.get(&place.master) else { return };
        let Some(instance) = master.get(&place.who) else { return };
        let (follow, wait) = (master.instance.address, master.failover_timeout);
        let is_wrong = !follows(instance, follow);
        let is_stable = instance.was_up_for(wait, now) && now - instance.report.master_at > wait;
        if is_wrong
            && is_stable
            && master.looks_sane(self.times.info, now)
            && self.send_slaveof(place, Some(follow))
        {
            self.emit("+fix-slave-config", place, "");
        }
    }

    /// Tracks the progress of a replica that was reconfigured to follow the promoted one.
    fn note_reconfiguration(&mut self, place: &InstanceKey, address: SocketAddrV4) {
        let Some(master) = self.masters.get_mut(&place.master) else { return };
        let promoted = master.failover.promoted;
        let Some(replica) = master.replicas.get_mut(&address) else { return };
        let (was, report) = (replica.reconf, &replica.instance.report);
        if was == Reconf::Sent && promoted.is_some_and(|to| follows(&replica.instance, to)) {
            replica.reconf = Reconf::InProgress;
        }
        if replica.reconf == Reconf::InProgress && report.link_up {
            replica.reconf = Reconf::Done;
        }
        let is = replica.reconf;
        if was == Reconf::Sent && is != Reconf::Sent {
            self.emit("+slave-reconf-inprog", place, "");
        }
        if is == Reconf::Done && was != Reconf::Done {
            self.emit("+slave-reconf-done", place, "");
        }
    }
}

/// Whether a replica reports that it follows this master.
fn follows(instance: &Instance, master: SocketAddrV4) -> bool {
    let reported = instance.report.master.as_ref();
    reported.is_some_and(|(host, port)| *host == master.ip().to_string() && *port == master.port())
}

/// Stores the run id; whether the process was restarted.
fn note_run_id(instance: &mut Instance, text: &str) -> bool {
    let Some(id) = text.split("\r\n").find_map(|line| line.strip_prefix("run_id:")) else {
        return false;
    };
    let is_other = !instance.run_id.is_empty() && instance.run_id != id;
    id.clone_into(&mut instance.run_id);
    is_other
}

fn note_report(instance: &mut Instance, text: &str, now: Ms) {
    let report = &mut instance.report;
    // INFO contains this field only while the link is down.
    report.link_down = 0;
    report.at = now;
    report.text = Some(text.to_owned());
    let mut role = None;
    let mut master = report.master.clone().unwrap_or(("?".to_owned(), 0));
    for (name, value) in text.split("\r\n").filter_map(|line| line.split_once(':')) {
        let number = || value.parse::<i64>().unwrap_or(0);
        match name {
            "role" => {
                role = if value == "master" { Some(Role::Master) } else { Some(Role::Replica) }
            }
            "master_link_down_since_seconds" => report.link_down = number().saturating_mul(1_000),
            // INFO names the role first: the fields below have a meaning for a replica only.
            _ if role != Some(Role::Replica) => {}
            "master_host" => value.clone_into(&mut master.0),
            "master_port" => master.1 = u16::try_from(number()).unwrap_or(0),
            "master_link_status" => report.link_up = value == "up",
            "slave_priority" => report.priority = number(),
            "slave_repl_offset" => report.offset = u64::try_from(number()).unwrap_or(0),
            "replica_announced" => report.announced = number() != 0,
            _ => {}
        }
    }
    if role == Some(Role::Replica) && report.master.as_ref() != Some(&master) {
        report.master = Some(master);
        report.master_at = now;
    }
    let Some(role) = role.filter(|role| *role != report.role) else { return };
    report.role = role;
    report.role_at = now;
    if role == Role::Replica {
        report.master_at = now;
    }
}

/// Reads `slave0:ip=10.0.0.2,port=6379,...`.
fn replica_line(line: &str) -> Option<SocketAddrV4> {
    let (name, value) = line.split_once(':')?;
    name.strip_prefix("slave")?.parse::<u32>().ok()?;
    let field =
        |key: &str| value.split(',').find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
    Some(SocketAddrV4::new(field("ip")?.parse().ok()?, field("port")?.parse().ok()?))
}
