//! Plans that are one step smaller than a plan: something is removed, or one number is rounder.
//!
//! A number with fewer digits, not counting trailing zeros, is smaller; with the same number of
//! digits, the lesser one is smaller: 10 s is smaller than 9.588 s. Of settings without a natural
//! minimum, such as the rate of a clock, that of the base plan is the smallest. So every walk to
//! smaller plans ends.

use std::collections::BTreeSet;

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Anchor, Fault, Target};
use lockstorm_platform::time::{ClockSetting, MILLISECOND, Nanos, SECOND};

use crate::explore::rerun::pinned;
use crate::hunt::parameter::Parameter;
use crate::ledger::part::{Part, Strikes, without};
use crate::plan::extend::Extend;
use crate::plan::{MinReplicas, Persistence, Plan, TopologyKind};

/// What of a plan may be made smaller besides its faults.
#[derive(Clone, Copy, Debug)]
pub struct Variation<'a> {
    /// The plan from which the hunt starts.
    pub base: &'a Plan,
    /// The parameters that the hunt draws. The others stay as they are.
    pub varies: &'a BTreeSet<Parameter>,
}

impl Variation<'_> {
    fn has(&self, parameter: Parameter) -> bool {
        self.varies.contains(&parameter)
    }

    /// Whether a parameter varies and is not at the value of the base plan.
    fn has_moved(&self, parameter: Parameter, plan: &Plan) -> bool {
        self.has(parameter) && parameter.differs(plan, self.base)
    }
}

