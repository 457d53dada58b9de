//! A Sentinel's view of one master, replica or other Sentinel.
//!
//! Times are readings of the Sentinel's wall clock in Unix milliseconds, as `mstime()`; 0 is never.

use lockstorm_platform::time::Ms;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

/// The key of an instance: a master by name, and which of its instances.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceKey {
    /// The master's name.
    pub master: String,
    /// The master, or one of its replicas or Sentinels.
    pub who: Who,
}

/// See [`InstanceKey`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The master itself.
    Master,
    /// The replica at this address.
    Replica(SocketAddrV4),
    /// The Sentinel with this id.
    Sentinel(String),
}

impl InstanceKey {
    /// The master of this name.
    pub fn master(name: &str) -> InstanceKey {
        InstanceKey { master: name.to_owned(), who: Who::Master }
    }

    /// A replica of that master.
    pub fn replica(name: &str, address: SocketAddrV4) -> InstanceKey {
        InstanceKey { master: name.to_owned(), who: Who::Replica(address) }
    }

    /// Another Sentinel of that master.
    pub fn sentinel(name: &str, id: &str) -> InstanceKey {
        InstanceKey { master: name.to_owned(), who: Who::Sentinel(id.to_owned()) }
    }
}

/// The role that a node reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A master.
    #[default]
    Master,
    /// A replica.
    Replica,
}

impl Role {
    /// Its name in INFO, in events and in SENTINEL MASTERS.
    pub fn word(self) -> &'static str {
        match self {
            Role::Master => "master",
            Role::Replica => "slave",
        }
    }
}

/// An instance to which a Sentinel keeps a link.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The address on which it listens.
    pub address: SocketAddrV4,
    /// Its run id, or a Sentinel's id; empty until it is known.
    pub run_id: String,
    /// Whether it is subjectively down.
    pub s_down: bool,
    /// When it was last marked so.
    pub s_down_at: Ms,
    /// Whether it is objectively down: masters only.
    pub o_down: bool,
    /// When it was last marked so.
    pub o_down_at: Ms,
    /// Whether SCRIPT KILL was sent since it went down.
    pub script_kill_sent: bool,
    /// The connections to it.
    pub link: InstanceLink,
    /// When a hello message was last published on it.
    pub published_at: Ms,
    /// Its last INFO.
    pub report: Report,
}

/// The contents of a node's INFO.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The role.
    pub role: Role,
    /// Since when it has that role.
    pub role_at: Ms,
    /// When INFO last arrived.
    pub at: Ms,
    /// The whole text.
    pub text: Option<String>,
    /// The master that it follows; kept when it becomes a master.
    pub master: Option<(String, u16)>,
    /// Since when it has followed that master.
    pub master_at: Ms,
    /// Whether its link to its master is up.
    pub link_up: bool,
    /// For how long that link has been down.
    pub link_down: Ms,
    /// `replica-priority`: 0 means never promoted.
    pub priority: i64,
    /// Its replication offset.
    pub offset: u64,
    /// Whether it is announced to clients.
    pub announced: bool,
}

impl Instance {
    /// A new instance. It counts as heard from now.
    pub fn new(address: SocketAddrV4, role: Role, now: Ms) -> Instance {
        let report = Report {
            role,
            role_at: now,
            master_at: now,
            priority: 100,
            announced: true,
            ..Report::default()
        };
        Instance {
            address,
            run_id: String::new(),
            s_down: false,
            s_down_at: 0,
            o_down: false,
            o_down_at: 0,
            script_kill_sent: false,
            link: InstanceLink::new(now),
            published_at: now,
            report,
        }
    }

    /// Whether it was not down for this long (`sentinelInstanceNoDownFor`).
    pub fn was_up_for(&self, length: Ms, now: Ms) -> bool {
        let last = self.s_down_at.max(self.o_down_at);
        last == 0 || now - last > length
    }
}

