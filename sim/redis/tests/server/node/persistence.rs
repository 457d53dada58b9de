//! What a node writes to its disk and reads back, according to facts of Redis.

use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::time::SECOND;
use lockstorm_redis::compat::Compat;
use lockstorm_redis::node::{Append, NodeConfig};

use crate::node::replication::tells;
use crate::node::stage::{MS, append, check, fault, replica, run};

/// A node that saves all keys after a second with a change; a save takes half a second.
fn saving() -> NodeConfig {
    NodeConfig { save: "1 1".to_owned(), save_time: 500 * MS, ..NodeConfig::default() }
}

fn second(verb: Verb, at: u64, length: Option<u64>) -> Fault {
    let target = Target::Host("n1".to_owned());
    Fault { id: 2, verb, target, anchor: Anchor::At(at * MS), length: length.map(|ms| ms * MS) }
}

#[test]
fn save_points_save_all_keys_and_what_came_later_is_lost_with_the_process() {
    let script = "1 INCR a\n@2400\n1 INFO persistence\n@2800\n1 INFO persistence\n1 INCR b\n\
                  @6000\n1 PING\n1 MGET a b\n1 INFO persistence";
    let crash = fault(Verb::Crash, "n1", 3000 * MS, Some(SECOND));
    let (log, _) = run(&[saving()], &[script], vec![crash]);
    tells(
        &log,
        &[
            "rdb_changes_since_last_save:1\r\nrdb_bgsave_in_progress:1",
            "rdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:-1",
            "rdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:0",
            "rdb_saves:1",
            "1 MGET a b: [1 nil]",
            "rdb_last_load_keys_loaded:1",
        ],
    );
}

#[test]
fn save_and_bgsave_and_shutdown_write_the_file() {
    let script = "1 SET a 1\n1 SAVE\n1 LASTSAVE\n1 SET b 1\n1 BGSAVE\n1 BGSAVE\n1 SAVE\n@3000\n\
                  1 PING\n1 SET c 1\n1 SHUTDOWN SAVE\n@6000\n1 MGET a b c";
    let config = NodeConfig { save_time: SECOND, ..NodeConfig::default() };
    let restart = fault(Verb::Restart, "n1", 4000 * MS, None);
    let (log, _) = run(&[config], &[script], vec![restart]);
    let busy = "ERR Background save already in progress";
    tells(
        &log,
        &[
            "1 SAVE: OK",
            "1 LASTSAVE: 1",
            "1 BGSAVE: Background saving started",
            &format!("1 BGSAVE: {busy}"),
            &format!("1 SAVE: {busy}"),
            "1 SHUTDOWN SAVE: (end)",
            "1 MGET a b c: [1 1 1]",
        ],
    );
}

/// Fact 14: after a failed save, writes and PING are refused with MISCONF before any other check;
/// reads pass, and the refusals stop after a successful save.
#[test]
fn fact_14_a_save_that_fails_refuses_writes() {
    let script = "1 SET a 1\n@3500\n1 SET a 2\n1 PING\n1 GET a\n1 EVAL \
                  return(redis.pcall('set',KEYS[1],1)) 1 a\n1 INFO persistence\n@15000\n1 SET a 3";
    let full = fault(Verb::FullDisk, "n1", 100 * MS, Some(5 * SECOND));
    let (log, _) = run(&[saving()], &[script], vec![full]);
    let misconf = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable";
    tells(
        &log,
        &[
            &format!("1 SET a 2: {misconf}"),
            &format!("1 PING: {misconf}"),
            "1 GET a: 1",
            misconf,
            "rdb_last_bgsave_status:err",
            "1 SET a 3: OK",
        ],
    );
}

#[test]
fn an_append_only_file_on_a_full_disk_refuses_writes_or_ends_the_node() {
    let full = || fault(Verb::FullDisk, "n1", 1000 * MS, Some(2 * SECOND));
    let script = "1 SET a 1\n@1500\n1 SET a 2\n1 SET a 3\n1 PING\n@5000\n1 SET a 4";
    let refused = "MISCONF Errors writing to the AOF file: No space left on device";
    check(
        &[append(Append::Everysec)],
        &[script],
        vec![full()],
        &format!(
            "4 1 SET a 1: OK\n1502 1 SET a 2: OK\n1504 1 SET a 3: {refused}\n\
             1506 1 PING: {refused}\n5002 1 SET a 4: OK"
        ),
    );
    let (log, _) = run(&[append(Append::Always)], &["1 SET a 1\n@1500\n1 SET a 2"], vec![full()]);
    assert!(log.ends_with("1 SET a 2: (end)\n"), "{log}");
}

