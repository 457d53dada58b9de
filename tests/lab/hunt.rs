//! The power of hunts: they find violations, report none in correct locks, and find the same
//! whatever runs in parallel.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::Kind;
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::{Class, Finding};
use lockstorm::explore::budget::Spending;
use lockstorm::explore::class::classify;
use lockstorm::explore::examine;
use lockstorm::explore::trial::{Trial, attempt};
use lockstorm::hunt::drawing::{Alphabet, plans};
use lockstorm::hunt::parameter::Parameter;
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::shrink::{Small, shrink};
use lockstorm::hunt::smaller::Variation;
use lockstorm::hunt::strategy::Strategy;
use lockstorm::ledger::planned;
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::algorithm::token_lua::TokenLua;
use lockstorm::lock::catalogue::find;
use lockstorm::lock::config::ReleaseShape;
use lockstorm::lock::{Acquired, Extended, Grant, Lock, Released, Setting};
use lockstorm::plan::base_plan::base_plan;
use lockstorm::plan::{Persistence, Plan, TopologyKind};
use lockstorm::promise::contract::Clause;
use lockstorm::report::text;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm::test::{hunt_from, hunt_own};
use lockstorm_platform::fault::verbs;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, SECOND};
use proptest::strategy::{Strategy as _, ValueTree};
use proptest::test_runner::TestRunner;
use rayon::prelude::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use crate::amount::{sample, share};

const KINDS: [TopologyKind; 5] = [
    TopologyKind::Single,
    TopologyKind::Replicated,
    TopologyKind::Independent,
    TopologyKind::Sentinel,
    TopologyKind::Cluster,
];

fn base(lock: &str, kind: TopologyKind, change: impl FnOnce(&mut Plan)) -> Plan {
    let mut base = base_plan(lock, kind);
    change(&mut base);
    base.validate().expect("the base makes sense");
    base
}

fn alphabet(lock: &str) -> Alphabet {
    Alphabet::of(*find(lock).expect("a lock of the catalogue"))
}

fn kinds(finding: &Finding) -> BTreeSet<Kind> {
    let lockstorm::check::verdict::Verdict::Violated(violations) = &finding.judgement.verdict
    else {
        panic!("a hunt finds violations")
    };
    violations.iter().map(|violation| violation.kind).collect()
}

/// The hunt finds this kind, in the model or not, within this many seeds: by faults alone, since a
/// longer hold or another timeout would show other kinds first.
#[track_caller]
fn finds(base: Plan, verbs: &[&str], within: bool, seeds: u64, kind: Kind) -> Finding {
    let hunt = |from| {
        let hunt = hunt_from(base.clone()).as_it_is().faults(verbs.iter().copied());
        let hunt = hunt.seeds(from..=seeds);
        if within { hunt.within_assumptions().finds() } else { hunt.finds() }
    };
    let mut finding = hunt(1);
    // Another kind may come first.
    while !kinds(&finding).contains(&kind) {
        assert!(finding.seed < seeds, "{:?}", kinds(&finding));
        finding = hunt(finding.seed + 1);
    }
    // A violation within the assumptions is a bug; beyond them it may be either.
    assert!(
        !within || finding.class.as_ref().is_some_and(Class::is_in_model),
        "{:?}",
        finding.class
    );
    finding
}

#[test]
fn planted_bugs_are_found_within_the_assumptions() {
    let blind = |plan: &mut Plan| plan.lock.release = ReleaseShape::Blind;
    let patient = |plan: &mut Plan| plan.lock.timeout = Some(4 * SECOND);
    let single = TopologyKind::Single;
    let half = |plan: &mut Plan| plan.lock.quorum = Some(2);
    let many = TopologyKind::Independent;
    let verbs: &[&str] = &["partition", "delay", "loss"];
    let hunts: [(_, &[&str], _, _); 5] = [
        (base("token-lua", single, blind), &[], 300, Kind::ForeignRelease),
        (base("redlock", many, half), &[], 50, Kind::DoubleGrant),
        (base("redlock-no-validity", many, patient), verbs, 300, Kind::DoubleGrant),
        (base("check-then-set", single, |_| {}), verbs, 20, Kind::DoubleGrant),
        // The same owner value each time: an old delayed request is accepted.
        (base("redisson", single, |_| {}), &["partition"], 300, Kind::DoubleGrant),
    ];
    for (base, verbs, seeds, kind) in sample(hunts) {
        finds(base, verbs, true, seeds, kind);
    }
}

