//! How a project uses lockstorm from its own tests: a scenario, a hunt that must find nothing, a
//! hunt that must find something, and a property over plans of one's own.

use lockstorm::check::verdict::Verdict;
use lockstorm::explore::trial::attempt;
use lockstorm::hunt::drawing::{Alphabet, plans};
use lockstorm::plan::TopologyKind;
use lockstorm::plan::base_plan::base_plan;
use proptest::prelude::{ProptestConfig, proptest};

#[test]
fn a_gc_pause_is_survived_with_fences() {
    lockstorm::test::scenario("scenarios/gc-pause-fenced.toml").run();
}

#[test]
fn redlock_keeps_its_promise() {
    let tally = lockstorm::test::hunt("redlock", TopologyKind::Independent)
        .faults(["partition", "delay", "loss"])
        .within_assumptions()
        .seeds(1..=100)
        .holds();
    assert!(tally.struck_in_hold > 20);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_release_in_two_steps_is_found_wanting() {
    let finding = lockstorm::test::hunt("token-get-del", TopologyKind::Single)
        .as_it_is()
        .faults(["delay", "pause"])
        .seeds(1..=500)
        .finds();
    assert!(!finding.plan.faults.is_empty());
}

#[test]
#[should_panic(
    expected = "again: lockstorm replay target/lockstorm/gc-pause-fenced-1-d340e57356063c3b.plan.json"
)]
fn a_failure_says_how_to_run_it_again() {
    let text = std::fs::read_to_string("scenarios/gc-pause-fenced.toml").unwrap();
    let wrong = text.replace("violated = [\"stale-holder\"]", "violated = [\"stuck\"]");
    assert_ne!(text, wrong);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong.toml");
    std::fs::write(&path, wrong).unwrap();
    lockstorm::test::scenario(path).run();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn no_pause_or_partition_loses_an_update_behind_fences(plan in fenced_plans()) {
        let judgement = attempt(&lockstorm::run::Lab::default(), &plan).judgement;
        if let Verdict::Violated(violations) = judgement.verdict {
            let corrupt = violations.iter().any(|v| v.kind == lockstorm::check::verdict::Kind::Corruption);
            assert!(!corrupt, "{}", plan.to_json());
        }
    }
}

fn fenced_plans() -> impl proptest::strategy::Strategy<Value = lockstorm::plan::Plan> {
    let mut base = base_plan("fenced", TopologyKind::Single);
    base.workload.fence = lockstorm::plan::FenceMode::RejectSmaller;
    let verbs = ["pause", "partition", "delay"].map(str::to_owned).into();
    let fenced = *lockstorm::lock::catalogue::find("fenced").expect("a lock of the catalogue");
    plans(&base, &Alphabet { verbs, most_faults: 3, ..Alphabet::of(fenced) })
}