/// A process that exits closes every connection, and no client is served any more.
#[test]
fn a_node_that_ends_by_itself_serves_nobody() {
    let full = fault(Verb::FullDisk, "n1", 1000 * MS, Some(SECOND));
    let scripts = ["1 SET a 1\n@1500\n1 SET a 2", "@10\n1 GET a\n@3000\n1 GET a"];
    let (log, _) = run(&[append(Append::Always)], &scripts, vec![full]);
    assert!(log.contains("1 GET a: 1\n") && log.ends_with("1 GET a: (end)\n"), "{log}");
}

/// Fact 18: a crash of the process loses no written data, a loss of power loses unsynced data; a
/// torn end of the file is cut off, or the node does not start with it.
#[test]
fn fact_18_a_torn_end_is_cut_off_or_refused() {
    let script = "1 SET a 1\n@2500\n1 SET b 1\n@2550\n1 SET c 1\n@6000\n1 PING\n1 MGET a b c";
    for (truncates, last) in
        [(true, "1 MGET a b c: [1 1 nil]\n"), (false, "1 MGET a b c: no connection\n")]
    {
        let config = NodeConfig { truncates_torn_file: truncates, ..append(Append::Everysec) };
        let power = fault(Verb::PowerLoss, "n1", 2600 * MS, Some(SECOND));
        let tears = second(Verb::TearingDisk, 0, None);
        let (log, _) = run(&[config], &[script], vec![power, tears]);
        assert!(log.ends_with(last), "{truncates}: {log}");
    }
}

/// Fact 18: a disk with a lying fsync keeps nothing over a loss of power, although every write was
/// synced.
#[test]
fn fact_18_a_disk_that_lies_loses_what_was_synced() {
    let script = "1 SET a 1\n@1500\n1 SET b 1\n@6000\n1 PING\n1 MGET a b";
    let power = fault(Verb::PowerLoss, "n1", 2 * SECOND, Some(SECOND));
    let lies = second(Verb::LyingDisk, 1000, Some(3000));
    let (log, _) = run(&[append(Append::Always)], &[script], vec![power, lies]);
    assert!(log.ends_with("1 MGET a b: [1 nil]\n"), "{log}");
}

/// Fact 19: times to live continue while the node is down. A key that expired meanwhile is loaded
/// from an append-only file and expires then; a master omits it when it loads an RDB.
#[test]
fn fact_19_ends_are_absolute_over_a_restart() {
    let script = "1 SET k v PX 60000\n1 SET gone v PX 2500\n@6000\n1 PING\n1 PTTL k\n1 GET gone\n\
                  1 INFO persistence\n1 INFO stats";
    let crash = || vec![fault(Verb::Crash, "n1", 2000 * MS, Some(2 * SECOND))];
    let (log, _) = run(&[append(Append::Everysec)], &[script], crash());
    tells(&log, &["1 PTTL k: 54", "1 GET gone: nil", "expired_keys:1"]);
    let (log, _) = run(&[NodeConfig { save: "1 1".to_owned(), ..saving() }], &[script], crash());
    tells(&log, &["1 PTTL k:", "1 GET gone: nil"]);
    let script = "1 SET k v PX 60000\n1 SET gone v PX 2500\n1 SAVE\n@6000\n1 PING\n1 PTTL k\n\
                  1 INFO persistence\n1 INFO stats";
    let (log, _) = run(&[saving()], &[script], crash());
    tells(
        &log,
        &[
            "1 PTTL k: 54",
            "rdb_last_load_keys_expired:1\r\nrdb_last_load_keys_loaded:1",
            "expired_keys:0",
        ],
    );
}

/// Fact 19: a replica loads from its own RDB what its master has not deleted.
#[test]
fn fact_19_a_replica_keeps_keys_past_their_time_from_its_file() {
    let script = "@1500\n1 SET gone v PX 1500\n@2000\n2 SAVE\n@6000\n2 PING\n2 DBSIZE\n2 GET gone";
    let cut = Fault { id: 2, ..fault(Verb::Partition, "n1 <-> n2", 2500 * MS, None) };
    let crash = fault(Verb::Crash, "n2", 2600 * MS, Some(2 * SECOND));
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![crash, cut]);
    tells(&log, &["2 SAVE: OK", "2 DBSIZE: 1", "2 GET gone: nil"]);
}

