//! INFO, section by section: the lines that clients read.
//!
//! What a world does not have (a processor's time, an operating system, an allocator) is told as
//! constants.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::redis::command::{Call, Family, Outcome};
use crate::redis::compat::Compat;
use crate::redis::frame::Reply;
use crate::redis::memory::Meter;
use crate::redis::node::{Append, Node};
use crate::redis::session::{Block, Session};

/// What is here, by name.
pub const FAMILY: Family = &[("info", info)];

/// A section of INFO: its header, its name if that is another one, whether it is told unasked,
/// and what writes it.
struct Section {
    header: &'static str,
    name: &'static str,
    by_default: bool,
    write: fn(&mut String, &mut Node),
}

const SECTIONS: [Section; 13] = [
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
];

/// INFO [section ...]
pub fn info(call: &mut Call) -> Outcome {
    let asked: Vec<Vec<u8>> = call.from(1).iter().map(|s| s.to_ascii_lowercase()).collect();
    let says = |word: &str| asked.iter().any(|asked| asked == word.as_bytes());
    let by_default = asked.is_empty() || says("default");
    let all = says("all") || says("everything");
    let mut text = String::new();
    for section in SECTIONS {
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
    let up_s = node.now_ms.saturating_sub(node.started_ms) / 1_000;
    let (port, hz) = (node.config.port, node.settings.text("hz"));
    let (names, mode) = names(node.config.compat);
    let _ = write!(
        text,
        "{names}redis_git_sha1:00000000\r\nredis_git_dirty:0\r\n{mode}:standalone\r\nos:Linux\r\narch_bits:64\r\nmultiplexing_api:epoll\r\n\
         process_id:1\r\nprocess_supervised:no\r\nrun_id:{}\r\ntcp_port:{port}\r\n\
         server_time_usec:{}\r\nuptime_in_seconds:{up_s}\r\nuptime_in_days:{}\r\nhz:{hz}\r\n\
         configured_hz:{hz}\r\nexecutable:/redis-server\r\nconfig_file:\r\nio_threads_active:0\r\n",
        node.replication_id,
        node.now_us,
        up_s / 86_400,
    );
}

/// The lines of names and versions, and the name of the mode. Valkey goes on telling that it can do
/// what Redis 7.2.4 could.
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

/// The connection that asks is not among those that can be counted, but connected all the same.
fn clients_section(text: &mut String, node: &mut Node) {
    let connected = node.clients.len() - node.replicas.len().min(node.clients.len());
    let waits = |session: &&Session| session.blocked.is_some();
    let blocked = node.clients.iter().filter(waits).count();
    let late = |session: &&Session| match &session.blocked {
        Some(Block::Keys(pop)) => pop.until_ms.is_some(),
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
    match &mut node.memory {
        Some(meter) => meter.used(&node.keyspace),
        None => Meter::of(&node.keyspace).used(&node.keyspace),
    }
}

/// A number of bytes with a unit that suits it.
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
        node.scripts.len(),
        with_unit(most),
        node.settings.text("maxmemory-policy"),
    );
}

fn persistence(text: &mut String, node: &mut Node) {
    let loading = u8::from(node.loading);
    let enabled = u8::from(node.config.append != Append::None);
    let saved_s = node.figures.last_save_s.unwrap_or(node.started_ms / 1_000);
    let _ = write!(
        text,
        "loading:{loading}\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\n\
         rdb_bgsave_in_progress:0\r\nrdb_last_save_time:{saved_s}\r\n\
         rdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:-1\r\n\
         rdb_current_bgsave_time_sec:-1\r\nrdb_saves:0\r\naof_enabled:{enabled}\r\n\
         aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:-1\r\n\
         aof_current_rewrite_time_sec:-1\r\naof_last_bgrewrite_status:ok\r\naof_rewrites:0\r\n\
         aof_last_write_status:ok\r\nmodule_fork_in_progress:0\r\n",
    );
}

fn stats_section(text: &mut String, node: &mut Node) {
    use crate::redis::clients::channels::Channel;
    let listened = |kind| node.clients.listened(kind).count();
    let errors: u64 = node.figures.errors.values().sum();
    let _ = write!(
        text,
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n\
         instantaneous_ops_per_sec:0\r\nrejected_connections:0\r\nsync_full:0\r\n\
         sync_partial_ok:0\r\nsync_partial_err:0\r\nexpired_keys:{}\r\nevicted_keys:{}\r\n\
         evicted_clients:0\r\nkeyspace_hits:0\r\nkeyspace_misses:0\r\npubsub_channels:{}\r\n\
         pubsub_patterns:{}\r\npubsubshard_channels:{}\r\nlatest_fork_usec:0\r\ntotal_forks:0\r\n\
         tracking_total_keys:0\r\nunexpected_error_replies:0\r\ntotal_error_replies:{errors}\r\n",
        node.clients.received(),
        node.executed,
        node.expired_keys,
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
    match node.master {
        None => text.push_str("role:master\r\n"),
        Some(master) => {
            let link = if node.master_link_up { "up" } else { "down" };
            let _ = write!(
                text,
                "role:slave\r\nmaster_host:{}\r\nmaster_port:{}\r\nmaster_link_status:{link}\r\n\
                 slave_repl_offset:{}\r\nslave_read_only:1\r\n",
                master.ip(),
                master.port(),
                node.offset,
            );
        }
    }
    let _ = write!(text, "connected_slaves:{}\r\n", node.replicas.len());
    if node.config.min_replicas_to_write > 0 {
        let _ = write!(text, "min_slaves_good_slaves:{}\r\n", node.good_replicas);
    }
    for (n, replica) in node.replicas.iter().enumerate() {
        let lag = (node.now_ms / 1_000).saturating_sub(replica.acked_at_s);
        let (ip, port, acked) = (replica.address.ip(), replica.port, replica.acked);
        let _ =
            write!(text, "slave{n}:ip={ip},port={port},state=online,offset={acked},lag={lag}\r\n");
    }
    let (id, offset) = (&node.replication_id, node.offset);
    let _ = write!(
        text,
        "master_failover_state:no-failover\r\nmaster_replid:{id}\r\n\
         master_repl_offset:{offset}\r\n"
    );
}

fn keyspace_section(text: &mut String, node: &mut Node) {
    for (number, db) in node.keyspace.iter().filter(|(_, db)| !db.is_empty()) {
        let (keys, ending) = (db.len(), db.ending());
        let _ = write!(text, "db{number}:keys={keys},expires={ending},avg_ttl=0\r\n");
    }
}
