//! Refuses what no plan may contain: unknown hosts, a quorum above the number of nodes,
//! inconsistent times.
//!
//! Scenarios and plans from files are both checked here, so that no later code refuses or panics.

use lockstorm_platform::fault::Target;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

use crate::history::PROBE_MARGIN;
use crate::length;
use crate::lock::algorithm::{Algorithm, latch};
use crate::lock::catalogue::{Locks, is_own};
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::contradiction::{
    Checked, MAX_LOSS, MAX_ROUNDS, in_reach, known_host, rate, refuse_if,
};
use crate::plan::extend::Extend;
use crate::plan::fault_contradiction::faults;
use crate::plan::lock_contradiction::lock;
use crate::plan::{FenceMode, Persistence, Plan, Sentinels, TopologyKind, Workload, WorkloadKind};
use crate::promise::Work;
use crate::refusal::{Place, Refusal, one_of};

/// The maximum number of nodes.
const MAX_NODES: u32 = 99;

/// The maximum number of clients.
pub const MAX_CLIENTS: u32 = 1_000;
/// The maximum number of segments of a stock.
const MAX_SEGMENTS: u32 = 16;

/// The minimum wait before a client retries: without a wait, no time would pass.
const MIN_RETRY: Nanos = MILLISECOND;

/// The minimum length of a period: callers may fire a little late.
const MIN_PERIOD: Nanos = 100 * MILLISECOND;

impl Plan {
    /// Refuses contradictory plans, so that no run of a plan can fail because of its content. The
    /// lock must be one of the catalogue.
    pub fn validate(&self) -> Result<(), Refusal> {
        self.validate_with(&Locks::default())
    }

    /// Like [`Plan::validate`]; the lock must be one of `locks`.
    pub fn validate_with(&self, locks: &Locks) -> Result<(), Refusal> {
        name(self)?;
        let algorithm = self.validate_lock(locks)?;
        known_workload(self, locks)?;
        workload(self, algorithm)?;
        links(self)?;
        clocks(self)?;
        times(self)?;
        faults(self, algorithm)
    }

    /// The lock of the plan. Refuses only what contradicts itself in the lock and its nodes: that
    /// part of a plan is also true of a deployment.
    pub(crate) fn validate_lock<'a>(&self, locks: &'a Locks) -> Result<&'a Algorithm, Refusal> {
        topology(self)?;
        priorities(self)?;
        let algorithm = known_lock(self, locks)?;
        lock(self, algorithm)?;
        Ok(algorithm)
    }
}

fn name(plan: &Plan) -> Checked {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &plan.name;
    let good = !name.is_empty() && name.len() <= 80 && name.chars().all(plain);
    let what = format!("'{name}' cannot name a report");
    refuse_if(!good, "name", what, "small letters, digits and '-', at most 80")
}

/// Refuses settings of files that do not fit the persistence of the nodes.
fn files(plan: &Plan) -> Checked {
    let (kept, files) = (plan.topology.persistence, &plan.topology.files);
    let numbers: Option<Vec<u64>> =
        files.save.split_whitespace().map(|word| word.parse().ok()).collect();
    let pairs = numbers.is_some_and(|n| n.len().is_multiple_of(2) && n.iter().all(|n| *n > 0));
    let what = format!("'{}' is not a list of seconds and changes", files.save);
    refuse_if(!pairs, "topology.save", what, "\"60 1\": after 60 seconds if 1 key changed")?;
    let saves = !files.save.is_empty() || files.save_time > 0;
    let what = "save points belong to nodes that save all keys";
    refuse_if(saves && kept != Persistence::Rdb, "topology.save", what, "persistence = \"rdb\"")?;
    let what = "the nodes have no files to read";
    let reads = files.load_time > 0 && kept == Persistence::None;
    refuse_if(reads, "topology.load_time", what, "set persistence in [topology]")?;
    let appends = !matches!(kept, Persistence::None | Persistence::Rdb);
    let what = "the nodes have no append-only file that could be torn";
    let place = "topology.aof_load_truncated";
    refuse_if(files.refuse_torn && !appends, place, what, "persistence = \"aof-everysec\"")?;
    in_reach("topology.load_time", files.load_time)?;
    in_reach("topology.save_time", files.save_time)
}

