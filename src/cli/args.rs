//! The arguments of the command line. Their words are those of scenarios; the parser refuses
//! others.

#[cfg(feature = "live")]
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use lockstorm_platform::fault::verbs;
use lockstorm_platform::time::Nanos;
#[cfg(feature = "live")]
use lockstorm_redis::compat::Compat;

use crate::cli::args::configured::Configured;
use crate::cli::values::{REPORTS, budget, length, locks, shard, trace_hash, words};
use crate::hunt::campaign::shard::Choice;
use crate::hunt::strategy::WORDS;
use crate::run::Lab;
use crate::scenario::seed_range;
#[cfg(feature = "live")]
use crate::scenario::tables::PERSISTENCES;
use crate::scenario::tables::TOPOLOGIES;

pub mod configured;
pub mod matrix;
pub mod review;

/// The folder that the main job reads.
pub const SCENARIOS: &str = "scenarios";

/// Breaks Redis locks on purpose, and explains how.
///
/// Without a command: runs every scenario in scenarios/, writes reports/ and prints the table.
///
/// Exit codes: 0 held or as expected, 1 violated or not as expected, 2 unknown, 3 bad input,
/// 70 two runs of one plan differ or a lock never returns.
#[derive(Debug, Parser)]
#[command(version, name = "lockstorm", disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// Engine that runs the worlds of the main job; only `event` writes reports
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineChoice,
    /// The command.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run scenarios and compare the results with their expectations
    Run(RunArguments),
    /// Run a saved plan again
    Replay(ReplayArguments),
    /// Explain why a plan or a scenario is violated: mechanism, causes, thresholds
    Explain(ExplainArguments),
    /// Find the values of figures at which a plan or a scenario changes its verdict, to 1 ms
    Threshold(ThresholdArguments),
    /// Search seeded random plans for violations; group and shrink them
    Hunt(Box<HuntArguments>),
    /// Join the logs of hunt --shard, and report what all shards found
    Merge(MergeArguments),
    /// Try locks against every family of faults, and print what held
    Matrix(matrix::MatrixArguments),
    /// Review a lock as it is configured: what it promises, what breaks it and what heals that
    Review(Box<review::ReviewArguments>),
    /// Serve fake nodes on real ports to any client, with faults typed at run time
    #[cfg(feature = "live")]
    Serve(ServeArguments),
    /// Run plans on real redis-servers, and compare
    #[cfg(feature = "live")]
    Confirm(ConfirmArguments),
    /// Start a project of your own from a template
    New {
        /// What to start.
        #[command(subcommand)]
        what: New,
    },
    /// List the words that scenarios may use, or the scenarios
    List {
        /// What to list
        what: Listed,
        /// For locks: what each sends, promises and assumes, and the scenarios about it
        #[arg(long)]
        details: bool,
        /// For details: these locks and client libraries, instead of all
        #[arg(value_name = "NAME", requires = "details", value_parser = locks())]
        names: Vec<String>,
        /// For details: folder for a page of each, with what breaks it and its row of the matrix
        #[arg(long, value_name = "DIR", requires = "details")]
        report: Option<PathBuf>,
    },
}

/// The arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Scenario files, or folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub inputs: Vec<PathBuf>,
    /// One seed instead of those of the scenario
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Seeds instead of those of the scenario, inclusive
    #[arg(long, value_name = "A..B", value_parser = seed_range, allow_hyphen_values = true)]
    pub seeds: Option<RangeInclusive<u64>>,
    /// Engine that runs the worlds; `both` compares the engines
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineChoice,
    /// Folder for reports; without it none are written. Foreign files are never replaced
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Time limit for explaining each scenario; skipped work is reported
    #[arg(
        long,
        value_name = "LENGTH",
        default_value = BUDGET,
        value_parser = length,
        allow_hyphen_values = true
    )]
    pub budget: Option<Nanos>,
    /// Whether lockstorm was started without arguments.
    #[arg(skip)]
    pub is_main_job: bool,
}

impl RunArguments {
    /// The arguments of `lockstorm` alone. Its explanations are complete, however long they take.
    pub fn main_job(engine: EngineChoice) -> RunArguments {
        let report = (engine == EngineChoice::Event).then(|| REPORTS.into());
        let inputs = vec![SCENARIOS.into()];
        RunArguments {
            inputs,
            seed: None,
            seeds: None,
            engine,
            report,
            budget: None,
            is_main_job: true,
        }
    }
}

/// The arguments of `replay`.
#[derive(Args, Debug)]
pub struct ReplayArguments {
    /// A plan that lockstorm wrote
    pub plan: PathBuf,
    /// The expected trace hash of the run; without it the plan is run twice
    #[arg(long, value_name = "HASH", value_parser = trace_hash)]
    pub trace: Option<String>,
    /// Engine that runs the world
    #[arg(long, value_enum, default_value_t)]
    pub engine: OneEngine,
}

