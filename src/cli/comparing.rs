//! `run --engine both`: every plan on two engines, which must agree.

use std::time::{Duration, Instant};

use comfy_table::{ContentArrangement, Table, presets};
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::cli::act;
use crate::cli::args::RunArguments;
use crate::cli::running::{Planned, headline, plans};
use crate::edge::ending::Exit;
use crate::edge::terminal::{complain, say};
use crate::edge::{input, progress};
use crate::explain::finding::Finding;
use crate::explore::agree::EngineAgreement;
use crate::explore::examine::met;
use crate::length;
use crate::refusal::Refusal;
use crate::report::text::found;
use crate::run::Lab;
use crate::scenario::expectation::Fulfilled;

/// The results of one plan on two engines.
struct Compared {
    name: String,
    seed: u64,
    found: [String; 2],
    took: [Duration; 2],
    met: Fulfilled,
    agreement: EngineAgreement,
}

/// Runs the plans on both engines, in whole milliseconds. A difference between them is a bug in
/// lockstorm. Engines that agree on a result that is not as expected end as `run` does.
pub fn compare(arguments: &RunArguments) -> Result<Exit, Refusal> {
    let scenarios = input::scenarios(&arguments.inputs)?;
    let plans = plans(&scenarios, arguments)?;
    let what = headline(&plans);
    say(&format!("lockstorm {}: {what}", env!("CARGO_PKG_VERSION")));
    let bar = progress::bar(plans.len().try_into().unwrap_or(u64::MAX), "comparing");
    let compared: Vec<Compared> = plans
        .par_iter()
        .map(|planned| {
            let compared = compare_one(planned);
            bar.inc(1);
            compared
        })
        .collect();
    bar.finish_and_clear();
    say(&table(&compared).trim_fmt());
    for Compared { name, seed, agreement, .. } in &compared {
        if let EngineAgreement::Not(difference) = agreement {
            complain(&format!("'{name}', seed {seed}: {difference}\n"));
        }
    }
    let differs = |one: &&Compared| matches!(one.agreement, EngineAgreement::Not(_));
    let differ = compared.iter().filter(differs).count();
    let agree = compared.len() - differ;
    let met = compared.iter().map(|compared| compared.met).max().unwrap_or(Fulfilled::Yes);
    let otherwise = compared.iter().filter(|compared| compared.met != Fulfilled::Yes).count();
    let time = format!("time x{}", slower(&compared));
    let otherwise = match otherwise {
        0 => String::new(),
        _ => format!(" ({otherwise} not as expected in whole milliseconds)"),
    };
    say(&format!("{agree} agree{otherwise}, {differ} do not, {time}; {what}"));
    Ok(if differ > 0 { Exit::Diverged } else { met.into() })
}

fn compare_one(planned: &Planned) -> Compared {
    let Planned { scenario, plan, .. } = planned;
    let (one, one_took) = timed(|| act::judge(&Lab::event_in_ms(), scenario, plan.seed));
    let (other, other_took) = timed(|| act::judge(&Lab::turmoil(), scenario, plan.seed));
    Compared {
        name: scenario.name.clone(),
        seed: plan.seed,
        found: [&one, &other].map(found),
        took: [one_took, other_took],
        met: met(scenario, &one).max(met(scenario, &other)),
        agreement: act::agreement(&one, &other),
    }
}

#[expect(clippy::disallowed_methods, reason = "how long an engine takes is what is asked")]
fn timed(run: impl FnOnce() -> Finding) -> (Finding, Duration) {
    let start = Instant::now();
    let finding = run();
    (finding, start.elapsed())
}

fn table(compared: &[Compared]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["scenario", "seed", "event", "turmoil", "", "time"]);
    for one in compared {
        let [event, turmoil] = one.found.clone();
        let mark = match (&one.agreement, one.met) {
            (EngineAgreement::Not(_), _) => "DIFFER".to_owned(),
            (_, Fulfilled::No | Fulfilled::Unknown) => "agree, NOT as expected".to_owned(),
            (EngineAgreement::Whole, Fulfilled::Yes) => "agree".to_owned(),
            (EngineAgreement::UntilTie(at), Fulfilled::Yes) => {
                format!("agree, a tie at {}", length::write(*at))
            }
            (EngineAgreement::UntilFault(at), Fulfilled::Yes) => {
                format!("agree, verdict alone from {}", length::write(*at))
            }
        };
        let (name, seed) = (one.name.clone(), one.seed.to_string());
        let time = format!("x{}", slower(std::slice::from_ref(one)));
        table.add_row([name, seed, event, turmoil, mark, time]);
    }
    table
}

/// The ratio of the second engine's time to the first's.
fn slower(compared: &[Compared]) -> u128 {
    let sum = |side: usize| compared.iter().map(|one| one.took[side].as_micros()).sum::<u128>();
    sum(1) / sum(0).max(1)
}