/// Refuses a master that needs more replicas than exist: it would never accept a write.
fn min_replicas(plan: &Plan) -> Checked {
    let Some(least) = &plan.topology.min_replicas else { return Ok(()) };
    let replicas = plan.topology.replicas();
    let what = format!("a master with {replicas} replicas would never have {}", least.to_write);
    let instead = if replicas == 0 {
        "kind = \"replicated\" or \"sentinel\"".to_owned()
    } else {
        format!("from 1 to {replicas}")
    };
    let wrong = least.to_write == 0 || least.to_write > replicas;
    refuse_if(wrong, "topology.min_replicas", what, &instead)?;
    let place = "topology.min_replicas_lag";
    in_reach(place, least.max_lag)?;
    let odd = least.max_lag == 0 || !least.max_lag.is_multiple_of(SECOND);
    refuse_if(odd, place, "Redis counts this lag in whole seconds", "a multiple of 1s")
}

/// Refuses priorities that nobody reads, or of nodes that do not exist.
fn priorities(plan: &Plan) -> Checked {
    let place = "topology.replica_priority";
    let priorities = &plan.topology.priorities;
    let unread = !priorities.is_empty() && plan.topology.kind != TopologyKind::Sentinel;
    refuse_if(unread, place, "only Sentinels read priorities", "kind = \"sentinel\"")?;
    let unknown = priorities.keys().find(|name| !plan.nodes().contains(name));
    let what = format!("there is no node '{}'", unknown.map_or("", String::as_str));
    refuse_if(unknown.is_some(), place, what, "name a node: 'n2'")?;
    let most = i32::MAX.unsigned_abs();
    let large = priorities.values().any(|number| *number > most);
    refuse_if(large, place, "a priority that Redis does not take", &format!("0 to {most}"))
}

fn topology(plan: &Plan) -> Checked {
    files(plan)?;
    min_replicas(plan)?;
    let (place, nodes) = ("topology.nodes", plan.topology.nodes);
    let counted = |n: u32| format!("{n} node{}", if n == 1 { "" } else { "s" });
    match plan.topology.kind {
        TopologyKind::Single => {
            let what = format!("a single topology cannot have {}", counted(nodes));
            refuse_if(nodes != 1, place, what, "1, or kind = \"replicated\" or \"independent\"")?;
        }
        TopologyKind::Replicated | TopologyKind::Sentinel => {
            let what = format!("{} cannot be a master with replicas", counted(nodes));
            refuse_if(nodes < 2, place, what, "at least 2")?;
        }
        TopologyKind::Cluster => cluster(plan)?,
        TopologyKind::Independent => {
            refuse_if(nodes == 0, place, "a lock needs a node", "at least 1")?;
            let replicas = plan.topology.replicas_each;
            let even = nodes.is_multiple_of(replicas.saturating_add(1));
            let what = format!("{nodes} nodes are no even number of masters with {replicas}");
            refuse_if(!even, "topology.replicas_each", what, "as many for each")?;
        }
    }
    let instead = format!("at most {MAX_NODES}");
    refuse_if(nodes > MAX_NODES, place, format!("{nodes} nodes are too many"), &instead)?;
    let odd = plan.topology.shards.is_some() && plan.topology.kind != TopologyKind::Cluster;
    refuse_if(odd, "topology.shards", "there are no slots to share", "kind = \"cluster\"")?;
    let place = "topology.sentinels";
    match (plan.topology.kind, &plan.topology.sentinels) {
        (TopologyKind::Sentinel, Some(sentinels)) => watch(sentinels),
        (TopologyKind::Sentinel, None) => {
            refuse_if(true, place, "no Sentinel watches the master", "add them")
        }
        (_, sentinels) => {
            let what = "there is nothing for Sentinels to do";
            refuse_if(sentinels.is_some(), place, what, "kind = \"sentinel\"")
        }
    }
}

