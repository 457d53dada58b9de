//! How a lock under test is configured: the arguments that `hunt` and `review` share. What is left
//! out is drawn.

use clap::Args;
use lockstorm_platform::time::Nanos;

use crate::cli::values::{extend, length, words};
use crate::plan::extend::Extend;
use crate::scenario::tables::PERSISTENCES;

/// The settings of a lock, of its nodes and of its callers.
#[derive(Args, Debug)]
pub struct Configured {
    /// What the nodes write to their disks, and when they sync it
    #[arg(long, value_name = "WORD", value_parser = words(&PERSISTENCES.map(|(word, _)| word)))]
    pub persistence: Option<String>,
    /// Time to live of the lock's key: `3s`
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub ttl: Option<Nanos>,
    /// Timeout of one request of the lock
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub timeout: Option<Nanos>,
    /// How long a client works under the lock
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub hold: Option<Nanos>,
    /// Number of nodes, including replicas
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub nodes: Option<u32>,
    /// Number of clients
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub clients: Option<u32>,
    /// Number of callers (threads) in the process of each client
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub callers: Option<u32>,
    /// When a working client extends its grant: `never`, `1/2` of the lease, `until-lost`
    #[arg(long, value_name = "WHEN", value_parser = extend)]
    pub extend: Option<Extend>,
    /// Whether a client re-enters the lock while it holds it
    #[arg(long, value_name = "BOOL")]
    pub reenter: Option<bool>,
    /// Whether a client checks its deadline before each access
    #[arg(long, value_name = "BOOL")]
    pub check_validity: Option<bool>,
    /// Minimum time left of a grant for the work: with less it is released
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub needs: Option<Nanos>,
    /// Number of nodes that have to grant, instead of the lock's own majority
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub quorum: Option<u32>,
    /// An option of the lock, as in `[lock]` of a scenario: `token=constant`; may be repeated
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub options: Vec<String>,
}
