//! What each fault strikes: something while the clients work, nothing once they have finished, for
//! every verb and on both engines.

use lockstorm::check::verdict::Verdict;
use lockstorm::explore::trial::{Trial, attempt};
use lockstorm::history::{Seen, Sighting};
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm::scenario::written::{self, Question};
use lockstorm_platform::time::{MILLISECOND, SECOND};
use lockstorm_platform::trace::{KeyChange, Sight};

/// While the clients work, and after they have finished.
const EARLY: &str = "700ms";
const LATE: &str = "15s";

/// Two clients that work for about two seconds; a fault strikes at `at`.
fn met(lab: &Lab, topology: &str, fault: &str, at: &str) -> Option<u64> {
    let text = format!(
        "name = 'x'\nask = 'x'\nheal_at = '16s'\n[topology]\n{topology}\n\
         [lock]\nalgorithm = 'token-lua'\nttl = '1s'\n\
         [workload]\nkind = 'counter'\nclients = 2\nrounds = 3\nhold = '300ms'\n\
         [[fault]]\n{fault}\nat = '{at}'\n"
    );
    let read = Scenario::parse("x", &text).unwrap_or_else(|no| panic!("{}", no.render(false)));
    let history = lab.run(&read.plan(1)).history;
    let [interval] = history.fault_intervals.as_slice() else {
        panic!("one fault strikes: {fault}")
    };
    let at_work = history.ops.iter().any(|op| {
        let strike = interval.from.at;
        op.call.at < strike && op.ret.is_none_or(|ret| ret.at + SECOND > strike)
    });
    assert_eq!(at_work, at == EARLY, "{fault} at {at}");
    interval.met
}

fn labs() -> Vec<Lab> {
    vec![
        Lab::default(),
        #[cfg(feature = "turmoil")]
        Lab::turmoil(),
    ]
}

/// The fault strikes something at 700 ms, and at 15 s something or nothing.
fn check(topology: &str, fault: &str, meets_late: bool) {
    for lab in labs() {
        let (early, late) = (met(&lab, topology, fault, EARLY), met(&lab, topology, fault, LATE));
        assert!(early.is_some_and(|met| met > 0), "{fault} on {:?}: {early:?}", lab.engine);
        let nothing = late == Some(0);
        assert_eq!(!nothing, meets_late, "{fault} on {:?}, late: {late:?}", lab.engine);
    }
}

const SINGLE: &str = "kind = 'single'\npersistence = 'aof-always'";
const REPLICATED: &str = "kind = 'replicated'\nnodes = 2";

/// A fault strikes at the moment at which a node becomes what it waits for.
#[test]
fn faults_wait_for_what_nodes_become() {
    let strikes = |word: &str, node: &str| {
        let text = format!(
            "name = 'x'\nask = 'x'\nheal_at = '30s'\n[topology]\nkind = 'sentinel'\nnodes = 2\n\
             sentinels = 3\ndown_after = '1s'\n[lock]\nalgorithm = 'token-lua'\n\
             ttl = '1s'\n[workload]\nkind = 'counter'\nclients = 2\nrounds = 3\nhold = '300ms'\n\
             [[fault]]\nkind = 'pause'\ntarget = 'n1'\nat = '1s'\nfor = '6s'\n\
             [[fault]]\nkind = 'clock-step'\ntarget = 'c1'\nby = '1ms'\n\
             after = {{ event = '{word}', node = '{node}' }}\n"
        );
        let read = Scenario::parse("x", &text).unwrap_or_else(|no| panic!("{}", no.render(false)));
        let history = Lab::default().run(&read.plan(1)).history;
        let from = history.fault_intervals.iter().find(|it| it.fault == 2).map(|it| it.from.at);
        (from, history.sightings)
    };
    let after_start = |what: Seen, of: &'static str| {
        move |seen: &Sighting| seen.what == what && seen.master == of && seen.at.at > SECOND
    };
    let check = |word, node, is: &dyn Fn(&Sighting) -> bool| {
        let (struck, sightings) = strikes(word, node);
        let seen = sightings.iter().find(|seen| is(seen)).map(|seen| seen.at.at);
        assert!(seen.is_some(), "{word} {node}: {sightings:?}");
        assert_eq!(struck, seen, "{word} {node}");
    };
    check("suspected", "n1", &after_start(Seen::Watched(Sight::Suspected), "n1"));
    check("down", "n1", &after_start(Seen::Watched(Sight::Down), "n1"));
    check("leads", "n2", &after_start(Seen::Leads, "n2"));
    check("follows", "n1", &|seen| {
        seen.what == Seen::Follows && seen.by == "n1" && seen.at.at > SECOND
    });
    assert!(strikes("resynchronised", "n1").0.is_some_and(|at| at > 7 * SECOND));
    assert_eq!(strikes("suspected", "n2").0, None, "n2 is no master while it is silent");
}

