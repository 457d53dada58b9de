//! `explain` and `threshold`: why one plan is violated, and from which value of a figure.

use std::path::Path;

use crate::check::verdict::Verdict;
use crate::cli::act;
use crate::cli::act::ThresholdReport;
use crate::cli::act::watched;
use crate::cli::args::{ExplainArguments, OneEngine, ThresholdArguments};
use crate::cli::kept::Kept;
use crate::edge::ending::Exit;
use crate::edge::terminal::say;
use crate::edge::{clock, input, output, progress};
use crate::explain::finding::Finding;
use crate::explore::budget::Budget;
use crate::refusal::Refusal;
use crate::report::page;
use crate::run::Lab;

/// Explains a plan, or that of a scenario and a seed: in short on standard output, and as a report
/// if requested.
pub fn explain(arguments: &ExplainArguments) -> Result<Exit, Refusal> {
    let lab = watched(OneEngine::Event.lab());
    let budget = clock::budget(arguments.budget);
    let finding = finding(&lab, budget, &arguments.input, arguments.seed);
    progress::clear();
    let finding = finding?;
    if let Some(folder) = &arguments.report {
        output::refuse_foreign(folder, page::names(&finding.scenario))?;
    }
    say(&format!(
        "lockstorm {}: seed {}, plan {}",
        env!("CARGO_PKG_VERSION"),
        finding.seed,
        finding.plan_hash
    ));
    act::in_short(&finding).iter().for_each(|line| say(line));
    if finding.plan.name.starts_with("hunt-") && finding.judgement.verdict == Verdict::Holds {
        say("  no longer violated: the plan, the lock or this build is not what a hunt saved;");
        say("  `lockstorm replay PLAN --trace HASH`, as the hunt printed it, compares the runs");
    }
    if let Some(folder) = &arguments.report {
        output::write(folder, &page::of_finding(&finding))?;
        say(&format!("report: {}", folder.join(finding.scenario.clone() + ".md").display()));
    }
    say(&format!("seed {}, plan {}", finding.seed, finding.plan_hash));
    Ok(ending(&finding))
}

/// Prints the values of figures from which a plan is violated. A threshold is a result, not a
/// failure.
pub fn threshold(arguments: &ThresholdArguments) -> Result<Exit, Refusal> {
    let lab = watched(OneEngine::Event.lab());
    let plan = plan(&arguments.input, arguments.seed)?;
    say(&format!(
        "lockstorm {}: seed {}, plan {}",
        env!("CARGO_PKG_VERSION"),
        plan.seed,
        plan.digest()
    ));
    let thresholds = match act::thresholds(&lab, &plan, arguments.of.as_deref()) {
        Ok(thresholds) => thresholds,
        Err(can_be) => {
            let what = match &arguments.of {
                Some(of) => format!("this plan has no figure '{of}'"),
                None => "this plan has no figure that could be turned".to_owned(),
            };
            return Err(Refusal::new(what, format!("it has: {}", can_be.join(", "))));
        }
    };
    let ending = match thresholds {
        ThresholdReport::Unknown(finding) => {
            act::in_short(&finding).iter().for_each(|line| say(line));
            ending(&finding)
        }
        ThresholdReport::Lines(lines) => {
            lines.iter().for_each(|line| say(line));
            Exit::Held
        }
    };
    say(&format!("seed {}, plan {}", plan.seed, plan.digest()));
    Ok(ending)
}

fn is_plan(input: &Path) -> bool {
    input.extension().is_some_and(|end| end == "json")
}

fn plan(input: &Path, seed: Option<u64>) -> Result<crate::plan::Plan, Refusal> {
    if is_plan(input) {
        return own_seed(seed).and_then(|()| input::plan(input));
    }
    let scenario = one_scenario(input)?;
    Ok(scenario.plan(seed.unwrap_or_else(|| scenario.seeds()[0])))
}

fn finding(
    lab: &Lab,
    budget: Option<Budget>,
    input: &Path,
    seed: Option<u64>,
) -> Result<Finding, Refusal> {
    if is_plan(input) {
        own_seed(seed)?;
        let examined = act::examine_plan(lab, budget, &input::plan(input)?);
        return Ok(Finding { scenario: name(input), ..examined });
    }
    let scenario = one_scenario(input)?;
    let seed = seed.unwrap_or_else(|| scenario.seeds()[0]);
    Ok(act::examine(lab, budget, &scenario, seed, &Kept::default()))
}

/// The name of the report on a plan: that of its file. All plans of a hunt have one name inside,
/// and the report on one must not replace that on another.
fn name(plan: &Path) -> String {
    let file = plan.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.strip_suffix(".json").unwrap_or(&file);
    stem.strip_suffix(".plan").unwrap_or(stem).to_owned()
}

fn one_scenario(input: &Path) -> Result<crate::scenario::Scenario, Refusal> {
    if input.is_dir() {
        let what = format!("{} is a folder", input.display());
        return Err(Refusal::new(what, "name one scenario, or one plan"));
    }
    let mut scenarios = input::scenarios(&[input.to_owned()])?;
    Ok(scenarios.remove(0))
}

fn own_seed(seed: Option<u64>) -> Result<(), Refusal> {
    match seed {
        None => Ok(()),
        Some(_) => {
            let what = "a plan has its own seed";
            Err(Refusal::new(what, "leave --seed out, or name the scenario"))
        }
    }
}

/// The exit code: according to the expectation, as for `run`, or to the verdict if there is none.
fn ending(finding: &Finding) -> Exit {
    let met = finding.expected.as_ref().map(|expected| expected.met);
    match (met, &finding.judgement.verdict) {
        (Some(true), _) | (None, Verdict::Holds) => Exit::Held,
        (_, Verdict::Unknown(_)) => Exit::Unknown,
        (Some(false), _) | (None, Verdict::Violated(_)) => Exit::Violated,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::name;

    #[test]
    fn a_report_is_named_after_the_file_of_its_plan() {
        for (file, stem) in [
            ("reports/hunt-x-2.plan.json", "hunt-x-2"),
            ("x.json", "x"),
            ("x.json.json", "x.json"),
            ("x.plan.plan.json", "x.plan"),
            ("x", "x"),
        ] {
            assert_eq!(name(Path::new(file)), stem);
        }
    }
}
