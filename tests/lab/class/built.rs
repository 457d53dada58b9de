//! Hand-made plans with known breaches and class.

use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::{Kind, Verdict};
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Class;
use lockstorm::explore::class::classify;
use lockstorm::explore::examine;
use lockstorm::explore::trial::{Trial, attempt};
use lockstorm::ledger::breach::Breach;
use lockstorm::ledger::part::Part;
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::catalogue;
use lockstorm::lock::config::ExtendShape;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::plan::{Persistence, Plan, TopologyKind};
use lockstorm::promise::Bounded;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm::workload::slowest_access;
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{ClockSetting, MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::Edge;

use crate::class::ledger::{self, Book};

const MS: Nanos = MILLISECOND;

/// A lock on a topology that loses no data.
fn plan(lock: &str, kind: TopologyKind) -> Plan {
    let mut plan = base_plan(lock, kind);
    plan.topology.persistence = Persistence::AofAlways;
    plan
}

fn with(mut plan: Plan, faults: Vec<(Verb, &str, Anchor, Option<Nanos>)>) -> Plan {
    let ids = 1..;
    plan.faults = ids
        .zip(faults)
        .map(|(id, (verb, target, anchor, length))| {
            let target = Target::try_from(target.to_owned()).expect("a target");
            Fault { id, verb, target, anchor, length }
        })
        .collect();
    plan.validate().unwrap_or_else(|no| panic!("{}", no.what));
    plan
}

fn after(who: &str, what: &str, nth: u32, plus: Nanos) -> Anchor {
    let event = Pattern::Outcome { who: who.to_owned(), what: what.to_owned() };
    Anchor::After { event, nth, plus }
}

fn after_fault(id: u32, edge: Edge, plus: Nanos) -> Anchor {
    Anchor::After { event: Pattern::Fault { id, edge }, nth: 1, plus }
}

pub(super) fn run(plan: &Plan) -> (Trial, Class) {
    let lab = Lab::default();
    let trial = attempt(&lab, plan);
    let class = match trial.is_violated() {
        true => classify(&lab, plan, &trial),
        false => Class::default(),
    };
    (trial, class)
}

fn kinds(trial: &Trial) -> Vec<Kind> {
    Signature::of(&trial.judgement.verdict).kinds
}

fn breach(trial: &Trial, what: Bounded) -> &Breach {
    let found = trial.breaches.iter().find(|breach| breach.what == what);
    found.unwrap_or_else(|| panic!("{what:?} is not among {:?}", trial.breaches))
}

/// The sentences about the assumptions.
pub(super) fn explained(plan: &Plan, trial: Trial, class: Class) -> Vec<String> {
    explain(&examine::finding(&Lab::default(), None, plan, trial, class)).assumptions
}

#[test]
fn two_pauses_of_two_clients_are_each_enough() {
    let pause = |who: &str| after(who, "acquired", 1, 50 * MS);
    let plan = with(
        plan("token-lua", TopologyKind::Single),
        vec![
            (Verb::Pause, "c1", pause("c1"), Some(5 * SECOND)),
            (Verb::Pause, "c2", pause("c2"), Some(6 * SECOND)),
        ],
    );
    let (trial, class) = run(&plan);
    assert!(kinds(&trial).contains(&Kind::StaleHolder));
    assert_eq!(class.in_model, []);
    let faults: Vec<&[u32]> = class.broken.iter().map(|broken| &broken.faults[..]).collect();
    assert_eq!((faults, &class.either[0].broken[..]), (vec![&[1][..], &[2]], &[0, 1][..]));
    assert!(class.broken.iter().all(|broken| broken.goes.is_empty()));
    assert_eq!(
        explained(&plan, trial, class),
        [
            "no client pauses for longer than 2.07 s while it acquires or holds the lock: either c1 stood still \
          for 5 s, or c2 stood still for 6 s; one of these alone is enough."
        ]
    );
}

#[test]
fn two_short_pauses_in_one_hold_are_added_up() {
    let plan = with(
        plan("token-lua", TopologyKind::Single),
        vec![
            (Verb::Pause, "c1", after("c1", "acquired", 1, 0), Some(1_900 * MS)),
            (Verb::Pause, "c1", after("c1", "acquired", 1, 2_000 * MS), Some(1_900 * MS)),
        ],
    );
    let (trial, class) = run(&plan);
    let found = breach(&trial, Bounded::ClientPause);
    assert_eq!(found.parts, [Part::Fault(1), Part::Fault(2)]);
    assert!(found.actual == 3_800 * MS, "{found:?}");
    assert!(kinds(&trial).contains(&Kind::StaleHolder));
    assert_eq!((class.in_model.len(), class.broken.len()), (0, 1));
    assert_eq!((&class.broken[0].goes, &class.broken[0].stays[..]), (&class.out_of_model, &[][..]));
    let explained = explained(&plan, trial, class).join(" ");
    assert!(explained.contains("3.8 s in one hold; take all of this away"), "{explained}");
}

#[test]
fn pauses_in_two_holds_are_not_added_up() {
    let plan = with(
        plan("token-lua", TopologyKind::Single),
        vec![
            (Verb::Pause, "c1", after("c1", "acquired", 1, 50 * MS), Some(1_500 * MS)),
            (Verb::Pause, "c1", after("c1", "acquired", 2, 50 * MS), Some(1_500 * MS)),
        ],
    );
    let (trial, _) = run(&plan);
    assert_eq!((&trial.breaches[..], &trial.judgement.verdict), (&[][..], &Verdict::Holds));
}

#[test]
fn a_pause_of_no_hold_counts_for_nothing() {
    let plan = with(
        plan("token-lua", TopologyKind::Single),
        vec![(Verb::Pause, "c1", after("c1", "released", 1, 0), Some(200 * MS))],
    );
    let (trial, _) = run(&plan);
    assert_eq!(trial.breaches, []);
}

#[test]
fn a_delay_counts_for_the_client_on_whose_link_it_is() {
    let delayed = |target: &str| {
        let mut plan = plan("token-lua", TopologyKind::Single);
        plan.workload.clients = 2;
        let delay = Verb::Delay { extra: 240 * MS };
        with(
            plan,
            vec![
                (Verb::Pause, "c1", after("c1", "read", 1, 10 * MS), Some(1_500 * MS)),
                (delay, target, Anchor::At(0), None),
            ],
        )
    };
    let (trial, _) = run(&delayed("c2 -> resource"));
    assert_eq!(trial.breaches, []);
    let (trial, _) = run(&delayed("c1 -> resource"));
    assert_eq!(breach(&trial, Bounded::ClientPause).parts, [Part::Fault(1), Part::Fault(2)]);
    // One fault on both links delays each of them, and does not count twice.
    let (trial, _) = run(&delayed("c1 c2 -> resource"));
    let both = breach(&trial, Bounded::ClientPause).actual;
    assert!(both < 1_500 * MS + 3 * 250 * MS, "{both}");
}

#[test]
fn a_crash_that_the_heal_cuts_short_counts_with_what_it_lasted() {
    let mut base = plan("token-lua", TopologyKind::Single);
    base.topology.persistence = Persistence::None;
    base.workload.rounds = 100;
    let at = base.heal_at - 500 * MS;
    let plan = with(base, vec![(Verb::Crash, "n1", Anchor::At(at), Some(20 * SECOND))]);
    let (trial, class) = run(&plan);
    let found = breach(&trial, Bounded::AmnesiacRestart);
    assert_eq!((found.actual / MS, &found.parts[..]), (500, &[Part::Fault(1)][..]));
    assert_eq!(class.in_model, []);
}

/// A node that only replies that it is loading serves nobody: both ledgers count from the first of
/// its deaths, the crash that forgets nothing.
#[test]
fn deaths_between_which_a_node_only_loads_are_one_outage() {
    let mut base = plan("token-lua", TopologyKind::Single);
    base.topology.persistence = Persistence::AofEverysec;
    base.topology.files.load_time = SECOND;
    let again = after_fault(1, Edge::End, 500 * MS);
    let plan = with(
        base,
        vec![
            (Verb::Crash, "n1", after("c1", "acquired", 1, 50 * MS), Some(300 * MS)),
            (Verb::PowerLoss, "n1", again, Some(100 * MS)),
        ],
    );
    let (trial, _) = run(&plan);
    let found = breach(&trial, Bounded::AmnesiacRestart);
    assert!(found.actual >= 900 * MS, "{found:?}");
    let message = slowest_access(&plan.links);
    let book = Book { history: &trial.run.history, plan: &plan, message };
    let theirs = ledger::broken(&book, &Lab::default().promise(&plan));
    assert_eq!(theirs.get(&Bounded::AmnesiacRestart), Some(&found.actual));
}

#[test]
fn a_full_disk_that_makes_a_failover_is_to_blame_for_it() {
    let base = plan("token-lua", TopologyKind::Sentinel);
    let full = after("c1", "acquired", 1, 10 * MS);
    let plan = with(
        base,
        vec![
            (Verb::Jitter { extra: MS }, "c2 -> n1", Anchor::At(0), Some(SECOND)),
            (Verb::FullDisk, "n1", full, None),
        ],
    );
    let (trial, class) = run(&plan);
    let found = breach(&trial, Bounded::Failover);
    assert_eq!((found.actual, &found.parts[..]), (1, &[][..]));
    assert_eq!(class.in_model, []);
    for broken in class.broken.iter().filter(|broken| broken.what == Bounded::Failover) {
        assert_eq!(broken.faults, [2], "{class:?}");
    }
}

#[test]
fn an_evicted_key_breaks_its_assumption_and_one_that_is_not_there_does_not() {
    let evict = |anchor| {
        let verb = Verb::Evict { key: "lock".to_owned() };
        with(plan("token-lua", TopologyKind::Single), vec![(verb, "n1", anchor, None)])
    };
    let (trial, class) = run(&evict(after("c1", "acquired", 1, 50 * MS)));
    assert_eq!(breach(&trial, Bounded::KeyRemoval).parts, [Part::Fault(1)]);
    assert!(kinds(&trial).contains(&Kind::DoubleGrant));
    assert!(class.in_model.is_empty() && !class.broken[0].goes.is_empty(), "{class:?}");
    let (trial, _) = run(&evict(Anchor::At(0)));
    assert_eq!(trial.breaches, []);
}

#[test]
fn a_freeze_counts_with_the_time_that_the_clock_stood() {
    let anchor = after("c1", "acquired", 1, 0);
    let mut base = plan("token-lua", TopologyKind::Single);
    base.workload.rounds = 100;
    let late = base.heal_at - 400 * MS;
    let plan = with(base.clone(), vec![(Verb::ClockFreeze, "n1", anchor, Some(SECOND))]);
    assert_eq!(breach(&run(&plan).0, Bounded::NodeClockStep).actual, SECOND);
    let plan = with(base, vec![(Verb::ClockFreeze, "n1", Anchor::At(late), Some(SECOND))]);
    assert_eq!(breach(&run(&plan).0, Bounded::NodeClockStep).actual, 400 * MS);
}

#[test]
fn a_bug_and_a_broken_assumption_in_one_run_are_distinguished() {
    let mut base = plan("check-then-set", TopologyKind::Single);
    base.workload.stagger = 0;
    base.workload.rounds = 3;
    let crash = after("c1", "acquired", 3, 50 * MS);
    let plan = with(base, vec![(Verb::Crash, "c1", crash, None)]);
    let (trial, class) = run(&plan);
    assert!(class.in_model.contains(&Kind::DoubleGrant), "{:?}: {class:?}", kinds(&trial));
    assert_eq!(class.out_of_model, [Kind::Stuck], "{:?}", kinds(&trial));
    assert_eq!(class.broken.iter().map(|b| b.what).collect::<Vec<_>>(), [Bounded::ClientCrash]);
    assert_eq!(class.without, [Part::Fault(1)]);
    let explained = explained(&plan, trial, class);
    assert!(explained[0].starts_with("none is needed for double-grant"), "{explained:?}");
    assert!(
        explained[0].contains(": without c1's crash the violation occurs as well"),
        "{explained:?}"
    );
    assert!(explained[1].contains("c1 died (crash)"), "{explained:?}");
}

#[test]
fn clocks_that_are_set_apart_are_taken_out_like_a_fault() {
    let mut base = plan("token-lua", TopologyKind::Single);
    base.workload.hold = 2_800 * MS;
    let fast = ClockSetting { rate_ppm: 100_000, ..ClockSetting::default() };
    base.clocks.insert("n1".to_owned(), fast);
    let (trial, class) = run(&with(base, Vec::new()));
    assert_eq!(breach(&trial, Bounded::Drift).parts, [Part::Clocks]);
    assert!(trial.is_violated() && class.in_model.is_empty(), "{class:?}");
    assert_eq!(class.broken[0].initial, [Part::Clocks]);
}

/// The time-out is too short for most first replies as well, and makes no difference.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn work_that_is_too_long_by_itself_is_named_and_not_the_time_out() {
    let mut plan = plan("redlock", TopologyKind::Independent);
    plan.lock.ttl = Some(200 * MS);
    plan.lock.timeout = Some(10 * MS);
    plan.workload.hold = 300 * MS;
    let (trial, class) = run(&plan);
    assert!(kinds(&trial).contains(&Kind::StaleHolder), "{:?}", kinds(&trial));
    let explained = explained(&plan, trial, class).join(" ");
    assert!(
        explained.contains("without extending its grant: a caller works for 300 ms; take this"),
        "{explained}"
    );
    assert!(!explained.contains("time-out"), "{explained}");
}

