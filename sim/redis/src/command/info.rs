//! INFO, section by section: the lines that clients read.
//!
//! What a world does not have (processor time, an operating system, an allocator) is reported as
//! constants.

use std::fmt::Write as _;
use std::net::SocketAddrV4;

use lockstorm_platform::time::Ms;

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::command::sentinel::report;
use crate::compat::Compat;
use crate::frame::Reply;
use crate::history::NO_ID;
use crate::memory::Meter;
use crate::node::{Append, Node};
use crate::peers::{LinkState, ManualFailover};
use crate::session::{Block, Session};

/// The commands of this file, by name.
pub const FAMILY: Family = &[("info", info)];

/// A section of INFO: its header, its name if that differs, whether it is a default section, and
/// the function that writes it.
struct Section {
    header: &'static str,
    name: &'static str,
    by_default: bool,
    write: fn(&mut String, &mut Node),
}

const SECTIONS: [Section; 14] = [
    Section { header: "Server", name: "server", by_default: true, write: server_section },
    Section { header: "Clients", name: "clients", by_default: true, write: clients_section },
    Section { header: "Memory", name: "memory", by_default: true, write: memory_section },
    Section { header: "Persistence", name: "persistence", by_default: true, write: persistence },
    Section { header: "Stats", name: "stats", by_default: true, write: stats_section },
    Section { header: "Replication", name: "replication", by_default: true, write: replication },
    Section { header: "CPU", name: "cpu", by_default: true, write: cpu_section },
    Section { header: "Modules", name: "modules", by_default: true, write: nothing },
    Section { header: "Commandstats", name: "commandstats", by_default: false, write: nothing },
    Section { header: "Errorstats", name: "errorstats", by_default: true, write: errors_section },
    Section { header: "Latencystats", name: "latencystats", by_default: false, write: nothing },
    Section { header: "Cluster", name: "cluster", by_default: true, write: cluster_section },
    Section { header: "Keyspace", name: "keyspace", by_default: true, write: keyspace_section },
    Section { header: "Sentinel", name: "sentinel", by_default: true, write: sentinel_section },
];

/// The sections of a Sentinel.
const OF_SENTINEL: [&str; 5] = ["server", "clients", "stats", "cpu", "sentinel"];

/// INFO [section ...]
pub fn info(call: &mut Call) -> Outcome {
    let sections: Vec<Vec<u8>> = call.from(1).iter().map(|s| s.to_ascii_lowercase()).collect();
    let says = |word: &str| sections.iter().any(|section| section == word.as_bytes());
    let by_default = sections.is_empty() || says("default");
    let all = says("all") || says("everything");
    let mut text = String::new();
    let is_sentinel = call.node.sentinel.is_some();
    let is_there = |section: &Section| match is_sentinel {
        true => OF_SENTINEL.contains(&section.name),
        false => section.name != "sentinel",
    };
    for section in SECTIONS.iter().filter(|section| is_there(section)) {
        if all || by_default && section.by_default || says(section.name) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            let _ = write!(text, "{gap}# {}\r\n", section.header);
            (section.write)(&mut text, call.node);
        }
    }
    Ok(Reply::Verbatim(*b"txt", Bytes::from(text)))
}

fn nothing(_: &mut String, _: &mut Node) {}

fn server_section(text: &mut String, node: &mut Node) {
    let up_s = node.clock.now_ms.saturating_sub(node.clock.started_ms) / 1_000;
    let (port, hz) = (node.config.port, node.settings.text("hz"));
    let (names, mode) = names(node.config.compat);
    let kind = node.mode();
    let _ = write!(
        text,
        "{names}redis_git_sha1:00000000\r\nredis_git_dirty:0\r\n{mode}:{kind}\r\nos:Linux\r\n\
         arch_bits:64\r\nmultiplexing_api:epoll\r\n\
         process_id:1\r\nprocess_supervised:no\r\nrun_id:{}\r\ntcp_port:{port}\r\n\
         server_time_usec:{}\r\nuptime_in_seconds:{up_s}\r\nuptime_in_days:{}\r\nhz:{hz}\r\n\
         configured_hz:{hz}\r\nexecutable:/redis-server\r\nconfig_file:\r\nio_threads_active:0\r\n",
        node.run_id,
        node.clock.now_us,
        up_s / 86_400,
    );
}