#[test]
fn broken_assumptions_are_found_by_what_they_do() {
    // A node that loses its keys would be found first.
    let keeps = |plan: &mut Plan| plan.topology.persistence = Persistence::AofAlways;
    let single = |lock| base(lock, TopologyKind::Single, keeps);
    let replicated = base("token-lua", TopologyKind::Replicated, |_| {});
    let hunts: [(_, &[&str], _, _); 6] = [
        (single("setnx"), &["crash"], 100, Kind::Stuck),
        (single("setnx-expire"), &["crash"], 300, Kind::Stuck),
        (single("token-lua"), &["pause"], 100, Kind::StaleHolder),
        (single("token-lua"), &["clock-step"], 100, Kind::NotLinearizable),
        (single("fenced"), &["flush"], 100, Kind::FenceRegress),
        (replicated, &["failover", "replica-lag"], 300, Kind::DoubleGrant),
    ];
    for (base, verbs, seeds, kind) in sample(hunts) {
        finds(base, verbs, false, seeds, kind);
    }
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
        let tally = hunt_from(base(lock, kind, |_| {}))
            .within_assumptions()
            .seeds(1..=share(150) as u64)
            .holds();
        assert!(tally.struck_in_hold * 100 >= tally.runs * 25, "{lock}: {tally:?}");
    }
}

#[test]
fn what_is_shrunk_shows_the_same_and_gets_no_larger() {
    // Late writes have the same signature, whether their client or its link was stopped.
    for from in sample([1, 51, 101, 151]) {
        let verbs = ["pause", "partition", "jitter", "delay"].map(str::to_owned).into();
        let alphabet = Alphabet { verbs, ..alphabet("token-lua") };
        let base = base("token-lua", TopologyKind::Single, |_| {});
        let seeds = from..=from + 200;
        let hunt = Hunt::new(Lab::default(), base, alphabet, seeds);
        let report = lockstorm::hunt::pursuit::hunt(&hunt, None);
        let found = report.found.expect("a violation");
        assert!(found.plan.faults.len() <= found.drawn.faults.len());
        let (trial, _, small) = classified(&found.plan);
        assert_eq!(trial.run.trace, found.trial.run.trace);
        let (.., drawn) = classified(&found.drawn);
        assert!(small.simplifies(&drawn), "from seed {from} on: {small:?} of {drawn:?}");
        assert!(small.keeps(&found.signature), "from seed {from} on: {small:?}");
    }
}

fn classified(plan: &Plan) -> (Trial, Class, Signature) {
    let lab = Lab::default();
    let trial = attempt(&lab, plan);
    let class = classify(&lab, plan, &trial);
    let signature = examine::signature(&lab, plan, &trial, &class);
    (trial, class, signature)
}

/// The plan of a scenario, shrunk as if a hunt had drawn these parameters; with its own signature.
fn shrunk(scenario: &str, varies: &[Parameter]) -> (Small, Signature) {
    let text = format!("name = 'x'\nask = 'x'\nexpect = {{ holds = true }}\n{scenario}");
    let plan = Scenario::parse("x", &text).expect("a scenario").plan(1);
    let (trial, class, signature) = classified(&plan);
    let varies = varies.iter().copied().collect();
    let variation = Variation { base: &plan, varies: &varies };
    let drawn = (&plan, trial, class);
    let all = Spending::of(None);
    (shrink(&Lab::default(), drawn, &signature, &variation, &all), signature)
}

/// With the rounder lease of 10 s the work would be too long, whether its client pauses or not.
#[test]
fn a_plan_that_shows_another_bug_is_no_smaller_one() {
    let scenario = "topology = { kind = 'single' }
        lock = { algorithm = 'token-lua', ttl = '19500ms' }
        workload = { kind = 'counter', clients = 2, rounds = 1, hold = '12s' }
        [[fault]]
        kind = 'pause'
        target = 'c1'
        after = { event = 'acquired', by = 'c1', nth = 1, plus = '1s' }
        for = '25s'";
    let (small, own) = shrunk(scenario, &[Parameter::Ttl]);
    assert_eq!(own.broken, ["client-pause"]);
    assert_eq!(small.plan.lock.ttl, Some(20 * SECOND));
    let (.., signature) = classified(&small.plan);
    assert!(signature.keeps(&own), "{signature:?} of {own:?}");
}

