//! How many whole Redlock runs a second one core handles: bytes, codec, Lua, hash and check all on.
//!
//! Five nodes, three clients that want one lock of 10 s, hold it for 1 s and retry after up to 200
//! ms. They contend for 30 simulated seconds; then the heal and the probe, as in every run. Ends
//! with one plain line.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time and memory")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use lockstorm::check::verdict::Verdict;
use lockstorm::explore::trial::{Trial, attempt};
use lockstorm::lock::config::LockConfig;
use lockstorm::plan::buggy_caller::BuggyCaller;
use lockstorm::plan::extend::Extend;
use lockstorm::plan::{
    FORMAT, FenceMode, FenceOn, Links, Plan, Topology, TopologyKind, Workload, WorkloadKind,
};
use lockstorm::run::Lab;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, SECOND};
use lockstorm_platform::trace::Leg;

const ROUNDS: usize = 5;
const RUNS: u32 = 100;

fn main() {
    let warm = attempt(&Lab::default(), &plan(0));
    let before = peak_kib();
    let mut figures: Vec<f64> = (0..ROUNDS).map(|round| round_of_runs(1 + round as u64)).collect();
    figures.sort_by(f64::total_cmp);
    let runs = figures[ROUNDS / 2];
    let (commands, ops) = (commands(&warm), warm.run.history.ops.len());
    println!("a run: {commands} commands, {ops} operations, {} records", warm.run.trace.records);
    println!("rounds of {RUNS} runs, runs a second: {figures:.1?}");
    println!("peak memory of the process: {before} KiB after one run, {} at the end", peak_kib());
    println!(
        "redlock-30s runs={runs:.1} commands={:.0} ops={:.0} peak_mib={:.1}",
        runs * commands as f64,
        runs * ops as f64,
        peak_kib() as f64 / 1024.0
    );
}

/// Runs a second of real time over [`RUNS`] seeds that no other round uses.
fn round_of_runs(round: u64) -> f64 {
    let start = Instant::now();
    for seed in 0..u64::from(RUNS) {
        let trial = attempt(&Lab::default(), &plan(round * u64::from(RUNS) + seed));
        assert_eq!(trial.judgement.verdict, Verdict::Holds, "nothing breaks here");
    }
    f64::from(RUNS) / start.elapsed().as_secs_f64()
}

/// Requests that a node or the resource executed.
fn commands(trial: &Trial) -> usize {
    let legs = trial.run.history.requests.iter().flat_map(|request| &request.legs);
    legs.filter(|(leg, _)| *leg == Leg::Applied).count()
}

/// The peak memory of the process, in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

fn plan(seed: u64) -> Plan {
    let plan = Plan {
        format: FORMAT,
        name: "redlock-30s".to_owned(),
        seed,
        topology: Topology::plain(TopologyKind::Independent, 5),
        lock: LockConfig {
            algorithm: "redlock".to_owned(),
            key: "lock".to_owned(),
            ttl: Some(10 * SECOND),
            retry: Some(200 * MILLISECOND),
            ..LockConfig::default()
        },
        workload: workload(),
        links: Links {
            latency: Latency::Uniform { min: MILLISECOND, max: 5 * MILLISECOND },
            named: BTreeMap::new(),
            loss_per_million: 0,
        },
        clocks: BTreeMap::new(),
        faults: Vec::new(),
        is_drawn: false,
        draws: BTreeMap::new(),
        heal_at: 30 * SECOND,
        until: 45 * SECOND,
    };
    plan.validate().expect("the plan makes sense");
    plan
}

fn workload() -> Workload {
    Workload {
        kind: WorkloadKind::Counter,
        clients: 3,
        callers: 1,
        rounds: 1_000,
        hold: SECOND,
        rest: 0,
        retry: 200 * MILLISECOND,
        fence: FenceMode::None,
        fence_on: FenceOn::All,
        check_validity: true,
        items: 0,
        segments: 0,
        window: 0,
        timeout: SECOND,
        period: 0,
        stagger: 0,
        extend: Extend::Never,
        reenter: false,
        buggy_caller: BuggyCaller::None,
    }
}
