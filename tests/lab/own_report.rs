//! What a hunt for a lock of one's own reports: all its distinct findings, the bugs first, as the
//! command line does for a lock of the catalogue.

use std::process::{Command, ExitCode};
use std::time::Duration;

use lockstorm::explore::base_plan::base_plan_of;
use lockstorm::explore::catch::{Catch, catch};
use lockstorm::explore::hunt::{Hunt, Until, scout};
use lockstorm::explore::quarry::Quarry;
use lockstorm::explore::sound::beside;
use lockstorm::explore::trial::attempt;
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::algorithm::none::NoLock;
use lockstorm::lock::algorithm::px_constant::PxConstant;
use lockstorm::lock::algorithm::token_lua::TokenLua;
use lockstorm::lock::assumptions;
use lockstorm::lock::config::LockConfig;
use lockstorm::plan::{Plan, TopologyKind};
use lockstorm::promise::Promise;
use lockstorm::run::Lab;
use lockstorm::test::{HuntTest, hunt_own, replay};

use crate::NO_TIME;

/// Its release does not check whose key it deletes. Longer faults break its assumptions.
const FOREIGN: Algorithm =
    Algorithm::lease("foreign", |setting| Box::new(PxConstant::new(setting)));

const KEEPS: Algorithm = Algorithm::lease("keeps", |setting| Box::new(TokenLua::new(setting)));

/// Names the hunt that this test runs in a process of its own.
const CHILD: &str = "LOCKSTORM_REPORTS";

/// The hunts, and the exit codes that they end with.
fn hunts() -> [(&'static str, HuntTest, u8); 4] {
    let hunt = |lock| hunt_own(lock, TopologyKind::Single);
    [
        ("all", hunt(FOREIGN).seeds(1..=20), 1),
        ("budget", hunt(KEEPS).within_assumptions().budget(Duration::ZERO), 0),
        ("unknown", hunt(KEEPS).within_assumptions().seeds(1..=1), 2),
        ("refused", hunt(KEEPS).faults(["pausse"]), 3),
    ]
}

/// What the hunt of this name prints.
fn printed(name: &str) -> String {
    let this = "own_report::a_report_has_all_findings_and_says_how_to_run_them_again";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([this, "--exact", "--nocapture"]).env(CHILD, name);
    let ended = child.current_dir(env!("CARGO_TARGET_TMPDIR")).output().unwrap();
    let [out, errors] = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(ended.status.success(), "{out}\n{errors}");
    out + &errors
}

/// The same hunt, as the command line runs it for a lock of the catalogue.
fn caught(lock: Algorithm) -> Catch {
    let mut quarry = Quarry::like(base_plan_of(&lock, TopologyKind::Single));
    quarry.seeds = 1..=20;
    let hunt: Hunt = quarry.hunt(Lab::default().with_lock(lock)).expect("it makes sense");
    let scouted = scout(&hunt, Until::End, None, &|_| {});
    catch(&hunt, Until::End, scouted, Some(NO_TIME), &|_| {})
}

#[test]
#[allow(clippy::disallowed_methods, reason = "which hunt a process runs, not what it does")]
fn a_report_has_all_findings_and_says_how_to_run_them_again() {
    if let Ok(name) = std::env::var(CHILD) {
        let mut hunts = hunts().into_iter();
        let (_, hunt, code) = hunts.find(|(known, ..)| *known == name).expect("a hunt");
        assert_eq!(hunt.report(), ExitCode::from(code));
        return;
    }
    let all = printed("all");
    let catch = caught(FOREIGN);
    let groups = catch.findings.len();
    assert!(groups > 1 && catch.findings[0].is_bug(), "{groups} groups");
    assert!(catch.scenario.is_some(), "the plan of a lock of one's own is a scenario too");
    let headlines: Vec<&str> = all.lines().filter(|line| line.starts_with("group ")).collect();
    assert_eq!(headlines.len(), groups, "{all}");
    assert!(headlines[0].starts_with(&format!("group 1 of {groups}: ")), "{all}");
    assert!(headlines[0].contains("(in-model)"), "{all}");
    assert!(headlines.iter().any(|line| line.contains("token-lua holds in this plan")), "{all}");
    let again = "again: lockstorm::test::replay(\"target/lockstorm/hunt-foreign";
    for text in [
        "found after 20 plans",
        &format!("violated plans in {groups} groups; seeds 1..20"),
        "The story",
        "report: target/lockstorm/hunt-foreign.md",
        "scenario: target/lockstorm/hunt-foreign.toml",
        &format!("{again}.plan.json\").lock(...).holds()"),
        &format!("{again}-{groups}.plan.json\").lock(...).holds()"),
        "explored: ",
    ] {
        assert!(all.contains(text), "no '{text}' in:\n{all}");
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("target/lockstorm");
    for name in ["hunt-foreign.md", "hunt-foreign.svg", "hunt-foreign.toml"] {
        assert!(folder.join(name).exists(), "{name}");
    }
    let plan = folder.join(format!("hunt-foreign-{groups}.plan.json"));
    let again = std::panic::catch_unwind(|| replay(plan).lock(FOREIGN).holds());
    assert!(again.is_err(), "the plan of the last group shows it again");

    let ended = printed("budget");
    assert!(ended.contains("no violation in 64 plans"), "{ended}");
    assert!(ended.contains("seeds 1..64, where the budget ended"), "{ended}");
    let none = printed("unknown");
    assert!(none.contains("unknown: no fault struck inside a hold in 1 plans"), "{none}");
    let refused = printed("refused");
    assert!(refused.contains("there is no fault 'pausse'"), "{refused}");
    assert!(refused.contains("did you mean 'pause'?"), "{refused}");
}

#[test]
fn a_budget_limits_the_hunt_of_a_test() {
    let hunt = hunt_own(KEEPS, TopologyKind::Single).within_assumptions();
    assert_eq!(hunt.budget(Duration::ZERO).holds().runs, 64, "one batch runs in any case");
}

/// A lock for two holders that grants everybody.
#[test]
fn no_lock_of_the_catalogue_stands_beside_another_family() {
    let two =
        |config: &LockConfig, work| Promise { holders: 2, ..assumptions::lease(config, work) };
    let build = |setting| -> Box<dyn lockstorm::lock::Lock> { Box::new(NoLock::new(setting)) };
    let one = Algorithm::lease("grants-all", build);
    let queue = |config: &LockConfig, work| Promise {
        queue: Some("queue".to_owned()),
        ..assumptions::lease(config, work)
    };
    let compared = |lock: Algorithm| {
        let lab = Lab::default().with_lock(lock);
        let plan: Plan = base_plan_of(&lock, TopologyKind::Single);
        beside(&lab, &plan, &attempt(&lab, &plan)).map(|sound| sound.lock)
    };
    assert_eq!(compared(one), Some("token-lua"));
    for other in [
        Algorithm { promise: two, ..one },
        Algorithm { promise: queue, ..one },
        Algorithm { shares: true, ..one },
        Algorithm { groups: true, ..one },
    ] {
        assert_eq!(compared(other), None);
    }
}
