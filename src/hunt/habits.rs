//! What a search may vary in the base plan besides faults: the work time, the lease, the number of
//! nodes, clients and callers, the use of the lock.
//!
//! Half of the plans keep everything as it is. In the others each parameter may be drawn, unless
//! the user set it. Every draw shrinks to the value of the base plan.

use std::collections::BTreeSet;

use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::prop_oneof;

use crate::hunt::deployment::{Deployment, deployments};
use crate::hunt::parameter::{Parameter, maybe};
use crate::lock::algorithm::{Algorithm, Nodes};
use crate::plan::extend::Extend;
use crate::plan::validity::MAX_CLIENTS;
use crate::plan::{Plan, TopologyKind, Workload};
use crate::workload::{first_request, slowest_request, work};

/// The drawn values; `None` keeps the value of the base plan.
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
    /// In thousandths of the lease.
    needs: Option<u64>,
    extend: Option<Extend>,
    /// Whether work may be made long enough for a drawn extend.
    may_work_longer: bool,
    reenter: bool,
    check_validity: bool,
    deployment: Deployment,
}

/// The maximum number of clients that is drawn.
const MOST_CLIENTS: u32 = 6;
/// The maximum number of callers in the process of each client that is drawn.
const MOST_CALLERS: u32 = 3;

/// The length that replaces the lease if there is none.
const NO_LEASE: Nanos = 3 * SECOND;

/// The possible habits of plans like `base`.
pub fn habits(
    base: &Plan,
    lock: &Algorithm,
    varies: &BTreeSet<Parameter>,
) -> BoxedStrategy<Habits> {
    let free = |parameter| varies.contains(&parameter);
    let is_exclusive = lock.promises(&base.lock, work(base)).holders == 1;
    let ttl = free(Parameter::Ttl) && lends(base, lock);
    let nodes = nodes(base, lock).filter(|_| free(Parameter::Nodes));
    let needs = free(Parameter::Needs) && may_need(base, lock);
    let may_work_longer = free(Parameter::Hold);
    let drawn = (
        maybe(free(Parameter::Hold), 0..=2_500_u64),
        maybe(ttl, 300..=6_000_u64),
        maybe(nodes.is_some(), nodes.unwrap_or(1..=1)),
        maybe(free(Parameter::Clients), 4..=MOST_CLIENTS),
        maybe(free(Parameter::Timeout), 10..=2_000_u64),
        maybe(needs, 100..=900_u64),
        maybe(free(Parameter::Extend), proptest::sample::select(rhythms())),
        // If several callers may hold the lock, a second acquire takes another permit.
        maybe(free(Parameter::Reenter) && is_exclusive, Just(())),
        maybe(free(Parameter::CheckValidity), Just(())),
        deployments(base, varies),
    );
    let habits = drawn.prop_map(
        move |(
            hold,
            ttl,
            nodes,
            clients,
            timeout,
            needs,
            extend,
            reenter,
            check_validity,
            deployment,
        )| {
            Habits {
                hold,
                ttl,
                nodes,
                clients,
                timeout,
                needs,
                extend,
                may_work_longer,
                reenter: reenter.is_some(),
                check_validity: check_validity.is_some(),
                deployment,
            }
        },
    );
    (proptest::bool::ANY, habits)
        .prop_map(|(vary, habits)| if vary { habits } else { Habits::default() })
        .boxed()
}

/// How often clients may extend their grants.
pub fn rhythms() -> Vec<Extend> {
    ["1/3", "1/2", "2/3", "until-lost"].map(|text| text.parse().unwrap_or_default()).to_vec()
}

/// Makes work outlast the second extend of its grant: in shorter work there may be none.
pub fn outlast_extends(plan: &mut Plan) {
    let due = plan.workload.extend.rhythm().zip(plan.lock.ttl).map(|(rhythm, ttl)| rhythm.due(ttl));
    let least = due.map_or(0, |due| due.saturating_mul(3).min(plan.heal_at));
    plan.workload.hold = plan.workload.hold.max(least / MILLISECOND * MILLISECOND);
}

