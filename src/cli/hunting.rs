//! `hunt`: seeded random plans until one is violated; it is shrunk, saved and explained.

use std::collections::BTreeSet;

use lockstorm_platform::fault::verbs;

use crate::cli::act::{self, Catch, Quarry};
use crate::cli::args::HuntArguments;
use crate::cli::running::found;
use crate::cli::{Ending, clock, output, progress, say, watched};
use crate::explain::finding::Finding;
use crate::explore::ground::{PROBE_TIME, ground};
use crate::explore::habits::Parameter;
use crate::explore::hunt::{Progress, Tally};
use crate::explore::strategy::{Lack, lack};
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::scenario::tables::{PERSISTENCES, TOPOLOGIES};

/// Runs the requested hunt.
pub fn hunt(arguments: &HuntArguments) -> Result<Ending, Refusal> {
    let quarry = quarry(arguments)?;
    let names = act::report_names(&quarry.base.name);
    let names = names.chain([act::scenario_name(&quarry.base.name)]);
    output::refuse_foreign(&arguments.report, names)?;
    let (first, last) = (quarry.seeds.start(), quarry.seeds.end());
    let (lock, topology) = (&arguments.lock, &arguments.topology);
    let seeds = format!("seeds {first}..{last}");
    say(&format!("lockstorm {}: {lock} on {topology}, {seeds}", env!("CARGO_PKG_VERSION")));
    let bar = progress::bar((last - first).saturating_add(1), "hunting");
    let catch = act::hunt(&quarry, &|far| match far {
        Progress::Tried(done) => bar.inc(done),
        Progress::Shrinking => progress::now("shrinking"),
    });
    progress::clear();
    tell(arguments, &catch, &seeds)
}

fn quarry(arguments: &HuntArguments) -> Result<Quarry, Refusal> {
    let topology = TOPOLOGIES.iter().find(|(word, _)| *word == arguments.topology);
    let mut base = ground(&arguments.lock, topology.expect("the parser knows the words").1);
    let persistence = PERSISTENCES.iter().find(|(word, _)| *word == arguments.persistence);
    base.topology.persistence = persistence.expect("the parser knows the words").1;
    let varies = choose(arguments, &mut base);
    base.lock.needs = arguments.needs;
    base.lock.quorum = arguments.quorum;
    base.until = base.heal_at + base.longest_ttl().saturating_add(PROBE_TIME);
    base.validate().map_err(|found| Refusal::of_usage(found.what, found.mend))?;
    let rows = arguments.faults.iter().filter_map(|word| verbs::find(word));
    for row in rows {
        let (need, mend) = match lack(&base, row) {
            None => continue,
            Some(Lack::Replica) => ("a replica", "--topology replicated"),
            Some(Lack::Persistence) => ("something written to a disk", "--persistence aof-always"),
        };
        let what = format!("'{}' needs {need}, and there is none", row.word);
        return Err(Refusal::of_usage(what, format!("take it out, or take {mend}")));
    }
    within(Quarry {
        lab: watched(arguments.engine.lab()),
        base,
        faults: arguments.faults.clone(),
        varies,
        within_assumptions: arguments.within_assumptions,
        seeds: arguments.seeds.clone(),
        jobs: arguments.jobs,
        budget: clock::budget(arguments.budget),
    })
}

/// A hunt within assumptions changes no given setting: it is refused if these exceed them.
fn within(quarry: Quarry) -> Result<Quarry, Refusal> {
    let Some(why) = act::beyond(&quarry) else { return Ok(quarry) };
    let what = format!("no plan like this is within the assumptions of the lock: {why}");
    let mend = "take a shorter --hold or --timeout, a longer --ttl, or have clients --extend; or \
                leave out --within-assumptions";
    Err(Refusal::of_usage(what, mend))
}