/// Work that takes too long is not the lock's fault, however long its requests may take.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn work_that_outlasts_a_lease_of_long_time_outs_is_out_of_the_model() {
    let mut plan = plan("token-lua", TopologyKind::Single);
    plan.lock.timeout = Some(3 * SECOND);
    plan.workload.hold = 5 * SECOND;
    let (trial, class) = run(&with(plan.clone(), Vec::new()));
    assert!(kinds(&trial).contains(&Kind::StaleHolder));
    assert_eq!(class.in_model, []);
    let explained = explained(&plan, trial, class).join(" ");
    assert!(
        explained.contains("a caller works for 5 s; take this away, and nothing is violated"),
        "{explained}"
    );
}

#[test]
fn a_lease_shorter_than_its_messages_is_out_of_the_model() {
    let mut plan = plan("token-lua", TopologyKind::Single);
    plan.lock.ttl = Some(1_500 * MS);
    plan.lock.timeout = Some(1_250 * MS);
    plan.links.latency = Latency::Constant(300 * MS);
    plan.workload.timeout = 5 * SECOND;
    let (trial, class) = run(&with(plan, Vec::new()));
    assert!(kinds(&trial).contains(&Kind::StaleHolder));
    assert_eq!(class.in_model, []);
}

/// The second breach appears only once the first is removed.
#[test]
fn a_breach_behind_another_is_blamed_as_well() {
    let plan = with(
        Plan {
            topology: base_plan("token-lua", TopologyKind::Single).topology,
            ..plan("token-lua", TopologyKind::Single)
        },
        vec![
            (Verb::Restart, "n1", after("c1", "acquired", 1, 100 * MS), None),
            (Verb::Flush, "n1", after("c1", "acquired", 1, 101 * MS), None),
        ],
    );
    let (trial, class) = run(&plan);
    assert!(kinds(&trial).contains(&Kind::DoubleGrant));
    assert_eq!(class.in_model, []);
    let what: Vec<Bounded> = class.broken.iter().map(|broken| broken.what).collect();
    assert_eq!(what, [Bounded::AmnesiacRestart, Bounded::KeyRemoval]);
    assert_eq!(class.either.iter().map(|either| &either.broken[..]).next(), Some(&[0, 1][..]));
}