/// The lines of names and versions, and the name of the mode. Valkey still reports compatibility
/// with Redis 7.2.4.
fn names(compat: Compat) -> (String, &'static str) {
    let version = compat.version();
    let stage = match compat {
        Compat::Redis70 | Compat::Redis82 | Compat::Redis84 => {
            return (format!("redis_version:{version}\r\n"), "redis_mode");
        }
        Compat::Valkey80 => "",
        Compat::Valkey90 => "valkey_release_stage:ga\r\n",
    };
    let names =
        format!("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:{version}\r\n{stage}");
    (names, "server_mode")
}

/// The caller's session is not among the countable ones, but is connected all the same.
fn clients_section(text: &mut String, node: &mut Node) {
    let connected = node.clients.len() - node.peers.replicas.len().min(node.clients.len());
    let waits = |session: &&Session| session.blocked.is_some();
    let blocked = node.clients.iter().filter(waits).count();
    let late = |session: &&Session| match &session.blocked {
        Some(Block::Keys(pop)) => pop.until_ms.is_some(),
        Some(Block::Acknowledgement(quorum)) => quorum.timeout_ms > 0,
        _ => false,
    };
    let in_table = node.clients.iter().filter(late).count();
    let _ = write!(
        text,
        "connected_clients:{connected}\r\ncluster_connections:0\r\nmaxclients:{}\r\n\
         client_recent_max_input_buffer:0\r\nclient_recent_max_output_buffer:0\r\n\
         blocked_clients:{blocked}\r\ntracking_clients:0\r\n\
         clients_in_timeout_table:{in_table}\r\n",
        node.settings.text("maxclients"),
    );
}

/// The memory that keys take.
pub fn used_memory(node: &mut Node) -> u64 {
    match &mut node.usage.meter {
        Some(meter) => meter.used(&node.keyspace),
        None => Meter::of(&node.keyspace).used(&node.keyspace),
    }
}

/// A number of bytes with a suitable unit.
fn with_unit(bytes: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", bytes as f64 / *size as f64),
        None => format!("{bytes}B"),
    }
}

fn memory_section(text: &mut String, node: &mut Node) {
    let used = used_memory(node);
    let (human, most) = (with_unit(used), node.config.max_memory);
    let _ = write!(
        text,
        "used_memory:{used}\r\nused_memory_human:{human}\r\nused_memory_rss:{used}\r\n\
         used_memory_rss_human:{human}\r\nused_memory_peak:{used}\r\n\
         used_memory_peak_human:{human}\r\nused_memory_dataset:{used}\r\n\
         used_memory_lua:32768\r\nused_memory_lua_human:32.00K\r\n\
         number_of_cached_scripts:{}\r\nmaxmemory:{most}\r\nmaxmemory_human:{}\r\n\
         maxmemory_policy:{}\r\nmem_fragmentation_ratio:1.00\r\nmem_not_counted_for_evict:0\r\n\
         mem_allocator:model\r\nactive_defrag_running:0\r\nlazyfree_pending_objects:0\r\n\
         lazyfreed_objects:0\r\n",
        node.scripts.cache.len(),
        with_unit(most),
        node.settings.text("maxmemory-policy"),
    );
}

