//! All findings of a hunt: in groups, each with its smallest plan, the same on any number of
//! threads, and compared with a correct lock.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::{Kind, Violation};
use lockstorm::explain::experiment::Cut;
use lockstorm::explain::finding::Finding;
use lockstorm::explain::mechanism::by_kind::mechanism;
use lockstorm::explain::mechanism::how::How;
use lockstorm::explain::witness::Witness;
use lockstorm::explore::budget::{Budget, Spending};
use lockstorm::explore::examine;
use lockstorm::explore::trial::attempt;
use lockstorm::hunt::distinct::{Distinct, distinct, told_once};
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::group::leading;
use lockstorm::hunt::search::{Scouted, Until, scout};
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::shrink::Shrunk;
use lockstorm::hunt::sound::{Sound, beside};
use lockstorm::lock::catalogue::{ALGORITHMS, find, sound};
use lockstorm::own::{Case, Findings};
use lockstorm::plan::base_plan::base_plan;
use lockstorm::plan::{Plan, TopologyKind};
use lockstorm::report::page;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::SECOND;
use lockstorm_platform::trace::Leg;

use crate::NO_TIME;

fn hunt(lock: &str, within: bool, seeds: std::ops::RangeInclusive<u64>) -> Hunt {
    let base = base_plan(lock, TopologyKind::Single);
    let alphabet = Alphabet { within, ..Alphabet::of(*find(lock).expect("a lock")) };
    Hunt::new(Lab::default(), base, alphabet, seeds)
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("threads can be started").install(work)
}

