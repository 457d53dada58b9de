//! Work that takes longer than its lease: an assumption that the plan breaches without a fault.

use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::ledger::site::bound_of;
use crate::plan::extend::Extend;
use crate::plan::{Plan, Workload};
use crate::promise::{Bounded, Promise};
use crate::workload::{reentry, stretch};

/// Work that takes longer than the lock assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwork {
    /// How long a caller works under one grant without extending it, ns.
    pub actual: Nanos,
    /// The maximum, ns.
    pub bound: Nanos,
}

/// By how much the clients of `plan` work longer than `promise` allows, if they do.
pub fn overworked(plan: &Plan, promise: &Promise) -> Option<Overwork> {
    let bound = bound_of(&promise.assumes, Bounded::Work)?;
    let actual = works(plan);
    outlasts(actual, bound).then_some(Overwork { actual, bound })
}

/// How long a caller works under one grant without extending it.
pub fn works(plan: &Plan) -> Nanos {
    stretch(&plan.workload, plan.lock.ttl)
}

/// Whether work is longer than a bound. A bound of zero means that not even one access fits into
/// the lease, however short the work is.
pub fn outlasts(works: Nanos, bound: Nanos) -> bool {
    works > bound || bound == 0
}

/// Makes the clients work for at most `bound` ns under one grant. A bound of zero means that
/// requests take too much of the lease: their timeout becomes the default, all messages are fast,
/// and the work takes at most half of the lease.
pub fn fit(plan: &mut Plan, bound: u64) {
    let longest_ttl = plan.longest_ttl();
    let (workload, ttl) = (&mut plan.workload, plan.lock.ttl);
    if bound == 0 {
        let ttl = longest_ttl;
        plan.lock.timeout = None;
        plan.links.latency = Latency::Constant(MILLISECOND.min(ttl / 100));
        plan.links.named.clear();
        workload.timeout = workload.timeout.max(10 * MILLISECOND);
        (workload.extend, workload.reenter) = (Extend::Never, false);
        workload.hold = workload.hold.min(ttl / 2);
        return;
    }
    if let Some(sooner) = prolonged_sooner(workload, ttl, bound) {
        *workload = sooner;
        return;
    }
    workload.extend = Extend::Never;
    workload.reenter &= reentry(workload, ttl) <= bound;
    let again = if workload.reenter { reentry(workload, ttl) } else { 0 };
    workload.hold = workload.hold.min(bound - again);
}

/// The smallest change for leases that are extended: extend earlier, so that extends still occur.
/// Work that lasts until the lock is lost is limited, but it outlasts the second of its extends.
fn prolonged_sooner(workload: &Workload, ttl: Option<Nanos>, bound: u64) -> Option<Workload> {
    let ttl = ttl?;
    let mut sooner = workload.extend.each_sooner().map(|rhythm| {
        let mut sooner = Workload { extend: Extend::Share(rhythm), ..workload.clone() };
        if workload.extend == Extend::UntilLost {
            sooner.hold = workload.hold.max(rhythm.due(ttl).saturating_mul(3));
        }
        sooner
    });
    sooner.find(|sooner| stretch(sooner, Some(ttl)) <= bound)
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::network::Latency;
    use lockstorm_platform::time::{MILLISECOND, SECOND};

    use super::{Overwork, fit, overworked};
    use crate::lock::config::LockConfig;
    use crate::plan::base_plan::base_plan;
    use crate::plan::{Plan, TopologyKind};
    use crate::run::Lab;

    fn check(lock: &str, change: impl Fn(&mut Plan), actual: Option<u64>) {
        let mut plan = base_plan(lock, TopologyKind::Single);
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
    fn work_is_fitted_by_prolonging_sooner_and_still_prolongs() {
        let fitted = |text: &str, hold| {
            let mut plan = base_plan("token-lua", TopologyKind::Single);
            (plan.workload.extend, plan.workload.hold) = (text.parse().unwrap(), hold);
            fit(&mut plan, 2_670 * MILLISECOND);
            (plan.workload.extend.to_string(), plan.workload.hold)
        };
        assert_eq!(fitted("8/9", 5 * SECOND), ("1/2".to_owned(), 5 * SECOND));
        assert_eq!(fitted("until-lost", SECOND), ("1/2".to_owned(), 4_500 * MILLISECOND));
        // A third of the lease is the only shorter interval.
        assert_eq!(fitted("2/5", 5 * SECOND), ("1/3".to_owned(), 5 * SECOND));
        // No shorter interval exists to try: the work is shortened.
        assert_eq!(fitted("1/5", 5 * SECOND), ("never".to_owned(), 2_670 * MILLISECOND));
    }

    #[test]
    fn a_caller_that_outlasts_its_lease_breaks_an_assumption_and_one_that_prolongs_it_does_not() {
        let hold = |length| move |plan: &mut Plan| plan.workload.hold = length;
        check("token-lua", hold(600 * MILLISECOND), None);
        // 3 s, less a timeout of 300 ms and six messages of 5 ms.
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
        // A ninth of the lease is left when it is extended, and half of that is no reserve.
        check("token-lua", prolonging("8/9"), Some(3 * SECOND - SECOND.div_ceil(6)));
        let slow = |plan: &mut Plan| {
            plan.workload.hold = 5 * SECOND;
            plan.links.latency = Latency::Constant(500 * MILLISECOND);
        };
        check("token-lua", slow, Some(5 * SECOND));
        let unanswered = |plan: &mut Plan| plan.lock.timeout = Some(9 * MILLISECOND);
        check("token-lua", unanswered, Some(600 * MILLISECOND));
        check("token-lua-renewed", unanswered, Some(1_500 * MILLISECOND));
        let impatient = |plan: &mut Plan| {
            plan.lock.timeout = Some(4 * SECOND);
            plan.workload.reenter = true;
        };
        check("token-lua", impatient, Some(600 * MILLISECOND + 750 * MILLISECOND));
    }

    #[test]
    fn a_lease_in_which_no_reply_comes_before_what_is_needed_has_no_room_for_work() {
        let mut plan = base_plan("redlock", TopologyKind::Independent);
        plan.links.latency = Latency::Constant(5 * MILLISECOND);
        let ttl = plan.lock.ttl.expect("a lease");
        let bound = |needs| {
            let lock = LockConfig { needs: Some(needs), ..plan.lock.clone() };
            let plan = Plan { lock, ..plan.clone() };
            overworked(&plan, &Lab::default().promise(&plan)).map(|broken| broken.bound)
        };
        assert_eq!(bound(ttl - SECOND), None);
        assert_eq!(bound(ttl - 50 * MILLISECOND), Some(0));
        // Nor for none.
        plan.workload.hold = 0;
        plan.lock.needs = Some(ttl - 50 * MILLISECOND);
        let overwork = overworked(&plan, &Lab::default().promise(&plan));
        assert_eq!(overwork, Some(Overwork { actual: 0, bound: 0 }));
    }
}
