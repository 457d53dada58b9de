//! Scenarios of which some parts made no difference: those are not listed as broken assumptions.

use lockstorm::check::verdict::Kind;
use lockstorm::explain::finding::{BrokenAssumption, Class};
use lockstorm::explore::class::classify;
use lockstorm::explore::trial::attempt;
use lockstorm::ledger::part::Part;
use lockstorm::plan::Plan;
use lockstorm::promise::Bounded;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm_platform::time::MILLISECOND;

fn plan_of(text: &str) -> Plan {
    let text = format!("name = \"listed\"\nask = \"?\"\nexpect = {{ holds = true }}\n{text}");
    let scenario = Scenario::parse("listed", &text).expect("a scenario");
    scenario.plan(scenario.seeds()[0])
}

fn class_of(text: &str) -> Class {
    let (lab, plan) = (Lab::default(), plan_of(text));
    let trial = attempt(&lab, &plan);
    assert!(trial.is_violated());
    classify(&lab, &plan, &trial)
}

fn check(text: &str, expected: &[(Bounded, &[u32])]) {
    let class = class_of(text);
    let listed = |broken: &BrokenAssumption| (broken.what, broken.faults.clone());
    let found: Vec<_> = class.broken.iter().map(listed).collect();
    let expected: Vec<_> = expected.iter().map(|(what, ids)| (*what, ids.to_vec())).collect();
    assert_eq!(found, expected, "{class:?}");
}

#[test]
fn a_step_that_made_no_difference_is_not_listed() {
    check(
        r#"
        topology = { kind = "single" }
        lock = { algorithm = "token-lua", ttl = "10s" }
        workload = { kind = "counter", clients = 2, rounds = 1, hold = "3s" }
        [[fault]]
        kind = "clock-step"
        target = "n1"
        by = "20s"
        after = { event = "acquired", by = "c1", nth = 1, plus = "600ms" }
        [[fault]]
        kind = "clock-freeze"
        target = "n1"
        at = "6s"
        for = "1s"
        "#,
        &[(Bounded::NodeClockStep, &[1])],
    );
}

/// A node that is started again is back at once: each of the two restarts was needed.
#[test]
fn restarts_are_listed_beside_an_eviction() {
    check(
        r#"
        topology = { kind = "independent", nodes = 5 }
        lock = { algorithm = "redlock", ttl = "8s" }
        workload = { kind = "counter", clients = 2, rounds = 2, hold = "3s" }
        [[fault]]
        kind = "evict"
        target = "n1"
        key = "lock"
        after = { event = "acquired", by = "c1", nth = 1, plus = "500ms" }
        [[fault]]
        kind = "restart"
        target = "n2"
        after = { event = "acquired", by = "c1", nth = 1, plus = "600ms" }
        [[fault]]
        kind = "restart"
        target = "n3"
        after = { event = "acquired", by = "c1", nth = 1, plus = "700ms" }
        "#,
        &[
            (Bounded::AmnesiacRestart, &[2]),
            (Bounded::AmnesiacRestart, &[3]),
            (Bounded::KeyRemoval, &[1]),
        ],
    );
}

/// The disk is said to forget nothing, so that only the time of the return excuses the power-loss.
#[test]
fn a_return_after_the_violation_is_not_listed() {
    check(
        r#"
        topology = { kind = "replicated", nodes = 2, persistence = "aof-always" }
        lock = { algorithm = "setnx" }
        workload = { kind = "counter", clients = 2, hold = "2s" }
        [[fault]]
        kind = "replica-lag"
        target = "n2"
        at = "0s"
        extra = "5s"
        for = "30s"
        [[fault]]
        kind = "lying-disk"
        target = "n1"
        at = "0s"
        for = "30s"
        [[fault]]
        kind = "power-loss"
        target = "n1"
        after = { event = "acquired", by = "c1", nth = 2, plus = "100ms" }
        for = "20s"
        [[fault]]
        kind = "failover"
        target = "n2"
        after = { event = "acquired", by = "c1", nth = 2, plus = "400ms" }
        "#,
        &[(Bounded::Failover, &[4])],
    );
}

#[test]
fn a_bug_that_needs_no_forgetting_is_shown_on_a_disk_that_forgets_nothing() {
    let class = class_of(
        r#"
        seed = 3
        topology = { kind = "single", persistence = "aof-everysec" }
        lock = { algorithm = "px-constant", ttl = "10s" }
        workload = { kind = "counter", clients = 3, rounds = 1, hold = "3s" }
        [[fault]]
        kind = "pause"
        target = "n1"
        at = "3s"
        for = "400ms"
        [[fault]]
        kind = "power-loss"
        target = "n1"
        after = { event = "replied", from = "c1", to = "n1", command = "DEL", nth = 1 }
        for = "100ms"
        "#,
    );
    assert_eq!((class.out_of_model, class.without), (Vec::new(), vec![Part::Persistence]));
}

/// n1 dies for a moment, and forgets who holds the lock. The Sentinels, whose first attempt to
/// connect again it refuses, replace it when all have left the lock. The clients begin only after a
/// second, because a Sentinel connects at most once in a second.
#[test]
fn a_promotion_after_the_violation_is_not_listed() {
    let text = r#"
        topology = { kind = "sentinel", nodes = 3, down_after = "500ms" }
        lock = { algorithm = "token-lua", ttl = "2s" }
        [workload]
        kind = "append-log"
        clients = 2
        rounds = 1
        hold = "350ms"
        retry = "50ms"
        stagger = "0s"
        [[fault]]
        kind = "crash"
        target = "n1"
        after = { event = "acquired", by = "c1", nth = 1, plus = "20ms" }
        for = "100ms"
        [[fault]]
        kind = "pause"
        target = "c1"
        at = "0s"
        for = "1100ms"
        [[fault]]
        kind = "pause"
        target = "c2"
        at = "0s"
        for = "1140ms"
        "#;
    let trial = attempt(&Lab::default(), &plan_of(text));
    let broken: Vec<Bounded> = trial.breaches.iter().map(|breach| breach.what).collect();
    assert_eq!(broken, [Bounded::AmnesiacRestart, Bounded::Failover]);
    check(text, &[(Bounded::AmnesiacRestart, &[1])]);
}

/// The default time-out leaves time again, but the node's pause meets a release only if messages are
/// fast as well. No fault excuses that.
#[test]
fn a_bug_that_shows_with_more_settings_changed_than_time_needs_is_in_the_model() {
    let class = class_of(
        r#"
        seed = 18
        drawn = true
        heal_at = "12s"
        until = "25s"
        topology = { kind = "single", persistence = "aof-always" }
        lock = { algorithm = "px-constant", ttl = "3s", timeout = "4s" }
        workload = { clients = 3, rounds = 10, hold = "600ms", rest = "300ms", stagger = "20ms" }
        [[fault]]
        id = 1
        kind = "flush"
        target = "n1"
        after = { event = "acquire", by = "c3", nth = 2, plus = "531ms" }
        [[fault]]
        id = 3
        kind = "pause"
        target = "n1"
        after = { event = "released", by = "c3", nth = 3 }
        for = "2971ms"
        "#,
    );
    let [timeout, latency] = [Part::Timeout(300 * MILLISECOND), Part::Latency];
    let found = (class.in_model, class.out_of_model, class.without);
    let without = vec![Part::Fault(1), timeout, latency];
    assert_eq!(found, (vec![Kind::ForeignRelease], vec![Kind::NotLinearizable], without));
}
