//! Clients that are notified instead of polling: waiters of a release, and followers of a master
//! that Sentinels replace.

use lockstorm::history::{History, Op, OpKind, Outcome};
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

/// The history of a scenario's plan for seed 1, with one of its lines replaced.
fn history(name: &str, line: &str, by: &str) -> History {
    let file = format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(file).expect("the scenario is there");
    assert!(text.contains(line), "{name} has no '{line}'");
    let text = if line.is_empty() { text } else { text.replace(line, by) };
    let scenario = Scenario::parse(name, &text).unwrap_or_else(|no| panic!("{}", no.render(false)));
    Lab::default().run(&scenario.plan(1)).history
}

/// The number of requests of an operation, and the node of the last one.
fn attempts(history: &History, op: &Op) -> (usize, String) {
    let requests = history.requests.iter().filter(|request| request.op == op.id);
    let nodes: Vec<&str> = requests.map(|request| request.to.as_str()).collect();
    (nodes.len(), nodes.last().map(|node| (*node).to_owned()).unwrap_or_default())
}

fn took(op: &Op) -> Nanos {
    op.ret.map_or(Nanos::MAX, |ret| ret.at - op.call.at)
}

fn of<'a>(history: &'a History, process: &str, kind: fn(&OpKind) -> bool) -> Vec<&'a Op> {
    history.ops.iter().filter(|op| op.process == process && kind(&op.kind)).collect()
}

#[test]
fn a_waiter_tries_when_it_begins_to_listen_and_when_it_is_notified() {
    let history = history("redisson-holds", "clients = 3", "clients = 2");
    let acquires = history.ops.iter().filter(|op| op.kind == OpKind::Acquire);
    let mut waited = 0;
    for op in acquires {
        assert!(matches!(op.outcome, Outcome::Granted { .. }), "{op:?}");
        let (times, _) = attempts(&history, op);
        // Each holder before it costs at most two times to live and one message. The probe may
        // have to wait for both clients.
        let holders = if op.process == "probe" { 2 } else { 1 };
        let tries = 3..=2 + 3 * holders;
        assert!(times == 1 || tries.contains(&times), "{times} requests for {op:?}");
        waited += usize::from(times > 1);
    }
    assert!(waited > 2, "{waited} came second");
}

#[test]
fn a_waiter_without_a_message_tries_again_after_the_time_to_live_in_its_refusal() {
    let fault = "hold    = \"7s\"\n[[fault]]\nkind = \"crash\"\ntarget = \"c1\"\n\
                 after = { event = \"acquired\", by = \"c1\", nth = 1, plus = \"1s\" }\n";
    let history = history("redisson-holds", "hold    = \"7s\"", fault);
    let waits = of(&history, "c2", |kind| *kind == OpKind::Acquire)[0];
    let (times, took) = (attempts(&history, waits).0, took(waits));
    assert_eq!(times, 3, "once, once listening, and once when the lease of 6 s is over");
    assert!(took > 5_500 * MILLISECOND && took < 6_100 * MILLISECOND, "{took} ns");
}

#[test]
fn who_waits_for_its_turn_gives_up_after_the_time_that_it_waits_for() {
    let history = history("redisson-holds", "wait_for  = \"90s\"", "wait_for = \"2s\"");
    let refused = |op: &&&Op| matches!(op.outcome, Outcome::Refused { .. });
    let acquires = of(&history, "c3", |kind| *kind == OpKind::Acquire);
    let refused: Vec<_> = acquires.iter().filter(refused).collect();
    assert!(!refused.is_empty());
    for op in refused {
        assert!(took(op) >= 2 * SECOND && took(op) < 2_100 * MILLISECOND, "{op:?}");
    }
}

#[test]
fn a_watchdog_that_finds_the_lock_gone_stops_silently() {
    let history = history("cluster-redisson-slot-master", "", "");
    let extends = of(&history, "c2", |kind| matches!(kind, OpKind::Extend { .. }));
    let lost = extends.iter().filter(|op| op.outcome == Outcome::Lost).count();
    assert_eq!(lost, 1, "{extends:?}");
    assert!(of(&history, "c2", |kind| matches!(kind, OpKind::Lost { .. })).is_empty());
}

#[test]
fn a_watchdog_ends_with_the_last_release() {
    let history = history("redisson-holds", "", "");
    let mut extends = 0;
    for client in ["c1", "c2", "c3"] {
        let of = |kind| of(&history, client, kind);
        let ends: Vec<Nanos> = of(|kind| matches!(kind, OpKind::Release { .. }))
            .iter()
            .map(|op| op.ret.expect("each release ends").at)
            .collect();
        for extend in of(|kind| matches!(kind, OpKind::Extend { .. })) {
            assert!(matches!(extend.outcome, Outcome::Kept { .. }), "{extend:?}");
            assert!(ends.iter().any(|end| extend.call.at < *end), "{extend:?}");
            extends += 1;
        }
    }
    assert!(extends >= 9, "{extends} renewals");
}

#[test]
fn who_listens_to_sentinels_gives_back_at_the_new_master() {
    let release_at = |scenario| {
        let history = history(scenario, "", "");
        let release = of(&history, "c1", |kind| matches!(kind, OpKind::Release { .. }))[0];
        attempts(&history, release).1
    };
    assert_eq!(release_at("sentinel-old-connections"), "n1");
    assert_eq!(release_at("sentinel-switch-master"), "n2");
}