/// Refuses Sentinels that could never agree, and times with which Sentinels cannot be configured.
fn watch(sentinels: &Sentinels) -> Checked {
    let (count, quorum) = (sentinels.count, sentinels.quorum);
    let instead = format!("from 1 to {MAX_NODES}");
    let wrong = count == 0 || count > MAX_NODES;
    refuse_if(wrong, "topology.sentinels", format!("{count} Sentinels cannot watch"), &instead)?;
    let what = format!("a quorum of {quorum} of {count} Sentinels");
    let instead = format!("from 1 to {count}");
    refuse_if(quorum == 0 || quorum > count, "topology.quorum", what, &instead)?;
    let none = sentinels.parallel_syncs == 0;
    let what = "no replica would ever follow the new master";
    refuse_if(none, "topology.parallel_syncs", what, "at least 1")?;
    let who = "Sentinels";
    in_whole_ms("topology.down_after", sentinels.down_after, who)?;
    in_whole_ms("topology.failover_timeout", sentinels.failover_timeout, who)
}

/// Refuses a length that is not in whole milliseconds, for a setting in milliseconds.
fn in_whole_ms(place: &str, length: Nanos, who: &str) -> Checked {
    in_reach(place, length)?;
    let whole = length > 0 && length.is_multiple_of(MILLISECOND);
    let what = format!("{who} count in whole milliseconds");
    refuse_if(!whole, place, what, "a multiple of 1ms, above 0s")
}

/// Refuses a cluster without masters, replicas that cannot be divided evenly, and a timeout with
/// which nodes cannot be configured.
fn cluster(plan: &Plan) -> Checked {
    let nodes = plan.topology.nodes;
    let Some(shards) = &plan.topology.shards else {
        return refuse_if(true, "topology.shards", "no node serves the slots", "add them");
    };
    let masters = shards.masters;
    let what = "a cluster needs a master for its slots";
    refuse_if(masters == 0, "topology.nodes", what, "at least 1")?;
    let what = format!("{nodes} nodes are too few for {masters} masters");
    refuse_if(nodes < masters, "topology.nodes", what, &format!("at least {masters}"))?;
    let what = format!("{nodes} nodes are no even number of replicas for {masters} masters");
    refuse_if(!nodes.is_multiple_of(masters), "topology.nodes", what, "as many for each")?;
    in_whole_ms("topology.node_timeout", shards.node_timeout, "nodes")
}

fn known_lock<'a>(plan: &Plan, locks: &'a Locks) -> Result<&'a Algorithm, Refusal> {
    let name = &plan.lock.algorithm;
    locks.find(name).ok_or_else(|| {
        let what = format!("there is no lock '{name}'");
        let instead = one_of(name, &locks.names());
        Refusal::new(what, instead).on(Place::Field("lock.algorithm".to_owned()))
    })
}

fn known_workload(plan: &Plan, locks: &Locks) -> Checked {
    let WorkloadKind::Own(name) = &plan.workload.kind else { return Ok(()) };
    let known = locks.workload_names();
    let what = format!("there is no workload '{name}'");
    let instead = one_of(name, &known);
    refuse_if(!known.contains(&name.as_str()), "workload.kind", what, &instead)
}

fn workload(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let work = &plan.workload;
    refuse_if(work.clients == 0, "workload.clients", "no client uses the lock", "at least 1")?;
    let instead = format!("at most {MAX_CLIENTS}");
    let many = work.clients > MAX_CLIENTS;
    refuse_if(many, "workload.clients", "these are too many clients", &instead)?;
    let place = "workload.callers";
    refuse_if(work.callers == 0, place, "no caller uses the lock", "at least 1")?;
    let many = work.all_callers() > MAX_CLIENTS;
    let instead = format!("at most {MAX_CLIENTS} callers of all clients together");
    refuse_if(many, place, "these are too many callers", &instead)?;
    let rounds = work.rounds == 0 || work.rounds > MAX_ROUNDS;
    refuse_if(rounds, "workload.rounds", format!("{} rounds", work.rounds), "from 1 to 1000000")?;
    for (place, length, least) in [
        ("workload.hold", work.hold, 0),
        ("workload.rest", work.rest, 0),
        ("workload.retry", work.retry, MIN_RETRY),
        ("workload.timeout", work.timeout, MILLISECOND),
        ("workload.stagger", work.stagger, 0),
    ] {
        in_reach(place, length)?;
        let instead = format!("at least {}", length::write(least));
        refuse_if(length < least, place, "this is too short", &instead)?;
    }
    fits(plan, algorithm)?;
    period(work)?;
    window(work)?;
    segments(plan, algorithm)?;
    let items = (0..=1_000_000_000).contains(&work.items);
    refuse_if(!items, "workload.items", "a stock cannot be that large", "from 0 to 1000000000")?;
    fence(plan, algorithm)
}

