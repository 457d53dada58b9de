//! Faults as data: a verb with a target, an anchor and an optional length.
//!
//! Nothing here acts. A world applies faults; a [`Watch`] reports when an anchor's event occurs.

pub(crate) mod effects;
pub mod verbs;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

use crate::time::{Nanos, SECOND};
use crate::trace::{Edge, Entry, Event, HostId, Leg, Sight};

/// One fault of a plan. Removing a fault from a plan never renumbers the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its number, unique in the plan.
    pub id: u32,
    /// What it does.
    pub verb: Verb,
    /// The host or links that it acts on.
    pub target: Target,
    /// Its anchor: when it strikes.
    pub anchor: Anchor,
    /// How long it lasts, in nanoseconds. `None`: until the heal. It has no meaning for a verb that
    /// acts at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Nanos>,
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Verb {
    /// No message passes the target links; TCP retransmits after the heal.
    Partition,
    /// Messages on the target links take `extra` nanoseconds longer.
    Delay {
        /// Added to each message.
        extra: Nanos,
    },
    /// Messages on the target links take up to `extra` nanoseconds longer, drawn one by one.
    Jitter {
        /// The maximum that is added.
        extra: Nanos,
    },
    /// On the target links, each try of a message is lost with this probability; TCP retransmits.
    Loss {
        /// Lost tries per million.
        per_million: u32,
    },
    /// Connections on the target links break so that an executed request gets no reply.
    CutReply,
    /// Connections on the target links are reset.
    Reset,
    /// The process is not scheduled: a GC pause, SIGSTOP. Its kernel continues.
    Pause,
    /// The machine is suspended: a pause with a silent kernel and a stopped monotonic clock.
    Suspend,
    /// The process crashes; the machine stays up. The process restarts after the fault's length.
    Crash,
    /// The machine loses power and all data not synced to disk. It boots after the fault's length.
    PowerLoss,
    /// The process is killed and restarts at once; a dead one starts.
    Restart,
    /// The wall clock steps.
    ClockStep {
        /// Nanoseconds forward (negative: back).
        by: i64,
    },
    /// All clocks of the host run at another rate.
    ClockRate {
        /// Parts per million fast (negative: slow).
        ppm: i32,
    },
    /// The wall clock stops.
    ClockFreeze,
    /// Each command on the node takes this much longer.
    SlowNode {
        /// Added to each command.
        extra: Nanos,
    },
    /// Each script on the node takes this much longer and blocks it.
    SlowScript {
        /// Added to each script.
        extra: Nanos,
    },
    /// What other nodes send to the target replica arrives this much later, also once it leads.
    ReplicaLag {
        /// Added to each replication message.
        extra: Nanos,
    },
    /// A command promotes the target replica to master, and `master` resolves to it from then on.
    Failover,
    /// The target node evicts a key as if it had run out of memory.
    Evict {
        /// The key.
        key: String,
    },
    /// FLUSHALL on the target node.
    Flush,
    /// fsync on the target host returns at once and does nothing.
    LyingDisk,
    /// A loss of power leaves half of the last unsynced write of the target host: a torn write.
    TearingDisk,
    /// The target host's disk is full.
    FullDisk,
}

/// The host or links that a fault acts on. Written `n1`, `c1 -> n1 n2` or `c1 <-> n1 n2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// One host.
    Host(String),
    /// The links from each host of one side to each host of the other.
    Links {
        /// Hosts that send.
        from: Vec<String>,
        /// Hosts that receive.
        to: Vec<String>,
        /// Whether the links in the opposite direction are included.
        both: bool,
    },
}