/// The two connections to an instance, and when they were last heard.
#[derive(Clone, Debug)]
pub struct InstanceLink {
    /// The connection for commands.
    pub commands: Option<SentinelConnection>,
    /// The connection for hello messages: not for Sentinels.
    pub channel: Option<SentinelConnection>,
    /// Whether one of them is missing.
    pub disconnected: bool,
    /// When connecting was last tried.
    pub tried_at: Ms,
    /// When the oldest PING without an accepted reply was sent; 0 if there is none.
    pub waits_since: Ms,
    /// When the last PING was sent.
    pub pinged_at: Ms,
    /// When the last reply arrived that counts as a sign of life.
    pub available_at: Ms,
    /// When the last reply to PING arrived.
    pub answered_at: Ms,
    /// When the last message arrived on the channel.
    pub channel_heard_at: Ms,
}

impl InstanceLink {
    /// A link that is not connected yet.
    pub fn new(now: Ms) -> InstanceLink {
        InstanceLink {
            commands: None,
            channel: None,
            disconnected: true,
            tried_at: 0,
            // As if it had been pinged: one that never replies is down after `down_after`.
            waits_since: now,
            pinged_at: 0,
            available_at: now,
            answered_at: now,
            channel_heard_at: 0,
        }
    }

    /// How many requests are pending.
    pub fn pending(&self) -> usize {
        let lines = [&self.commands, &self.channel];
        lines.into_iter().flatten().map(|line| line.expected.len()).sum()
    }
}

/// One connection.
#[derive(Clone, Debug)]
pub struct SentinelConnection {
    /// Its number, never reused.
    pub id: u64,
    /// When it was opened.
    pub since: Ms,
    /// The kinds of the pending requests, in order.
    pub expected: VecDeque<Expect>,
}

/// The request to which a reply belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// PING.
    Ping,
    /// INFO.
    Info,
    /// PUBLISH of a hello message.
    Publish,
    /// SENTINEL IS-MASTER-DOWN-BY-ADDR.
    Down,
    /// A request whose reply is ignored: its effect is observed instead.
    Nothing,
}

/// A replica of a master.
#[derive(Clone, Debug)]
pub struct MonitoredReplica {
    /// The common part of all instances.
    pub instance: Instance,
    /// Whether a failover has selected it.
    pub promoted: bool,
    /// How far a failover has reconfigured it.
    pub reconf: Reconf,
    /// When it was sent the new master's address.
    pub reconf_sent_at: Ms,
}

/// See [`MonitoredReplica::reconf`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconf {
    /// Not sent.
    #[default]
    None,
    /// Sent.
    Sent,
    /// Its INFO names the new master.
    InProgress,
    /// Its link to the new master is up.
    Done,
}

/// Another Sentinel that monitors the same master.
#[derive(Clone, Debug)]
pub struct OtherSentinel {
    /// The common part of all instances.
    pub instance: Instance,
    /// Whether it considers the master down.
    pub says_down: bool,
    /// When it last reported that.
    pub said_at: Ms,
    /// Its last vote.
    pub leader: Option<String>,
    /// The epoch of that vote.
    pub leader_epoch: u64,
    /// When its last hello message arrived.
    pub hello_at: Ms,
}

/// A monitored master.
#[derive(Clone, Debug)]
pub struct Master {
    /// The common part of all instances.
    pub instance: Instance,
    /// How many Sentinels must consider it down.
    pub quorum: u32,
    /// Time without a valid reply after which an instance is down: it, its replicas and Sentinels.
    pub down_after: Ms,
    /// See `failover`.
    pub failover_timeout: Ms,
    /// How many replicas are reconfigured at a time to follow the new master.
    pub parallel_syncs: u32,
    /// Of two configurations the one with the higher epoch is valid.
    pub config_epoch: u64,
    /// This Sentinel's last vote.
    pub leader: Option<String>,
    /// The epoch of that vote.
    pub leader_epoch: u64,
    /// This Sentinel's failover of it.
    pub failover: SentinelFailover,
    /// Its replicas.
    pub replicas: BTreeMap<SocketAddrV4, MonitoredReplica>,
    /// The other Sentinels, by id.
    pub sentinels: BTreeMap<String, OtherSentinel>,
}

/// The state of a failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// There is none.
    #[default]
    None,
    /// It waits for votes.
    WaitStart,
    /// It selects a replica.
    SelectReplica,
    /// It sends SLAVEOF NO ONE to the replica.
    SendNoOne,
    /// It waits until the replica's INFO reports a master.
    WaitPromotion,
    /// It reconfigures the other replicas.
    Reconfigure,
    /// It replaces the old master by the replica.
    UpdateConfig,
}

