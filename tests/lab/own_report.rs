//! What a hunt for a lock of one's own reports: all its distinct findings, the bugs first, as the
//! command line does for a lock of the catalogue.

use std::process::{Command, ExitCode};
use std::time::Duration;

use lockstorm::explore::trial::attempt;
use lockstorm::hunt::catch::{Catch, TimeLimits, catch};
use lockstorm::hunt::quarry::Quarry;
use lockstorm::hunt::search::{Until, scout};
use lockstorm::hunt::seeded::Hunt;
use lockstorm::hunt::sound::beside;
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::algorithm::none::NoLock;
use lockstorm::lock::algorithm::px_constant::PxConstant;
use lockstorm::lock::algorithm::token_lua::TokenLua;
use lockstorm::lock::assumptions;
use lockstorm::lock::config::LockConfig;
use lockstorm::plan::base_plan::base_plan_of;
use lockstorm::plan::{Plan, TopologyKind};
use lockstorm::promise::Promise;
use lockstorm::run::Lab;
use lockstorm::test::{HuntTest, hunt_own, replay};

use crate::NO_TIME;

/// Its release does not check whose key it deletes. Longer faults break its assumptions.
const FOREIGN: Algorithm =
    Algorithm::lease("foreign", |setting| Box::new(PxConstant::new(setting)));

const KEEPS: Algorithm = Algorithm::lease("keeps", |setting| Box::new(TokenLua::new(setting)));

/// It declares fences and gives none.
const NO_FENCE: Algorithm = Algorithm { fences: true, ..KEEPS };

/// It promises a queue and has none.
const NO_QUEUE: Algorithm = Algorithm {
    promise: |config, work| Promise {
        queue: Some("queue".to_owned()),
        ..assumptions::lease(config, work)
    },
    ..KEEPS
};

/// Names the hunt that this test runs in a process of its own.
const CHILD: &str = "LOCKSTORM_REPORTS";