impl Target {
    /// Every host that the target names.
    pub fn hosts(&self) -> Vec<&str> {
        match self {
            Target::Host(host) => vec![host],
            Target::Links { from, to, .. } => from.iter().chain(to).map(String::as_str).collect(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Host(host) => f.write_str(host),
            Target::Links { from, to, both } => {
                let arrow = if *both { "<->" } else { "->" };
                write!(f, "{} {arrow} {}", from.join(" "), to.join(" "))
            }
        }
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.to_string()
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Target, String> {
        let wrong = || format!("'{text}' is no target: write a host, 'c1 -> n1' or 'c1 <-> n1 n2'");
        let names = |side: &str| side.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let sides = text.split_once("<->").map(|sides| (sides, true));
        let sides = sides.or_else(|| text.split_once("->").map(|sides| (sides, false)));
        let Some(((from, to), both)) = sides else {
            let [host] = names(&text).try_into().map_err(|_| wrong())?;
            return Ok(Target::Host(host));
        };
        let (from, to) = (names(from), names(to));
        if from.is_empty() || to.is_empty() || text.matches("->").count() != 1 {
            return Err(wrong());
        }
        Ok(Target::Links { from, to, both })
    }
}

/// When a fault strikes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Anchor {
    /// At a true time in nanoseconds.
    At(Nanos),
    /// After the nth event of a kind. With `plus` 0 it strikes before any task runs.
    After {
        /// The event to wait for.
        event: Pattern,
        /// Which occurrence, counted from 1.
        nth: u32,
        /// Nanoseconds between the event and the strike.
        plus: Nanos,
    },
}

impl Anchor {
    /// The number of the fault for whose begin or end it waits.
    pub fn other_fault(&self) -> Option<u32> {
        match self {
            Anchor::After { event: Pattern::Fault { id, .. }, .. } => Some(*id),
            _ => None,
        }
    }
}

/// The events that an anchor waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// A host passed a named point of its lock's code.
    Step {
        /// The host.
        who: String,
        /// The point.
        label: String,
    },
    /// A request or its reply made progress.
    Message {
        /// The client's host.
        from: String,
        /// The node's host.
        to: String,
        /// The command in upper case; `None` matches any.
        command: Option<String>,
        /// The leg.
        leg: Leg,
    },
    /// An operation was invoked or returned.
    Outcome {
        /// The client's host.
        who: String,
        /// `acquire`, `acquired`, `refused`, ...
        what: String,
    },
    /// Another fault struck or ended.
    Fault {
        /// Its number.
        id: u32,
        /// Which end.
        edge: Edge,
    },
    /// A node became something, or another host began to see it so.
    Node {
        /// The node.
        who: String,
        /// What it became.
        becomes: Becomes,
    },
}

/// What a node can become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Becomes {
    /// A Sentinel gets no reply from it: `+sdown`.
    Suspected,
    /// A Sentinel or a cluster node takes it for down: `+odown`, FAIL.
    Down,
    /// A master: promoted, or started as one.
    Leads,
    /// A replica: demoted, or started as one.
    Follows,
    /// The same as its master: a full resynchronisation replaced its keys.
    Resynchronised,
}

impl Becomes {
    /// Every one, with its word in scenarios.
    pub const WORDS: [(&str, Becomes); 5] = [
        ("suspected", Becomes::Suspected),
        ("down", Becomes::Down),
        ("leads", Becomes::Leads),
        ("follows", Becomes::Follows),
        ("resynchronised", Becomes::Resynchronised),
    ];

    /// Its word in scenarios.
    pub fn word(self) -> &'static str {
        Becomes::WORDS.iter().find(|(_, becomes)| *becomes == self).map_or("", |(word, _)| word)
    }

    /// Whether a node becomes this by an event on `at`, which is its own or an observer's.
    fn is_by(self, event: &Event, node: HostId, at: HostId, hosts: &HostNames) -> bool {
        match (self, event) {
            (Becomes::Suspected, Event::Saw { sight: Sight::Suspected, master })
            | (Becomes::Down, Event::Saw { sight: Sight::Down, master }) => {
                hosts.of(*master) == Some(node)
            }
            (Becomes::Leads, Event::Role { master: None })
            | (Becomes::Follows, Event::Role { master: Some(_) })
            | (Becomes::Resynchronised, Event::Loaded { resync: Some(_), .. }) => node == at,
            _ => false,
        }
    }
}

/// An anchor that is still waiting for its event.
#[derive(Clone, Debug)]
pub struct Watch {
    fault: u32,
    pattern: Pattern,
    left: u32,
    plus: Nanos,
}

impl Watch {
    /// The watch for a fault whose anchor is an event, or `None` if it strikes at a fixed time.
    pub fn of(fault: &Fault) -> Option<Watch> {
        match &fault.anchor {
            Anchor::At(_) => None,
            Anchor::After { event, nth, plus } => {
                Some(Watch { fault: fault.id, pattern: event.clone(), left: *nth, plus: *plus })
            }
        }
    }

    /// Checks an event. If it is the expected one: the fault's number and the nanoseconds until the
    /// strike.
    pub fn observe(&mut self, entry: &Entry, hosts: &HostNames) -> Option<(u32, Nanos)> {
        // An anchor comes once: a watch that has reported its fault stays silent.
        if self.left == 0 || !self.pattern.matches(entry, hosts) {
            return None;
        }
        self.left -= 1;
        (self.left == 0).then_some((self.fault, self.plus))
    }
}