/// What can be started.
#[derive(Debug, Subcommand)]
pub enum New {
    /// A lock of your own with its hunt and a scenario
    Lock(NewLock),
}

/// The arguments of `new lock`.
#[derive(Args, Debug)]
pub struct NewLock {
    /// The lock's name in scenarios: lower-case words with dashes
    pub name: String,
    /// Folder of the new project, which must not exist; by default the lock's name
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
    /// Folder of lockstorm's own source, on which the project depends
    #[arg(long, value_name = "DIR", default_value = env!("CARGO_MANIFEST_DIR"))]
    pub lockstorm: PathBuf,
}

/// The default budget for an explanation. On two cores a violation on one node takes seconds, one
/// behind Sentinels or in a cluster most of a minute.
const BUDGET: &str = "60s";

/// The arguments of `explain`.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// A scenario, or a plan that lockstorm wrote
    #[arg(value_name = "SCENARIO|PLAN")]
    pub input: PathBuf,
    /// The seed, instead of the scenario's first one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Folder for the report; without it none is written. Foreign files are never replaced
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Time limit for the search for thresholds and remedies; skipped work is reported
    #[arg(
        long,
        value_name = "LENGTH",
        default_value = BUDGET,
        value_parser = length,
        allow_hyphen_values = true
    )]
    pub budget: Nanos,
}

/// The arguments of `threshold`.
#[derive(Args, Debug)]
pub struct ThresholdArguments {
    /// A scenario, or a plan that lockstorm wrote
    #[arg(value_name = "SCENARIO|PLAN")]
    pub input: PathBuf,
    /// The figure, such as `fault:1.for` or `lock.ttl`; by default all figures
    #[arg(long, value_name = "FIGURE")]
    pub of: Option<String>,
    /// The seed, instead of the scenario's first one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// The arguments of `hunt`. Omitted settings of workload, lease and topology are drawn.
#[derive(Args, Debug)]
pub struct HuntArguments {
    /// The lock under test, or a client library that has it
    #[arg(long, value_name = "LOCK", value_parser = locks())]
    pub lock: String,
    /// How the nodes are connected
    #[arg(long, value_name = "TOPOLOGY", value_parser = words(&TOPOLOGIES.map(|(word, _)| word)))]
    pub topology: String,
    /// The rest of its configuration.
    #[command(flatten)]
    pub configured: Configured,
    /// The kinds of faults to draw from; without it the default ones
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(verbs::words())
    )]
    pub faults: Vec<String>,
    /// How plans are drawn: `portfolio` shares them by what each of the others finds
    #[arg(long, value_name = "WORD", default_value = WORDS[0], value_parser = words(&WORDS))]
    pub strategy: String,
    /// Draw only plans that breach no assumption of the lock
    #[arg(long)]
    pub within_assumptions: bool,
    /// Seeds to try, inclusive; by default 1..1000, or with --budget as many as it permits
    #[arg(long, value_name = "A..B", value_parser = seed_range, allow_hyphen_values = true)]
    pub seeds: Option<RangeInclusive<u64>>,
    /// Time limit of the search, which finishes its batch of 64 plans; again of shrinking what is
    /// found and comparing it with a correct lock; and again of the explanation (default 60s).
    /// Each group is classified in any case; what else was not finished is reported
    #[arg(long, value_name = "LENGTH", value_parser = budget, allow_hyphen_values = true)]
    pub budget: Option<Nanos>,
    /// Stop at the first violation instead of searching on
    #[arg(long)]
    pub first: bool,
    /// Engine that runs the worlds
    #[arg(long, value_enum, default_value_t)]
    pub engine: OneEngine,
    /// Number of parallel runs; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run one part of the hunt: `3/10`, or `auto` or `auto/10` to read it from the environment
    #[arg(long, value_name = "I/N", value_parser = shard, conflicts_with_all = ["first", "report"])]
    pub shard: Option<Choice>,
    /// Folder for the log of a shard, which `merge` reads, and for plans
    #[arg(long, value_name = "DIR", default_value = "campaign", requires = "shard")]
    pub campaign: PathBuf,
    /// Folder for the plans that are found, and for the report of the first one
    #[arg(long, value_name = "DIR", default_value = REPORTS)]
    pub report: PathBuf,
}

