//! `run`, and the main job: scenarios are run on their seeds, told in a table, and written about.

use comfy_table::{ContentArrangement, Table, presets};
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::check::{Judgement, Verdict};
use crate::cli::act::{self, Finding};
use crate::cli::args::RunArguments;
use crate::cli::{Ending, input, progress, say};
use crate::length;
use crate::plan::Plan;
use crate::plan::json::digest_of;
use crate::refusal::Refusal;
use crate::scenario::Scenario;
use crate::scenario::expectation::{Class, Met};

/// Runs what was asked for.
pub fn run(arguments: &RunArguments) -> Result<Ending, Refusal> {
    let scenarios = input::scenarios(&arguments.inputs)?;
    let plans = plans(&scenarios, arguments);
    let what = headline(&plans);
    say(&format!("lockstorm {}: {what}", env!("CARGO_PKG_VERSION")));
    let bar = progress::bar(plans.len().try_into().unwrap_or(u64::MAX), "running");
    let findings: Vec<Finding> = plans
        .par_iter()
        .map(|(_, plan)| {
            let finding = act::examine(plan);
            bar.inc(1);
            finding
        })
        .collect();
    bar.finish_and_clear();
    let ran: Vec<(&Scenario, Plan, Finding)> =
        plans.into_iter().zip(findings).map(|((s, plan), finding)| (s, plan, finding)).collect();
    say(&table(&ran).to_string());
    write(arguments, &ran)?;
    let (ending, counted) = sum(&ran);
    say(&format!("{counted}; {what}"));
    Ok(ending)
}

/// Every scenario on every seed.
fn plans<'a>(scenarios: &'a [Scenario], arguments: &RunArguments) -> Vec<(&'a Scenario, Plan)> {
    let mut plans = Vec::new();
    for scenario in scenarios {
        let seeds = match (arguments.seed, &arguments.seeds) {
            (Some(seed), _) => vec![seed],
            (None, Some(seeds)) => seeds.clone().collect(),
            (None, None) => scenario.seeds(),
        };
        plans.extend(seeds.into_iter().map(|seed| (scenario, scenario.plan(seed))));
    }
    plans
}

/// Seeds and the hash of all plans: what stands on the first and on the last line.
fn headline(plans: &[(&Scenario, Plan)]) -> String {
    let seeds = plans.iter().map(|(_, plan)| plan.seed);
    let (first, last) = (seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0));
    let seeds =
        if first == last { format!("seed {first}") } else { format!("seeds {first}..{last}") };
    match plans {
        [(_, plan)] => format!("{seeds}, plan {}", plan.digest()),
        _ => {
            let digest = digest_of(plans.iter().map(|(_, plan)| plan));
            format!("{seeds}, {} plans {digest}", plans.len())
        }
    }
}

fn table(ran: &[(&Scenario, Plan, Finding)]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["scenario", "seed", "found", "expected", "", "plan"]);
    for (scenario, plan, finding) in ran {
        let met = scenario.expect.met_by(&finding.judgement.verdict, finding.class);
        table.add_row([
            scenario.name.clone(),
            plan.seed.to_string(),
            found(&finding.judgement, finding.class),
            scenario.expect.words(),
            mark(met).to_owned(),
            plan.digest(),
        ]);
    }
    table
}

fn mark(met: Met) -> &'static str {
    match met {
        Met::Yes => "as expected",
        Met::Unknown => "unknown",
        Met::No => "NOT as expected",
    }
}

/// A verdict in a few words.
pub fn found(judgement: &Judgement, class: Option<Class>) -> String {
    match &judgement.verdict {
        Verdict::Unknown(why) => format!("unknown: {why}"),
        Verdict::Holds => match judgement.nearest_miss {
            Some(miss) if miss >= 0 => {
                format!("holds (nearest miss {})", length::write(miss.unsigned_abs()))
            }
            _ => "holds".to_owned(),
        },
        Verdict::Violated(violations) => {
            let mut kinds: Vec<_> = violations.iter().map(|violation| violation.kind).collect();
            kinds.sort();
            kinds.dedup();
            let kinds: Vec<&str> = kinds.into_iter().map(|kind| kind.word()).collect();
            let class = class.map_or(String::new(), |class| format!(" ({})", class.word()));
            kinds.join(", ") + &class
        }
    }
}

fn write(arguments: &RunArguments, ran: &[(&Scenario, Plan, Finding)]) -> Result<(), Refusal> {
    let Some(folder) = &arguments.report else { return Ok(()) };
    let each = ran.iter().flat_map(|(scenario, plan, found)| act::report(scenario, plan, found));
    for page in each.chain(act::index(ran)) {
        input::write(folder, &page.name, &page.text)?;
    }
    Ok(())
}

/// The worst of all, and how many were as expected.
fn sum(ran: &[(&Scenario, Plan, Finding)]) -> (Ending, String) {
    let mets: Vec<Met> = ran
        .iter()
        .map(|(scenario, _, found)| scenario.expect.met_by(&found.judgement.verdict, found.class))
        .collect();
    let count = |wanted| mets.iter().filter(|met| **met == wanted).count();
    let counted = format!(
        "{} as expected, {} not, {} unknown",
        count(Met::Yes),
        count(Met::No),
        count(Met::Unknown)
    );
    (mets.iter().max().map_or(Ending::Held, |worst| Ending::from(*worst)), counted)
}
