//! Hunts have power: they find what is wrong, leave what is right in peace, and find the same
//! whatever runs beside them.

use std::collections::BTreeSet;

use lockstorm::check::Kind;
use lockstorm::explain::finding::{Class, Finding};
use lockstorm::explore::ground::ground;
use lockstorm::explore::hunt::{Hunt, draw};
use lockstorm::explore::ledger;
use lockstorm::explore::strategy::{Alphabet, default_verbs};
use lockstorm::lock::ReleaseShape;
use lockstorm::plan::{Persistence, Plan, TopologyKind};
use lockstorm::run::Lab;
use lockstorm::test::hunt_from;
use lockstorm_sim::fault::verbs;
use lockstorm_sim::time::SECOND;
use proptest::strategy::ValueTree;

const KINDS: [TopologyKind; 3] =
    [TopologyKind::Single, TopologyKind::Replicated, TopologyKind::Independent];

fn base(lock: &str, kind: TopologyKind, change: impl FnOnce(&mut Plan)) -> Plan {
    let mut base = ground(lock, kind);
    change(&mut base);
    base.validate().expect("the base makes sense");
    base
}

fn kinds(finding: &Finding) -> BTreeSet<Kind> {
    let lockstorm::check::Verdict::Violated(violations) = &finding.judgement.verdict else {
        panic!("a hunt finds violations")
    };
    violations.iter().map(|violation| violation.kind).collect()
}

/// The hunt finds this kind, in the model or not, within so many seeds.
#[track_caller]
fn finds(base: Plan, verbs: &[&str], within: bool, seeds: u64, kind: Kind) -> Finding {
    let hunt = hunt_from(base).faults(verbs.iter().copied()).seeds(1..=seeds);
    let finding = if within { hunt.within_assumptions().finds() } else { hunt.finds() };
    assert!(kinds(&finding).contains(&kind), "{:?}", kinds(&finding));
    // What is found within the assumptions is a bug; beyond them it may be either.
    assert!(!within || finding.class == Some(Class::InModel), "{:?}", finding.class);
    finding
}

#[test]
fn planted_bugs_are_found_within_the_assumptions() {
    let blind = |plan: &mut Plan| plan.lock.release = ReleaseShape::Blind;
    let patient = |plan: &mut Plan| {
        plan.lock.timeout = Some(4 * SECOND);
        plan.lock.needs = Some(SECOND);
    };
    let single = TopologyKind::Single;
    let default = default_verbs();
    let default: Vec<&str> = default.iter().map(String::as_str).collect();
    finds(base("token-lua", single, blind), &default, true, 300, Kind::ForeignRelease);
    let half = |plan: &mut Plan| plan.lock.quorum = Some(2);
    let many = TopologyKind::Independent;
    finds(base("redlock", many, half), &default, true, 50, Kind::DoubleGrant);
    let verbs = ["partition", "delay", "loss"];
    finds(base("redlock-no-validity", many, patient), &verbs, true, 300, Kind::DoubleGrant);
    finds(base("check-then-set", single, |_| {}), &verbs, true, 20, Kind::DoubleGrant);
    // The same owner value each time: what was sent long ago is let through.
    finds(base("redisson", single, |_| {}), &["partition"], true, 300, Kind::DoubleGrant);
}

#[test]
fn broken_assumptions_are_found_by_what_they_do() {
    // A node that forgets its keys would be found first.
    let keeps = |plan: &mut Plan| plan.topology.persistence = Persistence::AofAlways;
    let single = |lock| base(lock, TopologyKind::Single, keeps);
    finds(single("setnx"), &["crash"], false, 100, Kind::Stuck);
    finds(single("setnx-expire"), &["crash"], false, 300, Kind::Stuck);
    finds(single("token-lua"), &["pause"], false, 100, Kind::StaleHolder);
    finds(single("token-lua"), &["clock-step"], false, 100, Kind::NotLinearizable);
    finds(single("fenced"), &["flush"], false, 100, Kind::FenceRegress);
    let replicated = base("token-lua", TopologyKind::Replicated, |_| {});
    finds(replicated, &["failover", "replica-lag"], false, 300, Kind::DoubleGrant);
}

#[test]
fn safe_designs_hold_within_their_assumptions() {
    for (lock, kind) in [
        ("token-lua", TopologyKind::Single),
        ("token-lua", TopologyKind::Replicated),
        ("token-lua-renewed", TopologyKind::Single),
        ("fenced", TopologyKind::Replicated),
        ("redlock", TopologyKind::Independent),
    ] {
        let tally = hunt_from(base(lock, kind, |_| {})).within_assumptions().seeds(1..=150).holds();
        assert!(tally.struck_in_hold * 100 >= tally.runs * 25, "{lock}: {tally:?}");
    }
}

#[test]
fn what_is_shrunk_keeps_its_signature_and_gets_no_larger() {
    let base = base("token-lua", TopologyKind::Single, |_| {});
    let report = lockstorm::explore::hunt::hunt(
        &Hunt {
            lab: Lab::default(),
            base,
            alphabet: Alphabet {
                verbs: ["pause", "partition", "jitter"].map(str::to_owned).into(),
                most_faults: 4,
                halts_clients: true,
                within: None,
            },
            seeds: 1..=200,
        },
        &|_| {},
    );
    let found = report.found.expect("a pause outlives the lease");
    assert!(found.plan.faults.len() <= found.drawn.faults.len());
    let again = lockstorm::explore::trial::attempt(&Lab::default(), &found.plan);
    assert_eq!(again.run.trace, found.trial.run.trace);
    assert_eq!(again.signature(&found.class), found.signature);
}

#[test]
fn every_plan_that_is_drawn_makes_sense_and_keeps_within_what_it_is_told() {
    for kind in KINDS {
        let lock = if kind == TopologyKind::Independent { "redlock" } else { "token-lua" };
        let base = base(lock, kind, |_| {});
        let promise = Lab::default().promise(&base);
        for within in [None, Some(promise.clone())] {
            let inside = within.is_some();
            let verbs = verbs::words().map(str::to_owned).collect();
            let alphabet = Alphabet { verbs, most_faults: 4, halts_clients: true, within };
            let hunt = Hunt { lab: Lab::default(), base: base.clone(), alphabet, seeds: 1..=1 };
            for seed in 1..=300 {
                let plan = draw(&hunt, seed).current();
                assert_eq!(plan.validate().map_err(|no| no.what), Ok(()), "{}", plan.to_json());
                assert!(!inside || ledger::broken(&plan, &promise).is_empty());
                assert_eq!(draw(&hunt, seed).current(), plan, "seed {seed} draws one plan");
            }
        }
    }
}
