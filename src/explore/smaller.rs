//! Plans that are one step smaller than a plan: something is removed, or one number is rounder.
//!
//! A number with fewer digits, not counting trailing zeros, is smaller; with the same number of
//! digits, the lesser one is smaller: 10 s is smaller than 9.588 s. So every walk to smaller plans
//! ends.

use std::collections::BTreeSet;

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Anchor, Fault, Target};
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::explore::parameter::Parameter;
use crate::explore::rerun::pinned;
use crate::ledger::part::{Part, Strikes, without};
use crate::plan::extend::Extend;
use crate::plan::{Persistence, Plan, TopologyKind};

/// Every plan that is one step smaller, the largest steps first. Parameters that do not vary stay
/// as they are. Some of the plans may be invalid.
pub fn smaller(plan: &Plan, struck: &Strikes, varies: &dyn Fn(Parameter) -> bool) -> Vec<Plan> {
    let mut plans = removals(plan, struck, varies);
    plans.extend(plan.faults.iter().flat_map(|fault| targets(plan, fault)));
    plans.extend(counts(plan, varies));
    plans.extend(lengths(plan, varies));
    plans
}

/// The plan with a change.
fn with(plan: &Plan, change: impl FnOnce(&mut Plan)) -> Plan {
    let mut changed = plan.clone();
    change(&mut changed);
    changed
}

/// The plan with a change of one fault.
fn with_fault(plan: &Plan, id: u32, change: impl FnOnce(&mut Fault)) -> Plan {
    with(plan, |plan| {
        if let Some(fault) = plan.faults.iter_mut().find(|fault| fault.id == id) {
            change(fault);
        }
    })
}

/// The plan without one fault, and the same with the other faults at the times at which they
/// struck: the events that they wait for may not occur without the removed one.
pub fn without_fault(plan: &Plan, part: Part, struck: &Strikes) -> Vec<Plan> {
    let less = without(plan, &[part].into(), struck);
    let pinned = pinned(&less, struck, &BTreeSet::new());
    [less].into_iter().chain(pinned).collect()
}

/// Plans without one fault, without an initial condition, or without what the clients do besides
/// their work.
fn removals(plan: &Plan, struck: &Strikes, varies: &dyn Fn(Parameter) -> bool) -> Vec<Plan> {
    let faults = plan.faults.iter().map(|fault| Part::Fault(fault.id));
    let mut plans: Vec<Plan> = faults.flat_map(|part| without_fault(plan, part, struck)).collect();
    let workload = &plan.workload;
    if workload.extend != Extend::Never && varies(Parameter::Extend) {
        plans.push(with(plan, |plan| plan.workload.extend = Extend::Never));
    }
    if workload.reenter && varies(Parameter::Reenter) {
        plans.push(with(plan, |plan| plan.workload.reenter = false));
    }
    if workload.check_validity && varies(Parameter::CheckValidity) {
        plans.push(with(plan, |plan| plan.workload.check_validity = false));
    }
    let topology = &plan.topology;
    if topology.persistence != Persistence::None && varies(Parameter::Persistence) {
        plans.push(with(plan, |plan| plan.topology.persistence = Persistence::None));
    }
    if !topology.priorities.is_empty() && varies(Parameter::Priority) {
        plans.push(with(plan, |plan| plan.topology.priorities.clear()));
    }
    if topology.min_replicas.is_some() && varies(Parameter::MinReplicas) {
        plans.push(with(plan, |plan| plan.topology.min_replicas = None));
    }
    plans.extend(
        plan.clocks
            .keys()
            .map(|host| with(plan, |plan| plan.clocks.retain(|name, _| name != host))),
    );
    if plan.links.loss_per_million > 0 {
        plans.push(with(plan, |plan| plan.links.loss_per_million = 0));
    }
    plans.extend(
        plan.links
            .named
            .keys()
            .map(|link| with(plan, |plan| plan.links.named.retain(|name, _| name != link))),
    );
    plans
}

