//! The only place that joins world and locks: a plan goes in, a history and a trace come out.
//!
//! A run has two phases. In the first, the clients work while faults strike. In the second, all
//! faults are healed, the clients are stopped, and a probe must acquire the lock.

pub mod address;
pub mod contacts;
pub mod environment;
pub mod evidence;
mod key_changes;
pub mod nodes;
pub mod sentinels;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use lockstorm_platform::fault::HostNames;
use lockstorm_platform::host::HostMutex;
use lockstorm_platform::time::{Instant, MILLISECOND, Nanos};
use lockstorm_platform::trace::exchange::Exchange;
use lockstorm_platform::trace::{Digest, Entry, Trace};
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::World;
use lockstorm_world::world::remains::Remains;
use lockstorm_world::world::spec::WorldSpec;

use crate::check::own::{Check, OwnChecks};
use crate::check::terms::{Invariant, Terms};
use crate::history::{History, Missed, PROBE};
use crate::ledger::overwork::works;
use crate::ledger::site::Site;
use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::latch::parties;
use crate::lock::catalogue::Locks;
use crate::lock::config::LockConfig;
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::{Plan, WorkloadKind};
use crate::promise::Promise;
use crate::run::contacts::contacted_nodes;
use crate::run::environment::{Environment, Simulated, spec};
use crate::run::evidence::{Gathering, Step};
use crate::workload::critical_section::CriticalSection;
use crate::workload::progress::RunProgress;
use crate::workload::recorder::Recorder;
use crate::workload::sections::Sections;
use crate::workload::{Job, slowest_access, work};

/// The result of a run.
#[derive(Clone)]
pub struct Run {
    /// All that a checker may see.
    pub history: History,
    /// The number of records in the trace, and the hash over them.
    pub trace: Digest,
    /// The named points that locks passed, in order.
    pub steps: Vec<Step>,
    /// Every record as a line, if the trace was kept whole.
    pub lines: Vec<String>,
    /// The words and the reply of requests, by their index in the history, if nodes recorded them.
    pub exchanges: BTreeMap<usize, Exchange>,
}

/// What plans are run with: the engine, and the locks that plans may name.
#[derive(Clone, Debug, Default)]
pub struct Lab {
    /// The engine that drives the worlds.
    pub engine: EngineKind,
    /// Whether all durations are whole milliseconds, as every engine except `event` requires: only
    /// then can two engines be compared.
    pub whole_ms: bool,
    /// The catalogue, and the user's own locks.
    pub locks: Locks,
    /// What clients do under the lock in the user's own workloads.
    pub sections: Sections,
    /// The user's own checks.
    pub checks: OwnChecks,
    /// The progress of runs, visible from outside.
    pub progress: RunProgress,
    /// The faults that need not strike anything, by number.
    pub excused: BTreeSet<u32>,
}

impl Lab {
    /// The event engine in whole milliseconds, comparable with turmoil.
    pub fn event_in_ms() -> Lab {
        Lab { engine: EngineKind::Event, whole_ms: true, ..Lab::default() }
    }

    /// The turmoil engine.
    #[cfg(feature = "turmoil")]
    pub fn turmoil() -> Lab {
        Lab::default().on_turmoil()
    }

    /// The same lab on the turmoil engine.
    #[cfg(feature = "turmoil")]
    pub(crate) fn on_turmoil(self) -> Lab {
        Lab { engine: EngineKind::Turmoil, whole_ms: true, ..self }
    }

    /// The lab that runs a plan again to explain it. It uses the event engine, which is the fastest
    /// one and gives the same result, unless the lock needs a tokio runtime.
    pub fn quick(&self, plan: &Plan) -> Lab {
        let needs_tokio = self.locks.find(&plan.lock.algorithm).is_some_and(|lock| lock.runs_tokio);
        let engine = if needs_tokio { self.engine } else { EngineKind::Event };
        Lab { engine, ..self.clone() }
    }

    /// The same lab for experiments with a plan in whose own run these faults struck nothing. The
    /// experiments are compared with that run, so these faults must not make them untested.
    #[must_use]
    pub fn excusing(self, faults: BTreeSet<u32>) -> Lab {
        Lab { excused: faults, ..self }
    }

