//! `run`, and the main job: runs scenarios on their seeds, and reports them in a table and pages.

use std::collections::BTreeSet;

use comfy_table::{ContentArrangement, Table, presets};
use lockstorm_platform::time::Nanos;
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::cli::args::RunArguments;
use crate::cli::kept::Kept;
use crate::cli::{act, kept};
use crate::edge::ending::Exit;
use crate::edge::terminal::{complain, say};
use crate::edge::{clock, input, output, progress};
use crate::explain::finding::Finding;
use crate::explore::examine::met;
use crate::plan::Plan;
use crate::plan::json::digest_of;
use crate::refusal::Refusal;
use crate::report::page::{self, Page};
use crate::report::text;
use crate::run::Lab;
use crate::scenario::Scenario;
use crate::scenario::expectation::Fulfilled;

/// The maximum number of plans of one run.
const MAX_PLANS: usize = 100_000;

/// The maximum number of plans for which the command that explains them is shown.
const MAX_HINTS: usize = 10;

/// What is kept of a finished plan.
struct Ran<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    found: String,
    met: Fulfilled,
    /// The difference between two runs of the plan, if any; checked on the first seed.
    diverged: Option<String>,
    /// The whole finding, if it was explained: that of the first seed of a scenario.
    finding: Option<Finding>,
}

/// Runs the given inputs. The first seed of each scenario is run twice: a trace that differs is a
/// bug in lockstorm.
pub fn run(lab: &Lab, arguments: &RunArguments) -> Result<Exit, Refusal> {
    let scenarios = input::scenarios(&arguments.inputs)?;
    let plans = plans(&scenarios, arguments)?;
    look_ahead(arguments, &scenarios)?;
    let kept = Kept::read(arguments.report.as_deref());
    let is_alone = scenarios.len() == 1;
    let explains = is_alone || arguments.report.is_some();
    let what = headline(&plans);
    say(&format!("lockstorm {}: {what}", env!("CARGO_PKG_VERSION")));
    let bar = progress::bar(plans.len().try_into().unwrap_or(u64::MAX), "running");
    let ran: Vec<Ran> = plans
        .par_iter()
        .map(|planned| {
            let ran = run_one(lab, planned, explains.then_some((arguments.budget, &kept)));
            bar.inc(1);
            ran
        })
        .collect();
    bar.finish_and_clear();
    say(&table(&ran).trim_fmt());
    match ran.iter().find_map(|ran| ran.finding.as_ref()).filter(|_| is_alone) {
        Some(finding) => {
            if ran.len() > 1 {
                say(&format!("seed {}:", finding.seed));
            }
            act::in_short(finding).iter().for_each(|line| say(line));
        }
        None => unexpected(&ran).iter().for_each(|line| say(line)),
    }
    write(arguments, &ran, kept)?;
    for difference in ran.iter().filter_map(|ran| ran.diverged.as_ref()) {
        complain(difference);
    }
    let mets = || ran.iter().map(|ran| ran.met);
    let count = |wanted| mets().filter(|met| *met == wanted).count();
    let (yes, no, unknown) =
        (count(Fulfilled::Yes), count(Fulfilled::No), count(Fulfilled::Unknown));
    say(&format!("{yes} as expected, {no} not, {unknown} unknown; {what}"));
    if ran.iter().any(|ran| ran.diverged.is_some()) {
        return Ok(Exit::Diverged);
    }
    Ok(mets().max().map_or(Exit::Held, Exit::from))
}

/// A plan to run.
pub struct Planned<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its plan on one of its seeds.
    pub plan: Plan,
    first: bool,
}

/// Runs a plan. The plan of a first seed is explained, if requested, within a budget and with the
/// stored results.
fn run_one<'a>(
    lab: &Lab,
    planned: &'a Planned,
    explains: Option<(Option<Nanos>, &Kept)>,
) -> Ran<'a> {
    let Planned { scenario, plan, first } = planned;
    let explains = explains.filter(|_| *first);
    let finding = match explains {
        Some((budget, kept)) => {
            act::examine(lab, budget.map(clock::silent), scenario, plan.seed, kept)
        }
        None => act::judge(lab, scenario, plan.seed),
    };
    let mut found = vec![text::found(&finding)];
    found.extend(scenario.expect.limits.missed(&finding.judgement.availability));
    let (found, met) = (found.join("; "), met(scenario, &finding));
    let diverged = first.then(|| act::divergence(lab, plan, &finding)).flatten();
    Ran { scenario, plan, found, met, diverged, finding: explains.map(|_| finding) }
}

