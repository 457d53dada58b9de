//! Redis nodes in whole worlds: replies to clients, events in the trace, and what survives.

mod facts;
mod persistence;
mod replication;
mod stage;

use std::collections::BTreeMap;

use lockstorm_platform::fault::{Fault, Verb};
use lockstorm_platform::time::SECOND;
use lockstorm_platform::trace::{Event, KeyChange, Origin};
use lockstorm_redis::compat::Compat;
use lockstorm_redis::node::{Append, NodeConfig};

use crate::node::stage::{MS, append, check, fault, replica, run};

#[test]
fn a_key_expires_by_the_nodes_clock_and_the_event_comes_at_the_next_tick() {
    let script = "1 SET k v PX 500\n1 PTTL k\n@499\n1 GET k\n1 GET k\n@1000\n1 GET k";
    check(
        &[NodeConfig::default()],
        &[script],
        vec![],
        "4 1 SET k v PX 500: OK\n6 1 PTTL k: 498\n501 1 GET k: v\n503 1 GET k: v\n\
         1002 1 GET k: nil",
    );
    let expired = |entry: &&lockstorm_platform::trace::Entry| {
        matches!(entry.event, Event::Key { change: KeyChange::Expired, origin: Origin::Node, .. })
    };
    let step = fault(Verb::ClockStep { by: 33_000_000 }, "n1", 100 * MS, None);
    // The ticks do not move with the wall clock.
    for (faults, at) in [(vec![], 600), (vec![step], 500)] {
        let (_, remains) = run(&[NodeConfig::default()], &["1 SET k v PX 500"], faults);
        let entry = remains.trace.entries().iter().find(expired).expect("the key expired");
        assert_eq!(entry.stamp.at, at * MS);
    }
}

#[test]
fn what_survives_depends_on_the_file_and_on_the_kind_of_crash() {
    let script = "1 SET k v\n@500\n1 SET l v\n@3000\n1 MGET k l";
    for (kept, verb, expected) in [
        (Append::None, Verb::Crash, "[nil nil]"),
        (Append::No, Verb::Crash, "[v v]"),
        (Append::Everysec, Verb::Crash, "[v v]"),
        (Append::Always, Verb::PowerLoss, "[v v]"),
        (Append::Everysec, Verb::PowerLoss, "[nil nil]"),
        (Append::No, Verb::PowerLoss, "[nil nil]"),
    ] {
        let crash = fault(verb.clone(), "n1", 800 * MS, Some(SECOND));
        let script = script.replace("@3000", "@3000\n1 PING").leak();
        let (log, _) = run(&[append(kept)], &[script], vec![crash]);
        let last = log.lines().last().unwrap_or_default();
        assert!(last.ends_with(expected), "{kept:?} {verb:?}: {log}");
    }
}

#[test]
fn after_a_pause_a_node_serves_in_order_of_arrival_and_then_new_connections() {
    let scripts = [
        "1 PING\n@1000\n1 RPUSH l a",
        "1 PING\n@1030\n1 RPUSH l d",
        "1 PING\n@1010\n1 RPUSH l b",
        "1 PING\n@1040\n1 RPUSH l e",
        "1 PING\n@1020\n1 RPUSH l c",
        "@950\n1 RPUSH l new",
        "@3000\n1 LRANGE l 0 -1",
    ];
    let pause = fault(Verb::Pause, "n1", 900 * MS, Some(500 * MS));
    let (log, _) = run(&[NodeConfig::default()], &scripts, vec![pause]);
    assert!(log.ends_with("1 LRANGE l 0 -1: [a b c d e new]\n"), "{log}");
}

#[test]
fn a_replica_follows_and_wait_counts_it() {
    check(
        &[NodeConfig::default(), replica()],
        &["@2000\n1 SET k v PX 90000\n1 WAIT 1 1000\n2 GET k\n2 SET k w\n1 WAIT 2 500\n2 ROLE"],
        vec![],
        "2004 1 SET k v PX 90000: OK\n2008 1 WAIT 1 1000: 1\n2012 2 GET k: v\n\
         2014 2 SET k w: READONLY You can't write against a read only replica.\n\
         2601 1 WAIT 2 500: 1\n2603 2 ROLE: [slave 10.0.0.1 6379 connected 154]",
    );
}

#[test]
fn what_a_replica_applies_has_the_origin_that_its_master_sent() {
    let script = "@2000\n1 MULTI\n1 SET a 1\n1 INCR a\n1 EXEC\n1 SET b 1 PX 100\n@5000\n2 GET b";
    let (log, remains) = run(&[NodeConfig::default(), replica()], &[script], vec![]);
    assert!(log.ends_with("2 GET b: nil\n"), "{log}");
    let mut told = BTreeMap::new();
    let mut applied = Vec::new();
    for entry in remains.trace.entries() {
        match &entry.event {
            Event::Propagated { offset, origin, .. } => drop(told.insert(*offset, *origin)),
            Event::Key { key, change, origin: Origin::Replication { offset, .. }, .. } => {
                applied.push((key.to_string(), *change, *offset));
            }
            _ => {}
        }
    }
    let nth = |offset: u64| match told[&offset] {
        Origin::Request(request) => Some(request.nth),
        _ => None,
    };
    let seen: Vec<_> = applied.iter().map(|(k, change, at)| (&k[..], *change, nth(*at))).collect();
    assert_eq!(
        seen,
        [
            ("a", KeyChange::Set, Some(3)),
            ("a", KeyChange::Changed, Some(3)),
            ("b", KeyChange::Set, Some(4)),
            ("b", KeyChange::Deleted, None),
        ]
    );
}