/// The locks whose shrunk plans are tested, in turn.
const SHRUNK: [(&str, TopologyKind); 8] = [
    ("token-lua", TopologyKind::Single),
    ("setnx", TopologyKind::Single),
    ("px-constant", TopologyKind::Replicated),
    ("redlock", TopologyKind::Independent),
    ("fenced", TopologyKind::Single),
    ("redisson", TopologyKind::Single),
    ("wait-replicas", TopologyKind::Replicated),
    ("token-lua", TopologyKind::Sentinel),
];

/// No part of a shrunk plan can be removed, no length can be halved or rounded to whole seconds, and
/// no drawn setting can go back to the base plan. `LOCKSTORM_HUNTS` sets a larger number of hunts, or which ones: `100..200`.
#[test]
#[allow(clippy::disallowed_methods, reason = "how long to try, not what is tried")]
fn of_what_is_shrunk_nothing_can_go() {
    let range = std::env::var("LOCKSTORM_HUNTS").unwrap_or_else(|_| share(8).to_string());
    let (from, to) = range.split_once("..").unwrap_or(("0", &range));
    let number = |word: &str| word.parse::<usize>().expect("a number");
    let hunts = number(from)..number(to);
    let count = hunts.len();
    // One at a time: hunts vary in length, and the longest would be left to one thread.
    let minimal = hunts.into_par_iter().with_max_len(1).map(|nth| {
        let found = is_minimal(nth);
        println!("hunt {nth}: {}", if found { "minimal" } else { "nothing found" });
        usize::from(found)
    });
    let found: usize = minimal.sum();
    println!("{count} hunts, {found} violations, each shrunk to where nothing can go");
    assert!(found * 2 > count, "{found} of {count} hunts found anything");
}

/// Two callers hold the lock at once after either fault, in one class: the shrunk plan has one of
/// them, though it shows another mechanism and breaks fewer assumptions.
#[test]
fn a_fault_that_only_changes_the_mechanism_goes() {
    let scenario = "topology = { kind = 'single', persistence = 'aof-always' }
        lock = { algorithm = 'token-lua', ttl = '10s' }
        workload = { kind = 'counter', clients = 2, rounds = 2, hold = '2s' }
        [[fault]]
        kind = 'clock-step'
        target = 'n1'
        by = '20s'
        after = { event = 'acquired', by = 'c1', nth = 1, plus = '500ms' }
        [[fault]]
        kind = 'flush'
        target = 'n1'
        after = { event = 'acquired', by = 'c1', nth = 2, plus = '500ms' }";
    let (small, own) = shrunk(scenario, &[]);
    assert_eq!(own.broken, ["key-removal", "node-clock-step"]);
    assert_eq!(small.signature.broken, ["key-removal"]);
    assert_eq!(small.plan.faults.len(), 1, "{:?}", small.plan.faults);
    assert_ne!(small.signature.mechanism, own.mechanism);
}

/// The parameters of which a shrunk plan may have less than the base plan.
const MAY_BE_LESS: [Parameter; 5] =
    [Parameter::Hold, Parameter::Ttl, Parameter::Timeout, Parameter::Nodes, Parameter::Clients];