/// Plans with one host fewer in the target of a fault on links.
fn targets(plan: &Plan, fault: &Fault) -> Vec<Plan> {
    let Target::Links { from, to, both } = &fault.target else { return Vec::new() };
    let fewer = |side: &[String], place: usize| {
        let mut fewer = side.to_vec();
        fewer.remove(place);
        fewer
    };
    let links = |from: Vec<String>, to: Vec<String>, both: bool| {
        with_fault(plan, fault.id, |fault| fault.target = Target::Links { from, to, both })
    };
    let mut plans = Vec::new();
    if from.len() > 1 {
        plans.extend((0..from.len()).map(|place| links(fewer(from, place), to.clone(), *both)));
    }
    if to.len() > 1 {
        plans.extend((0..to.len()).map(|place| links(from.clone(), fewer(to, place), *both)));
    }
    if *both {
        plans.push(links(from.clone(), to.clone(), false));
    }
    plans
}

/// Plans with fewer clients, rounds or nodes, or with a fault anchored to an earlier event.
fn counts(plan: &Plan, varies: &dyn Fn(Parameter) -> bool) -> Vec<Plan> {
    let mut plans = Vec::new();
    let workload = &plan.workload;
    if varies(Parameter::Clients) {
        let fewer = less(workload.clients, 1);
        plans.extend(fewer.map(|count| with(plan, |plan| plan.workload.clients = count)));
    }
    if varies(Parameter::Callers) {
        let fewer = less(workload.callers, 1);
        plans.extend(fewer.map(|count| with(plan, |plan| plan.workload.callers = count)));
    }
    let fewer = less(workload.rounds, 1);
    plans.extend(fewer.map(|count| with(plan, |plan| plan.workload.rounds = count)));
    let can_go = matches!(
        plan.topology.kind,
        TopologyKind::Replicated | TopologyKind::Sentinel | TopologyKind::Independent
    );
    if varies(Parameter::Nodes) && can_go && plan.topology.replicas_each == 0 {
        let fewer = less(plan.topology.nodes, 1);
        plans.extend(fewer.map(|count| {
            with(plan, |plan| {
                plan.topology.nodes = count;
                let names = plan.nodes();
                plan.topology.priorities.retain(|name, _| names.contains(name));
            })
        }));
    }
    for fault in &plan.faults {
        if let Anchor::After { nth, .. } = fault.anchor {
            plans.extend(less(nth, 1).map(|count| {
                with_fault(plan, fault.id, |fault| {
                    if let Anchor::After { nth, .. } = &mut fault.anchor {
                        *nth = count;
                    }
                })
            }));
        }
    }
    plans
}

/// Smaller counts: the minimum, half, and one less.
fn less(count: u32, least: u32) -> impl Iterator<Item = u32> {
    let mut fewer = vec![least, count / 2, count.saturating_sub(1)];
    fewer.retain(|fewer| (least..count).contains(fewer));
    fewer.dedup();
    fewer.into_iter()
}

/// Plans with one rounder length, step, rate or share.
fn lengths(plan: &Plan, varies: &dyn Fn(Parameter) -> bool) -> Vec<Plan> {
    let mut plans: Vec<Plan> = plan.faults.iter().flat_map(|fault| of_fault(plan, fault)).collect();
    let workload = &plan.workload;
    if varies(Parameter::Hold) {
        plans.extend(
            rounder(workload.hold).map(|length| with(plan, |plan| plan.workload.hold = length)),
        );
    }
    if let Some(ttl) = plan.lock.ttl.filter(|_| varies(Parameter::Ttl)) {
        plans.extend(rounder(ttl).map(|length| with(plan, |plan| plan.lock.ttl = Some(length))));
    }
    if let Some(timeout) = plan.lock.timeout.filter(|_| varies(Parameter::Timeout)) {
        plans.push(with(plan, |plan| plan.lock.timeout = None));
        plans.extend(
            rounder(timeout).map(|length| with(plan, |plan| plan.lock.timeout = Some(length))),
        );
    }
    plans.extend(
        rounder(workload.rest).map(|length| with(plan, |plan| plan.workload.rest = length)),
    );
    plans
}

