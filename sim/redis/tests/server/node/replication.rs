//! Master and replica according to facts of Redis: what is transferred, lost and refused.

use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::SECOND;
use lockstorm_platform::trace::Event;
use lockstorm_redis::node::NodeConfig;

use crate::node::stage::{MS, address, check, fault, replica, run};

/// Checks that the log contains these texts, in this order.
#[track_caller]
pub fn tells(log: &str, fields: &[&str]) {
    let mut rest = log;
    for field in fields {
        let at = rest.find(field).unwrap_or_else(|| panic!("{field} is not told in:\n{log}"));
        rest = &rest[at + field.len()..];
    }
}

/// The number of keys in each full resynchronisation.
fn full_resyncs(script: &'static str, faults: Vec<lockstorm_platform::fault::Fault>) -> Vec<usize> {
    let (_, remains) = run(&[NodeConfig::default(), replica()], &[script], faults);
    let entries = remains.trace.entries().iter();
    let loaded = entries.filter_map(|entry| match &entry.event {
        Event::Loaded { keys, resync: Some(_), .. } => Some(keys.len()),
        _ => None,
    });
    loaded.collect()
}

/// Fact 13: after a broken link a replica receives only what it lacks, while the backlog has it.
#[test]
fn fact_13_a_broken_link_goes_on_where_it_was() {
    let script = "@2000\n1 SET a 1\n@4000\n1 SET b 1\n@8000\n2 MGET a b\n1 INFO stats\n2 ROLE";
    let reset = fault(Verb::Reset, "n1 <-> n2", 3000 * MS, None);
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![reset.clone()]);
    tells(&log, &["[1 1]", "sync_full:1", "sync_partial_ok:1", "sync_partial_err:0", "connected"]);
    assert_eq!(full_resyncs(script, vec![reset.clone()]), [0]);
    let long = "@1000\n1 CONFIG SET repl-backlog-size 1\n1 REPLICAOF NO ONE\n@3500\n1 PING";
    assert_eq!(full_resyncs(long, vec![reset]), [0], "the backlog has at least 16 KiB");
}

/// Fact 13: promotion gives the history another id and keeps the previous one up to that offset; a
/// demoted master without further writes receives only what it lacks.
#[test]
fn fact_13_a_demotion_without_further_writes_is_partial() {
    let script = "@2000\n1 SET old 1\n@3000\n2 REPLICAOF NO ONE\n2 SET new 1\n\
                  1 REPLICAOF 10.0.0.2 6379\n@5000\n1 MGET old new\n1 ROLE\n1 INFO replication\n\
                  2 INFO replication";
    assert_eq!(full_resyncs(script, vec![]), [0], "only the first resynchronisation is full");
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![]);
    tells(
        &log,
        &[
            "1 MGET old new: [1 1]",
            "[slave 10.0.0.2 6379 connected 104]",
            "role:slave\r\nmaster_host:10.0.0.2\r\nmaster_port:6379\r\nmaster_link_status:up",
            "slave_repl_offset:104",
            "second_repl_offset:53",
            "role:master\r\nconnected_slaves:1\r\n\
             slave0:ip=10.0.0.1,port=6379,state=online,offset=104,lag=1",
            "second_repl_offset:53",
            "repl_backlog_active:1\r\nrepl_backlog_size:1048576\r\n\
             repl_backlog_first_byte_offset:1\r\nrepl_backlog_histlen:104",
        ],
    );
}

/// Fact 13: a demoted master with extra writes is past the offset of the promotion: it is fully
/// resynchronised and loses its unreplicated writes.
#[test]
fn fact_13_a_demoted_master_with_extra_writes_loses_them() {
    let script = "@2000\n1 SET old 1\n@3000\n2 REPLICAOF NO ONE\n1 SET lost 1\n\
                  1 REPLICAOF 10.0.0.2 6379\n@5000\n1 MGET old lost\n2 INFO stats";
    let cut = fault(Verb::Partition, "n1 <-> n2", 2500 * MS, Some(1000 * MS));
    assert_eq!(full_resyncs(script, vec![cut.clone()]), [0, 1]);
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![cut]);
    tells(&log, &["1 MGET old lost: [1 nil]", "sync_full:1", "sync_partial_err:1"]);
}