fn persistence(text: &mut String, node: &mut Node) {
    let (saving, now_s) = (&node.saving, node.clock.now_ms / 1_000);
    let signed =
        |seconds: Option<u64>| seconds.map_or(-1, |s| i64::try_from(s).unwrap_or(i64::MAX));
    let status = |failed: bool| if failed { "err" } else { "ok" };
    let _ = write!(
        text,
        "loading:{}\r\nasync_loading:0\r\ncurrent_cow_peak:0\r\ncurrent_cow_size:0\r\n\
         current_cow_size_age:0\r\ncurrent_fork_perc:0.00\r\ncurrent_save_keys_processed:0\r\n\
         current_save_keys_total:0\r\nrdb_changes_since_last_save:{}\r\n\
         rdb_bgsave_in_progress:{}\r\nrdb_last_save_time:{}\r\nrdb_last_bgsave_status:{}\r\n\
         rdb_last_bgsave_time_sec:{}\r\nrdb_current_bgsave_time_sec:{}\r\nrdb_saves:{}\r\n\
         rdb_last_cow_size:0\r\nrdb_last_load_keys_expired:{}\r\n\
         rdb_last_load_keys_loaded:{}\r\naof_enabled:{}\r\naof_rewrite_in_progress:{}\r\n\
         aof_rewrite_scheduled:{}\r\naof_last_rewrite_time_sec:{}\r\n\
         aof_current_rewrite_time_sec:{}\r\naof_last_bgrewrite_status:{}\r\naof_rewrites:{}\r\n\
         aof_rewrites_consecutive_failures:{}\r\naof_last_write_status:{}\r\n\
         aof_last_cow_size:0\r\nmodule_fork_in_progress:0\r\nmodule_fork_last_cow_size:0\r\n",
        u8::from(node.startup.since_ms.is_some()),
        saving.changes,
        u8::from(saving.begun.is_some()),
        saving.saved_s,
        status(saving.failed),
        signed(saving.took_s),
        signed(saving.begun.map(|(since_s, _)| now_s.saturating_sub(since_s))),
        saving.saves,
        saving.loaded[1],
        saving.loaded[0],
        u8::from(node.config.append != Append::None),
        u8::from(saving.rewriting.is_some()),
        u8::from(saving.scheduled[1]),
        signed(saving.rewrite_took_s),
        signed(saving.rewriting.map(|since_s| now_s.saturating_sub(since_s))),
        status(saving.failed_rewrites > 0),
        saving.rewrites,
        saving.failed_rewrites,
        status(saving.append_failed),
    );
    if let Some(since_ms) = node.startup.since_ms {
        let _ = write!(
            text,
            "loading_start_time:{}\r\nloading_total_bytes:0\r\nloading_rdb_used_mem:0\r\n\
             loading_loaded_bytes:0\r\nloading_loaded_perc:0.00\r\nloading_eta_seconds:1\r\n",
            since_ms / 1_000
        );
    }
}

fn stats_section(text: &mut String, node: &mut Node) {
    use crate::session::Channel;
    let listened = |kind| node.clients.listened(kind).count();
    let errors: u64 = node.figures.errors.values().sum();
    let [full, partial, in_vain] = node.figures.syncs;
    let _ = write!(
        text,
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n\
         instantaneous_ops_per_sec:0\r\nrejected_connections:0\r\nsync_full:{}\r\n\
         sync_partial_ok:{}\r\nsync_partial_err:{}\r\nexpired_keys:{}\r\nevicted_keys:{}\r\n\
         evicted_clients:0\r\nkeyspace_hits:0\r\nkeyspace_misses:0\r\npubsub_channels:{}\r\n\
         pubsub_patterns:{}\r\npubsubshard_channels:{}\r\nlatest_fork_usec:0\r\ntotal_forks:0\r\n\
         tracking_total_keys:0\r\nunexpected_error_replies:0\r\ntotal_error_replies:{errors}\r\n",
        node.clients.received(),
        node.figures.executed,
        full,
        partial,
        in_vain,
        node.figures.expired_keys,
        node.figures.evicted_keys,
        listened(Channel::Plain),
        listened(Channel::Pattern),
        listened(Channel::Shard),
    );
}

fn errors_section(text: &mut String, node: &mut Node) {
    for (word, count) in &node.figures.errors {
        let _ = write!(text, "errorstat_{word}:count={count}\r\n");
    }
}

fn cpu_section(text: &mut String, _: &mut Node) {
    for name in ["sys", "user", "sys_children", "user_children"] {
        let _ = write!(text, "used_cpu_{name}:0.000000\r\n");
    }
}

fn cluster_section(text: &mut String, node: &mut Node) {
    let _ = write!(text, "cluster_enabled:{}\r\n", u8::from(node.cluster.is_some()));
}

