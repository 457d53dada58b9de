//! `hunt`: seeded random plans until one violates; it is shrunk, saved and told.

use crate::cli::act::{self, Catch, Quarry};
use crate::cli::args::HuntArguments;
use crate::cli::running::found;
use crate::cli::{Ending, input, progress, say};
use crate::refusal::Refusal;
use crate::scenario::tables::TOPOLOGIES;

/// Hunts as asked.
pub fn hunt(arguments: &HuntArguments) -> Result<Ending, Refusal> {
    let quarry = quarry(arguments);
    let (first, last) = (quarry.seeds.start(), quarry.seeds.end());
    let (lock, topology) = (&arguments.lock, &arguments.topology);
    let seeds = format!("seeds {first}..{last}");
    say(&format!("lockstorm {}: {lock} on {topology}, {seeds}", env!("CARGO_PKG_VERSION")));
    let bar = progress::bar((last - first).saturating_add(1), "hunting");
    let catch = act::hunt(&quarry, &|| bar.inc(1));
    bar.finish_and_clear();
    tell(arguments, &catch, &seeds)
}

fn quarry(arguments: &HuntArguments) -> Quarry {
    let topology = TOPOLOGIES.iter().find(|(word, _)| *word == arguments.topology);
    Quarry {
        lock: arguments.lock.clone(),
        topology: topology.expect("the parser knows the words").1,
        faults: arguments.faults.clone(),
        within_assumptions: arguments.within_assumptions,
        seeds: arguments.seeds.clone(),
        jobs: arguments.jobs,
    }
}

fn tell(arguments: &HuntArguments, catch: &Catch, seeds: &str) -> Result<Ending, Refusal> {
    let Catch { tried, struck_in_hold, found: prey } = catch;
    let tested = format!("{tried} plans, a fault struck inside a hold in {struck_in_hold}");
    let Some((plan, finding)) = prey else {
        if *struck_in_hold == 0 {
            say(&format!("unknown: nothing was tested ({tested}); {seeds}"));
            return Ok(Ending::Unknown);
        }
        say(&format!("no violation in {tested}; {seeds}"));
        return Ok(Ending::Held);
    };
    let name = format!("{}.plan.json", plan.name);
    input::write(&arguments.report, &name, &plan.to_json())?;
    say(&format!("found after {tested}: {}", found(&finding.judgement, finding.class)));
    let path = arguments.report.join(name);
    say(&format!("again: lockstorm replay {} --trace {:032x}", path.display(), finding.trace));
    say(&format!("seed {}, plan {}", plan.seed, plan.digest()));
    Ok(Ending::Violated)
}
