//! How long drawn faults last, and by how much messages are late.
//!
//! Bugs of leases show where lengths meet: a reply that comes just before the timeout, a pause that
//! takes what the work left of the lease. So some lengths are near a figure of the plan.

use lockstorm_platform::fault::verbs::{ActsOn, Row};
use lockstorm_platform::time::{MILLISECOND, Nanos};
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::{prop_oneof, sample};

use crate::lock::algorithm::Algorithm;
use crate::plan::Plan;

/// How far a length near a figure is from it at most, ms.
const NEAR: u64 = 50;

/// The length of a fault: short, about as long as a lease, longer than one, or near a figure.
pub fn length(plan: &Plan, lock: &Algorithm) -> BoxedStrategy<Nanos> {
    let lease_ms = lease_ms(plan);
    let ms = |range: std::ops::RangeInclusive<u64>| range.prop_map(|ms| ms * MILLISECOND);
    prop_oneof![ms(1..=500), ms(1..=lease_ms), ms(lease_ms..=lease_ms * 3), near(plan, lock)]
        .boxed()
}

/// By how much messages or commands are late. Messages may outlast a lease, commands may not: they
/// would stop a node.
pub fn extra(row: &Row, plan: &Plan, lock: &Algorithm) -> BoxedStrategy<Nanos> {
    let short = (1..=500_u64).prop_map(|ms| ms * MILLISECOND);
    let lease_ms = lease_ms(plan);
    let long = (1..=lease_ms * 3 / 2).prop_map(|ms| ms * MILLISECOND);
    // Longer than a caller waits for an access: it has released the lock when the access arrives.
    let timeout_ms = (plan.workload.timeout / MILLISECOND).clamp(1, plan.heal_at / MILLISECOND);
    let given_up = (timeout_ms..=timeout_ms * 4).prop_map(|ms| ms * MILLISECOND);
    match row.acts_on {
        ActsOn::Links | ActsOn::Replica => {
            prop_oneof![1 => short, 1 => long, 1 => near(plan, lock), 2 => given_up].boxed()
        }
        ActsOn::Node | ActsOn::Host => short.boxed(),
    }
}

/// A length near one of the figures of the plan.
pub fn near(plan: &Plan, lock: &Algorithm) -> BoxedStrategy<Nanos> {
    let off = prop_oneof![Just(0), 1..=NEAR].prop_map(|ms| ms * MILLISECOND);
    (sample::select(figures(plan, lock)), off, proptest::bool::ANY)
        .prop_map(|(figure, off, longer)| {
            let near = if longer { figure + off } else { figure.saturating_sub(off) };
            near.max(MILLISECOND)
        })
        .boxed()
}

/// The lengths at which something changes: a lease, a timeout, what other uses leave of a lease.
fn figures(plan: &Plan, lock: &Algorithm) -> Vec<Nanos> {
    let choices = lock.choices(&plan.lock);
    let lease = plan.longest_ttl();
    let left = |used: Nanos| lease.saturating_sub(used);
    let needs = plan.lock.needs.map(left);
    let extends = plan.workload.extend.rhythm().map(|rhythm| left(rhythm.due(lease)));
    let figures = [lease, choices.timeout, left(choices.timeout), left(plan.workload.hold)];
    let others = needs.into_iter().chain(extends);
    let all = figures.into_iter().chain(others).map(|length| length / MILLISECOND * MILLISECOND);
    let some = all.filter(|length| (MILLISECOND..plan.heal_at).contains(length));
    some.chain([MILLISECOND * lease_ms(plan)]).collect()
}

/// The lease in ms, within limits: a lock may have none, or a very long one.
pub fn lease_ms(plan: &Plan) -> u64 {
    (plan.longest_ttl() / MILLISECOND).clamp(1_000, 30_000)
}
