//! What can be typed. The words are those of scenarios; wrong ones are refused by the parser.

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

use crate::length;
use crate::lock::catalogue::ALGORITHMS;
use crate::plan::extend::Extend;
use crate::run::Lab;
use crate::scenario::seed_range;
use crate::scenario::tables::{PERSISTENCES, TOPOLOGIES};

/// The folder that the main job reads.
pub const SCENARIOS: &str = "scenarios";

/// The folder that the main job writes.
pub const REPORTS: &str = "reports";

/// Breaks Redis locks on purpose, and explains how.
///
/// Without a command: runs every scenario in scenarios/, writes reports/ and prints the table.
///
/// Exit codes: 0 held or as expected, 1 violated or not as expected, 2 unknown, 3 bad input.
#[derive(Debug, Parser)]
#[command(version, name = "lockstorm", disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// What drives the worlds of the main job; reports are written by `event` alone
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineChoice,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run scenarios and compare what is found with what they expect
    Run(RunArguments),
    /// Run a saved plan again
    Replay(ReplayArguments),
    /// Say why a plan or a scenario is violated: how, what made the difference, from where on
    Explain(ExplainArguments),
    /// Find the figures from which on a plan or a scenario is violated, to a millisecond
    Threshold(ThresholdArguments),
    /// Search seeded random plans for a violation, and shrink the first
    Hunt(HuntArguments),
    /// Serve fake nodes on real ports to any client, with faults typed while they run
    #[cfg(feature = "live")]
    Serve(ServeArguments),
    /// Run plans on real redis-servers, and compare
    #[cfg(feature = "live")]
    Confirm(ConfirmArguments),
    /// List the words that scenarios may use, or the scenarios
    List {
        /// Of what
        what: Listed,
    },
}

/// What `run` takes.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Scenario files, or folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub inputs: Vec<PathBuf>,
    /// One seed instead of those that a scenario names
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Seeds instead of those that a scenario names, both ends included
    #[arg(long, value_name = "A..B", value_parser = seed_range)]
    pub seeds: Option<RangeInclusive<u64>>,
    /// What drives the worlds; `both` compares the engines
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineChoice,
    /// Where to write reports; without it none are written. Files of others are never replaced
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Whether nothing was typed.
    #[arg(skip)]
    pub is_main_job: bool,
}

impl RunArguments {
    /// What `lockstorm` alone stands for.
    pub fn main_job(engine: EngineChoice) -> RunArguments {
        let report = (engine == EngineChoice::Event).then(|| REPORTS.into());
        let inputs = vec![SCENARIOS.into()];
        RunArguments { inputs, seed: None, seeds: None, engine, report, is_main_job: true }
    }
}

/// What `replay` takes.
#[derive(Args, Debug)]
pub struct ReplayArguments {
    /// A plan that lockstorm wrote
    pub plan: PathBuf,
    /// The trace hash that the run must have; without it the plan is run twice
    #[arg(long, value_name = "HASH", value_parser = trace_hash)]
    pub trace: Option<String>,
    /// What drives the world
    #[arg(long, value_enum, default_value_t)]
    pub engine: OneEngine,
}

/// How long explaining may take where nobody says. On two cores a violation on one node takes
/// seconds, one behind Sentinels or in a cluster most of a minute.
const BUDGET: &str = "60s";

/// What `explain` takes.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// A scenario, or a plan that lockstorm wrote
    #[arg(value_name = "SCENARIO|PLAN")]
    pub input: PathBuf,
    /// The seed, in the place of the first that a scenario names
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where to write the report; without it none is written. Files of others are never replaced
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// How long thresholds and remedies may be looked for; what is left undone is said
    #[arg(long, value_name = "LENGTH", default_value = BUDGET, value_parser = length)]
    pub budget: Nanos,
}

/// What `threshold` takes.
#[derive(Args, Debug)]
pub struct ThresholdArguments {
    /// A scenario, or a plan that lockstorm wrote
    #[arg(value_name = "SCENARIO|PLAN")]
    pub input: PathBuf,
    /// Which figure, as `fault:1.for` or `lock.ttl`; all that there are if it is not given
    #[arg(long, value_name = "FIGURE")]
    pub of: Option<String>,
    /// The seed, in the place of the first that a scenario names
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// What `hunt` takes. What is not given of workload, lease and topology is drawn.
#[derive(Args, Debug)]
pub struct HuntArguments {
    /// The lock under test
    #[arg(long, value_name = "LOCK", value_parser = words(&ALGORITHMS.map(|lock| lock.name)))]
    pub lock: String,
    /// How the nodes belong together
    #[arg(long, value_name = "TOPOLOGY", value_parser = words(&TOPOLOGIES.map(|(word, _)| word)))]
    pub topology: String,
    /// What the nodes write to their disks, and when they sync it
    #[arg(
        long,
        value_name = "WORD",
        default_value = PERSISTENCES[0].0,
        value_parser = words(&PERSISTENCES.map(|(word, _)| word))
    )]
    pub persistence: String,
    /// How long the lock's key lives: `3s`
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub ttl: Option<Nanos>,
    /// Time-out of one request of the lock
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub timeout: Option<Nanos>,
    /// How long a client works under the lock
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub hold: Option<Nanos>,
    /// How many nodes there are, replicas included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub nodes: Option<u32>,
    /// How many clients there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub clients: Option<u32>,
    /// When a client that works prolongs its grant: `never`, `1/2` of the lease, `until-lost`
    #[arg(long, value_name = "WHEN", value_parser = extend)]
    pub extend: Option<Extend>,
    /// Whether a client takes the lock again while it holds it
    #[arg(long, value_name = "BOOL")]
    pub reenter: Option<bool>,
    /// Whether a client looks at its deadline before each access
    #[arg(long, value_name = "BOOL")]
    pub check_validity: Option<bool>,
    /// What a grant must have left for the work: with less it is given back
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub needs: Option<Nanos>,
    /// How many nodes have to grant, in the place of the lock's own majority
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub quorum: Option<u32>,
    /// The kinds of faults to draw from; the usual ones if none is named
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(verbs::words())
    )]
    pub faults: Vec<String>,
    /// Draw only plans that break no assumption of the lock
    #[arg(long)]
    pub within_assumptions: bool,
    /// Which seeds to try, both ends included
    #[arg(long, value_name = "A..B", default_value = "1..1000", value_parser = seed_range)]
    pub seeds: RangeInclusive<u64>,
    /// What drives the worlds
    #[arg(long, value_enum, default_value_t)]
    pub engine: OneEngine,
    /// How many plans run at a time; as many as there are cores if it is not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// How long explaining what is found may take; what is left undone is said
    #[arg(long, value_name = "LENGTH", default_value = BUDGET, value_parser = length)]
    pub budget: Nanos,
    /// Where to write the plan that is found, and its report
    #[arg(long, value_name = "DIR", default_value = REPORTS)]
    pub report: PathBuf,
}

