//! What a search may vary in how the nodes of the base plan are deployed: what they write to their
//! disks, when a master counts as down, how many replicas a master needs, how fast a clock runs.
//!
//! Every draw shrinks to the value of the base plan.

use std::collections::BTreeSet;

use lockstorm_platform::time::{ClockSetting, MILLISECOND, SECOND};
use proptest::prelude::{BoxedStrategy, Strategy};
use proptest::sample::select;

use crate::hunt::parameter::{Parameter, maybe};
use crate::plan::{MinReplicas, Persistence, Plan};

/// The drawn values; `None` keeps the value of the base plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployment {
    persistence: Option<Persistence>,
    /// After how long without a sign of a master others replace it, in ms.
    down_after: Option<u64>,
    /// How many Sentinels have to agree on that.
    sentinel_quorum: Option<u32>,
    min_replicas: Option<MinReplicas>,
    /// A node and its priority as a replica: 0 for never, 10 for before the others.
    priority: Option<(String, u32)>,
    /// A host and the rate of its clocks, in parts per million.
    rate: Option<(String, i32)>,
    /// A host and how far its wall clock is off at the start, in ms.
    offset: Option<(String, i64)>,
}

/// Every persistence of a node.
const PERSISTENCES: [Persistence; 5] = [
    Persistence::None,
    Persistence::AofAlways,
    Persistence::AofEverysec,
    Persistence::AofNo,
    Persistence::Rdb,
];

/// The possible deployments of plans like `base`.
pub fn deployments(base: &Plan, varies: &BTreeSet<Parameter>) -> BoxedStrategy<Deployment> {
    let free = |parameter| varies.contains(&parameter);
    let topology = &base.topology;
    let sentinels = topology.sentinels.map_or(1, |sentinels| sentinels.count);
    let is_watched = topology.sentinels.is_some() || topology.shards.is_some();
    let replicas = topology.replicas();
    let wants_replicas = (1..=replicas.max(1), 1..=10_u64)
        .prop_map(|(to_write, seconds)| MinReplicas { to_write, max_lag: seconds * SECOND });
    let lease_ms = i64::try_from(base.longest_ttl().max(SECOND) / MILLISECOND).unwrap_or(1_000);
    let hosts = [base.nodes(), base.clients()].concat();
    (
        maybe(free(Parameter::Persistence), select(PERSISTENCES.to_vec())),
        maybe(free(Parameter::DownAfter) && is_watched, 500..=5_000_u64),
        maybe(free(Parameter::SentinelQuorum) && sentinels > 1, 1..=sentinels),
        maybe(free(Parameter::MinReplicas) && replicas > 0, wants_replicas),
        maybe(
            free(Parameter::Priority) && topology.sentinels.is_some(),
            (select(base.nodes()), select(vec![0, 10])),
        ),
        maybe(free(Parameter::ClockRate), (select(hosts.clone()), -20_000..=20_000_i32)),
        maybe(free(Parameter::WallOffset), (select(hosts), -lease_ms * 2..=lease_ms * 2)),
    )
        .prop_map(
            |(persistence, down_after, sentinel_quorum, min_replicas, priority, rate, offset)| {
                Deployment {
                    persistence,
                    down_after,
                    sentinel_quorum,
                    min_replicas,
                    priority,
                    rate,
                    offset,
                }
            },
        )
        .boxed()
}

impl Deployment {
    /// Deploys the nodes of a plan in this way.
    pub fn apply(&self, plan: &mut Plan) {
        let replicas = plan.topology.replicas();
        let topology = &mut plan.topology;
        topology.persistence = self.persistence.unwrap_or(topology.persistence);
        let down_after = self.down_after.map(|ms| ms * MILLISECOND);
        if let Some(sentinels) = &mut topology.sentinels {
            sentinels.down_after = down_after.unwrap_or(sentinels.down_after);
            sentinels.quorum = self.sentinel_quorum.unwrap_or(sentinels.quorum);
        }
        if let Some(shards) = &mut topology.shards {
            shards.node_timeout = down_after.unwrap_or(shards.node_timeout);
        }
        // The number of nodes may be drawn as well.
        if let Some(least) = self.min_replicas.filter(|_| replicas > 0) {
            let to_write = least.to_write.min(replicas);
            topology.min_replicas = Some(MinReplicas { to_write, ..least });
        }
        if let Some((node, number)) = self.priority.clone()
            && topology.node_names().contains(&node)
        {
            topology.priorities.insert(node, number);
        }
        if let Some((clocks, ppm)) = drawn_clocks(plan, self.rate.as_ref()) {
            clocks.rate_ppm = ppm;
        }
        if let Some((clocks, ms)) = drawn_clocks(plan, self.offset.as_ref()) {
            clocks.wall_offset = ms * 1_000_000;
        }
    }
}

/// The clocks that a draw names with their new figure, if the plan has that host: the number of
/// hosts may be drawn as well.
fn drawn_clocks<'p, F: Copy>(
    plan: &'p mut Plan,
    drawn: Option<&(String, F)>,
) -> Option<(&'p mut ClockSetting, F)> {
    let (host, figure) = drawn.filter(|(host, _)| plan.hosts().contains(host))?;
    Some((plan.clocks.entry(host.clone()).or_default(), *figure))
}