/// Fact 13: a master that restarts empty replicates its empty data set.
#[test]
fn fact_13_a_master_that_starts_empty_empties_its_replicas() {
    let script = "@2000\n1 SET k 1\n@2500\n2 GET k\n@6000\n2 GET k";
    let crash = fault(Verb::Restart, "n1", 3000 * MS, None);
    check(
        &[NodeConfig::default(), replica()],
        &[script],
        vec![crash],
        "2004 1 SET k 1: OK\n2504 2 GET k: 1\n6002 2 GET k: nil",
    );
}

/// The stream passes through a replica byte for byte; when its master's history changes, a replica
/// of a replica is notified and stays connected.
#[test]
fn a_replica_of_a_replica_has_the_same_history() {
    let second = NodeConfig { replica_of: Some(address(2)), ..NodeConfig::default() };
    let script = "@4000\n1 SET k 1\n1 MULTI\n1 SET l 1\n1 INCR l\n1 EXEC\n@4500\n3 MGET k l\n\
                  3 ROLE\n1 ROLE\n2 REPLICAOF NO ONE\n2 SET m 1\n@7000\n3 ROLE\n3 GET m\n\
                  3 INFO replication\n2 INFO stats";
    let nodes = [NodeConfig::default(), replica(), second];
    let (log, _) = run(&nodes, &[script], vec![]);
    tells(
        &log,
        &[
            "3 MGET k l: [1 2]",
            "3 ROLE: [slave 10.0.0.2 6379 connected 127]",
            "1 ROLE: [master 127 [[10.0.0.2 6379 50]]]",
            "3 ROLE: [slave 10.0.0.2 6379 connected 177]",
            "3 GET m: 1",
            "second_repl_offset:128",
            "sync_partial_ok:1",
        ],
    );
}

/// Fact 11: WAIT counts the replicas that have everything up to this connection's last command, so
/// a fresh connection counts every replica; it times out with the count when fewer have it, and
/// returns at once inside MULTI.
#[test]
fn fact_11_wait_counts_from_the_connections_own_offset() {
    let stopped = fault(Verb::Pause, "n2", 2500 * MS, Some(20 * SECOND));
    check(
        &[NodeConfig::default(), replica()],
        &[
            "@3000\n1 SET k 1\n1 WAIT 1 100\n1 WAIT 1 100\n1 MULTI\n1 SET k 2\n1 WAIT 1 0\n1 EXEC",
            "@4000\n1 WAIT 1 100\n1 GET k\n1 WAIT 1 100",
        ],
        vec![stopped],
        "3004 1 SET k 1: OK\n3201 1 WAIT 1 100: 0\n3401 1 WAIT 1 100: 0\n3403 1 MULTI: OK\n\
         3405 1 SET k 2: QUEUED\n3407 1 WAIT 1 0: QUEUED\n3409 1 EXEC: [OK 0]\n\
         4004 1 WAIT 1 100: 1\n4006 1 GET k: 2\n4201 1 WAIT 1 100: 0",
    );
}

/// Fact 15: a client blocked on a master that becomes a replica receives an error and is
/// disconnected; other clients stay connected.
#[test]
fn fact_15_becoming_a_replica_unblocks_those_who_wait() {
    let told = "UNBLOCKED force unblock from blocking operation, instance state changed \
                (master -> replica?)";
    check(
        &[NodeConfig::default(), NodeConfig::default()],
        &[
            "@1000\n1 BLPOP q 0\n1 PING",
            "@1000\n1 WAIT 3 0\n1 PING",
            "@2000\n1 PING\n1 REPLICAOF 10.0.0.2 6379\n1 PING",
        ],
        vec![],
        &format!(
            "2004 1 PING: PONG\n2006 1 BLPOP q 0: {told}\n2006 1 PING: (end)\n\
             2006 1 REPLICAOF 10.0.0.2 6379: OK\n2006 1 WAIT 3 0: {told}\n\
             2006 1 PING: (end)\n2008 1 PING: PONG"
        ),
    );
}

