//! Plans whose time-outs leave nothing of a lease, with and without each of their faults, and with
//! the time-outs as they are and shorter: a bug that shows in one of these without any breach is
//! the lock's.

use lockstorm::check::signature::Signature;
use lockstorm::explore::class::classify;
use lockstorm::explore::hunt::draw;
use lockstorm::explore::trial::attempt;
use lockstorm::plan::{Persistence, TopologyKind};
use lockstorm::run::Lab;
use lockstorm_platform::time::SECOND;

use crate::class::hunt;

const LOCKS: [&str; 5] =
    ["token-get-del", "setnx-expire", "check-then-set", "px-constant", "token-lua"];

/// How many violated plans of each lock are drawn.
const QUOTA: usize = 6;

#[test]
fn a_bug_that_stays_with_a_shorter_time_out_is_in_the_model() {
    let lab = Lab::default();
    let (mut inside, mut outside) = (0, 0);
    for lock in LOCKS {
        let mut hunt = hunt(&lab, lock, TopologyKind::Single, Persistence::AofAlways);
        hunt.base.lock.timeout = Some(4 * SECOND);
        let plans = (1..400).map(|seed| draw(&hunt, seed).current());
        let trials = plans.map(|plan| (attempt(&lab, &plan), plan));
        for (trial, plan) in trials.filter(|(trial, _)| trial.is_violated()).take(QUOTA) {
            let mut shows = false;
            for (mask, timeout) in (0..1_u32 << plan.faults.len())
                .flat_map(|mask| [Some(4 * SECOND), None].map(|timeout| (mask, timeout)))
            {
                let mut sub = plan.clone();
                sub.lock.timeout = timeout;
                let mut bit = 0..;
                sub.faults.retain(|_| bit.next().is_some_and(|bit| mask >> bit & 1 == 0));
                let run = attempt(&lab, &sub);
                let kinds = Signature::of(&run.judgement.verdict).kinds;
                shows |= run.breaches.is_empty() && !kinds.is_empty();
            }
            let class = classify(&lab, &plan, &trial);
            assert_eq!(class.is_in_model(), shows, "{lock}: {class:?} {plan:?}");
            *(if shows { &mut inside } else { &mut outside }) += 1;
        }
    }
    assert!(inside > 0 && outside > 0, "one-sided: {inside} in-model, {outside} out-of-model");
}
