//! Compares the simulated verdict with the real ones: values in, values out.

use std::collections::BTreeSet;

use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_world::engine::kind::EngineKind;

use crate::check::judge::judge;
use crate::check::verdict::{Kind, Verdict};
use crate::confirm::environment::{RealEnvironment, RealRun};
use crate::explain::finding::Finding;
use crate::explore::examine;
use crate::explore::trial::Trial;
use crate::plan::Plan;
use crate::run::Lab;

/// Kinds whose checks depend on which request changed which key: these are not compared after a gap
/// in the servers' reports.
const BY_KEYS: [Kind; 4] =
    [Kind::ForeignRelease, Kind::ForeignExtend, Kind::Leak, Kind::RenewalAfterRelease];

/// A notification within this time counts as immediate: real code takes time to run.
const AT_ONCE: Nanos = 50 * MILLISECOND;

/// A machine that acts later than this after the scheduled time was too busy: if its verdict
/// differs, the result is unknown.
const TOO_LATE: Nanos = 25 * MILLISECOND;

/// One real run.
pub struct Attempt {
    /// What was found. Its class is unknown, because nothing was run again.
    pub finding: Finding,
    /// The number of gaps in the servers' reports.
    pub unmatched: u32,
    /// The maximum delay of the machine behind its schedule, ns.
    pub latest: Nanos,
}

/// Runs a plan once on real servers. `begin` is called when the servers are up; time begins when it
/// returns.
///
/// # Errors
/// A text: what cannot be started, or that the run was interrupted.
pub fn attempt(lab: &Lab, plan: &Plan, begin: impl FnOnce()) -> Result<Attempt, String> {
    let lab = Lab { engine: EngineKind::Live, ..lab.clone() };
    let environment = RealEnvironment::prepare(plan);
    // Called even if a server could not be started, because the other runs wait for this one at a
    // barrier.
    begin();
    let RealRun { run, unmatched, latest } = environment?.run(&lab, plan)?;
    let mut judgement = judge(&run.history, &lab.terms(plan));
    if let Verdict::Violated(violations) = &mut judgement.verdict {
        violations.retain(|found| found.late.is_none_or(|late| late > AT_ONCE));
        if violations.is_empty() {
            judgement.verdict = Verdict::Holds;
        }
    }
    // Nothing is classified here, because the breaches are reported with the finding of the
    // simulated run.
    let trial = Trial { run, judgement, breaches: Vec::new() };
    let finding = examine::once(&lab, plan, trial);
    Ok(Attempt { finding, unmatched, latest })
}

/// Whether the real runs of one plan agree with the simulated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerAgreement {
    /// Every real run reached the simulated verdict.
    Same,
    /// A real run's verdict is unknown.
    Unknown,
    /// A real run reached another verdict.
    Differs,
}

/// Compares the verdicts.
pub fn agreement(simulated: &Finding, real: &[&Attempt]) -> ServerAgreement {
    let verdicts = real.iter().map(|run| one(&simulated.judgement.verdict, run));
    verdicts.max().unwrap_or(ServerAgreement::Unknown)
}

/// The number of real runs that reached the simulated verdict.
pub fn count(simulated: &Finding, real: &[&Attempt]) -> usize {
    let same = |run: &&&Attempt| one(&simulated.judgement.verdict, run) == ServerAgreement::Same;
    real.iter().filter(same).count()
}

/// Whether a run has another verdict on a machine that was too busy for it to count.
pub fn was_too_busy(simulated: &Finding, real: &Attempt) -> bool {
    real.latest > TOO_LATE && one(&simulated.judgement.verdict, real) != ServerAgreement::Same
}

