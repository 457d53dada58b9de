//! Workloads and checks of one's own: they run, judge and are told like the built-in ones, and a
//! mistake in them is reported with their name.

use lockstorm::check::verdict::Kind;
use lockstorm::explain::explanation::explain;
use lockstorm::own::{
    AccessKind, Case, CriticalSection, Findings, Finished, HuntTest, Plan, Round, TopologyKind,
    Violation, async_trait, base_plan, hunt_from,
};
use lockstorm::plan::WorkloadKind;
use lockstorm::report::page::of_finding;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;

/// The counter, by another name.
struct Mine;

#[async_trait(?Send)]
impl CriticalSection for Mine {
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        let Some(value) = round.read().await else { return Ok(()) };
        round.work().await?;
        round.write(value + 1, value).await;
        Ok(())
    }
}

/// No value is written twice.
fn once(case: &Case<'_>) -> Findings {
    let accesses = &case.history.accesses;
    let writes =
        |index: &usize| accesses[*index].kind == AccessKind::Write && accesses[*index].accepted;
    let same = |one: usize, other: usize| accesses[one].value == accesses[other].value;
    let again = (0..accesses.len()).filter(writes).filter_map(|index| {
        let first = (0..index).filter(writes).find(|earlier| same(*earlier, index))?;
        let (from, to) = (accesses[first].at, accesses[index].at);
        let accesses = vec![first, index];
        Some(Violation { accesses, ..Violation::own("a value was written twice", from, to) })
    });
    again.collect::<Vec<_>>().into()
}

fn named(lock: &str) -> Plan {
    let mut plan = base_plan(lock, TopologyKind::Single);
    plan.workload.kind = WorkloadKind::Own("mine".into());
    plan
}

fn quarry(lock: &str) -> HuntTest {
    let hunt = hunt_from(base_plan(lock, TopologyKind::Single)).workload("mine", Mine);
    hunt.check("once", once)
}

#[test]
fn the_same_work_by_another_name_has_the_same_trace() {
    let lab = Lab::default().with_workload("mine", Mine);
    let theirs = base_plan("token-lua", TopologyKind::Single);
    assert_eq!(lab.run(&named("token-lua")).trace, Lab::default().run(&theirs).trace);
}

#[test]
fn a_finding_is_shrunk_and_told_in_the_words_of_its_check() {
    let finding = quarry("none").finds();
    let signature = finding.signature.clone().expect("it is violated");
    assert!(signature.kinds.contains(&Kind::OwnCheck), "{signature:?}");
    assert_eq!(signature.checks, ["once"]);
    assert_eq!(finding.plan.workload.kind, WorkloadKind::Own("mine".into()));
    let lines = explain(&finding).story.lines;
    let told = lines.iter().find(|line| line.text == "a value was written twice (check 'once').");
    let told = told.expect("the check's line");
    assert_eq!(told.evidence.len(), 2);
}

#[test]
fn a_report_says_what_runs_it_again() {
    let finding = quarry("none").finds();
    let again = ".workload(...).check(...).holds();";
    let drawn = format!("the plan of seed {} by the strategy '", finding.seed);
    for page in of_finding(&finding).iter().filter(|page| page.name.ends_with(".md")) {
        for part in [again, &drawn] {
            assert!(page.text.contains(part), "{part}: {}", page.text);
        }
        assert!(!page.text.contains("lockstorm replay"), "the program lacks the workload");
    }
}

#[cfg(feature = "turmoil")]
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn another_engine_keeps_the_workload_and_the_check() {
    let finding = quarry("none").on_turmoil().finds();
    assert_eq!(finding.signature.expect("it is violated").checks, ["once"]);
    assert_eq!(finding.plan.workload.kind, WorkloadKind::Own("mine".into()));
}

#[test]
fn a_correct_lock_passes_a_check_that_a_wrong_one_fails() {
    assert!(quarry("token-lua").within_assumptions().seeds(1..=30).holds().grants > 0);
}

/// What a check makes of a sound finding.
type Change = fn(Violation) -> Violation;

