//! Facts observed on real servers that decide whether a lock is safe: expiry, propagation, scripts,
//! lags, pauses, crashes. Facts about resynchronisation, files and Sentinels are tested in their
//! own files.

use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::SECOND;
use lockstorm_platform::trace::{Event, KeyChange};
use lockstorm_redis::compat::Compat;
use lockstorm_redis::node::{Append, NodeConfig};

use crate::node::stage::{MS, append, check, fault, replica, run};

/// Checks the replies of one node to one client, without times.
#[track_caller]
fn answers(config: &NodeConfig, script: &'static str, expected: &[&str]) {
    let (log, _) = run(std::slice::from_ref(config), &[script], vec![]);
    let answer = |line: &str| line.rsplit_once(": ").map(|(_, answer)| answer.to_owned());
    assert_eq!(log.lines().filter_map(answer).collect::<Vec<_>>(), expected, "{log}");
}

/// Fact 1: a key exists up to its expiry and not after it; an expiry in the past deletes at once or
/// creates nothing, and a time to live of zero is refused.
#[test]
fn fact_01_a_key_lives_up_to_its_end_and_past_ends_are_obeyed_at_once() {
    let script = "1 SET k v\n1 PEXPIRE k 0\n1 EXISTS k\n1 SET k v PXAT 1\n1 EXISTS k\n\
                  1 SET k v PX 0\n1 SET k v PX -1\n1 EXISTS k";
    let refused = "ERR invalid expire time in 'set' command";
    answers(&NodeConfig::default(), script, &["OK", "1", "0", "OK", "0", refused, refused, "0"]);
    // It is set at 3 ms and read at 13 and at 15 ms: a link takes 1 ms.
    let script = "1 SET k v PX 10\n@12\n1 EXISTS k\n1 EXISTS k";
    answers(&NodeConfig::default(), script, &["OK", "1", "0"]);
}

#[test]
fn what_has_expired_is_not_there_for_nx_before_the_cycle_comes() {
    let script = "1 SET k v PX 10\n@20\n1 SET k w NX\n1 GET k\n1 SET k x NX";
    answers(&NodeConfig::default(), script, &["OK", "OK", "w", "nil"]);
}

/// Fact 2: expiry is by the wall clock: a step forward expires a key early, a step back late.
#[test]
fn fact_02_a_step_of_the_wall_clock_moves_the_end() {
    let script = "1 SET k v PX 10000\n@1000\n1 PTTL k\n1 EXISTS k";
    let step = |by| fault(Verb::ClockStep { by }, "n1", 500 * MS, None);
    let back = -5_000_000_000;
    check(
        &[NodeConfig::default()],
        &[script],
        vec![step(20_000_000_000)],
        "4 1 SET k v PX 10000: OK\n1002 1 PTTL k: -2\n1004 1 EXISTS k: 0",
    );
    check(
        &[NodeConfig::default()],
        &[script],
        vec![step(back)],
        "4 1 SET k v PX 10000: OK\n1002 1 PTTL k: 14002\n1004 1 EXISTS k: 1",
    );
}

/// Fact 3: a replica hides an expired key and keeps it until its master sends DEL.
#[test]
fn fact_03_a_replica_hides_and_never_expires() {
    let script = "@1000\n1 SET k v PX 1000\n@2500\n2 GET k\n2 EXISTS k\n2 PTTL k\n2 KEYS *\n\
                  2 DBSIZE\n@9000\n2 DBSIZE";
    let stop = fault(Verb::Pause, "n1", 1500 * MS, Some(5 * SECOND));
    let (log, remains) = run(&[NodeConfig::default(), replica()], &[script], vec![stop]);
    let hidden = "2 GET k: nil\n2506 2 EXISTS k: 0\n2508 2 PTTL k: -2\n2510 2 KEYS *: []\n\
                  2512 2 DBSIZE: 1\n";
    assert!(log.contains(hidden), "{log}");
    assert!(log.ends_with("2 DBSIZE: 0\n"), "{log}");
    let by_itself = remains.trace.entries().iter().any(|entry| {
        let expired = matches!(entry.event, Event::Key { change: KeyChange::Expired, .. });
        expired && entry.host.0 == 1
    });
    assert!(!by_itself, "the replica has expired a key");
}

/// Fact 7: effects of scripts are propagated, scripts are not: after a failover a replica has the
/// keys and the functions, and replies NOSCRIPT.
#[test]
fn fact_07_scripts_are_passed_on_as_effects() {
    let script = "@1000\n1 EVAL return(redis.call('SET',KEYS[1],'v')) 1 k\n1 SCRIPT LOAD return(1)\n\
                  @2000\n2 REPLICAOF NO ONE\n2 GET k\n\
                  2 EVALSHA 5e0a1d7a4b1e4c0e0a1d7a4b1e4c0e0a1d7a4b1e 0";
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![]);
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[3].ends_with("GET k: v"), "{log}");
    assert!(lines[4].ends_with(": NOSCRIPT No matching script. Please use EVAL."), "{log}");
}