fn replication(text: &mut String, node: &mut Node) {
    match node.peers.master {
        None => text.push_str("role:master\r\n"),
        Some(master) => replica_lines(text, node, master),
    }
    let _ = write!(text, "connected_slaves:{}\r\n", node.peers.replicas.len());
    if node.config.min_replicas_to_write > 0 && node.config.min_replicas_max_lag > 0 {
        let _ = write!(text, "min_slaves_good_slaves:{}\r\n", node.peers.good_replicas);
    }
    for (n, replica) in node.peers.replicas.iter().enumerate() {
        let lag = (node.clock.now_ms / 1_000).saturating_sub(replica.acked_at_s);
        let (state, lag) = if replica.online { ("online", lag) } else { ("send_bulk", 0) };
        let (ip, port, acked) = (replica.address.ip(), replica.address.port(), replica.acked);
        let _ =
            write!(text, "slave{n}:ip={ip},port={port},state={state},offset={acked},lag={lag}\r\n");
    }
    let history = &node.history;
    let (second, end) = match &history.second {
        None => (NO_ID, -1),
        Some((id, end)) => (&id[..], i64::try_from(*end).unwrap_or(i64::MAX)),
    };
    let (first, length) = history.kept().unwrap_or((0, 0));
    let _ = write!(
        text,
        "master_failover_state:{}\r\nmaster_replid:{}\r\nmaster_replid2:{second}\r\n\
         master_repl_offset:{}\r\nsecond_repl_offset:{end}\r\nrepl_backlog_active:{}\r\n\
         repl_backlog_size:{}\r\nrepl_backlog_first_byte_offset:{first}\r\n\
         repl_backlog_histlen:{length}\r\n",
        ManualFailover::state(node.peers.failover.as_ref()),
        history.id,
        history.offset,
        u8::from(history.is_kept()),
        node.config.backlog_bytes,
    );
}

fn sentinel_section(text: &mut String, node: &mut Node) {
    let now = Ms::try_from(node.clock.now_ms).unwrap_or(Ms::MAX / 4);
    if let Some(own) = &node.sentinel {
        report::section(text, own, now);
    }
}

/// The lines of a replica only.
fn replica_lines(text: &mut String, node: &Node, master: SocketAddrV4) {
    let (link, up) = (&node.peers.link, node.peers.is_linked());
    let now_s = node.clock.now_ms / 1_000;
    let heard = if up { seconds_since(now_s, link.heard_s) } else { -1 };
    let syncs = link.state == LinkState::Sync;
    let known = up || link.resumes_in.is_some();
    let offset = if known { node.history.offset } else { 0 };
    let _ = write!(
        text,
        "role:slave\r\nmaster_host:{}\r\nmaster_port:{}\r\nmaster_link_status:{}\r\n\
         master_last_io_seconds_ago:{heard}\r\nmaster_sync_in_progress:{}\r\n\
         slave_read_repl_offset:{offset}\r\nslave_repl_offset:{offset}\r\n",
        master.ip(),
        master.port(),
        if up { "up" } else { "down" },
        u8::from(syncs),
    );
    if syncs {
        let since = seconds_since(now_s, link.heard_s);
        let _ = write!(
            text,
            "master_sync_total_bytes:0\r\nmaster_sync_read_bytes:0\r\n\
             master_sync_left_bytes:0\r\nmaster_sync_perc:0.00\r\n\
             master_sync_last_io_seconds_ago:{since}\r\n"
        );
    }
    if !up {
        let down = link.down_since_s.map_or(-1, |since| seconds_since(now_s, since));
        let _ = write!(text, "master_link_down_since_seconds:{down}\r\n");
    }
    let flag = |name| u8::from(node.settings.is_on(name));
    let _ = write!(
        text,
        "slave_priority:{}\r\nslave_read_only:{}\r\nreplica_announced:{}\r\n",
        node.settings.text("replica-priority"),
        flag("replica-read-only"),
        flag("replica-announced"),
    );
}

fn seconds_since(now_s: u64, since_s: u64) -> i64 {
    i64::try_from(now_s.saturating_sub(since_s)).unwrap_or(i64::MAX)
}

fn keyspace_section(text: &mut String, node: &mut Node) {
    for (number, db) in node.keyspace.iter().filter(|(_, db)| !db.is_empty()) {
        let (keys, ending) = (db.len(), db.ending());
        let _ = write!(text, "db{number}:keys={keys},expires={ending},avg_ttl=0\r\n");
    }
}