/// Whether the hunt finds anything; the result must be minimal.
fn is_minimal(nth: usize) -> bool {
    let lab = Lab::default();
    let (lock, kind) = SHRUNK[nth % SHRUNK.len()];
    let from = 1 + 100 * (nth / SHRUNK.len()) as u64;
    let (base, alphabet) = (base(lock, kind, |_| {}), alphabet(lock));
    let hunt = Hunt::new(lab.clone(), base, alphabet, from..=from + 200);
    let Some(found) = lockstorm::hunt::pursuit::hunt(&hunt, None).found else { return false };
    assert!(found.shrunk.is_minimal, "{lock} from {from}");
    let same = |plan: &Plan| {
        let trial = attempt(&lab, plan);
        let kinds = Signature::of(&trial.judgement.verdict).kinds;
        kinds == found.signature.kinds && {
            let class = classify(&lab, plan, &trial);
            examine::signature(&lab, plan, &trial, &class).keeps(&found.signature)
        }
    };
    assert!(same(&found.plan));
    for (index, fault) in found.plan.faults.iter().enumerate() {
        let mut without = found.plan.clone();
        without.faults.remove(index);
        assert!(!same(&without), "{lock} from {from}: {fault:?} can go");
        // The shrinker compares mechanisms. Whoever reads the result compares kinds and class.
        let trial = attempt(&lab, &without);
        let kinds = Signature::of(&trial.judgement.verdict).kinds;
        let stays = kinds == found.signature.kinds && {
            let class = classify(&lab, &without, &trial);
            let broken =
                |class: &Class| class.broken.iter().map(|b| b.what).collect::<BTreeSet<_>>();
            (&class.in_model, &class.out_of_model)
                == (&found.class.in_model, &found.class.out_of_model)
                && broken(&class).is_subset(&broken(&found.class))
        };
        assert!(!stays, "{lock} from {from}: {fault:?} makes no difference to kinds and class");
        let mut halved = found.plan.clone();
        let length = fault.length.filter(|length| length.is_multiple_of(2 * SECOND));
        halved.faults[index].length = length.map(|length| length / 2).or(fault.length);
        let is_half = halved != found.plan;
        assert!(!is_half || !same(&halved), "{lock} from {from}: {fault:?} can be half");
    }
    for parameter in Parameter::ALL.into_iter().filter(|one| !MAY_BE_LESS.contains(one)) {
        let mut back = found.plan.clone();
        parameter.copy(&hunt.base, &mut back);
        let is_back = back != found.plan && back.validate().is_ok();
        assert!(!is_back || !same(&back), "{lock} from {from}: {parameter:?} can go back");
    }
    let mut alone = found.plan.clone();
    alone.workload.clients = found.plan.workload.clients.saturating_sub(1).max(1);
    let is_fewer = alone != found.plan && alone.validate().is_ok();
    assert!(!is_fewer || !same(&alone), "{lock} from {from}: a client can go");
    true
}

#[test]
fn every_drawn_plan_makes_sense_and_keeps_within_its_limits() {
    for kind in KINDS {
        let lock = if kind == TopologyKind::Independent { "redlock" } else { "token-lua" };
        let base = base(lock, kind, |_| {});
        for within in [false, true] {
            let verbs = verbs::words().map(str::to_owned).collect();
            let alphabet = Alphabet { verbs, within, ..alphabet(lock) };
            let hunt = Hunt::new(Lab::default(), base.clone(), alphabet, 1..=1);
            let others = Strategy::ALL.into_iter().flat_map(|one| (1..=40).map(move |s| (s, one)));
            let random = (41..=300).map(|seed| (seed, Strategy::Random));
            for (seed, strategy) in sample(others.chain(random)) {
                let plan = draw(&hunt, seed, strategy);
                assert_eq!(plan.validate().map_err(|no| no.what), Ok(()), "{}", plan.to_json());
                let promise = Lab::default().promise(&plan);
                assert!(!within || planned::breaks(&plan, &promise).is_empty());
                assert!(plan.faults.len() <= hunt.alphabet.most_faults);
                // What is known of runs without faults makes no difference.
                let fresh =
                    Hunt::new(Lab::default(), hunt.base.clone(), hunt.alphabet.clone(), 1..=1);
                let again = draw(&fresh, seed, strategy);
                assert_eq!(again, plan, "seed {seed} of {strategy} draws one plan");
            }
        }
    }
}

