//! Lengths that are measured in a run, simulated or real: how long a harm was open.

use lockstorm_sim::time::Nanos;

use crate::check::{Kind, Verdict};
use crate::explain::finding::Finding;
use crate::history::{History, OpKind, Outcome};
use crate::plan::TopologyKind;
use crate::run::PROBE;

/// What is measured, in the order in which it is told.
pub const WINDOWS: [(&str, Measure); 6] = [
    ("two holders at once", both_hold),
    ("first grant to the harm", until_harm),
    ("longest span without a grant", longest_drought),
    ("heal to the probe's grant", until_probe),
    ("fault to the new master's first grant", until_promoted),
    ("the old master granted beside it for", goes_on),
];

/// A length in a finding, ns; `None` where there is none.
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

/// From one grant to the next, up to the heal, the beginning and the heal included.
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

/// From the strike at the first master to the first grant by another node.
fn until_promoted(finding: &Finding) -> Option<Nanos> {
    let grants = grants_by_node(finding)?;
    let old = grants.first()?.0;
    let strikes = finding.history.conditions.iter().filter(|condition| {
        condition.who == old && !matches!(condition.what.as_str(), "replica-lag" | "slow-node")
    });
    let strike = strikes.map(|condition| condition.from.at).min()?;
    grants.iter().find(|(node, _)| *node != old)?.1.checked_sub(strike)
}

/// From the first grant by another node to the last by the first master, if that comes later.
fn goes_on(finding: &Finding) -> Option<Nanos> {
    let grants = grants_by_node(finding)?;
    let old = grants.first()?.0;
    let new = grants.iter().find(|(node, _)| *node != old)?.1;
    let last = grants.iter().rev().find(|(node, _)| *node == old)?.1;
    last.checked_sub(new)
}

/// The node that gave each grant, and when, in order; `None` where no node replaces another.
fn grants_by_node(finding: &Finding) -> Option<Vec<(&str, Nanos)>> {
    if matches!(finding.plan.topology.kind, TopologyKind::Single | TopologyKind::Independent) {
        return None;
    }
    let History { ops, requests, .. } = &finding.history;
    let granted = ops.iter().filter(|op| matches!(op.outcome, Outcome::Granted { .. }));
    let by_node = granted.filter_map(|op| {
        let request = requests.iter().rev().find(|request| request.op == op.id)?;
        Some((request.to.as_str(), op.ret?.at))
    });
    let mut by_node: Vec<_> = by_node.collect();
    by_node.sort_by_key(|(_, at)| *at);
    Some(by_node)
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
    use super::WINDOWS;
    use crate::explore::examine;
    use crate::run::Lab;
    use crate::scenario::Scenario;
    use lockstorm_sim::time::SECOND;

    #[test]
    fn a_simulated_run_is_measured() {
        let text = include_str!("../../scenarios/gc-pause-outlives-lease.toml");
        let plan = Scenario::parse("x", text).expect("it is a scenario").plan(1);
        let finding = examine::plan(&Lab::default(), &plan);
        for (what, measure) in &WINDOWS[..4] {
            let length = measure(&finding).expect(what);
            assert!(length < plan.until, "{what}");
            // The second holder comes when the lease of 10 s is over.
            assert!(
                *what != "first grant to the harm" || (9 * SECOND..11 * SECOND).contains(&length)
            );
        }
    }
}