fn of_fault(plan: &Plan, fault: &Fault) -> Vec<Plan> {
    let id = fault.id;
    let mut plans = Vec::new();
    if let Some(length) = fault.length {
        plans.extend(
            rounder(length)
                .filter(|length| *length > 0)
                .map(|length| with_fault(plan, id, |fault| fault.length = Some(length))),
        );
    }
    let figures: Vec<Figure> = match fault.verb.figure() {
        Figure::Length(ns) => rounder(ns).filter(|ns| *ns > 0).map(Figure::Length).collect(),
        Figure::Shift(by) => {
            let signed = rounder(by.unsigned_abs()).filter(|ns| *ns > 0);
            signed.map(|ns| Figure::Shift(ns.cast_signed() * by.signum())).collect()
        }
        Figure::Share(share) => small(share.into()).map(Figure::Share).collect(),
        Figure::Rate(ppm) => small(ppm.unsigned_abs().into())
            .map(|to| to.cast_signed() * ppm.signum())
            .map(Figure::Rate)
            .collect(),
        Figure::None | Figure::Key(_) => Vec::new(),
    };
    let verbs = figures.into_iter().filter_map(|figure| fault.verb.row().verb(figure));
    plans.extend(verbs.map(|verb| with_fault(plan, id, |fault| fault.verb = verb)));
    let (Anchor::At(at) | Anchor::After { plus: at, .. }) = fault.anchor;
    plans.extend(rounder(at).map(|to| {
        with_fault(plan, id, |fault| {
            let (Anchor::At(at) | Anchor::After { plus: at, .. }) = &mut fault.anchor;
            *at = to;
        })
    }));
    plans
}

/// Rounder lengths, in milliseconds: zero, then those with fewer digits below and above, then
/// lesser ones with the same number of digits.
fn rounder(length: Nanos) -> impl Iterator<Item = Nanos> {
    let ms = length / MILLISECOND;
    let whole = (!length.is_multiple_of(MILLISECOND)).then_some(ms);
    let zero = (length > 0).then_some(0);
    zero.into_iter().chain(whole).chain(round(ms)).map(|ms| ms * MILLISECOND)
}

fn small(number: u64) -> impl Iterator<Item = u32> {
    round(number).filter(|number| *number > 0).filter_map(|number| u32::try_from(number).ok())
}

/// Smaller numbers as this module defines them, near the number and near half of it.
fn round(number: u64) -> impl Iterator<Item = u64> {
    let mut found = Vec::new();
    for kept in 1..digits(number) {
        let unit = unit_of(number, kept);
        found.extend([number / unit * unit, number.div_ceil(unit) * unit]);
    }
    let kept = digits(number);
    let half = number / 2;
    let unit = unit_of(half, kept);
    found.push(half / unit * unit);
    found.push(number.saturating_sub(unit_of(number, kept)));
    let cost = |number: u64| (digits(number), number);
    found.retain(|other| *other > 0 && cost(*other) < cost(number));
    let mut seen = Vec::new();
    found.retain(|other| {
        !seen.contains(other) && {
            seen.push(*other);
            true
        }
    });
    found.into_iter()
}

/// The number of digits, not counting trailing zeros.
fn digits(number: u64) -> u32 {
    let mut number = number;
    while number > 0 && number.is_multiple_of(10) {
        number /= 10;
    }
    number.checked_ilog10().map_or(0, |log| log + 1)
}

/// The unit of a number if this many of its digits are kept.
fn unit_of(number: u64, kept: u32) -> u64 {
    let all = number.checked_ilog10().map_or(1, |log| log + 1);
    10_u64.pow(all.saturating_sub(kept))
}

#[cfg(test)]
mod tests {
    use proptest::proptest;

    use super::{digits, round, rounder};

    #[test]
    fn rounder_numbers_come_first() {
        let ms = |ms: u64| rounder(ms * 1_000_000).map(|ns| ns / 1_000_000).collect::<Vec<_>>();
        assert_eq!(ms(9_588), [0, 9_000, 10_000, 9_500, 9_600, 9_580, 9_590, 4_794, 9_587]);
        assert_eq!(ms(15_000), [0, 10_000, 20_000, 7_500, 14_000]);
        assert_eq!(ms(1), [0]);
        assert!(ms(0).is_empty());
        assert_eq!(rounder(1_500_000).collect::<Vec<_>>(), [0, 1_000_000]);
    }

    proptest! {
        #[test]
        fn every_step_is_smaller(number in 0_u64..10_000_000) {
            for other in round(number) {
                assert!((digits(other), other) < (digits(number), number));
            }
        }
    }
}