/// Earlier extends remove the overwork, and leave the bug of extends.
#[test]
fn a_bug_of_extends_stays_in_the_model_where_they_come_late() {
    let mut plan = plan("token-lua", TopologyKind::Single);
    plan.lock.extend = ExtendShape::Blind;
    plan.workload.extend = "8/9".parse().expect("a share");
    (plan.workload.hold, plan.workload.rounds) = (5 * SECOND, 1);
    plan.workload.check_validity = true;
    let delay = Verb::Delay { extra: 4 * SECOND };
    let late = after("c1", "acquired", 1, 100 * MS);
    let (trial, class) = run(&with(plan, vec![(delay, "c1 -> n1", late, Some(3 * SECOND))]));
    assert!(kinds(&trial).contains(&Kind::ForeignExtend));
    assert_eq!(class.in_model, [Kind::ForeignExtend]);
}

/// The lease is so short that no work is allowed, but no caller has worked: none is granted.
#[test]
fn replies_that_come_after_their_time_out_are_out_of_the_model() {
    let mut plan = plan("token-lua", TopologyKind::Single);
    plan.lock.ttl = Some(1_500 * MS);
    plan.links.latency = Latency::Constant(175 * MS);
    let (trial, class) = run(&with(plan, Vec::new()));
    assert_eq!(kinds(&trial), [Kind::Stuck]);
    assert_eq!((&class.in_model[..], &class.out_of_model[..]), (&[][..], &[Kind::Stuck][..]));
    assert_eq!(class.broken[0].what, Bounded::Work);
}

