//! `replay`: a saved plan is run again, and its trace compared.

use crate::check::Verdict;
use crate::cli::act;
use crate::cli::args::ReplayArguments;
use crate::cli::running::found;
use crate::cli::{Ending, complain, input, say};
use crate::refusal::Refusal;

/// Runs a plan again. Another trace than the one asked for, or than that of a second run, is a
/// violation of what we promise, and told as such.
pub fn replay(arguments: &ReplayArguments) -> Result<Ending, Refusal> {
    let plan = input::plan(&arguments.plan)?;
    let what = format!("seed {}, plan {}", plan.seed, plan.digest());
    say(&format!("lockstorm {}: {what}", env!("CARGO_PKG_VERSION")));
    let finding = act::examine_plan(&plan);
    say(&format!("{}: {}", plan.name, found(&finding)));
    let trace = finding.trace_hash;
    let (wanted, whose) = match &arguments.trace {
        Some(wanted) => (wanted.to_lowercase(), "that was asked for"),
        None => (act::examine_plan(&plan).trace_hash, "of a second run"),
    };
    let same = trace == wanted;
    if same {
        say(&format!("trace {trace}, the same as the one {whose}"));
    } else {
        complain(&format!("trace {trace} differs from the one {whose}, {wanted}\n"));
    }
    say(&what);
    Ok(match finding.judgement.verdict {
        _ if !same => Ending::Violated,
        Verdict::Holds => Ending::Held,
        Verdict::Violated(_) => Ending::Violated,
        Verdict::Unknown(_) => Ending::Unknown,
    })
}
