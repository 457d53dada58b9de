//! `confirm`: plans on real redis-servers, compared with the simulation.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use crate::check::verdict::Verdict;
use crate::cli::act;
use crate::cli::args::ConfirmArguments;
use crate::confirm::compare::{Attempt, ServerAgreement};
use crate::confirm::environment::ENDED;
use crate::confirm::possible::Means;
use crate::confirm::table::ConfirmRow;
use crate::confirm::windows::{STEPS, WINDOWS};
use crate::confirm::{compare, possible, processes, table};
use crate::edge::ending::Exit;
use crate::edge::terminal::say;
use crate::edge::{input, output, progress};
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::plan::Plan;
use crate::quantity;
use crate::refusal::Refusal;
use crate::report::page::{self, Page};
use crate::report::{mark, text};
use crate::run::Lab;
use crate::scenario::Scenario;

/// The page with the tables of the results.
const TABLES: &str = "confirmed.md";
/// The number of parallel runs after a machine was too busy.
const FEW: usize = 6;
/// The delay between the starts of two parallel runs.
const BETWEEN_STARTS: Duration = Duration::from_millis(80);

/// A plan to confirm, with the plans of its remedies.
struct Subject {
    plan: Plan,
    remedies: Vec<Plan>,
    /// Why it cannot be confirmed.
    reasons: Vec<String>,
    /// The command that confirms it again.
    again: String,
    /// Whether the user named it, and not its folder.
    is_named: bool,
}

/// The results of a plan: in the simulation and on real servers.
struct ConfirmOutcome {
    simulated: Finding,
    real: Vec<Result<Attempt, String>>,
}

/// Confirms the given inputs.
pub fn confirm(arguments: &ConfirmArguments) -> Result<Exit, Refusal> {
    let Some(version) = processes::version() else {
        let what = "there is no redis-server on the PATH";
        return Err(Refusal::new(what, "install one: Debian's package is 'redis-server'"));
    };
    let subjects = subjects(arguments)?;
    let plans = plans(&subjects);
    look_ahead(arguments, &plans)?;
    say(&format!(
        "lockstorm {}: redis-server {version}, {} plans, {} real runs of each",
        env!("CARGO_PKG_VERSION"),
        plans.len(),
        arguments.runs
    ));
    let outcomes = run(arguments, &plans);
    write(arguments, &subjects, &outcomes)?;
    let endings: Vec<Exit> = subjects.iter().map(|subject| report(subject, &outcomes)).collect();
    let count = |wanted| endings.iter().filter(|ending| **ending == wanted).count();
    let left_out = subjects.iter().filter(|subject| !subject.reasons.is_empty()).count();
    let (yes, no, failed) = (count(Exit::Held), count(Exit::Violated), count(Exit::Refused));
    let unknown = count(Exit::Unknown) - left_out;
    say(&format!(
        "\n{yes} confirmed, {no} not, {unknown} unknown, {failed} could not be run, \
         {left_out} cannot be confirmed"
    ));
    let results = subjects.iter().zip(&endings);
    let counted = results.filter(|(subject, _)| subject.reasons.is_empty() || subject.is_named);
    Ok(worst(counted.map(|(_, ending)| *ending)))
}

/// What could not be run comes first, then violated, unknown and held; unknown if empty.
fn worst(endings: impl Iterator<Item = Exit>) -> Exit {
    let order = [Exit::Refused, Exit::Violated, Exit::Unknown, Exit::Held];
    let place = |ending: &Exit| order.iter().position(|known| known == ending);
    endings.min_by_key(place).unwrap_or(Exit::Unknown)
}

fn subjects(arguments: &ConfirmArguments) -> Result<Vec<Subject>, Refusal> {
    let has_clocks = processes::clock_library().is_some();
    let means = Means { longest: arguments.longest, has_clocks };
    let mut subjects = Vec::new();
    for path in &arguments.inputs {
        if path.extension().is_some_and(|ending| ending == "json") {
            let plan = input::plan(path)?;
            if arguments.seed.is_some() {
                let what = format!("{} is a plan, which has its own seed", path.display());
                return Err(Refusal::new(what, "leave out --seed, or confirm the scenario"));
            }
            let reasons = possible::reasons(&plan, means);
            let again = path.display().to_string();
            let remedies = Vec::new();
            subjects.push(Subject { plan, remedies, reasons, again, is_named: true });
            continue;
        }
        for scenario in input::scenarios(std::slice::from_ref(path))? {
            subjects.push(of_scenario(&scenario, arguments, means, !path.is_dir())?);
        }
    }
    Ok(subjects)
}