/// Applies the given settings to the base plan; returns the parameters left to be drawn.
fn choose(arguments: &HuntArguments, base: &mut Plan) -> BTreeSet<Parameter> {
    let mut varies = Parameter::all();
    let mut given = |parameter, is_given| {
        if is_given {
            varies.remove(&parameter);
        }
    };
    given(Parameter::Ttl, arguments.ttl.is_some());
    base.lock.ttl = arguments.ttl.or(base.lock.ttl);
    given(Parameter::Timeout, arguments.timeout.is_some());
    base.lock.timeout = arguments.timeout;
    given(Parameter::Nodes, arguments.nodes.is_some());
    base.topology.nodes = arguments.nodes.unwrap_or(base.topology.nodes);
    let workload = &mut base.workload;
    given(Parameter::Hold, arguments.hold.is_some());
    workload.hold = arguments.hold.unwrap_or(workload.hold);
    given(Parameter::Clients, arguments.clients.is_some());
    workload.clients = arguments.clients.unwrap_or(workload.clients);
    given(Parameter::Extend, arguments.extend.is_some());
    workload.extend = arguments.extend.unwrap_or(workload.extend);
    given(Parameter::Reenter, arguments.reenter.is_some());
    workload.reenter = arguments.reenter.unwrap_or(workload.reenter);
    given(Parameter::CheckValidity, arguments.check_validity.is_some());
    workload.check_validity = arguments.check_validity.unwrap_or(workload.check_validity);
    varies
}

fn tell(arguments: &HuntArguments, catch: &Catch, seeds: &str) -> Result<Ending, Refusal> {
    let tested = tested(&catch.tally);
    let Some((finding, shrink_runs)) = &catch.found else {
        if catch.tally.struck_in_hold == 0 {
            let within = match arguments.within_assumptions {
                true => " (inside its assumptions nothing strikes a lock that breaks them)",
                false => "",
            };
            say(&format!("unknown: no fault struck inside a hold in {tested}{within}; {seeds}"));
            return Ok(Ending::Unknown);
        }
        if catch.tally.held == 0 {
            say(&format!("unknown: no plan tested anything, of {tested}; {seeds}"));
            return Ok(Ending::Unknown);
        }
        say(&format!("no violation in {tested}; {seeds}"));
        return Ok(Ending::Held);
    };
    say(&format!("found after {tested}: {}", found(finding)));
    let smallest = if catch.is_minimal { "" } else { ", and given up: it may become smaller" };
    say(&format!("shrunk in {shrink_runs} runs to {}{smallest}", faults(finding)));
    act::in_short(finding).iter().for_each(|line| say(line));
    let pages = [act::report(finding), catch.scenario.iter().cloned().collect()].concat();
    if let Err(refusal) = output::write(&arguments.report, &pages) {
        say(&format!("seed {}, plan {}", finding.seed, finding.plan_hash));
        return Err(refusal);
    }
    let path = arguments.report.join(format!("{}.plan.json", finding.scenario));
    say(&format!("report: {}", path.with_file_name(finding.scenario.clone() + ".md").display()));
    if let Some(page) = &catch.scenario {
        say(&format!("scenario: {}", path.with_file_name(&page.name).display()));
    }
    say(&format!("again: lockstorm replay {} --trace {}", path.display(), finding.trace_hash));
    say(&format!("seed {}, plan {}", finding.seed, finding.plan_hash));
    Ok(Ending::Violated)
}

/// How much was tested: this is what a hunt without a violation is worth.
pub fn tested(tally: &Tally) -> String {
    let Tally { runs, unknown, outside, with_faults, struck_in_hold, grants, .. } = tally;
    let share = struck_in_hold * 100 / (*runs).max(1);
    let beyond = match outside {
        0 => String::new(),
        _ => format!(", {outside} in which an assumption was broken that no fault foresaw"),
    };
    format!(
        "{runs} plans ({with_faults} with faults, {struck_in_hold} = {share} % with a fault that \
         struck inside a hold, {unknown} in which nothing was tested{beyond}, {grants} grants)"
    )
}

fn faults(finding: &Finding) -> String {
    let plan = &finding.plan;
    let each = plan.faults.iter().map(|fault| format!("{} of {}", fault.verb.word(), fault.target));
    let each: Vec<String> = each.collect();
    let clients = plan.workload.clients;
    match each.len() {
        0 => format!("{clients} clients and no fault"),
        _ => format!("{clients} clients and {}", each.join(", ")),
    }
}