/// What `serve` takes.
#[cfg(feature = "live")]
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// A scenario whose nodes are served, with the faults that strike at a time
    #[arg(
        value_name = "SCENARIO",
        conflicts_with_all = ["topology", "nodes", "persistence", "compat"]
    )]
    pub scenario: Option<PathBuf>,
    /// How the nodes belong together
    #[arg(long, value_name = "TOPOLOGY", value_parser = words(&TOPOLOGIES.map(|(word, _)| word)))]
    pub topology: Option<String>,
    /// How many nodes: 1 of `single`, 2 of `replicated` and `sentinel`, 3 of `independent` and 6 of
    /// `cluster` if it is not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: Option<u16>,
    /// The port of n1; the others follow, then Sentinels. 0 lets the system choose all ports
    #[arg(long, value_name = "FIRST", default_value_t = 7001)]
    pub port: u16,
    /// The address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub bind: Ipv4Addr,
    /// The port that takes orders; the one before n1's if it is not given
    #[arg(long, value_name = "P")]
    pub admin_port: Option<u16>,
    /// What the nodes write to their disks, and when they sync it
    #[arg(
        long,
        value_name = "WORD",
        value_parser = words(&PERSISTENCES.map(|(word, _)| word))
    )]
    pub persistence: Option<String>,
    /// Which server the nodes answer like
    #[arg(
        long,
        value_name = "SERVER",
        default_value = Compat::WORDS[0].0,
        value_parser = words(&Compat::WORDS.map(|(word, _)| word))
    )]
    pub compat: String,
    /// A file for what the nodes saw happen to locks: a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// How long to serve; without it until Ctrl-C, SIGTERM or SHUTDOWN
    #[arg(long = "for", value_name = "LENGTH", value_parser = length)]
    pub length: Option<Nanos>,
}

/// What `confirm` takes.
#[cfg(feature = "live")]
#[derive(Args, Debug)]
pub struct ConfirmArguments {
    /// Scenario files, plans (.json), or folders of scenarios
    #[arg(required = true, value_name = "SCENARIO|PLAN|DIR")]
    pub inputs: Vec<PathBuf>,
    /// How often each plan is run
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub runs: u32,
    /// The seed, in the place of the first that a scenario names
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Plans that take longer are left out: a plan of 30 s takes 30 s
    #[arg(long, value_name = "LENGTH", default_value = "2m", value_parser = length)]
    pub longest: Nanos,
    /// How many runs at a time
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    pub jobs: u16,
    /// Where to write reports of the real runs; without it none are written
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// One engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OneEngine {
    /// Our own, in nanoseconds
    #[default]
    Event,
    /// turmoil's, in milliseconds: slow, and a second opinion
    #[cfg(feature = "turmoil")]
    Turmoil,
}

impl OneEngine {
    /// Where plans are run on it.
    pub fn lab(self) -> Lab {
        match self {
            OneEngine::Event => Lab::default(),
            #[cfg(feature = "turmoil")]
            OneEngine::Turmoil => Lab::turmoil(),
        }
    }
}

/// One engine, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Our own, in nanoseconds
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
    /// Where plans are run; `None` if on both engines.
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
    /// Algorithms
    Locks,
    /// What a world can suffer
    Faults,
    /// What clients do
    Workloads,
    /// How nodes belong together
    Topologies,
    /// What is checked
    Verdicts,
    /// What histories of locks are held against
    Models,
    /// The questions in scenarios/
    Scenarios,
    /// In what servers differ from Redis 7.0
    Compat,
}

fn length(text: &str) -> Result<Nanos, String> {
    length::read(text).map_err(|refusal| format!("{}: {}", refusal.what, refusal.instead))
}

fn extend(text: &str) -> Result<Extend, String> {
    text.parse().map_err(|wrong| {
        format!("{wrong}: write 'never', 'until-lost', or a share below 1 of the lease, as '1/2'")
    })
}

fn trace_hash(text: &str) -> Result<String, String> {
    match text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_lowercase()),
        false => Err("a trace hash has 32 hexadecimal digits: write it whole".to_owned()),
    }
}

fn words(words: &[&'static str]) -> PossibleValuesParser {
    PossibleValuesParser::new(words.iter().copied())
}