/// Fact 17: FAILOVER holds writes back until a replica has everything, then swaps the roles;
/// nothing is lost.
#[test]
fn fact_17_failover_swaps_master_and_replica_and_loses_nothing() {
    let script = "@2000\n1 SET k 1\n1 FAILOVER\n1 INFO replication\n1 SET k 2\n@5000\n1 ROLE\n\
                  2 ROLE\n2 GET k\n1 FAILOVER\n2 FAILOVER ABORT\n2 FAILOVER TO 10.0.0.9 1\n\
                  2 FAILOVER FORCE\n1 INFO replication";
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![]);
    tells(
        &log,
        &[
            "1 FAILOVER: OK",
            "master_failover_state:waiting-for-sync",
            "1 SET k 2: READONLY You can't write against a read only replica.",
            "1 ROLE: [slave 10.0.0.2 6379 connected",
            "2 ROLE: [master",
            "2 GET k: 1",
            "ERR FAILOVER is not valid when server is a replica.",
            "ERR No failover in progress.",
            "ERR FAILOVER target HOST and PORT is not a replica.",
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
            "master_failover_state:no-failover",
        ],
    );
    let entries = full_resyncs(script, vec![]);
    assert_eq!(entries, [0], "the old master is given only what it lacks");
}

/// Fact 17: if the replica never catches up, the failover ends at its timeout; with FORCE the
/// replica becomes master anyway, and if it cannot be reached the master keeps its role.
#[test]
fn fact_17_failover_has_a_time_limit() {
    let refused = "1 SET k 3: READONLY You can't write against a read only replica.";
    let force = "FAILOVER TO 10.0.0.2 6379 TIMEOUT 500 FORCE";
    for (verb, words, written, role) in [
        (Verb::Pause, "FAILOVER TIMEOUT 500", "1 SET k 3: OK", "1 ROLE: [master"),
        (Verb::Pause, force, refused, "1 ROLE: [slave"),
        (Verb::Crash, force, "1 SET k 3: OK", "1 ROLE: [master"),
    ] {
        let at = if verb == Verb::Pause { 2500 } else { 3008 };
        let fault = fault(verb, "n2", at * MS, Some(10 * SECOND));
        let script = format!("@3000\n1 SET k 1\n1 {words}\n1 SET k 3\n1 ROLE").leak();
        let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![fault]);
        tells(&log, &["k 1: OK", "FAILOVER", "OK", written, role]);
    }
}

/// Fact 14: without its master a replica that must not serve stale data replies with an error; a
/// write is refused before that, as on every replica.
#[test]
fn fact_14_refusals_come_in_redis_order() {
    let script = "1 CONFIG SET replica-serve-stale-data no\n1 REPLICAOF 10.0.0.9 1\n1 GET k\n\
                  1 SET k 1\n1 PING\n1 ROLE\n1 REPLICAOF NO ONE\n1 CONFIG SET \
                  min-replicas-to-write 1\n1 SET k 1\n1 REPLICAOF 10.0.0.9 1\n1 SET k 1";
    let down = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    let readonly = "READONLY You can't write against a read only replica.";
    let (log, _) = run(&[NodeConfig::default()], &[script], vec![]);
    tells(
        &log,
        &[
            &format!("1 GET k: {down}"),
            &format!("1 SET k 1: {readonly}"),
            &format!("1 PING: {down}"),
            "1 ROLE: [slave 10.0.0.9 1 connect -1]",
            "1 SET k 1: NOREPLICAS Not enough good replicas to write.",
            &format!("1 SET k 1: {readonly}"),
        ],
    );
}

/// Facts 5 and 6: a lease is replicated with its absolute expiry and its end as DEL; neither a
/// failed SET NX nor a read propagates anything.
#[test]
fn facts_5_and_6_ends_are_propagated_as_absolute_times_and_expiry_as_deletion() {
    let script = "@2000\n1 SET k v NX PX 500\n1 SET k w NX PX 500\n1 GET k\n1 WAIT 1 100\n\
                  2 PTTL k\n\
                  @5000\n1 ROLE\n2 DBSIZE";
    let (log, _) = run(&[NodeConfig::default(), replica()], &[script], vec![]);
    tells(&log, &["1 SET k w NX PX 500: nil", "2 PTTL k: 488", "2 DBSIZE: 0"]);
}
