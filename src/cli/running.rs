//! `run`, and the main job: scenarios are run on their seeds, told in a table, and written about.

use std::collections::BTreeSet;

use comfy_table::{ContentArrangement, Table, presets};
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::check::{Kind, Verdict};
use crate::cli::act;
use crate::cli::args::RunArguments;
use crate::cli::{Ending, input, progress, say};
use crate::explain::finding::Finding;
use crate::explore::examine::{met, word};
use crate::length;
use crate::plan::Plan;
use crate::plan::json::digest_of;
use crate::refusal::Refusal;
use crate::scenario::Scenario;
use crate::scenario::expectation::Met;

/// Runs what was asked for. Each plan is run twice: a trace that differs is a bug of ours and
/// ends the program.
pub fn run(arguments: &RunArguments) -> Result<Ending, Refusal> {
    let scenarios = input::scenarios(&arguments.inputs)?;
    let plans = plans(&scenarios, arguments);
    let what = headline(&plans);
    say(&format!("lockstorm {}: {what}", env!("CARGO_PKG_VERSION")));
    let bar = progress::bar(plans.len().try_into().unwrap_or(u64::MAX), "running");
    let findings: Vec<Finding> = plans
        .par_iter()
        .map(|(scenario, plan)| {
            let finding = act::examine(scenario, plan.seed);
            bar.inc(1);
            finding
        })
        .collect();
    bar.finish_and_clear();
    let ran: Vec<Ran> = plans.into_iter().map(|(scenario, _)| scenario).zip(findings).collect();
    say(&table(&ran).to_string());
    write(arguments, &ran)?;
    let (ending, counted) = sum(&ran);
    say(&format!("{counted}; {what}"));
    Ok(ending)
}

/// A scenario and what came of it on one seed.
type Ran<'a> = (&'a Scenario, Finding);

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

fn table(ran: &[Ran]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["scenario", "seed", "found", "expected", "", "plan"]);
    for (scenario, finding) in ran {
        table.add_row([
            scenario.name.clone(),
            finding.seed.to_string(),
            found(finding),
            scenario.expect.words(),
            mark(met(scenario, finding)).to_owned(),
            finding.plan_hash.clone(),
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
pub fn found(finding: &Finding) -> String {
    match &finding.judgement.verdict {
        Verdict::Unknown(why) => format!("unknown: {why}"),
        Verdict::Holds => match finding.judgement.nearest_miss {
            Some(miss) if miss >= 0 => {
                format!("holds (nearest miss {})", length::write(miss.unsigned_abs()))
            }
            _ => "holds".to_owned(),
        },
        Verdict::Violated(violations) => {
            let kinds: BTreeSet<Kind> = violations.iter().map(|violation| violation.kind).collect();
            let kinds: Vec<&str> = kinds.into_iter().map(Kind::word).collect();
            let class = word(finding).map_or(String::new(), |class| format!(" ({})", class.word()));
            kinds.join(", ") + &class
        }
    }
}

/// The reports of each scenario's first seed; the index when folders were run.
fn write(arguments: &RunArguments, ran: &[Ran]) -> Result<(), Refusal> {
    let Some(folder) = &arguments.report else { return Ok(()) };
    let mut written = BTreeSet::new();
    let first = |finding: &&Finding| written.insert(finding.scenario.clone());
    let findings: Vec<&Finding> = ran.iter().map(|(_, finding)| finding).filter(first).collect();
    for page in findings.iter().flat_map(|finding| act::report(finding)) {
        input::write(folder, &page.name, &page.text)?;
    }
    let contents = act::contents(&findings);
    input::write(folder, &contents.name, &contents.text)
}

/// The worst of all, and how many were as expected.
fn sum(ran: &[Ran]) -> (Ending, String) {
    let mets: Vec<Met> = ran.iter().map(|(scenario, finding)| met(scenario, finding)).collect();
    let count = |wanted| mets.iter().filter(|met| **met == wanted).count();
    let counted = format!(
        "{} as expected, {} not, {} unknown",
        count(Met::Yes),
        count(Met::No),
        count(Met::Unknown)
    );
    (mets.iter().max().map_or(Ending::Held, |worst| Ending::from(*worst)), counted)
}
