//! What a world is built from: machines and their processes, links, names and faults.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use lockstorm_platform::fault::Fault;
use lockstorm_platform::network::Latency;
use lockstorm_platform::order::Operator;
use lockstorm_platform::rng::DrawKey;
use lockstorm_platform::time::{ClockSetting, Nanos};

use crate::engine::interface::Process;
use crate::engine::kind::EngineKind;

/// The description of a world.
pub struct WorldSpec {
    /// The engine that drives it.
    pub engine: EngineKind,
    /// Whether all durations are whole milliseconds.
    pub whole_ms: bool,
    /// The seed of every draw.
    pub seed: u64,
    /// Draws with fixed values.
    pub draws: BTreeMap<DrawKey, u64>,
    /// The latency of links that are not named.
    pub latency: Latency,
    /// Directed links with their own latency.
    pub named_links: Vec<(String, String, Latency)>,
    /// Lost tries per million, on every link.
    pub loss_per_million: u32,
    /// The machines, in the order in which they are started.
    pub hosts: Vec<HostSpec>,
    /// Additional names of addresses, such as `master`.
    pub names: BTreeMap<String, SocketAddrV4>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// When the world will be healed, if that is known: no fault lasts longer.
    pub heal_at: Option<Nanos>,
    /// Carries out faults that act by command, if there can be any.
    pub operator: Option<Operator>,
    /// Whether the trace keeps a line for every record.
    pub whole_trace: bool,
}

impl WorldSpec {
    /// A world without latency, loss or faults.
    pub fn new(engine: EngineKind, seed: u64, hosts: Vec<HostSpec>) -> WorldSpec {
        WorldSpec {
            engine,
            whole_ms: false,
            seed,
            draws: BTreeMap::new(),
            latency: Latency::Constant(0),
            named_links: Vec::new(),
            loss_per_million: 0,
            hosts,
            names: BTreeMap::new(),
            faults: Vec::new(),
            heal_at: None,
            operator: None,
            whole_trace: false,
        }
    }
}

/// One machine and its process.
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// Its address, to which its name resolves.
    pub address: SocketAddrV4,
    /// The initial setting of its clocks.
    pub clocks: ClockSetting,
    /// Its part in the world.
    pub part: Part,
    /// What its process runs.
    pub process: Process,
}

impl HostSpec {
    /// A machine with correct clocks.
    pub fn new(
        name: impl Into<String>,
        address: SocketAddrV4,
        part: Part,
        process: Process,
    ) -> HostSpec {
        HostSpec { name: name.into(), address, clocks: ClockSetting::default(), part, process }
    }
}

/// The part of a machine, as far as faults and the heal distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A Redis node: the heal restarts it.
    Node,
    /// A Sentinel: the heal restarts it too, but it takes no part in replication.
    Sentinel,
    /// Anything else: once dead, it stays dead.
    Other,
    /// As `Other`, and not started before [`crate::world::World::start`].
    Late,
}

impl Part {
    /// Whether its process is a Redis server, which has one event loop.
    pub(crate) fn is_redis(self) -> bool {
        matches!(self, Part::Node | Part::Sentinel)
    }
}