/// A check that returns this of the first access of each history.
fn always(violation: Change) -> impl Fn(&Case<'_>) -> Findings {
    move |case| {
        let Some(first) = case.history.accesses.first() else { return Findings::default() };
        let at = first.at;
        let own = Violation::own("it is always wrong", at, at);
        vec![violation(Violation { accesses: vec![0], ..own })].into()
    }
}

#[test]
fn alone_it_is_the_headline_and_a_bug_without_a_fault() {
    let hunt = hunt_from(base_plan("token-lua", TopologyKind::Single)).within_assumptions();
    let finding = hunt.check("always", always(|own| own)).finds();
    assert_eq!(finding.plan.faults, []);
    assert!(finding.class.as_ref().is_some_and(|class| class.is_in_model()));
    let explanation = explain(&finding);
    assert_eq!(explanation.verdict, "it is always wrong (check 'always').");
    let mechanism = explanation.mechanism.expect("every violation has one");
    assert_eq!(mechanism.how.word(), "own-check");
}

fn message(hunt: HuntTest) -> String {
    let hunt = std::panic::AssertUnwindSafe(|| hunt.seeds(1..=1).holds());
    let panic = std::panic::catch_unwind(hunt).expect_err("a mistake of the test");
    let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal.unwrap_or_else(|| *panic.downcast::<String>().expect("a text"))
}

#[test]
fn a_mistake_of_a_check_is_reported_with_its_name() {
    let cases: [(Change, &str); 5] = [
        (
            |own| Violation { accesses: vec![9_999], ..own },
            "cites the access 9999, which is not in the history",
        ),
        (|own| Violation { ops: vec![9_999], ..own }, "cites the operation 9999"),
        (|own| Violation { accesses: Vec::new(), ..own }, "without evidence"),
        (
            |own| Violation::new(Kind::Stuck, own.from, own.to),
            "returned a violation of the kind 'stuck': use Violation::own",
        ),
        (
            |own| Violation { accesses: vec![0], ..Violation::own("Yes.", own.from, own.to) },
            "write a sentence without a full stop",
        ),
    ];
    for (violation, said) in cases {
        let hunt = hunt_from(base_plan("token-lua", TopologyKind::Single));
        let message = message(hunt.check("mine", always(violation)));
        assert!(message.contains(said) && message.contains("the check 'mine'"), "{message}");
    }
    let hunt = hunt_from(base_plan("token-lua", TopologyKind::Single));
    let message = message(hunt.check("mine", |_: &Case<'_>| -> Findings { panic!("no idea") }));
    assert_eq!(message, "the check 'mine' panicked: no idea");
}

#[test]
fn only_who_knows_the_workload_takes_a_plan_that_names_it() {
    let plan = named("token-lua");
    let refused = plan.validate().expect_err("nobody added it");
    assert_eq!(refused.what, "there is no workload 'mine'");
    let refused = Plan::from_json("p.plan.json", &plan.to_json()).expect_err("nobody added it");
    let text = refused.render(false);
    assert!(text.contains("lockstorm::test::replay(\"p.plan.json\").workload(...)"), "{text}");
    let lab = Lab::default().with_workload("mine", Mine);
    let read = Plan::from_json_with(&lab.locks, "p.plan.json", &plan.to_json());
    assert_eq!(read.ok(), Some(plan));
    let text = "name = \"mine\"\nask = \"?\"\nexpect = { holds = true }\n[lock]\n\
                algorithm = \"token-lua\"\nttl = \"10s\"\n[workload]\nkind = \"mine\"\n";
    assert!(Scenario::parse_with(&lab.locks, "mine.toml", text).is_ok());
    let refused = Scenario::parse("mine.toml", text).expect_err("nobody added it").render(false);
    assert!(refused.contains("counter, stock, stock-get-decr"), "{refused}");
}

#[test]
#[should_panic(expected = "there is a check named 'stuck' already")]
fn a_check_is_not_named_as_a_kind() {
    let _ = Lab::default().with_check("stuck", once);
}

#[test]
#[should_panic(expected = "there is a workload named 'stock' already")]
fn a_workload_is_not_named_as_another() {
    let _ = Lab::default().with_workload("stock", Mine);
}