/// The hosts of a world by name and address.
#[derive(Clone, Debug, Default)]
pub struct HostNames {
    names: Vec<String>,
    by_ip: BTreeMap<Ipv4Addr, HostId>,
    by_address: BTreeMap<SocketAddrV4, HostId>,
    outside: Option<HostId>,
}

impl HostNames {
    /// Adds a host with the next number.
    ///
    /// # Panics
    /// If another host has the name or the address.
    pub fn add(&mut self, name: &str, ip: Ipv4Addr) -> HostId {
        let id = self.next(name);
        assert!(self.by_ip.insert(ip, id).is_none(), "two hosts have the address {ip}");
        id
    }

    /// Adds a host that listens at an address, where hosts share their IP. The unspecified IP means
    /// everything outside the world.
    ///
    /// # Panics
    /// If another host has the name or the address.
    pub fn add_at(&mut self, name: &str, address: SocketAddrV4) -> HostId {
        let id = self.next(name);
        if address.ip().is_unspecified() {
            self.outside = Some(id);
        } else {
            let taken = self.by_address.insert(address, id);
            assert!(taken.is_none(), "two hosts have the address {address}");
        }
        id
    }

    /// Adds a further address at which a host listens: connections to it are to that host.
    pub fn open_at(&mut self, id: HostId, address: SocketAddrV4) {
        self.by_address.insert(address, id);
    }

    fn next(&mut self, name: &str) -> HostId {
        assert!(self.find(name).is_none(), "two hosts have the name '{name}'");
        let id = HostId(u16::try_from(self.names.len()).expect("a world has under 65,536 hosts"));
        self.names.push(name.to_owned());
        id
    }

    /// The host whose end of a connection has this address.
    pub fn of(&self, address: SocketAddrV4) -> Option<HostId> {
        // The exact address first, because machines of the live engine may share an IP address.
        let known = self.by_address.get(&address).copied();
        known.or_else(|| self.at(*address.ip())).or(self.outside)
    }

    /// The name of the host with this address.
    pub(crate) fn name_of(&self, address: SocketAddrV4) -> &str {
        self.of(address).map_or("", |host| self.name(host))
    }

    /// The name of a host; empty for the world itself.
    pub fn name(&self, host: HostId) -> &str {
        self.names.get(usize::from(host.0)).map_or("", String::as_str)
    }

    /// The host with this IP.
    pub fn at(&self, ip: Ipv4Addr) -> Option<HostId> {
        self.by_ip.get(&ip).copied()
    }

    /// The name of the host with this IP.
    pub fn name_at(&self, ip: Ipv4Addr) -> &str {
        self.at(ip).map_or("", |host| self.name(host))
    }

    /// The host with this name.
    pub fn find(&self, name: &str) -> Option<HostId> {
        let index = self.names.iter().position(|known| known == name)?;
        Some(HostId(u16::try_from(index).expect("a world has under 65,536 hosts")))
    }

    /// Every host.
    pub fn ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.names.len()).map(|n| HostId(u16::try_from(n).expect("counted when added")))
    }
}

impl Pattern {
    fn matches(&self, entry: &Entry, hosts: &HostNames) -> bool {
        match (self, &entry.event) {
            (Pattern::Step { who, label }, Event::Step { label: seen }) => {
                label == seen && who == hosts.name(entry.host)
            }
            (Pattern::Outcome { who, what }, Event::Outcome { what: seen, .. }) => {
                what == seen && who == hosts.name(entry.host)
            }
            (
                Pattern::Message { from, to, command, leg },
                Event::Message { request, leg: seen, command: name, .. },
            ) => {
                leg == seen
                    && command.as_ref().is_none_or(|command| command == name)
                    && from == hosts.name_of(request.connection.client)
                    && to == hosts.name_of(request.connection.server)
            }
            (Pattern::Fault { id, edge }, Event::Fault { id: seen, edge: seen_edge }) => {
                id == seen && edge == seen_edge
            }
            (Pattern::Node { who, becomes }, event) => {
                hosts.find(who).is_some_and(|node| becomes.is_by(event, node, entry.host, hosts))
            }
            _ => false,
        }
    }
}

/// The maximum length that any plan may name: 30 days, so that sums cannot overflow.
pub const MAX_LENGTH: Nanos = 30 * 24 * 3600 * SECOND;
