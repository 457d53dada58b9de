//! What a world is built from: machines and their processes, links, names and faults.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use lockstorm_platform::fault::Fault;
use lockstorm_platform::network::Latency;
use lockstorm_platform::order::Operator;
use lockstorm_platform::rng::DrawKey;
use lockstorm_platform::time::ClockSetting;

use crate::engine::interface::Process;
use crate::engine::kind::EngineKind;

/// What a world is built from.
pub struct WorldSpec {
    /// What drives it.
    pub engine: EngineKind,
    /// Whether all that takes time takes whole milliseconds.
    pub whole_ms: bool,
    /// Where every draw comes from.
    pub seed: u64,
    /// Draws that are fixed by hand.
    pub draws: BTreeMap<DrawKey, u64>,
    /// How long messages take where no link is named.
    pub latency: Latency,
    /// Directed links with a latency of their own.
    pub named_links: Vec<(String, String, Latency)>,
    /// Lost tries in a million, on every link.
    pub loss_per_million: u32,
    /// The machines, in the order in which they are started.
    pub hosts: Vec<HostSpec>,
    /// Further names of addresses, such as `master`.
    pub names: BTreeMap<String, SocketAddrV4>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Who carries out faults that act by command, where there may be any.
    pub operator: Option<Operator>,
    /// Whether the trace keeps a line for every record.
    pub whole_trace: bool,
}

impl WorldSpec {
    /// A world in which messages take no time and nothing goes wrong.
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
            operator: None,
            whole_trace: false,
        }
    }
}

/// One machine and its process.
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// Its address; the name stands for it.
    pub address: SocketAddrV4,
    /// How its clocks are set.
    pub clocks: ClockSetting,
    /// What part it plays.
    pub part: Part,
    /// What its process runs.
    pub process: Process,
}

impl HostSpec {
    /// A machine whose clocks are right.
    pub fn new(
        name: impl Into<String>,
        address: SocketAddrV4,
        part: Part,
        process: Process,
    ) -> HostSpec {
        HostSpec { name: name.into(), address, clocks: ClockSetting::default(), part, process }
    }
}

/// What part a machine plays, as far as faults and the heal care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A Redis node: it is started again by the heal.
    Node,
    /// A Sentinel: so is it, but it has nothing to do with replication.
    Sentinel,
    /// Anything else: what is dead stays dead.
    Other,
    /// As `Other`, and not started before [`crate::world::World::start`].
    Late,
}