fn of_scenario(
    scenario: &Scenario,
    arguments: &ConfirmArguments,
    means: Means,
    is_named: bool,
) -> Result<Subject, Refusal> {
    let plan_of = |scenario: &Scenario| {
        let first = scenario.seeds().first().copied().unwrap_or(1);
        scenario.plan(arguments.seed.unwrap_or(first))
    };
    let plan = plan_of(scenario);
    let mut reasons = possible::reasons(&plan, means);
    reasons.extend(scenario.unconfirmable.clone());
    let mut remedies = Vec::new();
    let folder = Path::new(&scenario.file).parent().unwrap_or(Path::new("."));
    let is_possible = reasons.is_empty();
    for remedy in scenario.remedies.iter().filter(|_| is_possible) {
        let file = folder.join(format!("{remedy}.toml"));
        for scenario in input::scenarios(&[file])? {
            let plan = plan_of(&scenario);
            let why = possible::reasons(&plan, means).into_iter().chain(scenario.unconfirmable);
            reasons.extend(why.map(|why| format!("its remedy {remedy}: {why}")));
            remedies.push(plan);
        }
    }
    let again = format!("{} --seed {}", scenario.file, plan.seed);
    Ok(Subject { plan, remedies, reasons, again, is_named })
}

/// Every plan to run, once, by its hash.
fn plans(subjects: &[Subject]) -> BTreeMap<String, &Plan> {
    let possible = subjects.iter().filter(|subject| subject.reasons.is_empty());
    let plans = possible.flat_map(|subject| subject.remedies.iter().chain([&subject.plan]));
    plans.map(|plan| (plan.digest(), plan)).collect()
}

/// Runs every plan once in the simulation and several times on real servers, many in parallel. Runs
/// that a busy machine disturbed are repeated, only a few in parallel.
fn run(
    arguments: &ConfirmArguments,
    plans: &BTreeMap<String, &Plan>,
) -> BTreeMap<String, ConfirmOutcome> {
    let lab = Lab::default();
    let simulate = |(hash, plan): (&String, &&Plan)| {
        let simulated = act::examine_plan(&lab, None, plan);
        (hash.clone(), ConfirmOutcome { simulated, real: Vec::new() })
    };
    let mut outcomes: BTreeMap<String, ConfirmOutcome> = plans.iter().map(simulate).collect();
    let (jobs, mut is_ended) = (usize::from(arguments.jobs), false);
    for side_by_side in [jobs, jobs.min(FEW), 1] {
        let mut runs: Vec<&Plan> = Vec::new();
        for (hash, plan) in plans {
            let ConfirmOutcome { simulated, real } =
                outcomes.get_mut(hash).expect("it was simulated");
            let busy = |run: &Attempt| compare::was_too_busy(simulated, run);
            real.retain(|run| !run.as_ref().is_ok_and(busy));
            runs.extend((real.len()..arguments.runs as usize).map(|_| *plan));
        }
        // The longest come first, so that the runs of one group end at about the same time.
        runs.sort_by_key(|plan| std::cmp::Reverse(plan.until));
        let bar = progress::bar(runs.len().try_into().unwrap_or(u64::MAX), "confirming");
        for together in runs.chunks(side_by_side) {
            for (plan, attempt) in together.iter().zip(at_once(&lab, together)) {
                let outcome = outcomes.get_mut(&plan.digest()).expect("it was simulated");
                is_ended |= attempt.as_ref().is_err_and(|why| why == ENDED);
                outcome.real.push(attempt);
                bar.inc(1);
            }
            if is_ended {
                return outcomes;
            }
        }
        bar.finish_and_clear();
    }
    outcomes
}

/// Runs plans in parallel. Time begins when the servers of all plans are up, for one plan after the
/// other, since the beginning is the busiest part.
#[expect(clippy::disallowed_methods, reason = "no world has begun yet")]
fn at_once(lab: &Lab, plans: &[&Plan]) -> Vec<Result<Attempt, String>> {
    let started = Barrier::new(plans.len());
    std::thread::scope(|scope| {
        let started = &started;
        let plans = (0..).zip(plans.iter().copied());
        let runs = plans.map(|(nth, plan)| {
            scope.spawn(move || {
                compare::attempt(lab, plan, || {
                    started.wait();
                    std::thread::sleep(BETWEEN_STARTS * nth);
                })
            })
        });
        let runs: Vec<_> = runs.collect();
        let panicked = || Err("it panicked: a bug of ours".to_owned());
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| panicked())).collect()
    })
}

/// Writes a report of every real run, `NAME-real-1`, and one of all together, `confirmed.md`.
fn write(
    arguments: &ConfirmArguments,
    subjects: &[Subject],
    outcomes: &BTreeMap<String, ConfirmOutcome>,
) -> Result<(), Refusal> {
    let Some(folder) = &arguments.report else { return Ok(()) };
    let row = |plan: &Plan, remedies| {
        let ConfirmOutcome { simulated, real } = &outcomes[&plan.digest()];
        ConfirmRow { simulated, real: real.iter().flatten().collect(), remedies }
    };
    let possible = subjects.iter().filter(|subject| subject.reasons.is_empty());
    let rows = possible.map(|subject| {
        let remedies = subject.remedies.iter().map(|plan| row(plan, Vec::new()));
        row(&subject.plan, remedies.collect())
    });
    let text = mark::marked(&table::tables(&rows.collect::<Vec<_>>()));
    let mut pages = vec![Page { name: TABLES.to_owned(), text }];
    for outcome in outcomes.values() {
        for (nth, attempt) in (1..).zip(&outcome.real) {
            let Ok(Attempt { finding, .. }) = attempt else { continue };
            let scenario = real_name(&finding.scenario, nth);
            pages.extend(page::of_finding(&Finding { scenario, ..finding.clone() }));
        }
    }
    output::write(folder, &pages)
}