fn all(hunt: &Hunt) -> (Scouted, Vec<Distinct>) {
    let scouted = scout(hunt, Until::End, None, &|_| {});
    let found = distinct(hunt, &scouted.groups, &Spending::of(None), &|| {});
    (scouted, found)
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn every_finding_of_a_hunt_is_reported_once_and_the_bugs_first() {
    let hunt = hunt("px-constant", false, 81..=110);
    let (scouted, found) = on_threads(1, || all(&hunt));
    // The same on any number of threads.
    let (again, others) = on_threads(3, || all(&hunt));
    assert_eq!(again, scouted);
    let row = |one: &Distinct| {
        (one.count, one.finding.seed, one.finding.plan.digest(), one.finding.signature.clone())
    };
    let rows: Vec<_> = found.iter().map(row).collect();
    assert_eq!(others.iter().map(row).collect::<Vec<_>>(), rows);
    // Every violated plan is in one group.
    let tally = scouted.tally;
    assert_eq!((tally.runs, scouted.next), (30, None));
    let violated = tally.runs - tally.held - tally.unknown;
    assert_eq!(found.iter().map(|one| one.count).sum::<u64>(), violated);
    // Several findings, of which the bugs come first.
    let is_bug: Vec<bool> = found.iter().map(|one| one.is_bug()).collect();
    assert!(is_bug.contains(&true) && is_bug.contains(&false), "{is_bug:?}");
    assert!(is_bug.is_sorted_by(|one, next| one >= next), "{is_bug:?}");
    // No two findings are the same.
    let names: BTreeSet<_> = found.iter().map(Distinct::identity).collect();
    assert_eq!(names.len(), found.len());
    // What a group promises about a seed is what its plan shows.
    for (key, sightings) in scouted.groups.iter() {
        for example in &sightings.smallest {
            let plan = draw(&hunt, example.seed, example.strategy);
            let trial = attempt(&hunt.lab, &plan);
            let kinds = Signature::of(&trial.judgement.verdict).kinds;
            assert_eq!(leading(&kinds), key.kinds);
            assert_eq!(plan.faults.len(), example.faults);
            assert!(!key.in_model || trial.breaches.is_empty());
        }
        assert!(sightings.smallest.is_sorted() && !sightings.smallest.is_empty());
        assert_ne!(key.mechanism, How::Unclear, "{key:?}");
    }
}

/// A check that finds something if the first access to the resource is by this client, or is not.
fn of_first(is_c1: bool) -> impl Fn(&Case<'_>) -> Findings {
    move |case| {
        let first = case.history.accesses.first().filter(|first| (first.caller == "c1") == is_c1);
        let wrong = first.map(|first| Violation {
            accesses: vec![0],
            ..Violation::own("somebody was first", first.at, first.at)
        });
        wrong.into_iter().collect::<Vec<_>>().into()
    }
}

#[test]
fn what_two_checks_find_are_two_findings() {
    let mut hunt = hunt("token-lua", true, 1..=20);
    hunt.lab = hunt.lab.with_check("c1 first", of_first(true));
    hunt.lab = hunt.lab.with_check("c1 not first", of_first(false));
    let (_, found) = all(&hunt);
    let checks: Vec<_> = found.iter().filter_map(|one| Some(one.identity()?.checks)).collect();
    assert_eq!(checks.iter().collect::<BTreeSet<_>>().len(), 2, "{checks:?}");
    assert_eq!(found.iter().map(|one| one.count).sum::<u64>(), 20, "each plan is in one of them");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn among_findings_of_one_class_those_come_first_that_a_correct_lock_withstands() {
    let falls = |one: &Distinct| one.sound.as_ref().is_some_and(Sound::falls);
    let has_order = (1..=241).step_by(60).any(|from| {
        let (_, found) = all(&hunt("token-get-del", false, from..=from + 59));
        let bugs = found.iter().filter(|one| one.is_bug()).count();
        [&found[..bugs], &found[bugs..]].into_iter().any(|part| {
            assert!(part.iter().map(falls).is_sorted(), "the withstood ones come first");
            part.iter().any(falls) && !part.iter().all(falls)
        })
    });
    assert!(has_order, "no hunt has both in one class");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn within_the_assumptions_every_finding_is_a_bug() {
    let hunt = hunt("check-then-set", true, 1..=40);
    let (_, found) = all(&hunt);
    assert!(!found.is_empty());
    for one in &found {
        assert!(one.is_bug() && one.sound.is_none());
    }
}

#[test]
fn a_hunt_that_its_budget_ends_says_where() {
    let hunt = hunt("token-lua", true, 7..=300);
    let none = NO_TIME;
    let scouted = scout(&hunt, Until::End, Some(none), &|_| {});
    // One batch runs in any case.
    assert_eq!((scouted.tally.runs, scouted.next), (64, Some(71)));
    let whole = Hunt { seeds: 7..=70, ..hunt.clone() };
    let all = scout(&whole, Until::End, Some(none), &|_| {});
    assert_eq!((all.tally, all.next), (scouted.tally, None));
    let first = scout(&whole, Until::First, None, &|_| {});
    assert_eq!(first.tally.runs, 64, "it holds");
    let first = scout(&hunt, Until::First, Some(none), &|_| {});
    assert_eq!(first, scouted, "a hunt for the first violation has a budget too");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn what_there_is_no_time_to_shrink_is_still_classified() {
    let hunt = hunt("setnx", false, 1..=40);
    let scouted = scout(&hunt, Until::End, None, &|_| {});
    let of = |spending: &Spending| distinct(&hunt, &scouted.groups, spending, &|| {});
    let cut = of(&Spending::of(Some(NO_TIME)));
    assert!(!cut.is_empty());
    for one in &cut {
        let unshrunk = Shrunk { cut: Some(Cut::Budget), ..Shrunk::default() };
        assert_eq!((one.shrunk, one.uncompared), (unshrunk, Some(Cut::Budget)));
        assert!(one.sound.is_none());
        assert!(one.finding.class.is_some());
        let is_drawn = one.finding.plan == draw(&hunt, one.finding.seed, one.strategy);
        assert_eq!(state(one), if is_drawn { "as drawn" } else { "shrunk" });
    }
    for one in of(&Spending::of(None)) {
        assert_eq!((one.shrunk.cut, one.uncompared), (None, None));
        assert!(one.shrunk.runs > 0);
        assert_eq!(state(&one), "shrunk");
    }
}

#[test]
fn the_list_of_a_hunt_names_the_mechanisms_that_replays_name() {
    let how = |finding: &Finding| mechanism(&Witness::of(finding)).map(|how| how.sentence);
    let plans = |found: &[Distinct]| found.iter().map(|one| one.count).sum::<u64>();
    for (lock, seeds) in [("jedis-util", 1..=60), ("setnx-expire", 61..=90)] {
        let hunt = hunt(lock, false, seeds);
        let (_, found) = all(&hunt);
        let violated = plans(&found);
        let told = told_once(&hunt.lab, found, &Spending::of(None));
        for one in &told {
            // By the trials of its own plan, not by what its run alone shows.
            assert!(one.finding.experiments.is_some(), "{lock}, seed {}", one.finding.seed);
            let again = examine::classified(&hunt.lab, &one.finding.plan);
            let replayed = examine::explained(&hunt.lab, Some(NO_TIME), &[], again);
            assert_eq!(how(&one.finding), how(&replayed), "{lock}, seed {}", one.finding.seed);
        }
        assert_eq!(plans(&told), violated);
    }
}

/// What a report says of how its plan was made from its seed.
fn state(found: &Distinct) -> &'static str {
    let pages = page::of_finding(&found.finding);
    let text = pages.iter().flat_map(|page| page.text.split_whitespace());
    let text = text.collect::<Vec<_>>().join(" ");
    let is_said = |state: &&str| {
        text.contains(&format!("by the strategy '{}', {state}, on the event", found.strategy))
    };
    ["as drawn", "shrunk"].into_iter().find(is_said).expect("a report says it")
}

#[test]
fn bugs_are_shrunk_before_what_is_out_of_model() {
    static SHRUNK: AtomicU64 = AtomicU64::new(0);
    // The time is up when the first group is shrunk.
    let clock = || Duration::from_secs(SHRUNK.load(Relaxed));
    let budget = Budget { length: Duration::from_secs(1), clock, ..NO_TIME };
    let hunt = hunt("px-constant", false, 81..=110);
    let found = on_threads(1, || {
        let scouted = scout(&hunt, Until::End, None, &|_| {});
        let progress = || _ = SHRUNK.fetch_add(1, Relaxed);
        distinct(&hunt, &scouted.groups, &Spending::of(Some(budget)), &progress)
    });
    assert!(found.iter().any(|one| one.is_bug() && one.shrunk.runs > 0));
    let mut others = found.iter().filter(|one| !one.is_bug()).peekable();
    assert!(others.peek().is_some());
    assert!(others.all(|one| one.shrunk.runs == 0 && one.shrunk.cut == Some(Cut::Budget)));
}

#[test]
fn every_lock_has_a_correct_one_of_its_family() {
    let family = |lock| sound(find(lock).expect("a lock")).name;
    let rows = [
        ("none", "token-lua"),
        ("token-get-del", "token-lua"),
        ("token-lua", "token-lua"),
        ("redisson", "token-lua-renewed"),
        ("fenced", "fenced"),
        ("wait-replicas", "wait-replicas"),
        ("redlock-no-validity", "redlock"),
    ];
    for (lock, correct) in rows {
        assert_eq!(family(lock), correct, "{lock}");
    }
    for lock in &ALGORITHMS {
        let correct = sound(lock);
        assert_eq!(sound(correct).name, correct.name, "{} is its own", correct.name);
    }
}

/// A plan with one pause of c1, 15 s long, in its first hold.
fn paused(lock: &str, event: Pattern) -> Plan {
    let mut plan = base_plan(lock, TopologyKind::Single);
    let anchor = Anchor::After { event, nth: 1, plus: SECOND / 10 };
    let target = Target::try_from("c1".to_owned()).expect("a target");
    let length = Some(15 * SECOND);
    plan.faults.push(Fault { id: 1, verb: Verb::Pause, target, anchor, length });
    plan.heal_at = 25 * SECOND;
    plan.until = 40 * SECOND;
    plan
}

#[test]
fn a_correct_lock_falls_to_a_pause_and_not_to_a_bug_of_another() {
    let lab = Lab::default();
    let compare = |plan: &Plan| beside(&lab, plan, &attempt(&lab, plan));
    let acquired = || Pattern::Outcome { who: "c1".to_owned(), what: "acquired".to_owned() };
    let falls = compare(&paused("px-constant", acquired())).expect("another lock");
    assert_eq!(falls.lock, "token-lua");
    assert!(falls.falls() && falls.same.contains(&Kind::StaleHolder), "{falls:?}");
    let calm = base_plan("none", TopologyKind::Single);
    let holds = compare(&calm).expect("another lock");
    assert_eq!((&holds.same[..], &holds.other[..], holds.is_unknown), (&[][..], &[][..], false));
    assert_eq!(compare(&paused("token-lua", acquired())), None, "it is the correct lock");
    // Only the lock under test sends DEL: beside it the pause strikes at its time.
    let deleted = Pattern::Message {
        from: "c1".to_owned(),
        to: "n1".to_owned(),
        command: Some("DEL".to_owned()),
        leg: Leg::Sent,
    };
    let falls = (1..=15).any(|step| {
        let mut plan = paused("px-constant", deleted.clone());
        if let Anchor::After { plus, .. } = &mut plan.faults[0].anchor {
            *plus = step * SECOND / 5;
        }
        compare(&plan).is_some_and(|sound| sound.falls())
    });
    assert!(falls, "no pause after the first release strikes a hold of the correct lock");
}

/// c1 believes in its lease for too long by the clock that the plan names, whichever lock it uses: on
/// another clock the correct lock would only be a stale holder.
#[test]
fn a_correct_lock_reads_the_clock_of_the_plan() {
    let text = include_str!("../../scenarios/client-clock-steps-back.toml");
    let text = text.replace("token-lua", "px-constant");
    let plan = Scenario::parse("x", &text).expect("a scenario").plan(1);
    let lab = Lab::default();
    let falls = beside(&lab, &plan, &attempt(&lab, &plan)).expect("another lock");
    let same = [Kind::DoubleGrant, Kind::Corruption];
    assert_eq!((falls.lock, &falls.same[..]), ("token-lua", &same[..]));
}