/// The arguments of `merge`.
#[derive(Args, Debug)]
pub struct MergeArguments {
    /// Logs of shards, or folders of them
    #[arg(required = true, value_name = "LOG|DIR")]
    pub inputs: Vec<PathBuf>,
    /// Only write one log with all that the others have
    #[arg(long, value_name = "LOG")]
    pub into: Option<PathBuf>,
    /// Number of parallel runs; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Time limit for shrinking what is found, and the same again for explaining it; by default
    /// shrinking has no limit and explaining 1min. Skipped work is reported
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub budget: Option<Nanos>,
    /// Folder for the plans that are found, and for the report of the first one
    #[arg(long, value_name = "DIR", default_value = REPORTS)]
    pub report: PathBuf,
}

/// The arguments of `serve`.
#[cfg(feature = "live")]
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// A scenario whose nodes are served, with its faults that strike at a time
    #[arg(
        value_name = "SCENARIO",
        conflicts_with_all = ["topology", "nodes", "persistence", "compat"]
    )]
    pub scenario: Option<PathBuf>,
    /// How the nodes are connected
    #[arg(long, value_name = "TOPOLOGY", value_parser = words(&TOPOLOGIES.map(|(word, _)| word)))]
    pub topology: Option<String>,
    /// Number of nodes; by default 1 for `single`, 2 for `replicated` and `sentinel`, 3 for
    /// `independent` and 6 for `cluster`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: Option<u16>,
    /// The port of n1; the other nodes follow, then Sentinels. With 0 the system chooses all ports
    #[arg(long, value_name = "FIRST", default_value_t = 7001)]
    pub port: u16,
    /// The address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub bind: Ipv4Addr,
    /// The admin port; by default the one before n1's
    #[arg(long, value_name = "P")]
    pub admin_port: Option<u16>,
    /// What the nodes write to their disks, and when they sync it
    #[arg(long, value_name = "WORD", value_parser = words(&PERSISTENCES.map(|(word, _)| word)))]
    pub persistence: Option<String>,
    /// The server whose behaviour the nodes have
    #[arg(
        long,
        value_name = "SERVER",
        default_value = Compat::WORDS[0].0,
        value_parser = words(&Compat::WORDS.map(|(word, _)| word))
    )]
    pub compat: String,
    /// A file for what the nodes observe of locks: one line of JSON each
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// How long to serve; without it until Ctrl-C, SIGTERM or SHUTDOWN
    #[arg(long = "for", value_name = "LENGTH", value_parser = length)]
    pub length: Option<Nanos>,
}

/// The arguments of `confirm`.
#[cfg(feature = "live")]
#[derive(Args, Debug)]
pub struct ConfirmArguments {
    /// Scenario files, plans (.json), or folders of scenarios
    #[arg(required = true, value_name = "SCENARIO|PLAN|DIR")]
    pub inputs: Vec<PathBuf>,
    /// Number of runs of each plan
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub runs: u32,
    /// The seed, instead of the scenario's first one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Skip plans that take longer: a plan of 30 s takes 30 s
    #[arg(long, value_name = "LENGTH", default_value = "2m", value_parser = length)]
    pub longest: Nanos,
    /// Number of parallel runs
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    pub jobs: u16,
    /// Folder for reports of the real runs; without it none are written
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// One engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OneEngine {
    /// lockstorm's own, in nanoseconds
    #[default]
    Event,
    /// turmoil's, in milliseconds: slow, and a second opinion
    #[cfg(feature = "turmoil")]
    Turmoil,
}

impl OneEngine {
    /// The lab with this engine.
    pub fn lab(self) -> Lab {
        match self {
            OneEngine::Event => Lab::default(),
            #[cfg(feature = "turmoil")]
            OneEngine::Turmoil => Lab::turmoil(),
        }
    }
}

/// One engine, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// lockstorm's own, in nanoseconds
    #[default]
    Event,
    /// turmoil's, in milliseconds: slow, and a second opinion
    #[cfg(feature = "turmoil")]
    Turmoil,
    /// Each plan on both, in milliseconds: they have to agree
    #[cfg(feature = "turmoil")]
    Both,
}

impl EngineChoice {
    /// The lab with this engine; `None` for both engines.
    pub fn lab(self) -> Option<Lab> {
        match self {
            EngineChoice::Event => Some(Lab::default()),
            #[cfg(feature = "turmoil")]
            EngineChoice::Turmoil => Some(Lab::turmoil()),
            #[cfg(feature = "turmoil")]
            EngineChoice::Both => None,
        }
    }
}

/// What can be listed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Listed {
    /// Lock algorithms
    Locks,
    /// Options of locks
    Options,
    /// Client libraries, each as a lock with options
    Libraries,
    /// Faults of a world
    Faults,
    /// What clients do
    Workloads,
    /// How nodes are connected
    Topologies,
    /// What is checked
    Verdicts,
    /// The models of locks
    Models,
    /// The questions in scenarios/
    Scenarios,
    /// Differences of servers from Redis 7.0
    Compat,
}