/// Refuses a workload that says nothing about this lock.
fn fits(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let (place, kind, name) = ("workload.kind", &plan.workload.kind, algorithm.name);
    let is_latch = name == latch::NAME;
    let is_other = *kind == WorkloadKind::Latch && !is_latch && !is_own(name);
    let what = format!("{name} is no latch");
    refuse_if(is_other, place, what, "kind = \"counter\", or take the lock 'latch'")?;
    let what = "a latch keeps nobody out, so nothing would guard this resource";
    refuse_if(is_latch && kind.needs_one_holder(), place, what, "kind = \"latch\"")?;
    let holders = algorithm.holders(&plan.lock);
    let what = format!("{name} lets {holders} in at once, so nothing would guard this resource");
    let is_shared = holders > 1 && kind.needs_one_holder();
    refuse_if(is_shared, place, what, "kind = \"semaphore\"")?;
    let may_tell = algorithm.renews || is_own(name);
    let is_untold = !may_tell && plan.workload.extend == Extend::Never;
    let what = format!("{name} does not renew, and nobody extends: no loss would be noticed");
    let ignores = plan.workload.buggy_caller == BuggyCaller::IgnoresLoss;
    let instead = "extend = \"1/2\", or take token-lua-renewed";
    refuse_if(ignores && is_untold, "workload.buggy_caller", what, instead)
}

/// Refuses a schedule without a period, and a period of another workload.
fn period(work: &Workload) -> Checked {
    let (place, is_scheduled) = ("workload.period", work.kind == WorkloadKind::Schedule);
    in_reach(place, work.period)?;
    let what = "a schedule needs the length of its periods";
    let is_missing = is_scheduled && work.period == 0;
    refuse_if(is_missing, "workload.kind", what, "add period = \"10s\"")?;
    let what = "only a schedule has periods";
    let instead = "remove it, or kind = \"schedule\"";
    refuse_if(!is_scheduled && work.period > 0, place, what, instead)?;
    let instead = format!("at least {}", length::write(MIN_PERIOD));
    refuse_if(is_scheduled && work.period < MIN_PERIOD, place, "this is too short", &instead)
}

/// Refuses a rate limit without a window, and a window of another workload.
fn window(work: &Workload) -> Checked {
    let (place, limits) = ("workload.window", work.kind.is_rate_limit());
    in_reach(place, work.window)?;
    let what = "a rate limit needs the length for which its counter lives";
    refuse_if(limits && work.window == 0, "workload.kind", what, "add window = \"10s\"")?;
    let what = "only a rate limit has a window";
    let instead = "remove it, or kind = \"rate-limit\"";
    refuse_if(!limits && work.window > 0, place, what, instead)
}

/// Refuses a stock in segments that is in none or that its lock cannot guard, and segments of
/// another workload.
fn segments(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let work = &plan.workload;
    let is_divided = work.kind == WorkloadKind::StockSegments;
    let place = "workload.segments";
    let what = "a stock in segments needs their number";
    let is_missing = is_divided && work.segments == 0;
    refuse_if(is_missing, "workload.kind", what, "add segments = 3")?;
    let what = format!("a stock in {} segments", work.segments);
    let is_odd = is_divided && !(2..=MAX_SEGMENTS).contains(&work.segments);
    refuse_if(is_odd, place, what, &format!("from 2 to {MAX_SEGMENTS}"))?;
    let what = "only a stock in segments has segments";
    let instead = "remove it, or kind = \"stock-segments\"";
    refuse_if(!is_divided && work.segments > 0, place, what, instead)?;
    let what = "there are no segments that a caller could leave out";
    let looks_at_one = work.buggy_caller == BuggyCaller::OneSegment;
    let instead = "remove it, or kind = \"stock-segments\" with segments = 3";
    refuse_if(looks_at_one && !is_divided, "workload.buggy_caller", what, instead)?;
    // The queue does not depend on the work.
    let promise = algorithm.promises(&plan.lock, Work::default());
    let others = algorithm.groups || algorithm.shares || promise.queue.is_some();
    let what = format!("{} takes its lock in other ways than one key at a time", algorithm.name);
    refuse_if(is_divided && others, "workload.kind", what, "kind = \"counter\"")
}

