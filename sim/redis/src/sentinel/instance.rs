//! What a Sentinel knows of one master, replica or other Sentinel.
//!
//! Times are readings of the Sentinel's wall clock in Unix milliseconds, as `mstime()`; 0 is never.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

/// A reading of the Sentinel's wall clock, or a length of its time, in milliseconds.
pub type Ms = i64;

/// Who is meant: a master by name, and who of those that belong to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The master's name.
    pub master: String,
    /// Itself, or one of its replicas or Sentinels.
    pub who: Who,
}

/// See [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The master itself.
    Master,
    /// The replica at this address.
    Replica(SocketAddrV4),
    /// The Sentinel with this id.
    Sentinel(String),
}

impl Place {
    /// The master of this name.
    pub fn master(name: &str) -> Place {
        Place { master: name.to_owned(), who: Who::Master }
    }

    /// A replica of that master.
    pub fn replica(name: &str, address: SocketAddrV4) -> Place {
        Place { master: name.to_owned(), who: Who::Replica(address) }
    }

    /// Another Sentinel of that master.
    pub fn sentinel(name: &str, id: &str) -> Place {
        Place { master: name.to_owned(), who: Who::Sentinel(id.to_owned()) }
    }
}

/// What a node says that it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A master.
    #[default]
    Master,
    /// A replica.
    Replica,
}

impl Role {
    /// The word of INFO, of events and of SENTINEL MASTERS.
    pub fn word(self) -> &'static str {
        match self {
            Role::Master => "master",
            Role::Replica => "slave",
        }
    }
}

/// Anybody to whom a Sentinel keeps a link.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Where it listens.
    pub address: SocketAddrV4,
    /// Its run id, or a Sentinel's own id; empty before it is known.
    pub run_id: String,
    /// Whether this Sentinel takes it for down, and since when it last did.
    pub s_down: bool,
    /// See there.
    pub s_down_at: Ms,
    /// Whether enough Sentinels take it for down: masters alone; and since when they last did.
    pub o_down: bool,
    /// See there.
    pub o_down_at: Ms,
    /// Whether SCRIPT KILL was sent since it went down.
    pub script_kill_sent: bool,
    /// The connections to it.
    pub link: Link,
    /// When it last took a hello message.
    pub published_at: Ms,
    /// What its INFO said last.
    pub report: Report,
}

/// What INFO of a node said.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The role, and since when it is that.
    pub role: Role,
    /// See there.
    pub role_at: Ms,
    /// When INFO last came.
    pub at: Ms,
    /// All that it said then.
    pub text: Option<String>,
    /// Whom it follows; kept when it becomes a master.
    pub master: Option<(String, u16)>,
    /// Since when it follows that one.
    pub master_at: Ms,
    /// Whether its link to its master is up.
    pub link_up: bool,
    /// For how long that link has been down.
    pub link_down: Ms,
    /// `replica-priority`: 0 is never to be promoted.
    pub priority: i64,
    /// How far it has read its master's stream.
    pub offset: u64,
    /// Whether it is to be told to clients.
    pub announced: bool,
}

impl Instance {
    /// Somebody just heard of. He counts as heard from now.
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
            link: Link::new(now),
            published_at: now,
            report,
        }
    }

    /// Whether it was not down for so long (`sentinelInstanceNoDownFor`).
    pub fn was_up_for(&self, length: Ms, now: Ms) -> bool {
        let last = self.s_down_at.max(self.o_down_at);
        last == 0 || now - last > length
    }
}

/// The two connections to an instance, and what was heard there.
#[derive(Clone, Debug)]
pub struct Link {
    /// Where commands are sent.
    pub commands: Option<Line>,
    /// Where hello messages come: not for Sentinels.
    pub channel: Option<Line>,
    /// Whether one of them is missing.
    pub disconnected: bool,
    /// When connecting was last tried.
    pub tried_at: Ms,
    /// Since when a PING has no answer that counts; 0 if none waits.
    pub waits_since: Ms,
    /// When the last PING went out.
    pub pinged_at: Ms,
    /// When an answer came last that counts as life.
    pub available_at: Ms,
    /// When any answer to PING came last.
    pub answered_at: Ms,
    /// When anything came last on the channel.
    pub channel_heard_at: Ms,
}

impl Link {
    /// A link that is not there yet.
    pub fn new(now: Ms) -> Link {
        Link {
            commands: None,
            channel: None,
            disconnected: true,
            tried_at: 0,
            waits_since: now,
            pinged_at: 0,
            available_at: now,
            answered_at: now,
            channel_heard_at: 0,
        }
    }

    /// How many commands wait for their replies.
    pub fn pending(&self) -> usize {
        let lines = [&self.commands, &self.channel];
        lines.into_iter().flatten().map(|line| line.expected.len()).sum()
    }
}

/// One connection, as it is known here.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its number: never used twice.
    pub id: u64,
    /// Since when it is there.
    pub since: Ms,
    /// What the replies that will come are replies to.
    pub expected: VecDeque<Expect>,
}

