//! Which instances are down: subjectively (`+sdown`), and masters objectively, by enough Sentinels
//! (`+odown`).

use lockstorm_platform::time::Ms;

use crate::frame::Reply;
use crate::sentinel::Sentinel;
use crate::sentinel::instance::{Expect, InstanceKey, OtherSentinel, Role, State, Who};

impl Sentinel {
    /// Closes silent connections, and marks an instance without a valid reply for too long as down;
    /// also a master that reports for too long that it is a replica.
    pub fn check_subjectively_down(&mut self, place: &InstanceKey, now: Ms) {
        let Some(master) = self.masters.get(&place.master) else { return };
        let Some(instance) = master.get(&place.who) else { return };
        let (link, report, limit) = (&instance.link, &instance.report, master.down_after);
        let elapsed = match link.waits_since {
            0 if link.disconnected => now - link.available_at,
            0 => 0,
            since => now - since,
        };
        let is_old = |since: Ms| now - since > self.times.reconnect;
        let is_mute = link.commands.as_ref().is_some_and(|line| is_old(line.since))
            && link.waits_since != 0
            && now - link.waits_since > limit / 2
            && now - link.answered_at > limit / 2;
        let is_deaf = link.channel.as_ref().is_some_and(|line| is_old(line.since))
            && now - link.channel_heard_at > self.times.publish * 3;
        let abdicates = place.who == Who::Master
            && report.role == Role::Replica
            && now - report.role_at > limit + self.times.info * 2;
        let (was_down, is_down) = (instance.s_down, elapsed > limit || abdicates);
        if is_mute {
            self.close_commands(place);
        }
        if is_deaf {
            self.close_channel(place);
        }
        if was_down == is_down {
            return;
        }
        self.emit(if is_down { "+sdown" } else { "-sdown" }, place, "");
        let Some(instance) = self.get_mut(place) else { return };
        instance.s_down = is_down;
        if is_down {
            instance.s_down_at = now;
        } else {
            instance.script_kill_sent = false;
        }
    }

    /// Counts the Sentinels that consider the master down: this one, and those that recently
    /// reported so.
    pub fn check_objectively_down(&mut self, name: &str, now: Ms) {
        let Some(master) = self.masters.get_mut(name) else { return };
        let others = master.sentinels.values().filter(|peer| peer.says_down).count();
        let count = u32::try_from(others + 1).unwrap_or(u32::MAX);
        let quorum = master.quorum;
        let is_down = master.instance.s_down && count >= quorum;
        if is_down == master.instance.o_down {
            return;
        }
        master.instance.o_down = is_down;
        let place = InstanceKey::master(name);
        if is_down {
            master.instance.o_down_at = now;
            self.emit("+odown", &place, &format!(" #quorum {count}/{quorum}"));
        } else {
            self.emit("-odown", &place, "");
        }
    }

    /// Queries the others whether the master is down, and for their votes during a failover: each
    /// at most once a second, except at its start.
    pub fn query_peers(&mut self, name: &str, at_once: bool, now: Ms) {
        let ask_period = self.times.ask_period;
        let Some(master) = self.masters.get_mut(name) else { return };
        for peer in master.sentinels.values_mut() {
            // A Sentinel that fell silent must not keep the master objectively down.
            if now - peer.said_at > ask_period * 5 {
                peer.says_down = false;
                peer.leader = None;
            }
        }
        if !master.instance.s_down {
            return;
        }
        let due = |peer: &OtherSentinel| {
            !peer.instance.link.disconnected && (at_once || now - peer.said_at >= ask_period)
        };
        let peers = master.sentinels.iter().filter(|(_, peer)| due(peer));
        let peers: Vec<InstanceKey> =
            peers.map(|(id, _)| InstanceKey::sentinel(name, id)).collect();
        let address = master.instance.address;
        let is_candidate = master.failover.state != State::None;
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        // `*` requests an opinion without a vote.
        let candidate = if is_candidate { self.id.clone() } else { "*".to_owned() };
        let epoch = self.epoch.to_string();
        for place in peers {
            let words = ["SENTINEL", "is-master-down-by-addr", &ip, &port, &epoch, &candidate];
            self.send(&place, &words, Expect::Down);
        }
    }

    /// Takes another Sentinel's opinion about the master, and its vote.
    pub fn hear_opinion(&mut self, place: &InstanceKey, reply: &Reply, now: Ms) {
        let Reply::Array(items) = reply else { return };
        let [Reply::Integer(down), Reply::Bulk(leader), Reply::Integer(epoch)] = &items[..] else {
            return;
        };
        let Who::Sentinel(id) = &place.who else { return };
        let master = self.masters.get_mut(&place.master);
        let Some(peer) = master.and_then(|master| master.sentinels.get_mut(id)) else { return };
        peer.said_at = now;
        peer.says_down = *down == 1;
        if &leader[..] != b"*" {
            peer.leader = Some(String::from_utf8_lossy(leader).into_owned());
            peer.leader_epoch = u64::try_from(*epoch).unwrap_or(0);
        }
    }
}