/// Every plan that is one step smaller, the largest steps first. Parameters that do not vary stay
/// as they are. What is no parameter may always go: losses, named links, rounds and rests. Two
/// callers stay: with only one beside the probe, a run without the violation tests nothing, and so
/// does every remedy. Some of the plans may be invalid.
pub fn smaller(plan: &Plan, struck: &Strikes, variation: &Variation<'_>) -> Vec<Plan> {
    let mut plans = removals(plan, struck, variation);
    let returns = returns(plan, variation);
    plans.extend(returns.into_iter().filter(|back| !plans.contains(back)).collect::<Vec<_>>());
    plans.extend(plan.faults.iter().flat_map(|fault| targets(plan, fault)));
    plans.extend(counts(plan, variation));
    plans.extend(lengths(plan, variation));
    plans.extend(of_deployment(plan, variation));
    let least = plan.workload.all_callers().min(2);
    plans.retain(|smaller| smaller.workload.all_callers() >= least);
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
fn removals(plan: &Plan, struck: &Strikes, variation: &Variation<'_>) -> Vec<Plan> {
    let varies = |parameter| variation.has(parameter);
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
    // What is left of a clock that a trial has set right.
    let plain = ClockSetting::default();
    if plan.clocks.values().any(|clocks| *clocks == plain) {
        plans.push(with(plan, |plan| plan.clocks.retain(|_, clocks| *clocks != plain)));
    }
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

/// Plans with one parameter at the value of the base plan, if that is smaller.
fn returns(plan: &Plan, variation: &Variation<'_>) -> Vec<Plan> {
    let base = variation.base;
    let moved = variation.varies.iter().filter(|one| variation.has_moved(**one, plan));
    let back = moved.filter(|one| is_smaller(**one, base, plan));
    back.map(|parameter| with(plan, |plan| parameter.copy(base, plan))).collect()
}

/// Whether the value of a parameter in the base plan is smaller than another one.
fn is_smaller(parameter: Parameter, base: &Plan, plan: &Plan) -> bool {
    let cost = |length: Option<Nanos>| length.map(|ns| cost(ns / MILLISECOND));
    let (own, other) = (&plan.workload, &base.workload);
    match parameter {
        Parameter::Hold => cost(Some(other.hold)) < cost(Some(own.hold)),
        Parameter::Ttl => cost(base.lock.ttl) < cost(plan.lock.ttl),
        Parameter::Timeout => cost(base.lock.timeout) < cost(plan.lock.timeout),
        Parameter::Needs => cost(base.lock.needs) < cost(plan.lock.needs),
        Parameter::Nodes => base.topology.nodes < plan.topology.nodes,
        Parameter::Clients => other.clients < own.clients,
        Parameter::Callers => other.callers < own.callers,
        Parameter::Extend => own.extend != Extend::Never,
        Parameter::Reenter => own.reenter,
        Parameter::CheckValidity => own.check_validity,
        Parameter::Persistence => plan.topology.persistence != Persistence::None,
        Parameter::MinReplicas => plan.topology.min_replicas.is_some(),
        Parameter::Priority => !plan.topology.priorities.is_empty(),
        Parameter::DownAfter
        | Parameter::SentinelQuorum
        | Parameter::ClockRate
        | Parameter::WallOffset => true,
    }
}

/// Plans with one rounder figure of Sentinels, of a cluster, of wanted replicas or of a clock. The
/// value of the base plan is the smallest and stays.
fn of_deployment(plan: &Plan, variation: &Variation<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    let moved = |parameter| variation.has_moved(parameter, plan);
    let topology = &plan.topology;
    if moved(Parameter::DownAfter) {
        let sentinels = topology.sentinels.map(|sentinels| sentinels.down_after);
        let own = sentinels.or(topology.shards.map(|shards| shards.node_timeout));
        let rounder = own.into_iter().flat_map(rounder).filter(|length| *length > 0);
        plans.extend(rounder.map(|length| {
            with(plan, |plan| {
                let topology = &mut plan.topology;
                topology.sentinels.iter_mut().for_each(|one| one.down_after = length);
                topology.shards.iter_mut().for_each(|one| one.node_timeout = length);
            })
        }));
    }
    if let Some(least) = topology.min_replicas.filter(|_| moved(Parameter::MinReplicas)) {
        let lags = rounder(least.max_lag).filter(|lag| *lag > 0 && lag.is_multiple_of(SECOND));
        let lags = lags.map(|max_lag| MinReplicas { max_lag, ..least });
        let counts = less(least.to_write, 1).map(|to_write| MinReplicas { to_write, ..least });
        plans.extend(
            lags.chain(counts)
                .map(|least| with(plan, |plan| plan.topology.min_replicas = Some(least))),
        );
    }
    for (host, clocks) in &plan.clocks {
        let change = |figure: ClockSetting| {
            with(plan, |plan| {
                plan.clocks.insert(host.clone(), figure);
            })
        };
        if moved(Parameter::ClockRate) {
            let rates = small(clocks.rate_ppm.unsigned_abs().into());
            let rates = rates.map(|ppm| ppm.cast_signed() * clocks.rate_ppm.signum());
            plans.extend(rates.map(|rate_ppm| change(ClockSetting { rate_ppm, ..*clocks })));
        }
        if moved(Parameter::WallOffset) {
            let offsets = rounder(clocks.wall_offset.unsigned_abs()).filter(|ns| *ns > 0);
            let offsets = offsets.map(|ns| ns.cast_signed() * clocks.wall_offset.signum());
            plans
                .extend(offsets.map(|wall_offset| change(ClockSetting { wall_offset, ..*clocks })));
        }
    }
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
fn counts(plan: &Plan, variation: &Variation<'_>) -> Vec<Plan> {
    let varies = |parameter| variation.has(parameter);
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
                // A given priority of a node that is gone makes the plan invalid.
                let names = plan.nodes();
                if varies(Parameter::Priority) {
                    plan.topology.priorities.retain(|name, _| names.contains(name));
                }
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
fn lengths(plan: &Plan, variation: &Variation<'_>) -> Vec<Plan> {
    let varies = |parameter| variation.has(parameter);
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
    if let Some(needs) = plan.lock.needs.filter(|_| varies(Parameter::Needs)) {
        let rounder = rounder(needs).filter(|length| *length > 0);
        plans.extend(rounder.map(|length| with(plan, |plan| plan.lock.needs = Some(length))));
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

/// What makes one number smaller than another.
fn cost(number: u64) -> impl Ord {
    (digits(number), number)
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
mod tests;
