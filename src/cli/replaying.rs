//! `replay`: runs a saved plan again, and compares its trace.

use crate::check::verdict::Verdict;
use crate::cli::act;
use crate::cli::act::watched;
use crate::cli::args::ReplayArguments;
use crate::edge::ending::Exit;
use crate::edge::input;
use crate::edge::terminal::{complain, say};
use crate::refusal::Refusal;
use crate::report::text;

/// Runs a plan again. A trace that differs from the given hash is reported as a violation. A trace
/// that differs from that of a second run is a bug in lockstorm.
pub fn replay(arguments: &ReplayArguments) -> Result<Exit, Refusal> {
    let (lab, plan) = (watched(arguments.engine.lab()), input::plan(&arguments.plan)?);
    let what = format!("seed {}, plan {}", plan.seed, plan.digest());
    say(&format!("lockstorm {}: {what}", env!("CARGO_PKG_VERSION")));
    let finding = act::judge_plan(&lab, &plan);
    say(&format!("{}: {}", plan.name, text::found(&finding)));
    // Checked first, because a trace that differs from run to run cannot be compared with the given
    // one.
    if let Some(difference) = act::divergence(&lab, &plan, &finding) {
        complain(&difference);
        return Ok(Exit::Diverged);
    }
    let trace = finding.trace_hash;
    let same = arguments.trace.as_ref().is_none_or(|wanted| *wanted == trace);
    match &arguments.trace {
        None => say(&format!("trace {trace}, the same as that of a second run")),
        Some(_) if same => say(&format!("trace {trace}, the same as the requested one")),
        Some(wanted) => {
            complain(&format!("trace {trace} differs from the requested one, {wanted}\n"));
        }
    }
    say(&what);
    Ok(match finding.judgement.verdict {
        _ if !same => Exit::Violated,
        Verdict::Holds => Exit::Held,
        Verdict::Violated(_) => Exit::Violated,
        Verdict::Unknown(_) => Exit::Unknown,
    })
}