/// A time-out above the lease, which leaves no time for work, excuses nothing that stays with a
/// shorter one.
#[test]
fn of_what_leaves_no_time_only_what_has_to_change_is_changed() {
    let mut impatient = plan("token-get-del", TopologyKind::Single);
    impatient.lock.timeout = Some(4 * SECOND);
    (impatient.workload.clients, impatient.workload.hold) = (3, SECOND);
    let delay = Verb::Delay { extra: 2_500 * MS };
    let late = after("c1", "release", 1, 3 * MS);
    let faults = vec![(delay, "c1 -> n1", late, Some(2 * SECOND))];
    let (trial, class) = run(&with(impatient, faults));
    assert!(kinds(&trial).contains(&Kind::DoubleGrant), "{:?}", kinds(&trial));
    let usually = vec![Part::Timeout(300 * MS)];
    assert_eq!((&class.in_model, &class.without), (&kinds(&trial), &usually), "{class:?}");
    let mut dies = plan("setnx-expire", TopologyKind::Single);
    dies.lock.timeout = Some(4 * SECOND);
    let (trial, class) =
        run(&with(dies, vec![(Verb::Crash, "c1", Anchor::At(7 * MS), Some(5 * SECOND))]));
    assert_eq!(kinds(&trial), [Kind::Stuck]);
    let broken: Vec<Bounded> = class.broken.iter().map(|broken| broken.what).collect();
    assert_eq!(broken, [Bounded::ClientCrash], "{class:?}");
}