/// Fact 14: while a node loads its file it replies LOADING, also to PING; INFO is served.
#[test]
fn fact_14_a_node_that_loads_says_so() {
    let script = "1 SET k v\n@3000\n1 PING\n1 GET k\n1 SET k w\n1 INFO persistence\n@5200\n1 GET k";
    let config = NodeConfig { load_time: 2 * SECOND, ..append(Append::Everysec) };
    let restart = fault(Verb::Restart, "n1", 2900 * MS, None);
    let (log, _) =
        run(&[config], &[&script.replace("@3000", "@3000\n1 PING").leak()[..]], vec![restart]);
    let loading = "LOADING Redis is loading the dataset in memory";
    tells(
        &log,
        &[
            &format!("1 PING: {loading}"),
            &format!("1 GET k: {loading}"),
            &format!("1 SET k w: {loading}"),
            "loading:1",
            "loading_start_time:",
            "1 GET k: v",
        ],
    );
}

/// Fact 13: a restarted replica with the offset in its file requests only what it lacks.
#[test]
fn fact_13_a_replica_goes_on_from_its_file() {
    let script =
        "@2000\n1 SET a 1\n@2500\n2 SAVE\n1 SET b 1\n@6000\n2 PING\n2 MGET a b\n1 INFO stats";
    let crash = fault(Verb::Crash, "n2", 2600 * MS, Some(SECOND));
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![crash]);
    tells(&log, &["2 MGET a b: [1 1]", "sync_full:1\r\nsync_partial_ok:1"]);
}

/// A node that keeps an append-only file and is compatible with another server.
fn later(compat: Compat, kept: Append) -> NodeConfig {
    NodeConfig { compat, ..append(kept) }
}

/// WAITAOF waits for the sync of this connection's writes; on a node that never syncs it times out,
/// on one that syncs every write it returns at once. On Valkey written data counts.
#[test]
fn waitaof_waits_for_the_file_to_be_synced() {
    let script = "@2500\n1 SET k 1\n1 WAITAOF 1 0 2000\n1 WAITAOF 0 1 100";
    for (compat, kept, answers) in [
        (Compat::Redis82, Append::Everysec, ["3001", "[1 0]", "3201", "[1 0]"]),
        (Compat::Redis82, Append::Always, ["2506", "[1 0]", "2701", "[1 0]"]),
        (Compat::Redis82, Append::No, ["4601", "[0 0]", "4801", "[0 0]"]),
        (Compat::Valkey90, Append::Everysec, ["2506", "[1 0]", "2701", "[1 0]"]),
        (Compat::Valkey90, Append::No, ["4601", "[0 0]", "4801", "[0 0]"]),
    ] {
        let [first, synced, second, replicas] = answers;
        let expected = format!(
            "2504 1 SET k 1: OK\n{first} 1 WAITAOF 1 0 2000: {synced}\n\
             {second} 1 WAITAOF 0 1 100: {replicas}"
        );
        check(&[later(compat, kept)], &[script], vec![], &expected);
    }
}

/// What WAITAOF has counted survives a loss of power on Redis; on Valkey, which counts unsynced
/// data, it may not.
#[test]
fn waitaof_keeps_its_word_on_redis_alone() {
    let script = "@2500\n1 SET k 1\n1 WAITAOF 1 0 0\n@6000\n1 PING\n1 GET k";
    for (compat, kept) in [(Compat::Redis82, "1"), (Compat::Valkey80, "nil")] {
        let loss = Fault {
            anchor: Anchor::At(if kept == "1" { 3010 } else { 2600 } * MS),
            ..fault(Verb::PowerLoss, "n1", 0, Some(SECOND))
        };
        let (log, _) = run(&[later(compat, Append::Everysec)], &[script], vec![loss]);
        tells(&log, &["1 WAITAOF 1 0 0: [1 0]", &format!("1 GET k: {kept}")]);
    }
}

/// Replicas report their synced offset on request and every second; CLIENT UNBLOCK ends the wait
/// with the current counts or with an error, as does disabling the file.
#[test]
fn waitaof_counts_files_of_replicas_and_can_be_ended() {
    let keeps = later(Compat::Redis82, Append::Everysec);
    let nodes = [
        keeps.clone(),
        NodeConfig { replica_of: replica().replica_of, ..keeps },
        NodeConfig { compat: Compat::Redis82, ..replica() },
    ];
    let no_file = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    check(
        &nodes,
        &[
            "@2500\n1 SET k 1\n1 WAITAOF 1 1 0\n1 WAIT 2 0\n1 WAITAOF 1 2 500\n1 WAITAOF 0 2 0\n\
             1 WAITAOF 0 2 0\n1 WAITAOF 1 2 0",
            "@6000\n1 CLIENT UNBLOCK 3\n@6100\n1 CLIENT UNBLOCK 3 ERROR\n@6200\n\
             1 CONFIG SET appendonly no",
        ],
        vec![],
        &format!(
            "2504 1 SET k 1: OK\n3012 1 WAITAOF 1 1 0: [1 1]\n3014 1 WAIT 2 0: 2\n\
             3601 1 WAITAOF 1 2 500: [1 1]\n6004 1 WAITAOF 0 2 0: [1 1]\n\
             6004 1 CLIENT UNBLOCK 3: 1\n\
             6102 1 WAITAOF 0 2 0: UNBLOCKED client unblocked via CLIENT UNBLOCK\n\
             6102 1 CLIENT UNBLOCK 3 ERROR: 1\n6202 1 WAITAOF 1 2 0: {no_file}\n\
             6202 1 CONFIG SET appendonly no: OK"
        ),
    );
}