fn fence(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let compares =
        matches!(plan.workload.fence, FenceMode::RejectSmaller | FenceMode::RejectSmallerOrEqual);
    let what = format!("{} gives no number that the resource could check", algorithm.name);
    let instead = "take the lock 'fenced', or fence = \"compare-and-set\"";
    refuse_if(compares && !algorithm.fences, "workload.fence", what, instead)
}

fn links(plan: &Plan) -> Checked {
    latency("links.latency", &plan.links.latency)?;
    let instead = format!("at most {MAX_LOSS} in a million");
    let loss = plan.links.loss_per_million > MAX_LOSS;
    refuse_if(loss, "links.loss", "nothing would ever arrive", &instead)?;
    for (link, length) in &plan.links.named {
        let place = format!("links.named.{link}");
        let target = Target::try_from(link.clone());
        let Some((from, to)) = target.as_ref().ok().and_then(one_link) else {
            let what = format!("'{link}' is not a link");
            return refuse_if(true, &place, what, "write 'c1 -> n1'");
        };
        known_host(plan, &place, from)?;
        known_host(plan, &place, to)?;
        let written = format!("{from} -> {to}");
        refuse_if(*link != written, &place, "links have one spelling", &written)?;
        refuse_if(from == to, &place, "a link joins two hosts", "name another host")?;
        latency(&place, length)?;
    }
    Ok(())
}

fn one_link(target: &Target) -> Option<(&str, &str)> {
    match target {
        Target::Links { from, to, both: false } => match (from.as_slice(), to.as_slice()) {
            ([from], [to]) => Some((from, to)),
            _ => None,
        },
        _ => None,
    }
}

fn latency(place: &str, latency: &Latency) -> Checked {
    match *latency {
        Latency::Constant(length) => in_reach(place, length),
        Latency::Uniform { min, max } => {
            let what = format!("{} is above {}", length::write(min), length::write(max));
            refuse_if(min > max, place, what, "the smaller first")?;
            in_reach(place, max)
        }
        Latency::Exponential { mean } => in_reach(place, mean),
        Latency::LongTail { median } => in_reach(place, median),
    }
}

fn clocks(plan: &Plan) -> Checked {
    for (host, setting) in &plan.clocks {
        let place = format!("clocks.{host}");
        known_host(plan, &place, host)?;
        in_reach(&format!("{place}.wall_offset"), setting.wall_offset.unsigned_abs())?;
        rate(&format!("{place}.rate_ppm"), setting.rate_ppm)?;
    }
    Ok(())
}

fn times(plan: &Plan) -> Checked {
    in_reach("heal_at", plan.heal_at)?;
    in_reach("until", plan.until)?;
    refuse_if(plan.heal_at == 0, "heal_at", "nothing would happen before the heal", "above 0s")?;
    let probed = plan.heal_at + plan.longest_ttl() + PROBE_MARGIN;
    let what = "the run ends before the probe's time is over";
    let instead = format!(
        "at least {}: heal_at, the longest ttl and {}",
        length::write(probed),
        length::write(PROBE_MARGIN)
    );
    refuse_if(plan.until < probed, "until", what, &instead)?;
    let what = format!("c{} would start after the heal", plan.workload.clients);
    let is_late = plan.workload.last_start() >= plan.heal_at;
    refuse_if(is_late, "workload.stagger", what, "a shorter stagger")
}