/// Fact 8: keys do not expire during a slow script; before Redis 7.2 TIME and PTTL advance in it.
#[test]
fn fact_08_keys_do_not_expire_in_a_script() {
    let script = "1 SET k v PX 30\n1 EVAL return{redis.call('EXISTS','k'),redis.call('PTTL','k')} 0\n\
                  1 EXISTS k";
    let slow = || fault(Verb::SlowScript { extra: 270 * MS }, "n1", 0, None);
    let moving = NodeConfig::default();
    let still = NodeConfig { compat: Compat::Redis82, ..NodeConfig::default() };
    let answer = |config: &NodeConfig| {
        let (log, _) = run(std::slice::from_ref(config), &[script], vec![slow()]);
        let lines = log.lines().filter_map(|line| Some(line.rsplit_once(": ")?.1.to_owned()));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(answer(&moving), ["OK", "[1 0]", "0"]);
    assert_eq!(answer(&still), ["OK", "[1 28]", "0"]);
}

/// Fact 9: a script on a replica may read; its first write fails, and the error names the script.
#[test]
fn fact_09_a_script_on_a_replica_is_refused_at_its_first_write() {
    let script = "@1000\n1 SET k v\n@1500\n2 EVAL return(redis.call('GET','k')) 0\n\
                  2 EVAL return(redis.call('SET','k','w')) 0\n2 GET k";
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![]);
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[1].ends_with(": v"), "{log}");
    let refusal = "READONLY You can't write against a read only replica. script: ";
    assert!(lines[2].contains(refusal) && lines[2].ends_with(", on @user_script:1."), "{log}");
    assert!(lines[3].ends_with(": v"), "{log}");
}

/// Fact 12: a master that needs replicas accepts writes for the lag in whole seconds, then refuses
/// them; reads and messages pass.
#[test]
fn fact_12_min_replicas_refuses_after_the_lag() {
    let config =
        NodeConfig { min_replicas_to_write: 1, min_replicas_max_lag: 2, ..NodeConfig::default() };
    let script = "@2000\n1 SET k 1\n@4500\n1 SET k 2\n@5900\n1 SET k 3\n1 GET k\n1 PUBLISH c m\n\
                  1 EVAL return(redis.call('SET','k','4')) 0";
    let stop = fault(Verb::Pause, "n2", 3000 * MS, None);
    let (log, _) = run(&[config, replica()], &[script], vec![stop]);
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].ends_with(": OK") && lines[1].ends_with("SET k 2: OK"), "{log}");
    assert!(lines[2].ends_with(": NOREPLICAS Not enough good replicas to write."), "{log}");
    assert!(lines[3].ends_with(": 2") && lines[4].ends_with(": 0"), "{log}");
    assert!(lines[5].contains("NOREPLICAS"), "{log}");
}

/// Fact 16: while CLIENT PAUSE WRITE holds writes back, expired keys are hidden but counted, and
/// nothing expires; the write gets its reply at the end of the pause.
#[test]
fn fact_16_a_pause_of_writes_hides_keys_and_expires_none() {
    let pause =
        "1 SET k v PX 500\n1 CLIENT PAUSE 2000 WRITE\n@1000\n1 GET k\n1 DBSIZE\n1 SET k w NX";
    check(
        &[NodeConfig::default()],
        &[pause],
        vec![],
        "4 1 SET k v PX 500: OK\n6 1 CLIENT PAUSE 2000 WRITE: OK\n1002 1 GET k: nil\n\
         1004 1 DBSIZE: 1\n2101 1 SET k w NX: OK",
    );
}

/// Fact 18: data written before the reply survives a crash of the process, also under `everysec`; a
/// loss of power loses unsynced data, and nothing under `always`.
#[test]
fn fact_18_a_process_crash_is_no_power_loss() {
    let script = "@1500\n1 SET k v\n@3000\n1 PING\n1 GET k";
    let after = |how: Append, verb: Verb| {
        let fell = fault(verb, "n1", 1505 * MS, Some(500 * MS));
        let (log, _) = run(&[append(how)], &[script], vec![fell]);
        log.lines().last().and_then(|line| Some(line.rsplit_once(": ")?.1.to_owned()))
    };
    let kept = Some("v".to_owned());
    assert_eq!(after(Append::No, Verb::Crash), kept);
    assert_eq!(after(Append::Everysec, Verb::Crash), kept);
    assert_eq!(after(Append::Always, Verb::PowerLoss), kept);
    assert_eq!(after(Append::Everysec, Verb::PowerLoss), Some("nil".to_owned()));
}