/// Every scenario on every seed.
pub fn plans<'a>(
    scenarios: &'a [Scenario],
    arguments: &RunArguments,
) -> Result<Vec<Planned<'a>>, Refusal> {
    let mut plans = Vec::new();
    for scenario in scenarios {
        let own = scenario.seeds();
        let seeds: &mut dyn Iterator<Item = u64> = match (arguments.seed, &arguments.seeds) {
            (Some(seed), _) => &mut std::iter::once(seed),
            (None, Some(seeds)) => &mut seeds.clone(),
            (None, None) => &mut own.into_iter(),
        };
        let seeds = seeds.take(MAX_PLANS + 1).enumerate();
        plans.extend(seeds.map(|(index, seed)| Planned {
            scenario,
            plan: scenario.plan(seed),
            first: index == 0,
        }));
        if plans.len() > MAX_PLANS {
            let what = format!("these are more than {MAX_PLANS} plans");
            return Err(Refusal::new(what, "take fewer seeds or fewer files at a time"));
        }
    }
    Ok(plans)
}

/// Seeds and the hash of all plans, for the first and the last line.
pub fn headline(plans: &[Planned]) -> String {
    let seeds = plans.iter().map(|planned| planned.plan.seed);
    let (first, last) = (seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0));
    let word = if first == last { "seed" } else { "seeds" };
    let hash = match plans {
        [Planned { plan, .. }] => format!("plan {}", plan.digest()),
        _ => {
            let digest = digest_of(plans.iter().map(|planned| &planned.plan));
            format!("{} plans {digest}", plans.len())
        }
    };
    format!("{word} {}, {hash}", seeds_of(first, last))
}

/// The commands that explain the plans whose results are not as expected: the first of each
/// scenario.
fn unexpected(ran: &[Ran]) -> Vec<String> {
    let mut named = BTreeSet::new();
    let unexpected = ran.iter().filter(|ran| ran.met != Fulfilled::Yes);
    let first = unexpected.filter(|ran| named.insert(ran.scenario.name.clone()));
    first
        .map(|ran| format!("why: lockstorm explain {} --seed {}", ran.scenario.file, ran.plan.seed))
        .take(MAX_HINTS)
        .collect()
}

/// One line per scenario; seeds with the same result are combined.
fn table(ran: &[Ran]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["scenario", "seeds", "found", "", "plans"]);
    for same in ran.chunk_by(joins) {
        let Ran { scenario, plan, found, met, .. } = &same[0];
        let last = same.last().map_or(plan.seed, |ran| ran.plan.seed);
        let digest = match same {
            [ran] => ran.plan.digest(),
            _ => digest_of(same.iter().map(|ran| ran.plan)),
        };
        let name = scenario.name.clone();
        table.add_row([
            name,
            seeds_of(plan.seed, last),
            found.clone(),
            mark(scenario, *met),
            digest,
        ]);
    }
    table
}

/// Whether two neighbouring seeds of one scenario have the same result.
fn joins(a: &Ran, b: &Ran) -> bool {
    let key = |ran: &Ran| (ran.scenario.name.clone(), ran.found.clone(), ran.met);
    key(a) == key(b) && a.plan.seed.checked_add(1) == Some(b.plan.seed)
}

fn seeds_of(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first}..{last}") }
}

fn mark(scenario: &Scenario, met: Fulfilled) -> String {
    match met {
        Fulfilled::Yes => "as expected".to_owned(),
        Fulfilled::Unknown | Fulfilled::No => {
            format!("NOT as expected: {}", scenario.expect.words())
        }
    }
}

/// Refuses a folder in which a report would replace a foreign file, before hours of work.
fn look_ahead(arguments: &RunArguments, scenarios: &[Scenario]) -> Result<(), Refusal> {
    let Some(folder) = &arguments.report else { return Ok(()) };
    let contents = [kept::NAME, act::CONTENTS, act::ALL_LINKED].map(str::to_owned);
    let contents = contents.into_iter().take(if arguments.is_main_job { 3 } else { 2 });
    let reports = scenarios.iter().flat_map(|scenario| page::names(&scenario.name));
    output::refuse_foreign(folder, reports.chain(contents))
}

/// Writes the report of each scenario's first seed, and the index.
fn write(arguments: &RunArguments, ran: &[Ran], kept: Kept) -> Result<(), Refusal> {
    let Some(folder) = &arguments.report else { return Ok(()) };
    let findings: Vec<&Finding> = ran.iter().filter_map(|ran| ran.finding.as_ref()).collect();
    let mut pages: Vec<Page> =
        findings.iter().flat_map(|finding| page::of_finding(finding)).collect();
    pages.extend(act::contents(&findings, arguments.is_main_job));
    pages.push(kept.page(findings.iter().copied()));
    output::write(folder, &pages)
}