impl State {
    /// Its name in SENTINEL MASTERS.
    pub fn word(self) -> &'static str {
        match self {
            State::None => "none",
            State::WaitStart => "wait_start",
            State::SelectReplica => "select_slave",
            State::SendNoOne => "send_slaveof_noone",
            State::WaitPromotion => "wait_promotion",
            State::Reconfigure => "reconf_slaves",
            State::UpdateConfig => "update_config",
        }
    }
}

/// A failover, the current or the last one.
#[derive(Clone, Debug, Default)]
pub struct SentinelFailover {
    /// Its state.
    pub state: State,
    /// The epoch in which it was started.
    pub epoch: u64,
    /// When it started, plus a drawn fraction of a second; or when this Sentinel voted for
    /// another's failover.
    pub started_at: Ms,
    /// When `state` last changed.
    pub changed_at: Ms,
    /// Whether SENTINEL FAILOVER requested it: then it needs no agreement.
    pub forced: bool,
    /// The selected replica.
    pub promoted: Option<SocketAddrV4>,
}

impl Master {
    /// A new master, with Redis's default times.
    pub fn new(address: SocketAddrV4, quorum: u32, now: Ms) -> Master {
        Master {
            instance: Instance::new(address, Role::Master, now),
            quorum,
            down_after: 30_000,
            failover_timeout: 180_000,
            parallel_syncs: 1,
            config_epoch: 0,
            leader: None,
            leader_epoch: 0,
            failover: SentinelFailover::default(),
            replicas: BTreeMap::new(),
            sentinels: BTreeMap::new(),
        }
    }

    /// The address for clients: that of the replica that is being promoted, once it is a master
    /// (`sentinelGetCurrentMasterAddress`).
    pub fn current_address(&self) -> SocketAddrV4 {
        match self.failover.promoted {
            // Before its INFO reports a master, it would refuse the writes of clients.
            Some(promoted) if self.failover.state >= State::Reconfigure => promoted,
            _ => self.instance.address,
        }
    }

    /// Whether it reports that it is a master, is up, and its INFO is recent.
    pub fn looks_sane(&self, info_period: Ms, now: Ms) -> bool {
        let Instance { s_down, o_down, report, .. } = &self.instance;
        report.role == Role::Master && !s_down && !o_down && now - report.at < info_period * 2
    }

    /// Adds a replica, unless it is known; whether it was added.
    pub fn add_replica(&mut self, address: SocketAddrV4, now: Ms) -> bool {
        if self.replicas.contains_key(&address) {
            return false;
        }
        let instance = Instance::new(address, Role::Replica, now);
        let reconf = Reconf::None;
        let replica = MonitoredReplica { instance, promoted: false, reconf, reconf_sent_at: 0 };
        self.replicas.insert(address, replica);
        true
    }

    /// Adds another Sentinel.
    pub fn add_sentinel(&mut self, id: &str, address: SocketAddrV4, now: Ms) {
        let mut instance = Instance::new(address, Role::Master, now);
        id.clone_into(&mut instance.run_id);
        let peer = OtherSentinel {
            instance,
            says_down: false,
            said_at: now,
            leader: None,
            leader_epoch: 0,
            hello_at: now,
        };
        self.sentinels.insert(id.to_owned(), peer);
    }

    /// The instance itself, or one that belongs to it.
    pub fn get(&self, who: &Who) -> Option<&Instance> {
        match who {
            Who::Master => Some(&self.instance),
            Who::Replica(address) => self.replicas.get(address).map(|replica| &replica.instance),
            Who::Sentinel(id) => self.sentinels.get(id).map(|peer| &peer.instance),
        }
    }

    /// Like [`Master::get`], to change it.
    pub fn get_mut(&mut self, who: &Who) -> Option<&mut Instance> {
        match who {
            Who::Master => Some(&mut self.instance),
            Who::Replica(address) => {
                self.replicas.get_mut(address).map(|replica| &mut replica.instance)
            }
            Who::Sentinel(id) => self.sentinels.get_mut(id).map(|peer| &mut peer.instance),
        }
    }
}