#[test]
fn a_demoted_master_loses_what_its_new_master_never_had() {
    let (log, remains) = run(
        &[NodeConfig::default(), replica()],
        &["@2000\n1 SET old 1\n@4000\n1 SET lost 1\n2 REPLICAOF NO ONE\n2 SET new 1\n\
           1 REPLICAOF 10.0.0.2 6379\n@6000\n1 MGET old lost new\n2 MGET old lost new\n2 WAIT 1 1000"],
        vec![fault(Verb::Partition, "n1 <-> n2", 3 * SECOND, Some(2 * SECOND))],
    );
    assert!(log.contains("1 MGET old lost new: [1 nil 1]"), "{log}");
    assert!(log.contains("2 MGET old lost new: [1 nil 1]"), "{log}");
    assert!(log.ends_with("2 WAIT 1 1000: 1\n"), "{log}");
    let resyncs = remains.trace.entries().iter().filter_map(|entry| match &entry.event {
        Event::Loaded { keys, resync: Some(_), .. } => Some(keys.len()),
        _ => None,
    });
    assert_eq!(resyncs.collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn too_few_good_replicas_refuse_writes_after_the_lag() {
    let master =
        NodeConfig { min_replicas_to_write: 1, min_replicas_max_lag: 2, ..NodeConfig::default() };
    check(
        &[master, replica()],
        &["1 SET k 1\n@2000\n1 SET k 2\n@4000\n1 SET k 3\n@8000\n1 SET k 4\n1 GET k"],
        vec![fault(Verb::Pause, "n2", 3 * SECOND, Some(6 * SECOND))],
        "4 1 SET k 1: NOREPLICAS Not enough good replicas to write.\n2002 1 SET k 2: OK\n\
         4002 1 SET k 3: OK\n8002 1 SET k 4: NOREPLICAS Not enough good replicas to write.\n\
         8004 1 GET k: 3",
    );
}

#[test]
fn a_slow_script_lets_everybody_wait() {
    let slow = fault(Verb::SlowScript { extra: 300 * MS }, "n1", 0, Some(SECOND));
    check(
        &[NodeConfig::default()],
        &["@100\n1 EVAL return{KEYS[1]} 1 k", "@150\n1 PING\n1 PING"],
        vec![slow],
        "404 1 EVAL return{KEYS[1]} 1 k: [k]\n404 1 PING: PONG\n406 1 PING: PONG",
    );
}

#[test]
fn a_slow_node_does_one_thing_after_the_other() {
    let slow = fault(Verb::SlowNode { extra: 300 * MS }, "n1", 0, Some(SECOND));
    check(
        &[NodeConfig::default()],
        &["@100\n1 PING", "@100\n1 PING"],
        vec![slow],
        "404 1 PING: PONG\n704 1 PING: PONG",
    );
}

#[test]
fn time_moves_in_a_slow_script_until_redis_7_2() {
    let cases = [(Compat::Redis70, [698, 998]), (Compat::Redis82, [998, 698])];
    for (compat, [in_script, behind]) in cases {
        let script = "@100\n1 SET k v PX 1000\n1 EVAL return{redis.call('pttl','k')} 0\n\
                      1 EVAL redis.call('pexpire','k',1000) 0\n1 PTTL k";
        let told = format!(
            "104 1 SET k v PX 1000: OK\n\
             406 1 EVAL return{{redis.call('pttl','k')}} 0: [{in_script}]\n\
             708 1 EVAL redis.call('pexpire','k',1000) 0: nil\n710 1 PTTL k: {behind}"
        );
        let slow = fault(Verb::SlowScript { extra: 300 * MS }, "n1", 0, Some(SECOND));
        let node = NodeConfig { compat, ..NodeConfig::default() };
        check(&[node], &[script], vec![slow], &told);
    }
}

#[test]
fn a_script_that_holds_the_node_too_long_is_reported_and_can_be_killed() {
    let slow = fault(Verb::SlowScript { extra: 20 * SECOND }, "n1", 0, Some(SECOND));
    let busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                NOSAVE.";
    let killed = "ERR Script killed by user with SCRIPT KILL... script: \
                  890233c94faee9801fb9b69aef7c7dd33a24aaa1, on @user_script:1.";
    check(
        &[NodeConfig::default()],
        &["@100\n1 EVAL return{KEYS[1]} 1 k", "@200\n1 PING\n@6000\n1 PING\n1 SCRIPT KILL\n1 PING"],
        vec![slow],
        &format!(
            "5104 1 PING: {busy}\n6002 1 PING: {busy}\n6004 1 SCRIPT KILL: OK\n\
             6004 1 EVAL return{{KEYS[1]}} 1 k: {killed}\n6006 1 PING: PONG"
        ),
    );
    let endless = killed.replace(
        "890233c94faee9801fb9b69aef7c7dd33a24aaa1",
        "c812b8604b0b8e29f7826a0a79670c8a09eadc18",
    );
    check(
        &[NodeConfig::default()],
        &["@100\n1 EVAL repeat(type)(1)until(false) 0", "@200\n1 PING\n1 SCRIPT KILL"],
        vec![],
        &format!(
            "5104 1 PING: {busy}\n5106 1 EVAL repeat(type)(1)until(false) 0: {endless}\n\
             5106 1 SCRIPT KILL: OK"
        ),
    );
}

#[test]
fn the_operators_eviction_and_flush_are_named_as_such() {
    let evict = fault(Verb::Evict { key: "a".to_owned() }, "n1", 500 * MS, None);
    let flush = Fault { id: 2, ..fault(Verb::Flush, "n1", 700 * MS, None) };
    let (_, remains) = run(&[NodeConfig::default()], &["1 SET a 1\n1 SET b 1"], vec![evict, flush]);
    let changes = remains.trace.entries().iter().filter_map(|entry| match &entry.event {
        Event::Key { key, change, .. } => Some((&key.name[..], *change)),
        _ => None,
    });
    assert_eq!(
        changes.collect::<Vec<_>>(),
        [
            (&b"a"[..], KeyChange::Set),
            (&b"b"[..], KeyChange::Set),
            (&b"a"[..], KeyChange::Evicted),
            (&b"b"[..], KeyChange::Deleted),
        ]
    );
}

#[test]
fn a_node_that_stands_still_gets_the_operators_command_once() {
    let pause = fault(Verb::Pause, "n1", 500 * MS, Some(5 * SECOND));
    let flush = Fault { id: 2, ..fault(Verb::Flush, "n1", 700 * MS, None) };
    let script = "1 SET a 1\n@8000\n1 EXISTS a";
    let (log, remains) = run(&[NodeConfig::default()], &[script], vec![pause, flush]);
    assert!(log.ends_with("1 EXISTS a: 0\n"), "{log}");
    let is_order = |event: &Event| matches!(event, Event::Ordered { .. });
    let orders = remains.trace.entries().iter().filter(|entry| is_order(&entry.event));
    assert_eq!(orders.count(), 1);
}

#[test]
fn a_replica_hides_what_has_expired_by_its_own_clock_and_deletes_nothing() {
    let mut ahead = fault(Verb::ClockStep { by: 10_000_000_000 }, "n2", 2500 * MS, None);
    ahead.id = 3;
    check(
        &[NodeConfig::default(), replica()],
        &["@2000\n1 SET k v PX 8000\n@3000\n2 GET k\n2 EXISTS k\n2 PTTL k\n2 DBSIZE\n1 GET k"],
        vec![ahead],
        "2004 1 SET k v PX 8000: OK\n3004 2 GET k: nil\n3006 2 EXISTS k: 0\n3008 2 PTTL k: -2\n\
         3010 2 DBSIZE: 1\n3012 1 GET k: v",
    );
}

#[test]
fn a_clock_step_on_the_node_ends_a_lease_early() {
    let script = "1 SET k v NX PX 10000\n@2000\n1 SET k w NX PX 10000\n@3000\n1 GET k";
    let step = fault(Verb::ClockStep { by: 11_000_000_000 }, "n1", SECOND, None);
    check(
        &[NodeConfig::default()],
        &[script],
        vec![step],
        "4 1 SET k v NX PX 10000: OK\n2002 1 SET k w NX PX 10000: OK\n3002 1 GET k: w",
    );
}

#[test]
fn connections_beyond_the_limits_are_refused_or_closed() {
    let first = "1 CONFIG SET maxclients 1\n1 CONFIG SET timeout 2\n@2500\n1 PING\n@9000\n\
                 1 PING\n1 CONFIG SET maxclients 9";
    let second = "@1000\n1 PING\n1 PING\n@9500\n1 PING\n1 SUBSCRIBE x\n@20000\n1 PING";
    check(
        &[NodeConfig::default()],
        &[first, second],
        vec![],
        "4 1 CONFIG SET maxclients 1: OK\n6 1 CONFIG SET timeout 2: OK\n\
         1002 1 PING: ERR max number of clients reached\n1002 1 PING: (end)\n\
         2502 1 PING: PONG\n9000 1 PING: (end)\n9004 1 CONFIG SET maxclients 9: OK\n\
         9504 1 PING: PONG\n9506 1 SUBSCRIBE x: [subscribe x 1]\n20002 1 PING: [pong ]",
    );
}
