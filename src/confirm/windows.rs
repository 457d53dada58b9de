//! Durations measured in a run, simulated or real: how long harm was possible.

use std::collections::BTreeMap;

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::Sight;

use crate::check::verdict::{Kind, Verdict};
use crate::explain::finding::Finding;
use crate::history::{History, OpKind, Outcome, PROBE, Seen};
use crate::reading::index::HistoryIndex;

/// What is measured in any run, in the order of the report.
pub const WINDOWS: [(&str, Measure); 4] = [
    ("two holders at once", both_hold),
    ("first grant to the harm", until_harm),
    ("longest span without a grant", longest_drought),
    ("heal to the probe's grant", until_probe),
];

/// The steps of a failover, measured from the fault on the master: the description, the column
/// heading, and the measure.
pub const STEPS: [(&str, &str, Measure); 6] = [
    ("fault on the master to +sdown", "+sdown", until_suspected),
    ("fault on the master to +odown or FAIL", "+odown, or FAIL", until_down),
    ("fault on the master to the promotion", "promotion", until_promoted),
    ("fault on the master to +switch-master", "+switch-master", until_named),
    (
        "fault on the master to a client's write on the new one",
        "a client's write on the new master",
        until_written,
    ),
    (
        "fault on the master to the last write that it took",
        "the last that the old one took",
        goes_on,
    ),
];

/// A length in a finding, ns; `None` if it does not occur.
pub type Measure = fn(&Finding) -> Option<Nanos>;

fn both_hold(finding: &Finding) -> Option<Nanos> {
    let Verdict::Violated(violations) = &finding.judgement.verdict else { return None };
    let overlap = |kind| matches!(kind, Kind::DoubleGrant | Kind::StaleHolder);
    let first = violations.iter().filter(|found| overlap(found.kind)).min_by_key(|f| f.from)?;
    first.to.at.checked_sub(first.from.at)
}

fn until_harm(finding: &Finding) -> Option<Nanos> {
    let Verdict::Violated(violations) = &finding.judgement.verdict else { return None };
    let harm = violations.iter().map(|found| found.from.at).min()?;
    harm.checked_sub(*grants(&finding.history).first()?)
}

/// The longest interval between grants, from the start to the heal.
fn longest_drought(finding: &Finding) -> Option<Nanos> {
    let healed = finding.history.healed?.at;
    let mut marks = grants(&finding.history);
    marks.retain(|at| *at < healed);
    marks.insert(0, 0);
    marks.push(healed);
    marks.windows(2).map(|pair| pair[1] - pair[0]).max()
}

fn until_probe(finding: &Finding) -> Option<Nanos> {
    let mut acquires = finding.history.ops.iter().filter(|op| op.process == PROBE);
    let granted = acquires.find(|op| matches!(op.outcome, Outcome::Granted { .. }))?;
    granted.ret?.at.checked_sub(finding.history.healed?.at)
}

/// A replica that replaced its master.
struct Failover<'a> {
    /// When the fault that caused it struck.
    fault: Nanos,
    old: &'a str,
    new: &'a str,
    promoted: Nanos,
}

/// The first failover of a run; its fault is the last one that struck the old master before it.
fn failover(finding: &Finding) -> Option<Failover<'_>> {
    let History { sightings, fault_intervals, .. } = &finding.history;
    let mut followed = BTreeMap::new();
    let (old, new, promoted) = sightings.iter().find_map(|seen| match seen.what {
        Seen::Follows => {
            followed.insert(&seen.by[..], &seen.master[..]);
            None
        }
        Seen::Leads => Some((*followed.get(&seen.by[..])?, &seen.by[..], seen.at.at)),
        Seen::Watched(_) | Seen::Unreplicated | Seen::Exited | Seen::Tilted => None,
    })?;
    let struck = fault_intervals.iter();
    let struck = struck.filter(|interval| interval.touches(old) && interval.from.at <= promoted);
    Some(Failover { fault: struck.map(|interval| interval.from.at).max()?, old, new, promoted })
}

/// Time until an observer first has this view of the old master.
fn until_seen(finding: &Finding, sight: Sight) -> Option<Nanos> {
    let Failover { fault, old, .. } = failover(finding)?;
    let mut seen = finding.history.sightings.iter().filter(|seen| {
        seen.what == Seen::Watched(sight) && seen.master == old && seen.at.at >= fault
    });
    seen.next()?.at.at.checked_sub(fault)
}

fn until_suspected(finding: &Finding) -> Option<Nanos> {
    until_seen(finding, Sight::Suspected)
}

