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

/// So many plans are held in memory at a time.
const MOST_PLANS: usize = 100_000;

/// Runs what was asked for.
pub fn run(arguments: &RunArguments) -> Result<Ending, Refusal> {
    let scenarios = input::scenarios(&arguments.inputs)?;
    let plans = plans(&scenarios, arguments)?;
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
    say(&table(&ran).trim_fmt());
    write(arguments, &ran)?;
    let (ending, counted) = sum(&ran);
    say(&format!("{counted}; {what}"));
    Ok(ending)
}

/// Every scenario on every seed.
fn plans<'a>(
    scenarios: &'a [Scenario],
    arguments: &RunArguments,
) -> Result<Vec<(&'a Scenario, Plan)>, Refusal> {
    let mut plans = Vec::new();
    for scenario in scenarios {
        let own = scenario.seeds();
        let seeds: &mut dyn Iterator<Item = u64> = match (arguments.seed, &arguments.seeds) {
            (Some(seed), _) => &mut std::iter::once(seed),
            (None, Some(seeds)) => &mut seeds.clone(),
            (None, None) => &mut own.into_iter(),
        };
        plans.extend(seeds.take(MOST_PLANS + 1).map(|seed| (scenario, scenario.plan(seed))));
        if plans.len() > MOST_PLANS {
            let what = format!("these are more than {MOST_PLANS} plans");
            return Err(Refusal::of_usage(what, "take fewer seeds or fewer files at a time"));
        }
    }
    Ok(plans)
}

/// Seeds and the hash of all plans: what stands on the first and on the last line.
fn headline(plans: &[(&Scenario, Plan)]) -> String {
    let seeds = plans.iter().map(|(_, plan)| plan.seed);
    let (first, last) = (seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0));
    let word = if first == last { "seed" } else { "seeds" };
    let hash = match plans {
        [(_, plan)] => format!("plan {}", plan.digest()),
        _ => {
            let digest = digest_of(plans.iter().map(|(_, plan)| plan));
            format!("{} plans {digest}", plans.len())
        }
    };
    format!("{word} {}, {hash}", seeds_of(first, last))
}

/// A line a scenario; seeds that came to the same stand together.
fn table(ran: &[(&Scenario, Plan, Finding)]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["scenario", "seeds", "found", "", "plans"]);
    let row = |(scenario, plan, finding): &(&Scenario, Plan, Finding)| {
        let found = found(&finding.judgement, finding.class);
        (scenario.name.clone(), found, mark(scenario, finding), plan.seed)
    };
    for same in ran.chunk_by(|a, b| joins(&row(a), &row(b))) {
        let (name, found, mark, first) = row(&same[0]);
        let last = same.last().map_or(first, |(_, plan, _)| plan.seed);
        let digest = match same {
            [(_, plan, _)] => plan.digest(),
            _ => digest_of(same.iter().map(|(_, plan, _)| plan)),
        };
        table.add_row([name, seeds_of(first, last), found, mark, digest]);
    }
    table
}

/// Whether two rows (name, found, mark, seed) tell the same of neighbouring seeds.
fn joins(a: &(String, String, String, u64), b: &(String, String, String, u64)) -> bool {
    (&a.0, &a.1, &a.2) == (&b.0, &b.1, &b.2) && a.3.checked_add(1) == Some(b.3)
}

fn seeds_of(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first}..{last}") }
}

fn mark(scenario: &Scenario, finding: &Finding) -> String {
    match scenario.expect.met_by(&finding.judgement.verdict, finding.class) {
        Met::Yes => "as expected".to_owned(),
        Met::Unknown | Met::No => format!("NOT as expected: {}", scenario.expect.words()),
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