/// Some of the drawn leases are too short for it.
#[test]
fn what_is_given_is_in_every_plan_within_assumptions() {
    let base = base("token-lua", TopologyKind::Single, |plan| {
        plan.workload.hold = 2 * SECOND;
        plan.lock.timeout = Some(SECOND / 2);
    });
    let mut alphabet = Alphabet { within: true, ..alphabet("token-lua") };
    alphabet.varies.retain(|known| ![Parameter::Hold, Parameter::Timeout].contains(known));
    let hunt = Hunt::new(Lab::default(), base.clone(), alphabet, 1..=1);
    let mut leases = BTreeSet::new();
    for seed in 1..=600 {
        let plan = draw(&hunt, seed, Strategy::Random);
        let given = |plan: &Plan| (plan.workload.hold, plan.lock.timeout);
        assert_eq!(given(&plan), given(&base), "seed {seed}");
        leases.insert(plan.lock.ttl);
    }
    assert!(leases.len() > 1, "other leases are drawn");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn what_a_test_gives_of_a_quorum_is_in_its_plan() {
    let hunt = lockstorm::test::hunt("redlock", TopologyKind::Independent).quorum(2);
    let lock = hunt.needs(SECOND).within_assumptions().seeds(1..=200).finds().plan.lock;
    assert_eq!((lock.quorum, lock.needs), (Some(2), Some(SECOND)), "2 of 5 exclude nobody");
}

#[test]
fn what_is_drawn_beside_faults_leaves_half_of_the_plans_alone_and_shrinks_away() {
    let base = base("redlock", TopologyKind::Independent, |_| {});
    let smallest = Plan { seed: 0, ..base.clone() };
    let smallest = |seed| {
        let mut plan = Plan { seed, ..smallest.clone() };
        plan.workload.clients = 2;
        plan.is_drawn = true;
        plan
    };
    let (mut plain, mut runner) = (0, TestRunner::deterministic());
    for seed in 1..=300 {
        let base = Plan { seed, ..base.clone() };
        let drawn = plans(&base, &alphabet("redlock")).new_tree(&mut runner);
        let mut tree = drawn.expect("the strategies reject nothing");
        let mut drawn = tree.current();
        (drawn.faults, drawn.workload.clients) = (Vec::new(), drawn.workload.clients.clamp(0, 2));
        plain += u32::from(drawn == smallest(seed));
        while tree.simplify() {}
        assert_eq!(tree.current(), smallest(seed));
    }
    assert!((100..=170).contains(&plain), "{plain} of 300");
}

#[test]
fn the_shortest_time_out_that_is_drawn_is_enough_without_faults() {
    for kind in [TopologyKind::Sentinel, TopologyKind::Cluster] {
        let base = base("token-lua", kind, |plan| {
            plan.lock.ttl = Some(SECOND / 2);
            plan.links.latency = Latency::Constant(5 * MILLISECOND);
        });
        let alphabet = Alphabet { within: true, ..alphabet("token-lua") };
        let hunt = Hunt::new(Lab::default(), base, alphabet, 1..=1);
        let drawn = (1..=600).map(|seed| draw(&hunt, seed, Strategy::Random));
        let shortest = drawn.filter(|plan| plan.lock.timeout.is_some());
        let shortest = shortest.min_by_key(|plan| plan.lock.timeout).expect("some are drawn");
        let calm = Plan { faults: Vec::new(), ..shortest };
        assert!(!attempt(&Lab::default(), &calm).is_violated(), "{}", calm.to_json());
    }
}

/// A lock whose calls take a time that it counts from run to run, and which frees keys that it does
/// not own.
struct Unsteady(Setting, TokenLua, IsHonest);

/// Whether it refuses where it is refused.
type IsHonest = bool;

static CALLS: AtomicU64 = AtomicU64::new(0);

#[async_trait(?Send)]
impl Lock for Unsteady {
    async fn acquire(&mut self) -> Acquired {
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        self.0.host.sleep(calls % 97 * MILLISECOND).await;
        match self.1.acquire().await {
            Acquired::Refused { .. } if !self.2 => {
                let token = String::new();
                Acquired::Granted(Grant { token, ..Grant::default() })
            }
            other => other,
        }
    }

    async fn extend(&mut self, _: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.1.release(grant).await
    }
}

#[test]
fn a_lock_that_does_something_else_each_time_is_a_finding_of_a_hunt() {
    const UNSTEADY: Algorithm = Algorithm::lease("unsteady", |setting| {
        Box::new(Unsteady(setting.clone(), TokenLua::new(setting), false))
    });
    // This one violates nothing: only a plan that is run twice shows it.
    const HONEST: Algorithm = Algorithm::lease("honest", |setting| {
        Box::new(Unsteady(setting.clone(), TokenLua::new(setting), true))
    });
    let [finding, _] = [UNSTEADY, HONEST].map(|lock| {
        let hunt = hunt_own(lock, TopologyKind::Single).within_assumptions().seeds(1..=200);
        let finding = hunt.finds();
        let clauses: Vec<Clause> = finding.history.breaches.iter().map(|b| b.clause).collect();
        assert_eq!(clauses, [Clause::Repeatable]);
        finding
    });
    let page = text::page(&finding, &explain(&finding), false);
    assert!(page.contains("one plan is one run"), "{page}");
    assert!(finding.class.is_some_and(|class| class.is_in_model()));
}
