//! Sentinel: a process that monitors masters, and replaces one that is down by a replica.
//!
//! As in Redis it is a node in another mode: it shares connections, channels and users with the
//! node and has its own commands. Its state is a value that [`Sentinel::tick`], replies and
//! commands drive; it produces [`SentinelAction`]s, events and a file to be written. The rules are
//! those of `sentinel.c` of 7.0.15. Links to a Sentinel that monitors several masters are not
//! shared, and no scripts are run.
//!
//! - `globals`: settings of the whole Sentinel
//! - `instance`: the state of one master, replica or other Sentinel
//! - `link`: connections, PING, INFO, hello messages
//! - `report`: the contents of INFO, and the reaction to it
//! - `hello`: how Sentinels find each other and agree on the newest configuration
//! - `down`: which instances are down
//! - `election`: epochs and votes
//! - `failover`: the steps of a failover
//! - `file`: what survives the process
//!
//! Its replies are in `command/sentinel`, the tasks that move its bytes in `process/sentinel`.

pub(crate) mod down;
pub(crate) mod election;
pub(crate) mod failover;
pub(crate) mod file;
pub(crate) mod globals;
pub(crate) mod hello;
pub(crate) mod instance;
pub mod known;
pub mod link;
pub mod report;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use lockstorm_platform::trace::{Event, Sight};

use crate::sentinel::globals::{Crashes, Globals, Times};
use crate::sentinel::instance::{Instance, InstanceKey, Master, State, Who};
use crate::sentinel::known::Known;
use lockstorm_platform::time::Ms;

/// The configuration of a Sentinel at its first start. Later its own file applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelConfig {
    /// The port that it listens on.
    pub port: u16,
    /// The name of the master.
    pub master_name: String,
    /// The address of the first master.
    pub master: SocketAddrV4,
    /// How many Sentinels must consider a master down.
    pub quorum: u32,
    /// Time without a valid reply after which an instance is down, in ms.
    pub down_after_ms: u64,
    /// `failover-timeout`, in ms.
    pub failover_timeout_ms: u64,
    /// How many replicas are reconfigured at a time to follow the new master.
    pub parallel_syncs: u32,
    /// What it learned before it starts; `None` if it never ran.
    pub known: Option<Known>,
}

impl SentinelConfig {
    /// Redis's default times, for a master of the default name and a Sentinel that never ran.
    pub fn of(master: SocketAddrV4, quorum: u32) -> SentinelConfig {
        SentinelConfig {
            port: 26_379,
            master_name: "mymaster".to_owned(),
            master,
            quorum,
            down_after_ms: 30_000,
            failover_timeout_ms: 180_000,
            parallel_syncs: 1,
            known: None,
        }
    }
}

/// The time of a step, and a draw that it may need.
#[derive(Clone, Copy, Debug)]
pub struct SentinelMoment {
    /// The Sentinel's wall clock.
    pub(crate) ms: Ms,
    /// A drawn number.
    pub(crate) chance: u64,
}

/// A request to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SentinelAction {
    /// Open a connection with this number.
    Open(u64, SocketAddrV4),
    /// Send a request on this connection, once it is open.
    Send(u64, Vec<String>),
    /// Close this connection.
    Close(u64),
}

/// The state of a Sentinel.
#[derive(Clone, Debug)]
pub struct Sentinel {
    /// Its id: 40 hexadecimal digits, kept in its file.
    pub(crate) id: String,
    /// Its announced address.
    pub(crate) address: SocketAddrV4,
    /// The highest epoch that it has seen.
    pub(crate) epoch: u64,
    /// The monitored masters, by name.
    pub(crate) masters: BTreeMap<String, Master>,
    /// Its periods and timeouts.
    pub(crate) times: Times,
    /// What it announces about itself, and its credentials for other Sentinels.
    pub(crate) globals: Globals,
    /// Where it must crash.
    pub(crate) crashes: Crashes,
    /// When TILT mode began; it only observes then, because its clock jumped.
    pub(crate) tilt_since: Option<Ms>,
    /// The time of its last tick.
    pub(crate) ticked_at: Ms,
    /// Pending actions on the network, in order.
    pub(crate) actions: Vec<SentinelAction>,
    /// Pending events for subscribers: channel and message.
    pub(crate) events: Vec<(&'static str, String)>,
    /// Pending trace events about what it sees of masters.
    pub(crate) sights: Vec<Event>,
    /// Whether its file is older than its state.
    pub(crate) unsaved: bool,
    /// The instance of each open connection.
    lines: BTreeMap<u64, InstanceKey>,
    last_line: u64,
}

impl Sentinel {
    /// A Sentinel that monitors nothing yet.
    pub fn new(id: String, address: SocketAddrV4, now: Ms) -> Sentinel {
        Sentinel {
            id,
            address,
            epoch: 0,
            masters: BTreeMap::new(),
            times: Times::default(),
            globals: Globals::default(),
            crashes: Crashes::default(),
            tilt_since: None,
            ticked_at: now,
            actions: Vec::new(),
            events: Vec::new(),
            sights: Vec::new(),
            unsaved: true,
            lines: BTreeMap::new(),
            last_line: 0,
        }
    }