    /// The same lab with a user's own lock in addition. A lock that runs tokio's tasks moves the
    /// lab to the turmoil engine.
    ///
    /// # Panics
    /// If a lock of this name exists, or it needs an engine that is not built in.
    #[must_use]
    #[track_caller]
    pub fn with_lock(self, own: Algorithm) -> Lab {
        let lab = if own.runs_tokio { self.with_tokio(own.name) } else { self };
        Lab { locks: lab.locks.with(own), ..lab }
    }

    /// The same lab with a user's own workload in addition.
    ///
    /// # Panics
    /// If a workload of this name exists.
    #[must_use]
    #[track_caller]
    pub fn with_workload(self, name: &'static str, own: impl CriticalSection + 'static) -> Lab {
        let (locks, sections) = (self.locks.with_workload(name), self.sections.with(name, own));
        Lab { locks, sections, ..self }
    }

    /// The same lab with a user's own check in addition: it judges every run.
    ///
    /// # Panics
    /// As [`OwnChecks::with`].
    #[must_use]
    #[track_caller]
    pub fn with_check(self, name: &'static str, own: impl Check + 'static) -> Lab {
        Lab { checks: self.checks.with(name, own), ..self }
    }

    #[cfg(feature = "turmoil")]
    fn with_tokio(self, _: &str) -> Lab {
        self.on_turmoil()
    }

    #[cfg(not(feature = "turmoil"))]
    #[track_caller]
    fn with_tokio(self, lock: &str) -> Lab {
        panic!("'{lock}' runs tokio's tasks: build lockstorm with its feature 'turmoil'")
    }

    /// Runs a plan with the lock that it names.
    ///
    /// # Panics
    /// If the plan is not valid: see [`Plan::validate_with`].
    pub fn run(&self, plan: &Plan) -> Run {
        run_on(&mut self.simulated(plan), self, plan, false)
    }

    /// Like [`Lab::run`], and keeps a line for every record of the trace.
    pub fn run_whole(&self, plan: &Plan) -> Run {
        run_on(&mut self.simulated(plan), self, plan, true)
    }

    /// Like [`Lab::run`], and nodes record every request with its reply.
    pub fn run_with_exchanges(&self, plan: &Plan) -> Run {
        let mut aloud = Simulated { reports_exchanges: true, ..self.simulated(plan) };
        run_on(&mut aloud, self, plan, false)
    }

    /// The trace of a run of a plan: its length and its hash. Panics as [`Lab::run`] does.
    pub fn trace(&self, plan: &Plan) -> Digest {
        live(&mut self.simulated(plan), self, plan, false, &mut |_, _| {}).remains.trace.digest()
    }

    fn simulated(&self, plan: &Plan) -> Simulated {
        let promise = self.promise(plan);
        let has_members = promise.holders > 1 || promise.queue.is_some();
        let reports_members = has_members || self.algorithm(plan).shares;
        Simulated { reports_members, reports_exchanges: false }
    }

    /// The promise of a plan's lock.
    ///
    /// # Panics
    /// If it allows no holder: at least one client must be able to hold a lock.
    pub fn promise(&self, plan: &Plan) -> Promise {
        let algorithm = self.algorithm(plan);
        let work = work(plan);
        let promise = algorithm.promises(&plan.lock, work);
        assert!(
            promise.holders > 0,
            "the promise of lock '{}' lets nobody hold it",
            algorithm.name
        );
        promise
    }

    /// How long a client of a plan waits for the reply to a request: the lock's setting or its
    /// default, ns.
    pub fn timeout(&self, plan: &Plan) -> Nanos {
        self.algorithm(plan).choices(&plan.lock).timeout
    }

    /// The default timeout of requests of a plan's lock, ns.
    pub fn default_timeout(&self, plan: &Plan) -> Nanos {
        let config = LockConfig { timeout: None, ..plan.lock.clone() };
        self.algorithm(plan).choices(&config).timeout
    }

