//! Plans whose time-outs leave nothing of a lease, with and without each of their faults, with the
//! time-outs as they are and shorter, and with the work as it is and within what then is left: a
//! bug that shows in one of these without any breach is the lock's.

use lockstorm::check::signature::Signature;
use lockstorm::explore::class::classify;
use lockstorm::explore::trial::attempt;
use lockstorm::hunt::seeded::draw;
use lockstorm::hunt::strategy::Strategy;
use lockstorm::ledger::part::{Part, Strikes, without};
use lockstorm::plan::{Persistence, Plan, TopologyKind};
use lockstorm::promise::Bounded;
use lockstorm::run::Lab;
use lockstorm_platform::time::{MILLISECOND, SECOND};

use crate::amount::share;
use crate::class::hunt;

const LOCKS: [&str; 5] =
    ["token-get-del", "setnx-expire", "check-then-set", "px-constant", "token-lua"];

/// The work of a client, ms: little, and more than a lease of 3 s has room for.
const HOLDS: [u64; 2] = [600, 2_750];

/// How many violated plans of each lock are drawn for each work.
const QUOTA: usize = 4;

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_bug_that_stays_with_a_shorter_time_out_is_in_the_model() {
    let lab = Lab::default();
    let (mut inside, mut outside) = (0, 0);
    for (lock, hold) in LOCKS.iter().flat_map(|lock| HOLDS.map(|hold| (lock, hold))) {
        let mut hunt = hunt(&lab, lock, TopologyKind::Single, Persistence::AofAlways);
        hunt.base.lock.timeout = Some(4 * SECOND);
        hunt.base.workload.hold = hold * MILLISECOND;
        let plans = (1..400).map(|seed| draw(&hunt, seed, Strategy::Random));
        let trials = plans.map(|plan| (attempt(&lab, &plan), plan));
        for (trial, plan) in trials.filter(|(trial, _)| trial.is_violated()).take(share(QUOTA)) {
            let shows = sub_plans(&lab, &plan).iter().any(|sub| {
                let run = attempt(&lab, sub);
                let kinds = Signature::of(&run.judgement.verdict).kinds;
                run.breaches.is_empty() && !kinds.is_empty()
            });
            let class = classify(&lab, &plan, &trial);
            assert_eq!(class.is_in_model(), shows, "{lock}: {class:?} {plan:?}");
            *(if shows { &mut inside } else { &mut outside }) += 1;
        }
    }
    assert!(inside > 0 && outside > 0, "one-sided: {inside} in-model, {outside} out-of-model");
}

fn sub_plans(lab: &Lab, plan: &Plan) -> Vec<Plan> {
    let mut found = Vec::new();
    for mask in 0..1_u32 << plan.faults.len() {
        let fast = without(plan, &[Part::Latency].into(), &Strikes::new());
        let settings = [plan, &fast].map(|of| [(of, of.lock.timeout), (of, None)]);
        for (of, timeout) in settings.into_iter().flatten() {
            let mut sub = of.clone();
            sub.lock.timeout = timeout;
            let mut bit = 0..;
            sub.faults.retain(|_| bit.next().is_some_and(|bit| mask >> bit & 1 == 0));
            let assumes = lab.promise(&sub).assumes;
            let bound = assumes.iter().find(|assumed| assumed.what == Bounded::Work);
            found.push(sub.clone());
            if let Some(work) = bound.filter(|work| work.bound > 0) {
                let within = Part::Work(work.bound);
                found.push(without(&sub, &[within].into(), &Strikes::new()));
            }
        }
    }
    found
}