/// What a reply is a reply to.
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
    /// Something whose effect is looked at instead.
    Nothing,
}

/// A replica of a master.
#[derive(Clone, Debug)]
pub struct Replica {
    /// What it has in common with the others.
    pub instance: Instance,
    /// Whether a failover has chosen it.
    pub promoted: bool,
    /// How far a failover is with telling it whom to follow.
    pub reconf: Reconf,
    /// When it was told.
    pub reconf_sent_at: Ms,
}

/// See [`Replica::reconf`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconf {
    /// It was not told.
    #[default]
    None,
    /// It was.
    Sent,
    /// Its INFO names the new master.
    InProgress,
    /// Its link to the new master is up.
    Done,
}

/// Another Sentinel that watches the same master.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What it has in common with the others.
    pub instance: Instance,
    /// Whether it takes the master for down.
    pub says_down: bool,
    /// When it last said whether it does.
    pub said_at: Ms,
    /// For whom it voted last.
    pub leader: Option<String>,
    /// In which epoch.
    pub leader_epoch: u64,
    /// When its last hello message came.
    pub hello_at: Ms,
}

/// A master that is watched.
#[derive(Clone, Debug)]
pub struct Master {
    /// What it has in common with the others.
    pub instance: Instance,
    /// How many Sentinels have to take it for down.
    pub quorum: u32,
    /// After how long without a valid answer somebody is down: it, its replicas and Sentinels.
    pub down_after: Ms,
    /// See `failover`.
    pub failover_timeout: Ms,
    /// How many replicas are told at a time to follow the new master.
    pub parallel_syncs: u32,
    /// Of two configurations the one with the higher epoch holds.
    pub config_epoch: u64,
    /// For whom this Sentinel voted last.
    pub leader: Option<String>,
    /// In which epoch.
    pub leader_epoch: u64,
    /// The failover that this Sentinel tries.
    pub failover: Failover,
    /// Its replicas.
    pub replicas: BTreeMap<SocketAddrV4, Replica>,
    /// The other Sentinels, by id.
    pub sentinels: BTreeMap<String, Peer>,
}

/// How far a failover is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// There is none.
    #[default]
    None,
    /// Votes are waited for.
    WaitStart,
    /// A replica is to be chosen.
    SelectReplica,
    /// It is to be made a master.
    SendNoOne,
    /// Its INFO is to say that it is one.
    WaitPromotion,
    /// The other replicas are to follow it.
    Reconfigure,
    /// It takes the old master's place.
    UpdateConfig,
}

impl State {
    /// The word of SENTINEL MASTERS.
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

/// A failover, or the last one.
#[derive(Clone, Debug, Default)]
pub struct Failover {
    /// How far it is.
    pub state: State,
    /// The epoch that it was started in.
    pub epoch: u64,
    /// When it started, put off by a drawn part of a second; or when this Sentinel voted for
    /// another one's.
    pub started_at: Ms,
    /// When `state` last changed.
    pub changed_at: Ms,
    /// Whether SENTINEL FAILOVER asked for it: then nobody has to agree.
    pub forced: bool,
    /// The replica that was chosen.
    pub promoted: Option<SocketAddrV4>,
}

impl Master {
    /// A master just heard of, with the times of Redis.
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
            failover: Failover::default(),
            replicas: BTreeMap::new(),
            sentinels: BTreeMap::new(),
        }
    }

    /// The address that clients are told: of the replica that is being promoted, once it is a
    /// master (`sentinelGetCurrentMasterAddress`).
    pub fn current_address(&self) -> SocketAddrV4 {
        match self.failover.promoted {
            Some(promoted) if self.failover.state >= State::Reconfigure => promoted,
            _ => self.instance.address,
        }
    }

    /// Whether it is a master that says so, up, and was heard of lately.
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
        let replica = Replica { instance, promoted: false, reconf, reconf_sent_at: 0 };
        self.replicas.insert(address, replica);
        true
    }

    /// Adds another Sentinel.
    pub fn add_sentinel(&mut self, id: &str, address: SocketAddrV4, now: Ms) {
        let mut instance = Instance::new(address, Role::Master, now);
        id.clone_into(&mut instance.run_id);
        let peer = Peer {
            instance,
            says_down: false,
            said_at: now,
            leader: None,
            leader_epoch: 0,
            hello_at: now,
        };
        self.sentinels.insert(id.to_owned(), peer);
    }

    /// Somebody who belongs to it, or itself.
    pub fn get(&self, who: &Who) -> Option<&Instance> {
        match who {
            Who::Master => Some(&self.instance),
            Who::Replica(address) => self.replicas.get(address).map(|replica| &replica.instance),
            Who::Sentinel(id) => self.sentinels.get(id).map(|peer| &peer.instance),
        }
    }

    /// As [`Master::get`], to change it.
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