/// A failover is necessary; beside it, a step and a wrong rate of the new master's clock each
/// suffice.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn what_suffices_beside_a_necessary_breach_is_listed() {
    let text = include_str!("../../mechanisms/a-step-or-a-rate-beside-a-failover.toml");
    let plan = Scenario::parse("x", text).expect("a scenario").plan(1);
    let (trial, class) = run(&plan);
    let broken: Vec<Bounded> = class.broken.iter().map(|broken| broken.what).collect();
    assert_eq!(broken, [Bounded::NodeClockStep, Bounded::Drift, Bounded::Failover], "{class:?}");
    assert_eq!(class.either.len(), 1, "{class:?}");
    assert!(class.either[0].alone && class.either[0].broken == [0, 1], "{class:?}");
    let explained = explained(&plan, trial, class).join(" ");
    assert!(explained.contains("beside what is necessary, one of these is enough"), "{explained}");
}

/// Three of five nodes have to lose their keys for another to reach its quorum: of four no single
/// one is necessary, and none suffices.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn of_four_nodes_that_forget_three_are_needed() {
    let mut base = plan("redlock", TopologyKind::Independent);
    base.topology.persistence = Persistence::None;
    (base.workload.clients, base.workload.hold) = (2, 2 * SECOND);
    let back = |node| (Verb::Restart, node, after("c1", "acquired", 1, 100 * MS), None);
    let plan = with(base, ["n1", "n2", "n3", "n4"].map(back).to_vec());
    let (trial, class) = run(&plan);
    assert!(kinds(&trial).contains(&Kind::DoubleGrant), "{:?}", kinds(&trial));
    assert_eq!(class.in_model, [], "{class:#?}");
    assert_eq!((class.broken.len(), class.either.len()), (4, 6), "{class:#?}");
    assert!(class.either.iter().all(|set| set.broken.len() == 2 && !set.alone), "{class:?}");
    let explained = explained(&plan, trial, class).join(" ");
    assert!(
        explained.contains("take all of these away, and nothing is violated; preventing one"),
        "{explained}"
    );
}

