//! What clients, lock and topology of a plan may have otherwise than the base plan of a search:
//! how long they work, how long a lease is, how many there are, how they use the lock.
//!
//! Half of the plans keep all as it is. Of the others each parameter may be drawn unless a person
//! has chosen it. All shrink to what the base plan says.

use std::collections::BTreeSet;

use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use proptest::prelude::{BoxedStrategy, Just, Strategy};

use crate::lock::algorithm::Algorithm;
use crate::plan::extend::Extend;
use crate::plan::{Plan, TopologyKind};
use crate::workload::slowest_message;

/// What may be drawn beside faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    /// How long a client works.
    Hold,
    /// How long a lease is.
    Ttl,
    /// How many nodes there are.
    Nodes,
    /// How many clients there are.
    Clients,
    /// How long the lock waits for a request.
    Timeout,
    /// Whether a client prolongs its grant.
    Extend,
    /// Whether a client takes the lock again while it holds it.
    Reenter,
    /// Whether a client looks at its deadline.
    CheckValidity,
}

impl Parameter {
    /// Every parameter.
    pub fn all() -> BTreeSet<Parameter> {
        use Parameter::{CheckValidity, Clients, Extend, Hold, Nodes, Reenter, Timeout, Ttl};
        [Hold, Ttl, Nodes, Clients, Timeout, Extend, Reenter, CheckValidity].into()
    }
}

/// What is drawn: `None` is what the base plan says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// In thousandths of the lease.
    hold: Option<u64>,
    /// In ms.
    ttl: Option<u64>,
    nodes: Option<u32>,
    clients: Option<u32>,
    /// In thousandths of the lease.
    timeout: Option<u64>,
    extend: Option<Extend>,
    reenter: bool,
    check_validity: bool,
}

/// Messages of a request that has to connect first: each there and back.
const ROUND: u64 = 4;
/// What counts as a lease where there is none.
const NO_LEASE: Nanos = 3 * SECOND;

/// The habits that plans like `base` may have.
pub fn habits(
    base: &Plan,
    lock: &Algorithm,
    varies: &BTreeSet<Parameter>,
) -> BoxedStrategy<Habits> {
    let free = |parameter| varies.contains(&parameter);
    let ttl = free(Parameter::Ttl) && lends(base, lock);
    let nodes = nodes(base, lock).filter(|_| free(Parameter::Nodes));
    let rhythms = ["1/3", "1/2", "2/3", "until-lost"].map(|text| text.parse().unwrap_or_default());
    let drawn = (
        maybe(free(Parameter::Hold), 0..=2_500_u64),
        maybe(ttl, 300..=6_000_u64),
        maybe(nodes.is_some(), nodes.unwrap_or(1..=1)),
        maybe(free(Parameter::Clients), 4..=6_u32),
        maybe(free(Parameter::Timeout), 10..=2_000_u64),
        maybe(free(Parameter::Extend), proptest::sample::select(rhythms.to_vec())),
        maybe(free(Parameter::Reenter), Just(())),
        maybe(free(Parameter::CheckValidity), Just(())),
    );
    let habits =
        drawn.prop_map(|(hold, ttl, nodes, clients, timeout, extend, reenter, check_validity)| {
            Habits {
                hold,
                ttl,
                nodes,
                clients,
                timeout,
                extend,
                reenter: reenter.is_some(),
                check_validity: check_validity.is_some(),
            }
        });
    (proptest::bool::ANY, habits)
        .prop_map(|(vary, habits)| if vary { habits } else { Habits::default() })
        .boxed()
}

/// What the base plan says, or once in three times another value.
fn maybe<S>(free: bool, other: S) -> BoxedStrategy<Option<S::Value>>
where
    S: Strategy + 'static,
    S::Value: Clone + 'static,
{
    if !free {
        return Just(None).boxed();
    }
    proptest::prop_oneof![2 => Just(None), 1 => other.prop_map(Some)].boxed()
}

/// Whether another lease makes sense: nothing else may hang on its length.
fn lends(base: &Plan, lock: &Algorithm) -> bool {
    let config = &base.lock;
    let hangs = config.needs.or(config.renew_every).or(config.renew_ttl).is_some();
    lock.needs_ttl && !hangs
}

/// How many nodes the topology may have, if that is open.
fn nodes(base: &Plan, lock: &Algorithm) -> Option<std::ops::RangeInclusive<u32>> {
    let topology = &base.topology;
    match topology.kind {
        TopologyKind::Independent if lock.asks_all && topology.replicas_each == 0 => {
            base.lock.quorum.is_none().then_some(1..=7)
        }
        TopologyKind::Replicated => {
            let acks = base.lock.acks.unwrap_or(1).max(1);
            let needed = topology.min_replicas.map_or(acks, |least| least.to_write.max(acks));
            (needed <= 4).then_some(needed + 1..=5)
        }
        _ => None,
    }
}

/// Messages that a caller's first request takes at the most, one after the other: it may have to
/// listen to Sentinels, to ask one for the master and this for its role, or to ask one node of a
/// cluster for the slots and to be sent on by another.
fn first_request(plan: &Plan) -> u64 {
    match plan.topology.kind {
        TopologyKind::Sentinel => 3 * ROUND + 2,
        TopologyKind::Cluster => 3 * ROUND,
        TopologyKind::Single | TopologyKind::Independent | TopologyKind::Replicated => ROUND,
    }
}

impl Habits {
    /// Gives them to a plan.
    pub fn apply(&self, plan: &mut Plan, lock: &Algorithm) {
        let before = plan.longest_ttl();
        if let Some(ms) = self.ttl {
            let unit = lock.defaults.unit;
            plan.lock.ttl = Some((ms * MILLISECOND).div_ceil(unit) * unit);
        }
        plan.until += plan.longest_ttl().saturating_sub(before);
        let lease = plan.lock.ttl.unwrap_or(NO_LEASE);
        let share = |thousandths: u64| lease / 1_000 * thousandths / MILLISECOND * MILLISECOND;
        if let Some(hold) = self.hold {
            plan.workload.hold = share(hold);
        }
        // A request that cannot be answered in time, faults or none, tests no lock.
        let least = (first_request(plan) * slowest_message(&plan.links)).max(MILLISECOND);
        let settled = || lock.defaults.settle(&plan.lock).timeout;
        match self.timeout {
            Some(timeout) => plan.lock.timeout = Some(share(timeout).max(least)),
            None if self.ttl.is_some() && settled() < least => plan.lock.timeout = Some(least),
            None => {}
        }
        plan.topology.nodes = self.nodes.unwrap_or(plan.topology.nodes);
        plan.workload.clients = self.clients.unwrap_or(plan.workload.clients);
        plan.workload.extend = self.extend.unwrap_or(plan.workload.extend);
        plan.workload.reenter |= self.reenter;
        plan.workload.check_validity |= self.check_validity;
    }
}