/// The possible numbers of callers in the process of each client: mostly that of the base plan. No
/// lock assumes that its clients have one thread, so within assumptions several are drawn as well.
pub fn callers(base: &Plan, varies: &BTreeSet<Parameter>) -> BoxedStrategy<u32> {
    let Workload { clients, callers, .. } = base.workload;
    let most = Workload {
        clients: clients.max(MOST_CLIENTS),
        callers: MOST_CALLERS,
        ..base.workload.clone()
    };
    let can = most.all_callers() <= MAX_CLIENTS && most.last_start() < base.heal_at;
    if !varies.contains(&Parameter::Callers) || callers != 1 || !can {
        return Just(callers).boxed();
    }
    prop_oneof![7 => Just(1), 1 => 2..=MOST_CALLERS].boxed()
}

/// Whether a lock that compares what is left of a lease with what the work needs may do so.
pub fn may_need(base: &Plan, lock: &Algorithm) -> bool {
    let checks = lock.needs_ttl && lock.choices(&base.lock).validity;
    lock.nodes == Nodes::Quorum && checks && base.lock.needs.is_none()
}

/// Whether another lease makes sense: no other setting may depend on its length.
fn lends(base: &Plan, lock: &Algorithm) -> bool {
    let config = &base.lock;
    let hangs = config.needs.or(config.renew_every).or(config.renew_ttl).is_some();
    lock.needs_ttl && !hangs
}

/// The possible numbers of nodes of the topology, if not fixed.
fn nodes(base: &Plan, lock: &Algorithm) -> Option<std::ops::RangeInclusive<u32>> {
    let topology = &base.topology;
    match topology.kind {
        TopologyKind::Independent if lock.nodes != Nodes::First && topology.replicas_each == 0 => {
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

/// The minimum timeout within which the first request of a caller is answered, without faults: a
/// shorter one tests no lock.
pub fn least_timeout(plan: &Plan) -> Nanos {
    (first_request(plan) * slowest_request(&plan.links)).max(MILLISECOND)
}

impl Habits {
    /// Applies the habits to a plan.
    pub fn apply(&self, plan: &mut Plan, lock: &Algorithm) {
        let before = plan.longest_ttl();
        if let Some(ms) = self.ttl {
            let unit = lock.choices(&plan.lock).unit;
            plan.lock.ttl = Some((ms * MILLISECOND).div_ceil(unit) * unit);
        }
        // The probe waits for the maximum lease.
        plan.until += plan.longest_ttl().saturating_sub(before);
        let lease = plan.lock.ttl.unwrap_or(NO_LEASE);
        let share = |thousandths: u64| lease / 1_000 * thousandths / MILLISECOND * MILLISECOND;
        if let Some(hold) = self.hold {
            plan.workload.hold = share(hold);
        }
        plan.lock.needs = self.needs.map(share).or(plan.lock.needs);
        let least = least_timeout(plan);
        let settled = || lock.defaults.settle(&plan.lock).timeout;
        match self.timeout {
            Some(timeout) => plan.lock.timeout = Some(share(timeout).max(least)),
            // Only a reply that may take as long makes a difference.
            None if self.needs.is_some() => plan.lock.timeout = Some(lease.max(least)),
            None if self.ttl.is_some() && settled() < least => plan.lock.timeout = Some(least),
            None => {}
        }
        plan.topology.nodes = self.nodes.unwrap_or(plan.topology.nodes);
        plan.workload.clients = self.clients.unwrap_or(plan.workload.clients);
        plan.workload.extend = self.extend.unwrap_or(plan.workload.extend);
        plan.workload.reenter |= self.reenter;
        // A caller extends its outer grant alone: the inner one must not outlast its lease.
        if self.extend.is_some() && self.may_work_longer && !plan.workload.reenter {
            outlast_extends(plan);
        }
        plan.workload.check_validity |= self.check_validity;
        self.deployment.apply(plan);
    }
}

#[cfg(test)]
mod tests;