/// Sentinels promote the replica with the smallest number.
#[test]
fn sentinels_promote_by_priority() {
    for (priorities, promoted) in [("n2 = 10", "n2"), ("n3 = 10", "n3"), ("n2 = 0", "n3")] {
        let text = format!(
            "name = 'x'\nask = 'x'\n[topology]\nkind = 'sentinel'\nnodes = 3\nsentinels = 3\n\
             down_after = '1s'\nreplica_priority = {{ {priorities} }}\n[lock]\n\
             algorithm = 'token-lua'\nttl = '10s'\n[[fault]]\nkind = 'pause'\ntarget = 'n1'\nat = '1s'\n\
             for = '6s'\n"
        );
        let read = Scenario::parse("x", &text).unwrap_or_else(|no| panic!("{}", no.render(false)));
        let question = Question { ask: "x", note: "", violated: None };
        let locks = Lab::default().locks;
        assert!(written::text(&locks, &read.plan(1), &question).is_some(), "it can be written");
        let history = Lab::default().run(&read.plan(1)).history;
        let leads =
            history.sightings.iter().find(|seen| seen.what == Seen::Leads && seen.at.at > SECOND);
        assert_eq!(leads.map(|seen| seen.by.as_str()), Some(promoted), "{priorities}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn faults_on_links() {
    check(SINGLE, "kind = 'partition'\ntarget = 'c1 c2 <-> n1'\nfor = '500ms'", false);
    check(SINGLE, "kind = 'delay'\ntarget = 'c1 c2 <-> n1'\nextra = '5ms'\nfor = '500ms'", false);
    check(SINGLE, "kind = 'jitter'\ntarget = 'c1 c2 <-> n1'\nextra = '5ms'\nfor = '500ms'", false);
    check(SINGLE, "kind = 'loss'\ntarget = 'c1 c2 <-> n1'\nloss = '60%'\nfor = '800ms'", false);
    check(SINGLE, "kind = 'partition'\ntarget = 'n1 -> c1 c2'\nfor = '500ms'", false);
}

#[test]
fn a_loss_that_loses_nothing_and_a_base_loss_that_does() {
    let rare = "kind = 'loss'\ntarget = 'c1 c2 <-> n1'\nloss = '0.0001%'\nfor = '800ms'";
    let links = format!("{SINGLE}\n[links]\nlatency = '1ms'\nloss = '20%'");
    for lab in labs() {
        assert_eq!(met(&lab, SINGLE, rare, EARLY), Some(0));
        assert_eq!(met(&lab, &links, rare, EARLY), Some(0), "what is lost anyway is no fault's");
    }
}

#[test]
fn connections_that_break() {
    for lab in labs() {
        for verb in ["reset", "cut-reply"] {
            let fault = format!("kind = '{verb}'\ntarget = 'c1 c2 <-> n1'");
            let early = met(&lab, SINGLE, &fault, EARLY);
            assert!(early.is_some_and(|met| met > 0), "{verb}: {early:?}");
            let none = format!("kind = '{verb}'\ntarget = 'c1 c2 <-> n2'");
            assert_eq!(met(&lab, REPLICATED, &none, EARLY), Some(0), "nobody talks to a replica");
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn faults_on_clients() {
    for (verb, more, meets_late) in [
        ("pause", "for = '400ms'", false),
        ("suspend", "for = '400ms'", false),
        ("clock-rate", "ppm = 200\nfor = '400ms'", false),
        ("crash", "", false),
        // A restarted client works again.
        ("crash", "for = '400ms'", true),
        ("power-loss", "for = '400ms'", true),
        ("restart", "", true),
    ] {
        check(SINGLE, &format!("kind = '{verb}'\ntarget = 'c1'\n{more}"), meets_late);
    }
}

#[test]
fn faults_on_nodes() {
    for (verb, more) in [
        ("pause", "for = '400ms'"),
        ("crash", "for = '400ms'"),
        ("power-loss", "for = '400ms'"),
        ("clock-step", "by = '1s'"),
        ("clock-freeze", "for = '400ms'"),
        ("clock-rate", "ppm = 200\nfor = '400ms'"),
    ] {
        check(SINGLE, &format!("kind = '{verb}'\ntarget = 'n1'\n{more}"), true);
    }
    for (verb, more) in [
        ("slow-node", "extra = '1ms'\nfor = '500ms'"),
        ("slow-script", "extra = '1ms'\nfor = '500ms'"),
        ("lying-disk", "for = '500ms'"),
        ("full-disk", "for = '500ms'"),
        ("flush", ""),
        ("evict", "key = 'lock'"),
    ] {
        check(SINGLE, &format!("kind = '{verb}'\ntarget = 'n1'\n{more}"), false);
    }
    for lab in labs() {
        let gone = "kind = 'evict'\ntarget = 'n1'\nkey = 'another'";
        assert_eq!(met(&lab, SINGLE, gone, EARLY), Some(0), "there is no such key");
        let whole = "kind = 'tearing-disk'\ntarget = 'n1'\nfor = '500ms'";
        assert_eq!(met(&lab, SINGLE, whole, EARLY), Some(0), "no power is lost");
    }
}

#[test]
fn faults_on_replicas() {
    check(REPLICATED, "kind = 'replica-lag'\ntarget = 'n2'\nextra = '5ms'\nfor = '500ms'", false);
    check(REPLICATED, "kind = 'failover'\ntarget = 'n2'", true);
}

/// The run of two clients on a master and its replica, with these faults.
fn commanded(faults: &str) -> Trial {
    let text = format!(
        "name = 'x'\nask = 'x'\nheal_at = '60s'\nexpect = {{ holds = true }}\n\
         [topology]\n{REPLICATED}\n[lock]\nalgorithm = 'token-lua'\nttl = '10s'\n\
         [workload]\nkind = 'counter'\nclients = 2\nrounds = 6\nhold = '2s'\n{faults}"
    );
    let read = Scenario::parse("x", &text).unwrap_or_else(|no| panic!("{}", no.render(false)));
    attempt(&Lab::default(), &read.plan(1))
}

#[test]
fn a_command_that_its_node_carries_out_after_all_work_tests_nothing() {
    let trial = commanded(
        "[[fault]]\nkind = 'crash'\ntarget = 'n2'\nat = '4s'\nfor = '100s'\n\
         [[fault]]\nkind = 'failover'\ntarget = 'n2'\nat = '5s'\n",
    );
    let Verdict::Unknown(why) = &trial.judgement.verdict else { panic!("it has a verdict") };
    assert!(why.contains("fault 2 (failover on n2) struck after all work was done"), "{why}");
    assert_eq!(trial.judgement.counts.struck_in_hold, 1);
}

/// Of two commands that wait for their node, the effect belongs to the one that had it: what is
/// said of that one is what the same plan does without the other.
#[test]
fn of_commands_that_wait_for_their_node_each_has_its_own_effect() {
    for occupied in [
        "kind = 'pause'\ntarget = 'n1'\nat = '500ms'\nfor = '3s'",
        "kind = 'slow-node'\ntarget = 'n1'\nat = '500ms'\nextra = '3s'\nfor = '4s'",
        "kind = 'slow-script'\ntarget = 'n1'\nat = '500ms'\nextra = '5s'\nfor = '6s'",
        "kind = 'crash'\ntarget = 'n1'\nat = '500ms'\nfor = '3s'",
    ] {
        let trial = commanded(&format!(
            "[[fault]]\n{occupied}\n\
             [[fault]]\nkind = 'evict'\ntarget = 'n1'\nkey = 'lock'\nat = '1s'\n\
             [[fault]]\nkind = 'flush'\ntarget = 'n1'\nat = '2500ms'\n",
        ));
        let history = &trial.run.history;
        let removals = |change: KeyChange| {
            let by_hand = history.keys.iter().filter(move |key| key.node == "n1");
            let by_hand = by_hand.filter(move |key| key.change == change && key.by.is_none());
            by_hand.map(|key| key.at).collect::<Vec<_>>()
        };
        let [_, evict, flush] = &history.fault_intervals[..] else { panic!("three faults strike") };
        assert_eq!(evict.done, removals(KeyChange::Evicted), "{occupied}");
        assert_eq!(flush.done, removals(KeyChange::Deleted), "{occupied}");
        for command in [evict, flush] {
            assert_eq!(command.met, Some(command.done.len() as u64), "{occupied}");
            // Past a slow script others are let through.
            let waits = occupied.contains("pause") || occupied.contains("crash");
            let earliest = if waits { 3_500 * MILLISECOND } else { command.from.at };
            assert!(command.done.iter().all(|at| earliest <= at.at), "{occupied}");
        }
    }
}

#[test]
fn a_command_that_a_busy_node_refuses_is_given_again() {
    let trial = commanded(
        "[[fault]]\nkind = 'slow-script'\ntarget = 'n1'\nat = '500ms'\nextra = '8s'\nfor = '9s'\n\
         [[fault]]\nkind = 'flush'\ntarget = 'n1'\nat = '8s'\n",
    );
    let [_, flush] = &trial.run.history.fault_intervals[..] else { panic!("two faults strike") };
    let done = flush.done.first().expect("it removes a key");
    assert!(done.at > 9_000 * MILLISECOND, "{done:?}");
}