/// The name of the `nth` run of a scenario on real servers, counted from 1.
fn real_name(scenario: &str, nth: u32) -> String {
    format!("{scenario}-real-{nth}")
}

/// Refuses a folder in which a report would replace a foreign file, before hours of work.
fn look_ahead(
    arguments: &ConfirmArguments,
    plans: &BTreeMap<String, &Plan>,
) -> Result<(), Refusal> {
    let Some(folder) = &arguments.report else { return Ok(()) };
    let runs = |plan: &&Plan| (1..=arguments.runs).map(|nth| real_name(&plan.name, nth)).collect();
    let runs: Vec<String> = plans.values().flat_map::<Vec<_>, _>(runs).collect();
    let reports = runs.iter().flat_map(|name| page::names(name));
    output::refuse_foreign(folder, reports.chain([TABLES.to_owned()]))
}

/// Reports the result of one plan and of its remedies.
fn report(subject: &Subject, outcomes: &BTreeMap<String, ConfirmOutcome>) -> Exit {
    let plan = &subject.plan;
    say(&format!("\n{}  seed {}, plan {}", plan.name, plan.seed, plan.digest()));
    if !subject.reasons.is_empty() {
        subject.reasons.iter().for_each(|why| say(&format!("  not confirmable: {why}")));
        return Exit::Unknown;
    }
    let mut endings = Vec::new();
    for (plan, is_remedy) in
        std::iter::once((plan, false)).chain(subject.remedies.iter().map(|plan| (plan, true)))
    {
        let outcome = &outcomes[&plan.digest()];
        if is_remedy {
            say(&format!("  its remedy: {}", plan.name));
        }
        endings.push(report_outcome(outcome));
    }
    let ending = worst(endings.into_iter());
    if ending != Exit::Held {
        say(&format!("  again: lockstorm confirm {}", subject.again));
    }
    ending
}

fn report_outcome(outcome: &ConfirmOutcome) -> Exit {
    let ConfirmOutcome { simulated, real } = outcome;
    say(&format!("  simulated  {}", text::found(simulated)));
    let mut attempts: Vec<&Attempt> = Vec::new();
    for (nth, attempt) in (1..).zip(real) {
        match attempt {
            Ok(attempt) => {
                let busy = match compare::was_too_busy(simulated, attempt) {
                    true => {
                        format!(", but the machine was {} late", quantity::length(attempt.latest))
                    }
                    false => String::new(),
                };
                say(&format!("  real {nth}     {}{busy}", text::found(&attempt.finding)));
                attempts.push(attempt);
            }
            Err(why) => say(&format!("  real {nth}     was not run: {why}")),
        }
    }
    let steps = STEPS.map(|(what, _, measure)| (what, measure));
    for (what, measure) in WINDOWS.into_iter().chain(steps) {
        let real: Vec<_> = attempts.iter().filter_map(|run| measure(&run.finding)).collect();
        if let (Some(simulated), Some(least), Some(most)) =
            (measure(simulated), real.iter().min(), real.iter().max())
        {
            let [simulated, least, most] = [simulated, *least, *most].map(quantity::moment);
            say(&format!("  {what}: simulated {simulated}, real {least} to {most}"));
        }
    }
    if matches!(simulated.judgement.verdict, Verdict::Violated(_)) {
        say(&format!("  simulated: {}", explain(simulated).verdict));
        if let Some(first) = attempts.first() {
            say(&format!("  real: {}", explain(&first.finding).verdict));
        }
    }
    let unmatched = attempts.iter().map(|run| run.unmatched).max().unwrap_or(0);
    let left_out = compare::left_out(unmatched);
    if !left_out.is_empty() {
        let words: Vec<&str> = left_out.iter().map(|kind| kind.word()).collect();
        let words = words.join(", ");
        say(&format!(
            "  not compared: {words}: servers did not report everything, {unmatched} times at most"
        ));
    }
    conclude(simulated, real)
}

fn conclude(simulated: &Finding, real: &[Result<Attempt, String>]) -> Exit {
    let whole: Result<Vec<&Attempt>, _> = real.iter().map(Result::as_ref).collect();
    let Ok(whole) = whole else {
        say("  not confirmed: not every run could be made");
        return Exit::Refused;
    };
    let (same, all) = (compare::count(simulated, &whole), whole.len());
    let (word, ending) = match compare::agreement(simulated, &whole) {
        ServerAgreement::Same => ("confirmed", Exit::Held),
        ServerAgreement::Unknown => ("unknown", Exit::Unknown),
        ServerAgreement::Differs => ("NOT confirmed", Exit::Violated),
    };
    say(&format!("  {word}: {same} of {all}"));
    ending
}