fn until_down(finding: &Finding) -> Option<Nanos> {
    until_seen(finding, Sight::Down)
}

fn until_promoted(finding: &Finding) -> Option<Nanos> {
    failover(finding).map(|failover| failover.promoted - failover.fault)
}

fn until_named(finding: &Finding) -> Option<Nanos> {
    let Failover { fault, new, .. } = failover(finding)?;
    let mut seen = finding.history.sightings.iter();
    let named = seen.find(|seen| seen.what == Seen::Watched(Sight::Named) && seen.master == new)?;
    named.at.at.checked_sub(fault)
}

fn until_written(finding: &Finding) -> Option<Nanos> {
    let Failover { fault, new, .. } = failover(finding)?;
    writes(finding, new).find(|at| *at >= fault)?.checked_sub(fault)
}

/// Time from the fault to the last write that the old master accepted, if it accepted any after the
/// fault.
fn goes_on(finding: &Finding) -> Option<Nanos> {
    let Failover { fault, old, .. } = failover(finding)?;
    writes(finding, old).last()?.checked_sub(fault)
}

/// When a node changed a key because a client had sent the request to this very node, while the
/// node was not a replica.
fn writes<'a>(finding: &'a Finding, node: &'a str) -> impl Iterator<Item = Nanos> + 'a {
    let history = &finding.history;
    let index = HistoryIndex::of(history, &finding.plan.lock.key);
    let own = history.keys.iter().filter(move |key| {
        let mut requests = key.by.into_iter().flat_map(|op| index.requests_of(op));
        key.node == node
            && requests.any(|request| request.to == node)
            && !index.follows(node, key.at)
    });
    own.map(|key| key.at.at)
}

/// When acquires of clients returned as granted, in order.
fn grants(history: &History) -> Vec<Nanos> {
    let granted = history.ops.iter().filter(|op| {
        op.process != PROBE
            && op.kind == OpKind::Acquire
            && matches!(op.outcome, Outcome::Granted { .. })
    });
    let mut at: Vec<Nanos> = granted.filter_map(|op| Some(op.ret?.at)).collect();
    at.sort_unstable();
    at
}

#[cfg(test)]
mod tests {
    use super::{STEPS, WINDOWS};
    use crate::explore::examine;
    use crate::run::Lab;
    use crate::scenario::Scenario;
    use lockstorm_platform::time::SECOND;

    #[test]
    fn a_failover_is_measured_from_the_fault_on() {
        let text = include_str!("../../scenarios/cluster-failover-loses-grant.toml");
        let plan = Scenario::parse("x", text).expect("it is a scenario").plan(3);
        let finding = examine::unexplained_plan(&Lab::default(), &plan);
        let measured = |nth: usize| STEPS[nth].2(&finding);
        assert_eq!(measured(0), None, "nobody is a Sentinel");
        let (down, promoted, written) = (measured(1), measured(2), measured(4));
        // The timeout of 2 s, then 500 to 1,000 ms until votes are requested.
        assert!(down > Some(2 * SECOND) && down < promoted && promoted < written, "{written:?}");
        assert!(written < Some(9 * SECOND), "{written:?}");
        assert_eq!(measured(5), None, "a master without power takes nothing");
    }

    #[test]
    fn what_sentinels_see_comes_in_its_order() {
        let text = include_str!("../../scenarios/sentinel-returned-master.toml");
        let plan = Scenario::parse("x", text).expect("it is a scenario").plan(1);
        let finding = examine::unexplained_plan(&Lab::default(), &plan);
        // Suspected, down, promoted, named, written, the old master's last write.
        let order: Vec<_> = STEPS.iter().map(|(what, _, at)| at(&finding).expect(what)).collect();
        assert!(order[..5].is_sorted() && order[2] < order[5], "{order:?}");
        assert!((SECOND..2 * SECOND).contains(&order[0]), "down_after is 1 s: {order:?}");
    }

    #[test]
    fn a_simulated_run_is_measured() {
        let text = include_str!("../../scenarios/gc-pause-outlives-lease.toml");
        let plan = Scenario::parse("x", text).expect("it is a scenario").plan(1);
        let finding = examine::unexplained_plan(&Lab::default(), &plan);
        for (what, measure) in &WINDOWS {
            let length = measure(&finding).expect(what);
            assert!(length < plan.until, "{what}");
            // The second holder comes after the lease of 10 s.
            assert!(
                *what != "first grant to the harm" || (9 * SECOND..11 * SECOND).contains(&length)
            );
        }
    }
}