/// The name of a hunt, the hunt, and the exit code that it ends with.
type Row = (&'static str, fn() -> ExitCode, u8);

const HUNTS: [Row; 16] = [
    ("all", || on_one_node(FOREIGN).seeds(1..=20).report(), 1),
    ("nothing", || delayed(FOREIGN).seeds(1..=1).report(), 0),
    ("budget", || calm().budget(Duration::ZERO).report(), 0),
    ("unknown", || calm().seeds(1..=1).report(), 2),
    ("alone", || calm().clients(1).seeds(1..=10).report(), 2),
    ("no fence", || on_one_node(NO_FENCE).within_assumptions().seeds(1..=10).report(), 2),
    ("no queue", || on_one_node(NO_QUEUE).within_assumptions().seeds(1..=10).report(), 2),
    ("assumed", || calm().faults(["flush", "pause"]).report(), 3),
    ("refused", || on_one_node(KEEPS).faults(["pausse"]).report(), 3),
    ("shard 1", || calm().seeds(1..=128).shard("1/2", CAMPAIGN), 0),
    ("a part", || calm().seeds(1..=128).merge(CAMPAIGN), 2),
    ("shard 2", || calm().seeds(1..=128).shard("2/2", CAMPAIGN), 0),
    ("the whole", || calm().seeds(1..=128).merge(CAMPAIGN), 0),
    ("review", || on_one_node(FOREIGN).seeds(1..=12).review(), 1),
    ("too long", || on_one_node(KEEPS).hold(9_000_000_000).seeds(1..=1).review(), 2),
    ("another", || calm().seeds(1..=129).merge(CAMPAIGN), 3),
];

/// The folder of the campaign of these hunts.
const CAMPAIGN: &str = "campaign-of-keeps";

fn on_one_node(lock: Algorithm) -> HuntTest {
    hunt_own(lock, TopologyKind::Single)
}

fn delayed(lock: Algorithm) -> HuntTest {
    on_one_node(lock).within_assumptions().faults(["delay"])
}

fn calm() -> HuntTest {
    on_one_node(KEEPS).within_assumptions()
}

/// Runs a hunt, if this is the process for it.
#[allow(clippy::disallowed_methods, reason = "which hunt a process runs, not what it does")]
fn is_child() -> bool {
    let Ok(name) = std::env::var(CHILD) else { return false };
    let (_, hunt, code) = HUNTS.into_iter().find(|(known, ..)| *known == name).expect("a hunt");
    assert_eq!(hunt(), ExitCode::from(code));
    true
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
    let limits = TimeLimits { shrinking: None, explaining: Some(NO_TIME) };
    catch(&hunt, Until::End, scouted, limits, &|_| {})
}

#[test]
fn a_report_has_all_findings_and_says_how_to_run_them_again() {
    if is_child() {
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
    let tried = "token-lua holds in this plan (tried in 1 of ";
    assert!(headlines.iter().any(|line| line.contains(tried)), "{all}");
    let stem = |nth: usize| format!("target/lockstorm/{}", catch.findings[nth].finding.scenario);
    let again = |nth| {
        let plan = stem(nth);
        format!("again: lockstorm::test::replay(\"{plan}.plan.json\").lock(...).holds()")
    };
    for text in [
        "found after 20 plans",
        &format!("violated plans in {groups} groups; seeds 1..20"),
        "The story",
        &format!("report: {}.md", stem(0)),
        &format!("scenario: {}.toml", stem(0)),
        &again(0),
        &again(groups - 1),
        "list: target/lockstorm/hunt-foreign-single.md",
        "explored: ",
    ] {
        assert!(all.contains(text), "no '{text}' in:\n{all}");
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for ending in ["md", "svg", "toml"] {
        assert!(folder.join(format!("{}.{ending}", stem(0))).exists(), "{ending}");
    }
    let plan = folder.join(stem(groups - 1) + ".plan.json");
    let again = std::panic::catch_unwind(|| replay(plan).lock(FOREIGN).holds());
    assert!(again.is_err(), "the plan of the last group shows it again");

    assert_ne!(stem(0), stem(groups - 1), "one finding replaces another");
    let list = || std::fs::read_to_string(folder.join("target/lockstorm/hunt-foreign-single.md"));
    let has_plans = |list: String| list.contains("[plan](");
    assert!(list().is_ok_and(has_plans));
    let none = printed("nothing");
    assert!(none.contains("list: target/lockstorm/hunt-foreign-single.md"), "{none}");
    assert!(!list().is_ok_and(has_plans), "the list of an earlier hunt looks current");
    assert!(folder.join(stem(0) + ".md").exists(), "the report of an earlier hunt is gone");

    let ended = printed("budget");
    assert!(ended.contains("no violation in 64 plans"), "{ended}");
    assert!(ended.contains("seeds 1..64, where the budget ended"), "{ended}");
    let assumed =
        "not tested: clock-rate, evict and flush, since the lock assumes that they do not happen";
    assert!(ended.contains(assumed), "{ended}");
    let bounds =
        ["\nassumed, with the figures of the base plan: ", "; no key is evicted or flushed"];
    assert!(bounds.iter().all(|part| ended.contains(part)), "{ended}");
    assert!(!ended.contains("no replica is made master"), "it has no replicas: {ended}");
    let refused = printed("assumed");
    let why = "the lock assumes that 'flush' does not happen";
    let instead = "take 'flush' out of .faults(..), or leave out .within_assumptions()";
    assert!(refused.contains(why) && refused.contains(instead), "{refused}");
    let none = printed("unknown");
    assert!(none.contains("unknown: no fault struck inside a hold in 1 plan "), "{none}");
    let refused = printed("refused");
    assert!(refused.contains("there is no fault 'pausse'"), "{refused}");
    assert!(refused.contains("did you mean 'pause'?"), "{refused}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_lock_of_ones_own_is_reviewed_as_one_of_the_catalogue() {
    let review = printed("review");
    for text in [
        "VIOLATED  review-foreign-single",
        "foreign breaks its promise within what it assumes: ",
        "broke: none",
        "lockstorm::test::replay(\"target/lockstorm/hunt-foreign-single-",
        "Its row of the matrix",
        "other values of the options that it reads: only its code says which",
        "report: target/lockstorm/review-foreign-single.md",
    ] {
        assert!(review.contains(text), "no '{text}' in:\n{review}");
    }
    let unknown = printed("too long");
    let why = "Nothing is known of what keeps promises: no plan like this is within the assump";
    assert!(unknown.contains(why), "{unknown}");
}

/// A lock that gives no fence, or has no queue, would pass without a test of it.
#[test]
fn a_hunt_that_left_something_untested_says_what() {
    for (hunt, why) in [
        ("alone", "no two callers wanted the lock at the same time (a lock needs two clients"),
        ("no fence", "no grant carried a fence (a lock with `fences: true`"),
        ("no queue", "nobody stood in the queue that the lock promises (`queue` in its Promise"),
    ] {
        let said = printed(hunt);
        let has = said.contains("unknown: each plan left something untested") && said.contains(why);
        assert!(has, "{hunt}: {said}");
    }
    let alone = std::panic::catch_unwind(|| calm().clients(1).seeds(1..=10).holds());
    let why = alone.expect_err("nothing was tested").downcast::<String>().expect("a text");
    assert!(why.contains("no two callers wanted the lock"), "{why}");
}

#[test]
fn shards_of_a_lock_of_ones_own_are_one_hunt() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(CAMPAIGN);
    let _ = std::fs::remove_dir_all(folder);
    let expected = [
        ("shard 1", "shard 1/2: complete"),
        ("a part", "incomplete: 64 seeds of shard 2/2"),
        ("shard 2", "shard 2/2: complete"),
        ("the whole", "no violation in 128 plans"),
        ("another", "the logs are of two campaigns"),
    ];
    for (name, text) in expected {
        let said = printed(name);
        assert!(said.contains(text), "{name}: no '{text}' in:\n{said}");
    }
    assert!(printed("shard 1").contains("resumes after 64 plans"));
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