    /// The terms by which the history of a plan is judged.
    pub fn terms(&self, plan: &Plan) -> Terms {
        let promise = self.promise(plan);
        let keys = self.keys(plan);
        let takes_groups = self.algorithm(plan).groups;
        let queried = contacted_nodes(plan, self.algorithm(plan)).len();
        // Each key of a group is on one node.
        let queried = if takes_groups { 1 } else { queried };
        let queried = u32::try_from(queried).expect("a plan has few nodes");
        let items = plan.workload.items;
        Terms {
            lock_key: plan.lock.key.clone(),
            holders: if promise.unguarded { u32::MAX } else { promise.holders },
            reports_loss: promise.reports_loss,
            model: promise.model,
            ttl: plan.lock.ttl,
            longest_ttl: plan.longest_ttl(),
            kept: promise.kept,
            invariant: match plan.workload.kind {
                WorkloadKind::Semaphore if !takes_groups => {
                    Invariant::Inside { most: promise.holders }
                }
                WorkloadKind::Latch => Invariant::Latch { parties: parties(&plan.lock) },
                // The groups of several callers may have no key in common.
                ref kind if kind.needs_one_holder() && takes_groups => Invariant::None,
                // Each segment has its own.
                WorkloadKind::StockSegments => Invariant::None,
                WorkloadKind::Counter => Invariant::Counter,
                WorkloadKind::Stock => Invariant::Stock { items },
                WorkloadKind::StockGetDecr | WorkloadKind::StockScript => {
                    Invariant::Within { least: Some(0), most: None }
                }
                WorkloadKind::StockDecr => Invariant::Taken { items },
                WorkloadKind::CheckThenIncr => Invariant::Within { least: None, most: Some(items) },
                WorkloadKind::RateLimit | WorkloadKind::RateLimitTestFirst => {
                    Invariant::Passed { most: items, ends: None }
                }
                WorkloadKind::RateLimitThreeSteps => {
                    Invariant::Passed { most: items, ends: Some(plan.workload.window) }
                }
                WorkloadKind::AppendLog => Invariant::AppendLog,
                WorkloadKind::Schedule => Invariant::Schedule,
                // A check of one's own knows what the resource must be like.
                WorkloadKind::Own(_) | WorkloadKind::Semaphore => Invariant::None,
            },
            contends: !promise.unguarded,
            faults: self.to_strike(plan),
            reenters: plan.workload.reenter,
            site: Site {
                nodes: plan.nodes(),
                sentinels: plan.sentinels(),
                quorum: plan.lock.quorum.unwrap_or(queried / 2 + 1),
                queried,
                message: slowest_access(&plan.links),
                works: works(plan),
                misuses: plan.workload.buggy_caller != BuggyCaller::None,
                assumes: promise.assumes,
            },
            grants_without_faults: None,
            is_drawn: plan.is_drawn,
            queue: promise.queue,
            fences: self.algorithm(plan).fences,
            keys,
            segments: (1..=plan.workload.segments).map(|n| plan.workload.items_of(n)).collect(),
        }
    }

    /// The keys that are locks of their own: those of which callers of a plan acquire groups, or
    /// those of segments; none if there is only the lock's key.
    fn keys(&self, plan: &Plan) -> Vec<String> {
        match self.algorithm(plan).groups {
            true => plan.lock.group_keys(),
            false => plan.lock.keys(plan.workload.segments),
        }
    }

    /// The faults of a plan that must strike something, by number.
    fn to_strike(&self, plan: &Plan) -> Vec<u32> {
        let faults = plan.faults.iter().map(|fault| fault.id);
        faults.filter(|fault| !self.excused.contains(fault)).collect()
    }

    /// What clients do under the lock in a plan.
    ///
    /// # Panics
    /// If the lab does not contain it.
    fn section(&self, plan: &Plan) -> Arc<dyn CriticalSection> {
        let found = self.sections.find(&plan.workload.kind);
        found.unwrap_or_else(|| panic!("a valid plan names a workload: {:?}", plan.workload.kind))
    }

    /// The lock that a plan names.
    ///
    /// # Panics
    /// If the lab does not contain it.
    pub fn algorithm(&self, plan: &Plan) -> &Algorithm {
        let found = self.locks.find(&plan.lock.algorithm);
        found.unwrap_or_else(|| panic!("a valid plan names a lock: '{}'", plan.lock.algorithm))
    }
}

