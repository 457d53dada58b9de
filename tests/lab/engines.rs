//! Two engines must agree about a plan, and a difference must be detected. `lockstorm --engine
//! both` compares the whole folder of scenarios.

#![cfg(feature = "turmoil")]

use lockstorm::check::verdict::Verdict;
use lockstorm::explain::finding::Finding;
use lockstorm::explore::agree::{EngineAgreement, agreement};
use lockstorm::explore::examine;
use lockstorm::history::Outcome;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;

/// Scenarios with everything that the engines implement differently: back-off after partitions,
/// refused connects, loss, power loss, paused processes, suspended machines, reset connections,
/// several callers of one process.
const FEW: [&str; 7] = [
    "check-then-set-race",
    "gc-pause-outlives-lease",
    "pause-of-a-host-with-two-callers",
    "power-loss-everysec",
    "redlock-no-validity-pause-in-flight",
    "suspend-boot-clock",
    "token-get-del-late-del",
];

fn scenario(name: &str) -> Scenario {
    let file = format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).expect("the scenario is there");
    Scenario::parse(name, &text).unwrap_or_else(|no| panic!("{}", no.render(false)))
}

fn both(name: &str) -> [Finding; 2] {
    let scenario = scenario(name);
    let find = |lab: Lab| examine::judged(&lab, &scenario, scenario.seeds()[0]);
    [find(Lab::event_in_ms()), find(Lab::turmoil())]
}

#[test]
fn few_scenarios_come_to_the_same_on_both_engines() {
    for name in FEW {
        let [event, turmoil] = both(name);
        assert_eq!(agreement(&event, &turmoil), EngineAgreement::Whole, "{name}");
    }
}

#[test]
fn a_plan_has_one_trace_on_turmoil_too() {
    let scenario = scenario("redlock-power-loss-everysec");
    let hash = || examine::judged(&Lab::turmoil(), &scenario, 1).trace_hash;
    assert_eq!(hash(), hash());
}

/// Changes the finding of one engine, and expects a difference.
#[track_caller]
fn notices(finding: &Finding, what: &str, tamper: impl FnOnce(&mut Finding)) {
    let mut other = finding.clone();
    tamper(&mut other);
    let noticed = agreement(finding, &other);
    assert!(matches!(noticed, EngineAgreement::Not(_)), "{what}: {noticed:?}");
}

#[test]
fn every_difference_is_noticed() {
    let scenario = scenario("gc-pause-outlives-lease");
    let finding = examine::judged(&Lab::event_in_ms(), &scenario, 1);
    assert_eq!(agreement(&finding, &finding), EngineAgreement::Whole);
    notices(&finding, "another verdict", |other| other.judgement.verdict = Verdict::Holds);
    notices(&finding, "another class", |other| other.class = None);
    notices(&finding, "another nearest miss", |other| other.judgement.nearest_miss = Some(0));
    let granted = |outcome: &Outcome| matches!(outcome, Outcome::Granted { .. });
    let grant = finding.history.ops.iter().rposition(|op| granted(&op.outcome)).expect("a grant");
    notices(&finding, "another outcome", |other| {
        other.history.ops[grant].outcome = Outcome::Refused { why: String::new() };
    });
    notices(&finding, "another order", |other| {
        other.history.ops[grant].call.at = 0;
    });
    notices(&finding, "an operation less", |other| {
        other.history.ops.remove(grant);
    });
}