    /// Monitors the configured master.
    pub fn set_up(&mut self, config: &SentinelConfig, now: Ms) {
        let ms = |length: u64| Ms::try_from(length).unwrap_or(Ms::MAX / 4);
        let mut master = Master::new(config.master, config.quorum, now);
        master.down_after = ms(config.down_after_ms);
        master.failover_timeout = ms(config.failover_timeout_ms);
        master.parallel_syncs = config.parallel_syncs;
        if let Some(known) = &config.known {
            known.id.clone_into(&mut self.id);
            for replica in &known.replicas {
                master.add_replica(*replica, now);
            }
            for (id, address) in &known.sentinels {
                master.add_sentinel(id, *address, now);
            }
        }
        self.masters.insert(config.master_name.clone(), master);
    }

    /// `sentinelTimer`: must be called ten times a second or slightly more often.
    pub(crate) fn tick(&mut self, now: SentinelMoment) {
        // First, because in TILT mode the steps below must not draw conclusions from elapsed times.
        self.check_tilt(now.ms);
        let names: Vec<String> = self.masters.keys().cloned().collect();
        for name in &names {
            self.handle(&InstanceKey::master(name), now);
            let Some(master) = self.masters.get(name) else { continue };
            let replicas =
                master.replicas.keys().map(|address| InstanceKey::replica(name, *address));
            let sentinels = master.sentinels.keys().map(|id| InstanceKey::sentinel(name, id));
            let places: Vec<InstanceKey> = replicas.chain(sentinels).collect();
            for place in &places {
                self.handle(place, now);
            }
            // After all its instances were handled, because the switch replaces them.
            if self.masters[name].failover.state == State::UpdateConfig {
                self.switch_to_promoted(name, now.ms);
            }
        }
    }

    /// After a clock jump or a suspension of the process, no elapsed time can be trusted.
    fn check_tilt(&mut self, now: Ms) {
        let passed = now - self.ticked_at;
        if !(0..=self.times.tilt_trigger).contains(&passed) {
            self.tilt_since = Some(now);
            self.events.push(("+tilt", "#tilt mode entered".to_owned()));
        }
        self.ticked_at = now;
    }

    /// Whether it is in TILT mode; leaves the mode when its time is over.
    fn is_tilted(&mut self, now: Ms) -> bool {
        let Some(since) = self.tilt_since else { return false };
        if now - since < self.times.tilt {
            return true;
        }
        self.tilt_since = None;
        self.events.push(("-tilt", "#tilt mode exited".to_owned()));
        false
    }

    fn handle(&mut self, place: &InstanceKey, now: SentinelMoment) {
        // Also in TILT mode, in which it continues to observe.
        self.reconnect(place, now.ms);
        self.send_periodic(place, now.ms);
        if self.is_tilted(now.ms) {
            return;
        }
        self.check_subjectively_down(place, now.ms);
        if place.who == Who::Master {
            self.check_objectively_down(&place.master, now.ms);
            if self.start_failover_if_needed(&place.master, now) {
                self.query_peers(&place.master, true, now.ms);
            }
            self.go_on_with_failover(&place.master, now);
            self.query_peers(&place.master, false, now.ms);
        }
    }

    /// The instance at this place, if it is still known.
    pub(crate) fn get_mut(&mut self, place: &InstanceKey) -> Option<&mut Instance> {
        self.masters.get_mut(&place.master)?.get_mut(&place.who)
    }

    /// Publishes an event about an instance: `%@` of `sentinelEvent`, followed by `more`.
    pub(crate) fn emit(&mut self, event: &'static str, place: &InstanceKey, more: &str) {
        let text = self.describe(place) + more;
        self.events.push((event, text));
    }

    fn describe(&self, place: &InstanceKey) -> String {
        let name = &place.master;
        let Some(master) = self.masters.get(name) else { return String::new() };
        let address = master.instance.address;
        let (ip, port) = (address.ip(), address.port());
        match &place.who {
            Who::Master => format!("master {name} {ip} {port}"),
            Who::Replica(own) => {
                format!("slave {own} {} {} @ {name} {ip} {port}", own.ip(), own.port())
            }
            Who::Sentinel(id) => {
                let own = master.sentinels.get(id).map_or(address, |peer| peer.instance.address);
                format!("sentinel {id} {} {} @ {name} {ip} {port}", own.ip(), own.port())
            }
        }
    }
}

/// The channels on which Sentinels publish what they see of masters.
pub const SIGHTS: [(&str, Sight); 3] =
    [("+sdown", Sight::Suspected), ("+odown", Sight::Down), ("+switch-master", Sight::Named)];

/// The trace event for a published event about a Sentinel or a master: `+odown` with `master NAME
/// IP PORT ...`, `+switch-master` with `NAME IP PORT IP PORT`, the new address last.
pub fn sight(channel: &str, text: &str) -> Option<Event> {
    if channel == "+tilt" {
        return Some(Event::Tilted);
    }
    let (_, sight) = *SIGHTS.iter().find(|(known, _)| *known == channel)?;
    let words: Vec<&str> = text.split(' ').collect();
    let (ip, port) = match (sight, &words[..]) {
        (Sight::Named, [_, _, _, ip, port]) | (_, ["master", _, ip, port, ..]) => (ip, port),
        _ => return None,
    };
    let master = SocketAddrV4::new(ip.parse().ok()?, port.parse().ok()?);
    Some(Event::Saw { sight, master })
}

#[cfg(test)]
mod tests;