/// Runs a plan in an environment.
///
/// # Panics
/// As [`Lab::run`].
pub fn run_on(environment: &mut dyn Environment, lab: &Lab, plan: &Plan, whole_trace: bool) -> Run {
    let mut gathering = Gathering::new(plan, (lab.promise(plan).queue, lab.keys(plan)));
    let take = &mut |names: &HostNames, entries: &[Entry]| gathering.take(names, entries);
    let Lived { remains, healed, recorder } = live(environment, lab, plan, whole_trace, take);
    let mut recorded = History::default();
    recorder.fill(&mut recorded);
    let evidence = gathering.end(&remains, &recorded.ops);
    let history = History {
        keys: evidence.keys,
        fault_intervals: evidence.fault_intervals,
        requests: evidence.requests,
        named: evidence.named,
        clocks: evidence.clocks,
        sightings: evidence.sightings,
        missed: remains.missed.map(|missed| Missed { lost: missed.lost, cut: missed.cut }),
        shares: lab.algorithm(plan).shares,
        healed: Some(healed),
        end: remains.end,
        ..recorded
    };
    let (trace, lines) = (remains.trace.digest(), lines(&remains.trace));
    Run { history, trace, steps: evidence.steps, lines, exchanges: evidence.exchanges }
}

/// A world that has run to its end.
struct Lived {
    remains: Remains,
    healed: Instant,
    recorder: Recorder,
}

/// Runs a plan to its end. `take` receives the records on the way, so that none has to be kept; the
/// last ones are in what remains.
fn live(
    environment: &mut dyn Environment,
    lab: &Lab,
    plan: &Plan,
    whole_trace: bool,
    take: &mut dyn FnMut(&HostNames, &[Entry]),
) -> Lived {
    let algorithm = lab.algorithm(plan);
    let running = lab.progress.enter(plan);
    let (recorder, stop) = (Recorder::default(), Rc::new(Cell::new(false)));
    let job = Job {
        workload: plan.workload.clone(),
        lock: Rc::new(algorithm.build),
        config: algorithm.filled(&plan.lock),
        nodes: contacted_nodes(plan, algorithm),
        shares: algorithm.shares,
        keys: lab.keys(plan),
        takes_groups: algorithm.groups,
        recorder: recorder.clone(),
        stop: Rc::clone(&stop),
        mutex: HostMutex::default(),
        pulse: running.pulse(),
    };
    let (engine, whole_ms) = (lab.engine, lab.whole_ms);
    let spec = spec(environment, plan, &job, &lab.section(plan));
    let mut world = environment.world(WorldSpec { engine, whole_ms, whole_trace, ..spec });
    pass(environment, &mut world, take, plan.heal_at);
    // Set before the heal, so that no client begins a round in the phase of the probe.
    stop.set(true);
    let healed = world.heal(plan.topology.keep_down);
    world.start(PROBE);
    pass(environment, &mut world, take, plan.until);
    Lived { remains: world.finish(), healed, recorder }
}

/// How long a world runs before its records are taken: so few that they are still in the cache of
/// the processor.
const STRETCH: Nanos = 100 * MILLISECOND;

/// Runs the world until true time `limit`, a stretch at a time.
fn pass(
    environment: &mut dyn Environment,
    world: &mut World,
    take: &mut dyn FnMut(&HostNames, &[Entry]),
    limit: Nanos,
) {
    let mut entries = Vec::new();
    while world.now() < limit {
        let next = limit.min(world.now().saturating_add(STRETCH));
        environment.pass(world, next);
        world.drain(&mut entries);
        take(world.names(), &entries);
        // The environment was interrupted.
        if world.now() < next {
            return;
        }
    }
}

fn lines(trace: &Trace) -> Vec<String> {
    let line = |line: &lockstorm_platform::trace::TraceLine| {
        format!("{} at {} ns: {}", line.instant.seq, line.instant.at, line.text)
    };
    trace.lines().unwrap_or_default().iter().map(line).collect()
}