fn one(simulated: &Verdict, real: &Attempt) -> ServerAgreement {
    match (simulated, &real.finding.judgement.verdict) {
        (Verdict::Unknown(_), _) | (_, Verdict::Unknown(_)) => ServerAgreement::Unknown,
        (simulated, found) => {
            let left_out = left_out(real.unmatched);
            let compared = |verdict| &kinds(verdict) - &left_out;
            let (simulated, found) = (compared(simulated), compared(found));
            match simulated == found {
                true => ServerAgreement::Same,
                false if real.latest > TOO_LATE => ServerAgreement::Unknown,
                false => ServerAgreement::Differs,
            }
        }
    }
}

/// The kinds that are not compared after `unmatched` gaps in the evidence.
pub fn left_out(unmatched: u32) -> BTreeSet<Kind> {
    if unmatched > 0 { BY_KEYS.into() } else { BTreeSet::new() }
}

/// The kinds of violation in a verdict.
pub fn kinds(verdict: &Verdict) -> BTreeSet<Kind> {
    match verdict {
        Verdict::Violated(violations) => violations.iter().map(|found| found.kind).collect(),
        Verdict::Holds | Verdict::Unknown(_) => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::Instant;

    use super::{Attempt, ServerAgreement, agreement};
    use crate::check::verdict::{Kind, Verdict, Violation};
    use crate::explain::finding::Finding;
    use crate::explore::examine;
    use crate::run::Lab;
    use crate::scenario::Scenario;

    fn finding(kinds: &[Kind]) -> Finding {
        let text = include_str!("../../scenarios/setnx-holds.toml");
        let plan = Scenario::parse("x", text).expect("it is a scenario").plan(1);
        let mut finding = examine::plan(&Lab::default(), &plan);
        let at = Instant::default();
        let violations: Vec<_> = kinds.iter().map(|kind| Violation::new(*kind, at, at)).collect();
        if !violations.is_empty() {
            finding.judgement.verdict = Verdict::Violated(violations);
        }
        finding
    }

    fn check(simulated: &[Kind], real: &[(&[Kind], u32)], wanted: ServerAgreement) {
        let attempt = |(kinds, unmatched): &(&[Kind], u32)| Attempt {
            finding: finding(kinds),
            unmatched: *unmatched,
            latest: 0,
        };
        let real: Vec<Attempt> = real.iter().map(attempt).collect();
        let real: Vec<&Attempt> = real.iter().collect();
        assert_eq!(agreement(&finding(simulated), &real), wanted);
    }

    #[test]
    fn every_run_has_to_come_to_the_same_kinds() {
        let (stale, both) = ([Kind::StaleHolder], [Kind::StaleHolder, Kind::Corruption]);
        check(&stale, &[(&stale, 0), (&stale, 0)], ServerAgreement::Same);
        check(&stale, &[(&stale, 0), (&both, 0)], ServerAgreement::Differs);
        check(&both, &[(&stale, 0)], ServerAgreement::Differs);
        check(&[], &[(&[], 0)], ServerAgreement::Same);
        check(&[], &[(&stale, 0)], ServerAgreement::Differs);
        check(&stale, &[(&[], 0)], ServerAgreement::Differs);
        check(&stale, &[], ServerAgreement::Unknown);
    }

    #[test]
    fn a_busy_machine_cannot_contradict() {
        let late = |latest| Attempt { finding: finding(&[]), unmatched: 0, latest };
        let simulated = finding(&[Kind::Stuck]);
        assert_eq!(agreement(&simulated, &[&late(1_000_000)]), ServerAgreement::Differs);
        assert_eq!(agreement(&simulated, &[&late(99_000_000)]), ServerAgreement::Unknown);
    }

    #[test]
    fn what_a_gap_hides_is_not_compared() {
        let foreign = [Kind::DoubleGrant, Kind::ForeignRelease];
        check(&[], &[(&[Kind::Leak], 1)], ServerAgreement::Same);
        check(&[], &[(&[Kind::Stuck], 1)], ServerAgreement::Differs);
        check(&foreign, &[(&[Kind::DoubleGrant], 0)], ServerAgreement::Differs);
        check(&foreign, &[(&[Kind::DoubleGrant], 1)], ServerAgreement::Same);
    }
}
