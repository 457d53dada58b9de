//! Bounds: plans at the edge of what the lock promises to withstand (boundary value testing). Work
//! takes as long as it may, clocks drift apart as far as they may, and one client meets all faults,
//! which last about as long as a figure of the plan.
//!
//! What a promise does not bound, the lock withstands in any amount: work of two leases, a client's
//! wall clock that is set back by one. A plan stays within the assumptions in every hunt.

use std::collections::BTreeMap;

use lockstorm_platform::fault::verbs::{ActsOn, Figure, Row};
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{ClockSetting, MILLISECOND, Nanos};
use lockstorm_platform::trace::{Edge, Leg};
use proptest::bool::{ANY, weighted};
use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::prop_oneof;
use proptest::sample::select;
use proptest::strategy::Union;
use proptest::test_runner::TestRunner;

use crate::history::RESOURCE;
use crate::hunt::drawing::anchor::queried_nodes;
use crate::hunt::drawing::duration::{extra, length, near};
use crate::hunt::drawing::target::target;
use crate::hunt::drawing::{
    Alphabet, Burst, calm, fitting, is_condition, promise, rows, sampled, verb_of, with_faults,
};
use crate::hunt::habits::{may_need, outlast_extends, rhythms};
use crate::hunt::parameter::Parameter;
use crate::ledger::site::bound_of;
use crate::lock::algorithm::Algorithm;
use crate::plan::extend::Extend;
use crate::plan::{Plan, Workload};
use crate::promise::Bounded;

/// The maximum number of faults in a plan.
const FAULTS: usize = 3;
/// The weight of a verb that can strike a client or its links; others have weight 1.
const CLIENT_BIAS: u32 = 4;

