//! The arguments of `review`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use lockstorm_platform::time::Nanos;

use crate::cli::args::configured::Configured;
use crate::cli::values::{REPORTS, budget, locks, words};
use crate::scenario::seed_range;
use crate::scenario::tables::TOPOLOGIES;

/// The arguments of `review`. Omitted settings of workload, lease and topology are drawn.
#[derive(Args, Debug)]
pub struct ReviewArguments {
    /// The lock under review, or a client library that has it
    #[arg(long, value_name = "LOCK", value_parser = locks())]
    pub lock: String,
    /// How the nodes are connected; by default as the lock needs it
    #[arg(long, value_name = "TOPOLOGY", value_parser = words(&TOPOLOGIES.map(|(word, _)| word)))]
    pub topology: Option<String>,
    /// The rest of its configuration.
    #[command(flatten)]
    pub configured: Configured,
    /// Time limit of the whole review; by default 45s, unless seeds are given. What was not
    /// finished by then is reported
    #[arg(long, value_name = "LENGTH", value_parser = budget, allow_hyphen_values = true)]
    pub budget: Option<Nanos>,
    /// Seeds of each of its two hunts, inclusive: without --budget the same report each time
    #[arg(long, value_name = "A..B", value_parser = seed_range, allow_hyphen_values = true)]
    pub seeds: Option<RangeInclusive<u64>>,
    /// Number of parallel runs; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Folder for the report, and for the plans that are found
    #[arg(long, value_name = "DIR", default_value = REPORTS)]
    pub report: PathBuf,
}
