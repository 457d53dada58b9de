//! Every step is smaller, and every drawn parameter has its way back.

use std::collections::BTreeSet;

use proptest::proptest;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::{Variation, digits, is_smaller, round, rounder, smaller};
use crate::hunt::habits::{callers, habits};
use crate::hunt::parameter::Parameter;
use crate::ledger::part::Strikes;
use crate::lock::catalogue::find;
use crate::plan::base_plan::base_plan;
use crate::plan::{Plan, TopologyKind};

/// Base plans with plans that differ from them in one parameter, as a hunt draws it.
fn drawn(parameter: Parameter) -> Vec<(Plan, Plan)> {
    let kinds = [
        ("token-lua", TopologyKind::Single),
        ("token-lua", TopologyKind::Sentinel),
        ("token-lua", TopologyKind::Cluster),
        ("token-lua", TopologyKind::Replicated),
        ("redlock", TopologyKind::Independent),
    ];
    let mut runner = TestRunner::deterministic();
    let mut plans = Vec::new();
    for (name, kind) in kinds {
        let (base, lock) = (base_plan(name, kind), find(name).expect("a lock"));
        let habits = habits(&base, lock, &[parameter].into());
        let callers = callers(&base, &[parameter].into());
        for _ in 0..100 {
            let mut plan = base.clone();
            plan.workload.callers = callers.new_tree(&mut runner).expect("a draw").current();
            habits.new_tree(&mut runner).expect("a draw").current().apply(&mut plan, lock);
            let differs = parameter.differs(&plan, &base) && plan.validate().is_ok();
            plans.extend(differs.then(|| (base.clone(), plan)));
        }
    }
    plans
}

fn steps(base: &Plan, plan: &Plan, varies: &BTreeSet<Parameter>) -> Vec<Plan> {
    let mut steps = smaller(plan, &Strikes::default(), &Variation { base, varies });
    steps.retain(|step| step.validate().is_ok());
    steps
}

/// The number of a parameter that can be rounder than as it was drawn.
fn number(parameter: Parameter, plan: &Plan) -> u64 {
    let topology = &plan.topology;
    let clocks = plan.clocks.values().next().copied().unwrap_or_default();
    match parameter {
        Parameter::Hold => plan.workload.hold,
        Parameter::Ttl => plan.lock.ttl.unwrap_or(0),
        Parameter::Timeout => plan.lock.timeout.unwrap_or(0),
        Parameter::Needs => plan.lock.needs.unwrap_or(0),
        Parameter::DownAfter => {
            let cluster = topology.shards.map(|shards| shards.node_timeout);
            topology.sentinels.map(|one| one.down_after).or(cluster).unwrap_or(0)
        }
        Parameter::MinReplicas => topology.min_replicas.map_or(0, |least| least.max_lag),
        Parameter::ClockRate => clocks.rate_ppm.unsigned_abs().into(),
        Parameter::WallOffset => clocks.wall_offset.unsigned_abs(),
        _ => 0,
    }
}

#[test]
fn two_callers_stay() {
    let base = base_plan("token-lua", TopologyKind::Single);
    let fewest = |clients: u32, callers: u32| {
        let mut plan = base.clone();
        (plan.workload.clients, plan.workload.callers) = (clients, callers);
        let steps = steps(&base, &plan, &Parameter::all());
        steps.iter().map(|step| step.workload.all_callers()).min()
    };
    assert_eq!(fewest(3, 1), Some(2));
    assert_eq!(fewest(1, 3), Some(2));
    assert_eq!(fewest(2, 2), Some(2));
    assert_eq!(fewest(1, 1), Some(1));
}

#[test]
fn each_drawn_parameter_can_go_back_and_be_rounder() {
    for parameter in Parameter::ALL {
        let drawn = drawn(parameter);
        assert!(drawn.len() > 5, "{parameter:?} is drawn in {} plans", drawn.len());
        for (base, plan) in drawn.iter().step_by(drawn.len().div_ceil(8)) {
            let varies = [parameter].into();
            let is_back = |step: &Plan| !parameter.differs(step, base);
            let steps_of = |plan: &Plan| steps(base, plan, &varies);
            let goes_back = steps_of(plan).iter().any(is_back);
            let is_less = is_smaller(parameter, base, plan);
            assert_eq!(goes_back, is_less, "{parameter:?}: {}", plan.to_json());
            // The longest walk that never goes back ends, and at a round number.
            let mut last = plan.clone();
            let mut rest = 300;
            while let Some(step) = steps_of(&last).into_iter().rfind(|step| !is_back(step)) {
                last = step;
                rest -= 1;
                assert!(rest > 0, "{parameter:?} has no smallest value");
            }
            let number = number(parameter, &last);
            assert!(digits(number) <= 1, "{parameter:?} stays at {number}");
        }
    }
}

#[test]
fn callers_become_fewer_one_by_one() {
    let base = base_plan("none", TopologyKind::Single);
    let mut plan = base.clone();
    plan.workload.callers = 3;
    let steps = steps(&base, &plan, &[Parameter::Callers].into());
    let callers: BTreeSet<u32> = steps.iter().map(|step| step.workload.callers).collect();
    assert!([1, 2].iter().all(|fewer| callers.contains(fewer)), "{callers:?}");
}

#[test]
fn what_does_not_vary_stays() {
    for parameter in Parameter::ALL {
        for (base, plan) in drawn(parameter) {
            let others = Parameter::ALL.into_iter().filter(|one| *one != parameter).collect();
            for step in steps(&base, &plan, &others) {
                assert!(!parameter.differs(&step, &plan), "{parameter:?} is changed");
            }
        }
    }
}

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
