//! Work that takes longer than its lease: an assumption that no fault breaks, but the plan itself.

use lockstorm_sim::time::Nanos;

use crate::ledger::bound_of;
use crate::lock::{Bounded, Promise};
use crate::plan::Plan;
use crate::plan::extend::Extend;
use crate::workload::{reentry, stretch};

/// Work that takes longer than the lock assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwork {
    /// How long a caller works under one grant without prolonging it, ns.
    pub actual: Nanos,
    /// How long it may, ns.
    pub bound: Nanos,
}

/// How much too long the clients of `plan` work for what `promise` allows, if they do.
pub fn overworked(plan: &Plan, promise: &Promise) -> Option<Overwork> {
    let bound = bound_of(&promise.assumes, Bounded::Work)?;
    let actual = works(plan);
    (actual > bound).then_some(Overwork { actual, bound })
}

/// How long a caller works under one grant without prolonging it. Where not even an access fits
/// into the lease, the bound is zero, and no work is too much.
pub fn works(plan: &Plan) -> Nanos {
    stretch(&plan.workload, plan.lock.ttl).max(1)
}

/// Has the clients work for no longer than `bound` ns under one grant. Where nothing fits, it is
/// the time-out of requests that is too long.
pub fn fit(plan: &mut Plan, bound: u64) {
    let (workload, ttl) = (&mut plan.workload, plan.lock.ttl);
    if bound == 0 {
        plan.lock.timeout = None;
        return;
    }
    // To prolong the lease sooner is the smallest change: what extends do is done still.
    if workload.extend != Extend::Never {
        for sooner in Extend::each_sooner() {
            workload.extend = sooner;
            if stretch(workload, ttl) <= bound {
                return;
            }
        }
    }
    workload.extend = Extend::Never;
    workload.reenter &= reentry(workload, ttl) <= bound;
    let again = if workload.reenter { reentry(workload, ttl) } else { 0 };
    workload.hold = workload.hold.min(bound - again);
}

#[cfg(test)]
mod tests {
    use lockstorm_sim::time::{MILLISECOND, SECOND};

    use super::{fit, overworked};
    use crate::explore::ground::ground;
    use crate::plan::{Plan, TopologyKind};
    use crate::run::Lab;

    fn check(lock: &str, change: impl Fn(&mut Plan), actual: Option<u64>) {
        let mut plan = ground(lock, TopologyKind::Single);
        change(&mut plan);
        let lab = Lab::default();
        let broken = overworked(&plan, &lab.promise(&plan));
        assert_eq!(broken.as_ref().map(|broken| broken.actual), actual, "{lock}");
        if let Some(broken) = broken {
            fit(&mut plan, broken.bound);
            assert_eq!(plan.validate(), Ok(()));
            assert_eq!(overworked(&plan, &lab.promise(&plan)), None, "{lock} {plan:?}");
        }
    }

    #[test]
    fn a_caller_that_outlasts_its_lease_breaks_an_assumption_and_one_that_prolongs_it_does_not() {
        let hold = |length| move |plan: &mut Plan| plan.workload.hold = length;
        check("token-lua", hold(600 * MILLISECOND), None);
        // 3 s, less a time-out of 300 ms and six messages of 5 ms.
        check("token-lua", hold(2_670 * MILLISECOND), None);
        check("token-lua", hold(2_671 * MILLISECOND), Some(2_671 * MILLISECOND));
        check("setnx", hold(60 * SECOND), None);
        check("token-lua-renewed", hold(60 * SECOND), None);
        let prolonging = |text: &'static str| {
            move |plan: &mut Plan| {
                plan.workload.hold = 60 * SECOND;
                plan.workload.extend = text.parse().unwrap();
            }
        };
        check("token-lua", prolonging("1/2"), None);
        check("token-lua", prolonging("until-lost"), None);
        // A ninth of the lease is left when it is prolonged, and half of that is no reserve.
        check("token-lua", prolonging("8/9"), Some(3 * SECOND - SECOND.div_ceil(6)));
        let impatient = |plan: &mut Plan| {
            plan.lock.timeout = Some(4 * SECOND);
            plan.workload.reenter = true;
        };
        check("token-lua", impatient, Some(600 * MILLISECOND + 750 * MILLISECOND));
    }
}