/// BGREWRITEAOF takes as long as a save; commands appended meanwhile, also in another database,
/// follow the rewritten part, and nothing is applied twice.
#[test]
fn a_rewritten_file_holds_what_came_before_and_behind() {
    let script = "1 INCR a\n1 INCR a\n1 SELECT 3\n1 INCR b\n1 BGREWRITEAOF\n1 BGREWRITEAOF\n\
                  1 BGSAVE\n1 BGSAVE SCHEDULE\n1 INFO persistence\n1 INCR b\n1 SELECT 0\n1 INCR a\n\
                  @2500\n1 INFO persistence\n@4500\n1 INFO persistence\n@6000\n1 PING\n1 GET a\n\
                  1 SELECT 3\n1 GET b\n1 MULTI\n1 BGREWRITEAOF\n1 EXEC";
    let config = NodeConfig { save_time: 2 * SECOND, ..append(Append::Everysec) };
    let power = fault(Verb::PowerLoss, "n1", 5000 * MS, Some(500 * MS));
    let (log, _) = run(&[config], &[script], vec![power]);
    tells(
        &log,
        &[
            "1 BGREWRITEAOF: Background append only file rewriting started",
            "1 BGREWRITEAOF: ERR Background append only file rewriting already in progress",
            "1 BGSAVE: ERR Another child process is active (AOF?): can't BGSAVE right now.",
            "1 BGSAVE SCHEDULE: Background saving scheduled",
            "aof_rewrite_in_progress:1\r\naof_rewrite_scheduled:0\r\n\
             aof_last_rewrite_time_sec:-1\r\naof_current_rewrite_time_sec:0",
            "rdb_bgsave_in_progress:1",
            "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n\
             aof_last_rewrite_time_sec:2\r\naof_current_rewrite_time_sec:-1\r\n\
             aof_last_bgrewrite_status:ok\r\naof_rewrites:1",
            "rdb_bgsave_in_progress:0",
            "1 GET a: 3",
            "1 GET b: 2",
            "1 EXEC: [Background append only file rewriting scheduled]",
        ],
    );
}

#[test]
fn a_rewrite_on_a_full_disk_fails_and_leaves_the_file_as_it_was() {
    let script = "1 INCR a\n@1500\n1 BGREWRITEAOF\n@2500\n1 INFO persistence\n@5000\n1 PING\n\
                  1 GET a";
    let full = fault(Verb::FullDisk, "n1", 1200 * MS, Some(2 * SECOND));
    let (log, _) = run(
        &[append(Append::Everysec)],
        &[script],
        vec![full, second(Verb::PowerLoss, 4000, Some(500))],
    );
    let failed = "aof_last_bgrewrite_status:err\r\naof_rewrites:1\r\n\
                  aof_rewrites_consecutive_failures:1";
    tells(&log, &[failed, "1 GET a: 1"]);
}

/// With save points FLUSHALL saves at once, so that nothing comes back after a crash; without them
/// the last file is loaded. A background save in progress is aborted.
#[test]
fn flushall_saves_at_once_where_there_are_save_points() {
    let script = "1 SET a 1\n1 SAVE\n1 BGSAVE\n1 FLUSHALL\n1 INFO persistence\n@6000\n1 PING\n\
                  1 GET a";
    for (save, saved, left) in [("3600 1", "0", "nil"), ("", "1", "1")] {
        let config =
            NodeConfig { save: save.to_owned(), save_time: SECOND, ..NodeConfig::default() };
        let crash = fault(Verb::Crash, "n1", 3000 * MS, Some(SECOND));
        let (log, _) = run(&[config], &[script], vec![crash]);
        let told = format!("rdb_changes_since_last_save:{saved}\r\nrdb_bgsave_in_progress:0");
        tells(&log, &[&told, "rdb_saves:2", &format!("1 GET a: {left}")]);
    }
}