/// Partitions make two majorities of a wrong quorum; that they are anchored to a clock step, which
/// breaches an assumption and does no harm, excuses nothing.
#[test]
fn a_fault_that_waits_for_another_stays_where_that_is_taken_out() {
    let mut base = plan("redlock", TopologyKind::Independent);
    base.lock.quorum = Some(2);
    (base.workload.clients, base.workload.hold) = (2, SECOND);
    let step = Verb::ClockStep { by: 1_000_000 };
    let cut =
        |links| (Verb::Partition, links, after_fault(1, Edge::Start, 5 * MS), Some(3 * SECOND));
    let faults =
        vec![(step, "n5", Anchor::At(0), None), cut("c1 <-> n3 n4 n5"), cut("c2 <-> n1 n2 n5")];
    let (trial, class) = run(&with(base, faults));
    assert!(kinds(&trial).contains(&Kind::DoubleGrant), "{:?}", kinds(&trial));
    assert_eq!(breach(&trial, Bounded::NodeClockStep).parts, [Part::Fault(1)]);
    assert_eq!((&class.in_model, &class.out_of_model[..]), (&kinds(&trial), &[][..]));
}

/// A lock that claims to tolerate a clock that is a second ahead, and does not; this many steps of
/// a node's clock while it is held.
fn steps_that_a_lock_claims_to_withstand(by: i64, count: u64) -> (Lab, Plan) {
    let sure = Algorithm {
        name: "sure",
        promise: |config, work| {
            let mut promise = (catalogue::find("token-lua").unwrap().promise)(config, work);
            for assumption in &mut promise.assumes {
                if assumption.what == Bounded::NodeClockStep {
                    assumption.bound = SECOND;
                }
            }
            promise
        },
        ..*catalogue::find("token-lua").unwrap()
    };
    let lab = Lab::default().with_lock(sure);
    let mut base = base_plan("token-lua", TopologyKind::Single);
    base.lock.algorithm = "sure".to_owned();
    base.topology.persistence = Persistence::AofAlways;
    base.workload.hold = 2_600 * MS;
    let step = |plus| {
        let event = Pattern::Outcome { who: "c1".to_owned(), what: "acquired".to_owned() };
        let anchor = Anchor::After { event, nth: 1, plus };
        let target = Target::Host("n1".to_owned());
        Fault { id: 0, verb: Verb::ClockStep { by }, target, anchor, length: None }
    };
    base.faults = (0..count).map(|nth| step(nth * 10 * MS)).collect();
    for (id, fault) in (1..).zip(&mut base.faults) {
        fault.id = id;
    }
    (lab, base)
}

/// Three steps of 600 ms breach the claim together, and so do any two: only with two removed is the
/// bug in the model. Of ten steps of 300 ms seven have to be removed: too many parts for all
/// subsets to be tried.
#[test]
fn a_bug_that_shows_where_most_faults_are_out_is_in_the_model() {
    for (by, count, out) in [(600_000_000, 3, 2), (300_000_000, 10, 7)] {
        let (lab, plan) = steps_that_a_lock_claims_to_withstand(by, count);
        let trial = attempt(&lab, &plan);
        assert_eq!(breach(&trial, Bounded::NodeClockStep).parts.len() as u64, count);
        let class = classify(&lab, &plan, &trial);
        assert!(class.in_model.contains(&Kind::DoubleGrant), "{class:?}");
        assert_eq!(class.without.len(), out);
    }
}
