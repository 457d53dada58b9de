//! `hunt`: runs seeded random plans until one violates, then shrinks, saves and reports it.

use crate::cli::act::Catch;
use crate::cli::act::watched;
use crate::cli::args::HuntArguments;
use crate::cli::running::found;
use crate::cli::{act, clock, progress};
use crate::edge::ending::Exit;
use crate::edge::output;
use crate::edge::terminal::say;
use crate::explain::finding::Finding;
use crate::explore::base_plan::base_plan;
use crate::explore::hunt::HuntProgress;
use crate::explore::quarry::Quarry;
use crate::quantity::count;
use crate::refusal::Refusal;
use crate::scenario::tables::{PERSISTENCES, TOPOLOGIES};

/// Runs the hunt that the arguments describe.
pub fn hunt(arguments: &HuntArguments) -> Result<Exit, Refusal> {
    let hunt = quarry(arguments).hunt(watched(arguments.engine.lab()))?;
    let names = act::report_names(&hunt.base.name);
    let names = names.chain([act::scenario_name(&hunt.base.name)]);
    // Refused before the hunt, which may take hours, rather than when its result is written.
    output::refuse_foreign(&arguments.report, names)?;
    let (first, last) = (hunt.seeds.start(), hunt.seeds.end());
    let (lock, topology) = (&arguments.lock, &arguments.topology);
    let seeds = format!("seeds {first}..{last}");
    say(&format!("lockstorm {}: {lock} on {topology}, {seeds}", env!("CARGO_PKG_VERSION")));
    let bar = progress::bar((last - first).saturating_add(1), "hunting");
    let budget = clock::budget(arguments.budget);
    let catch = act::hunt(&hunt, arguments.jobs, budget, &|far| match far {
        HuntProgress::Tried(done) => bar.inc(done),
        HuntProgress::Shrinking => progress::now("shrinking"),
    });
    progress::clear();
    report(arguments, &catch, &seeds)
}

fn quarry(arguments: &HuntArguments) -> Quarry {
    let topology = TOPOLOGIES.iter().find(|(word, _)| *word == arguments.topology);
    let mut base = base_plan(&arguments.lock, topology.expect("the parser knows the words").1);
    base.lock.needs = arguments.needs;
    base.lock.quorum = arguments.quorum;
    let mut quarry = Quarry::like(base);
    let persistence = arguments.persistence.iter().map(|given| {
        let known = PERSISTENCES.iter().find(|(word, _)| word == given);
        known.expect("the parser knows the words").1
    });
    persistence.for_each(|persistence| quarry.persistence(persistence));
    arguments.ttl.into_iter().for_each(|length| quarry.ttl(length));
    arguments.timeout.into_iter().for_each(|length| quarry.timeout(length));
    arguments.nodes.into_iter().for_each(|count| quarry.nodes(count));
    arguments.hold.into_iter().for_each(|length| quarry.hold(length));
    arguments.clients.into_iter().for_each(|count| quarry.clients(count));
    arguments.extend.into_iter().for_each(|extend| quarry.extend(extend));
    arguments.reenter.into_iter().for_each(|reenter| quarry.reenter(reenter));
    arguments.check_validity.into_iter().for_each(|check| quarry.check_validity(check));
    quarry.faults = arguments.faults.iter().cloned().collect();
    quarry.within_assumptions = arguments.within_assumptions;
    quarry.seeds = arguments.seeds.clone();
    quarry
}

fn report(arguments: &HuntArguments, catch: &Catch, seeds: &str) -> Result<Exit, Refusal> {
    let tested = &catch.tally;
    let Some((finding, shrink_runs)) = &catch.found else {
        if catch.tally.struck_in_hold == 0 {
            let within = match arguments.within_assumptions {
                true => " (such faults break its assumptions; --within-assumptions draws none)",
                false => "",
            };
            say(&format!("unknown: no fault struck inside a hold in {tested}{within}; {seeds}"));
            return Ok(Exit::Unknown);
        }
        if catch.tally.held == 0 {
            say(&format!("unknown: no plan tested anything, of {tested}; {seeds}"));
            return Ok(Exit::Unknown);
        }
        say(&format!("no violation in {tested}; {seeds}"));
        return Ok(Exit::Held);
    };
    say(&format!("found after {tested}: {}", found(finding)));
    let smallest = if catch.is_minimal { "" } else { ", and given up: it may become smaller" };
    say(&format!("shrunk in {shrink_runs} runs to {}{smallest}", faults(finding)));
    act::in_short(finding).iter().for_each(|line| say(line));
    let is_outside = finding.class.as_ref().is_some_and(|class| !class.is_in_model());
    if is_outside && !arguments.within_assumptions {
        say("a bug of the lock itself may hide behind this one: hunt with --within-assumptions");
    }
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
    Ok(Exit::Violated)
}

fn faults(finding: &Finding) -> String {
    let plan = &finding.plan;
    let each = plan.faults.iter().map(|fault| format!("{} of {}", fault.verb.word(), fault.target));
    let each: Vec<String> = each.collect();
    let clients = count(plan.workload.clients.into(), "client");
    match each.len() {
        0 => format!("{clients} and no fault"),
        _ => format!("{clients} and {}", each.join(", ")),
    }
}