/// The plans of this strategy.
pub fn plans(base: &Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> BoxedStrategy<Plan> {
    let alphabet = &Alphabet { within: true, ..alphabet.clone() };
    let mut plan = calm(base, alphabet, runner);
    if alphabet.varies.contains(&Parameter::Timeout) {
        plan = patient(plan, alphabet, runner);
    }
    if alphabet.varies.contains(&Parameter::Hold) {
        plan = worked(plan, alphabet, runner);
    }
    if alphabet.varies.contains(&Parameter::Extend) {
        plan = extended(plan, alphabet, runner);
    }
    if alphabet.varies.contains(&Parameter::ClockRate) {
        drift(&mut plan, &base.clocks, (alphabet, runner));
    }
    let victim = sampled(&select(plan.clients()), runner);
    let fault = fault(&plan, &victim, alphabet).prop_map(Burst::once);
    let faults = vec(fault, 1..=FAULTS);
    with_faults(plan, faults.boxed(), alphabet)
}

/// The plan, or one whose requests may take most of a lease: two of them outlast it. If the lock
/// compares what is left of a lease with what the work needs, they may take all of it.
fn patient(plan: Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> Plan {
    let (waits, share) = sampled(&(ANY, 4..=9_u64), runner);
    let lease = plan.longest_ttl() / MILLISECOND * MILLISECOND;
    if !waits || lease == 0 {
        return plan;
    }
    let mut patient = plan.clone();
    patient.lock.timeout = Some(lease / 10 * share);
    if alphabet.varies.contains(&Parameter::Needs) && may_need(&plan, &alphabet.lock) {
        (patient.lock.needs, patient.lock.timeout) = (Some(lease / 10 * share), Some(lease));
    }
    fitting(&patient, alphabet).unwrap_or(plan)
}

/// The plan with work of as much time as the lock allows, of hardly any, or as it is.
fn worked(plan: Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> Plan {
    let twice = plan.longest_ttl().saturating_mul(2).min(plan.heal_at);
    let hold = sampled(&select(vec![twice, MILLISECOND, plan.workload.hold]), runner);
    let mut worked = plan.clone();
    worked.workload.hold = hold;
    fitting(&worked, alphabet).unwrap_or(plan)
}

/// The plan, or one whose clients extend their grants: what they learn too late or take for an
/// answer shows only then.
fn extended(plan: Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> Plan {
    let (extends, rhythm) = sampled(&(ANY, select(rhythms())), runner);
    let Workload { extend, reenter, .. } = plan.workload;
    // A caller extends its outer grant alone: the inner one must not outlast its lease.
    if !extends || extend != Extend::Never || reenter {
        return plan;
    }
    let mut extended = plan.clone();
    extended.workload.extend = rhythm;
    if alphabet.varies.contains(&Parameter::Hold) {
        outlast_extends(&mut extended);
    }
    fitting(&extended, alphabet).unwrap_or(plan)
}

/// Makes the clocks of all clients, or those of all nodes, as fast or as slow as the lock allows.
fn drift(
    plan: &mut Plan,
    given: &BTreeMap<String, ClockSetting>,
    (alphabet, runner): (&Alphabet, &mut TestRunner),
) {
    let most = bound_of(&promise(plan, &alphabet.lock).assumes, Bounded::Drift).unwrap_or(0);
    let most = i32::try_from(most).unwrap_or(i32::MAX);
    let (drifts, clients, fast) = sampled(&(ANY, ANY, ANY), runner);
    if !drifts || most == 0 || given.values().any(|clock| clock.rate_ppm != 0) {
        return;
    }
    plan.clocks.values_mut().for_each(|clock| clock.rate_ppm = 0);
    for host in if clients { plan.clients() } else { plan.nodes() } {
        plan.clocks.entry(host).or_default().rate_ppm = if fast { most } else { -most };
    }
}

/// One fault that meets this client, if its verb can.
fn fault(plan: &Plan, victim: &str, alphabet: &Alphabet) -> BoxedStrategy<Fault> {
    let of_client = |row: &Row| matches!(row.acts_on, ActsOn::Links | ActsOn::Host);
    let weight = |row: &Row| if of_client(row) { CLIENT_BIAS } else { 1 };
    let all = rows(plan, alphabet).into_iter();
    let all = all.map(|row| (weight(row), fault_of(row, plan, victim, &alphabet.lock)));
    Union::new_weighted(all.collect()).boxed()
}

fn fault_of(
    row: &'static Row,
    plan: &Plan,
    victim: &str,
    lock: &Algorithm,
) -> BoxedStrategy<Fault> {
    let lasts = prop_oneof![2 => near(plan, lock), 1 => length(plan, lock)];
    let when = (lasts, anchor(plan, victim, lock)).boxed();
    let whole = Just((plan.heal_at, Anchor::At(0)));
    let when = if is_condition(row) { prop_oneof![when, whole].boxed() } else { when };
    (verb(row, plan, lock), met(row, plan, victim), when)
        .prop_map(|(verb, target, (length, anchor))| {
            let length = (!verb.is_momentary()).then_some(length);
            Fault { id: 0, verb, target, anchor, length }
        })
        .boxed()
}

/// A verb with its figure: messages are late by about a figure of the plan.
fn verb(row: &'static Row, plan: &Plan, lock: &Algorithm) -> BoxedStrategy<Verb> {
    match ((row.plain)().figure(), row.acts_on) {
        (Figure::Length(_), ActsOn::Links) => prop_oneof![near(plan, lock), extra(row, plan, lock)]
            .prop_map(|length| row.verb(Figure::Length(length)).expect("a length is its figure"))
            .boxed(),
        _ => verb_of(row, plan, lock),
    }
}

/// What a verb strikes: the client, or its links to all nodes, to one, or to the guarded resource.
fn met(row: &Row, plan: &Plan, victim: &str) -> BoxedStrategy<Target> {
    let client = vec![victim.to_owned()];
    match row.acts_on {
        ActsOn::Host => prop_oneof![
            3 => Just(Target::Host(victim.to_owned())),
            1 => select(plan.nodes()).prop_map(Target::Host),
        ]
        .boxed(),
        ActsOn::Links => {
            let one = select(plan.nodes()).prop_map(|node| vec![node]);
            let resource = vec![RESOURCE.to_owned()];
            let far = prop_oneof![5 => Just(plan.nodes()), 2 => one, 1 => Just(resource)];
            (far, ANY, weighted(0.6))
                .prop_map(move |(far, both, back)| match back {
                    true => Target::Links { from: far, to: client.clone(), both },
                    false => Target::Links { from: client.clone(), to: far, both },
                })
                .boxed()
        }
        ActsOn::Node | ActsOn::Replica => target(row, plan),
    }
}

/// After an acquire of the client begins or ends, an extend begins, one of its messages completes a
/// leg, or the fault before begins or ends.
fn anchor(plan: &Plan, victim: &str, lock: &Algorithm) -> BoxedStrategy<Anchor> {
    let later = |most: Nanos| (1..=(most / MILLISECOND).max(1)).prop_map(|ms| ms * MILLISECOND);
    let plus = prop_oneof![4 => Just(0), 1 => later(plan.workload.hold), 1 => near(plan, lock)];
    let weighted = queried_nodes(plan).into_iter().map(|(weight, node)| (weight, Just(node)));
    let nodes = Union::new_weighted(weighted.collect());
    let legs = select(vec![Leg::Sent, Leg::Applied, Leg::Replied, Leg::Delivered]);
    let (from, who) = (victim.to_owned(), victim.to_owned());
    let message = (nodes, legs, 1..=6_u32).prop_map(move |(to, leg, nth)| {
        (Pattern::Message { from: from.clone(), to, command: None, leg }, nth)
    });
    let mut calls = vec!["acquire", "acquired", "release"];
    if plan.workload.extend != Extend::Never {
        calls.push("extend");
    }
    let outcome = (select(calls), 1..=3_u32).prop_map(move |(what, nth)| {
        (Pattern::Outcome { who: who.clone(), what: what.to_owned() }, nth)
    });
    let edge = select(vec![Edge::Start, Edge::Start, Edge::End]);
    let other = edge.prop_map(|edge| (Pattern::Fault { id: 1, edge }, 1));
    let last = plan.heal_at - 1;
    (prop_oneof![2 => message, 2 => outcome, 3 => other], plus)
        .prop_map(move |((event, nth), plus)| Anchor::After { event, nth, plus: plus.min(last) })
        .boxed()
}
