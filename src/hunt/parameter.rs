//! What a search may draw besides faults: the names of it, and which setting of a plan each is.

use std::collections::BTreeSet;

use lockstorm_platform::time::ClockSetting;
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// A parameter that may be drawn besides faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// How long a client works.
    Hold,
    /// The length of a lease.
    Ttl,
    /// The number of nodes.
    Nodes,
    /// The number of clients.
    Clients,
    /// The number of callers in the process of each client.
    Callers,
    /// The timeout of the lock's requests.
    Timeout,
    /// How much of its lease a grant needs to be of use.
    Needs,
    /// Whether a client extends its grant.
    Extend,
    /// Whether a client re-enters the lock while it holds it.
    Reenter,
    /// Whether a client checks its deadline.
    CheckValidity,
    /// What the nodes write to their disks.
    Persistence,
    /// After how long without a sign of a master others replace it.
    DownAfter,
    /// How many Sentinels have to agree on that.
    SentinelQuorum,
    /// How many replicas a master needs.
    MinReplicas,
    /// Which replica Sentinels promote first.
    Priority,
    /// The rates of the clocks from the start.
    ClockRate,
    /// What the wall clocks show at the start.
    WallOffset,
}

impl Parameter {
    /// Every parameter.
    pub const ALL: [Parameter; 17] = [
        Parameter::Hold,
        Parameter::Ttl,
        Parameter::Nodes,
        Parameter::Clients,
        Parameter::Callers,
        Parameter::Timeout,
        Parameter::Needs,
        Parameter::Extend,
        Parameter::Reenter,
        Parameter::CheckValidity,
        Parameter::Persistence,
        Parameter::DownAfter,
        Parameter::SentinelQuorum,
        Parameter::MinReplicas,
        Parameter::Priority,
        Parameter::ClockRate,
        Parameter::WallOffset,
    ];

    /// Every parameter.
    pub fn all() -> BTreeSet<Parameter> {
        Parameter::ALL.into()
    }

    /// Gives a plan this setting of another plan with the same kind of topology.
    pub fn copy(self, from: &Plan, to: &mut Plan) {
        let (own, other) = (&mut to.topology, &from.topology);
        match self {
            Parameter::Hold => to.workload.hold = from.workload.hold,
            Parameter::Ttl => to.lock.ttl = from.lock.ttl,
            Parameter::Nodes => own.nodes = other.nodes,
            Parameter::Clients => to.workload.clients = from.workload.clients,
            Parameter::Callers => to.workload.callers = from.workload.callers,
            Parameter::Timeout => to.lock.timeout = from.lock.timeout,
            Parameter::Needs => to.lock.needs = from.lock.needs,
            Parameter::Extend => to.workload.extend = from.workload.extend,
            Parameter::Reenter => to.workload.reenter = from.workload.reenter,
            Parameter::CheckValidity => to.workload.check_validity = from.workload.check_validity,
            Parameter::Persistence => own.persistence = other.persistence,
            Parameter::DownAfter => {
                for (own, other) in own.sentinels.iter_mut().zip(&other.sentinels) {
                    own.down_after = other.down_after;
                }
                for (own, other) in own.shards.iter_mut().zip(&other.shards) {
                    own.node_timeout = other.node_timeout;
                }
            }
            Parameter::SentinelQuorum => {
                for (own, other) in own.sentinels.iter_mut().zip(&other.sentinels) {
                    own.quorum = other.quorum;
                }
            }
            Parameter::MinReplicas => own.min_replicas = other.min_replicas,
            Parameter::Priority => own.priorities.clone_from(&other.priorities),
            Parameter::ClockRate => {
                copy_clocks(from, to, |own, other| own.rate_ppm = other.rate_ppm)
            }
            Parameter::WallOffset => {
                copy_clocks(from, to, |own, other| own.wall_offset = other.wall_offset);
            }
        }
    }

    /// Whether two plans differ in this setting.
    pub fn differs(self, one: &Plan, other: &Plan) -> bool {
        let (mut own, mut same) = (one.clone(), one.clone());
        self.copy(one, &mut own);
        self.copy(other, &mut same);
        own != same
    }
}

/// Copies a figure of the clocks of all hosts.
fn copy_clocks(from: &Plan, to: &mut Plan, copy: impl Fn(&mut ClockSetting, &ClockSetting)) {
    let hosts: BTreeSet<String> = from.clocks.keys().chain(to.clocks.keys()).cloned().collect();
    for host in hosts {
        let clocks = to.clocks.entry(host.clone()).or_default();
        copy(clocks, &from.clocks.get(&host).copied().unwrap_or_default());
    }
    to.clocks.retain(|_, clocks| *clocks != ClockSetting::default());
}

/// The value of the base plan, or another value in one of two cases.
pub fn maybe<S>(free: bool, other: S) -> BoxedStrategy<Option<S::Value>>
where
    S: Strategy + 'static,
    S::Value: Clone + 'static,
{
    if !free {
        return Just(None).boxed();
    }
    proptest::prop_oneof![Just(None), other.prop_map(Some)].boxed()
}
