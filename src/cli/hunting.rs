//! `hunt`: runs seeded random plans, groups what they violate, and shrinks, saves and reports it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use lockstorm_platform::time::{Nanos, SECOND};

use crate::check::verdict::Kind;
use crate::cli::act::{Catch, Caught, watched};
use crate::cli::args::HuntArguments;
use crate::cli::running::found;
use crate::cli::{act, campaigning, clock, progress};
use crate::edge::ending::Exit;
use crate::edge::output;
use crate::edge::terminal::say;
use crate::explain::finding::Finding;
use crate::explore::base_plan::base_plan;
use crate::explore::hunt::{Hunt, HuntProgress, Until};
use crate::explore::quarry::{Quarry, countable};
use crate::explore::sound::Sound;
use crate::quantity::{count, length};
use crate::refusal::Refusal;
use crate::scenario::tables::{PERSISTENCES, TOPOLOGIES};

/// The time limit of an explanation, unless another is given, ns.
const EXPLAINING: Nanos = 60 * SECOND;

/// The seeds of a hunt without a time limit, unless others are given.
const SEEDS: RangeInclusive<u64> = 1..=1_000;

/// Runs the hunt that the arguments describe.
pub fn hunt(arguments: &HuntArguments) -> Result<Exit, Refusal> {
    let shard = campaigning::shard(arguments.shard)?;
    let shards = shard.map_or(1, |shard| shard.count);
    let hunt = quarry(arguments, shards)?.hunt(watched(arguments.engine.lab()))?;
    if let Some(shard) = shard {
        return campaigning::run(arguments, &hunt, shard);
    }
    // Refused before the hunt, which may take hours, rather than when its result is written.
    output::refuse_foreign(&arguments.report, act::hunt_names(&hunt.base.name))?;
    let (first, last) = (hunt.seeds.start(), hunt.seeds.end());
    let (lock, topology) = (&arguments.lock, &arguments.topology);
    let seeds = match arguments.budget {
        Some(budget) if *last == u64::MAX => format!("seeds from {first} for {}", length(budget)),
        Some(budget) => format!("seeds {first}..{last} for at most {}", length(budget)),
        None => format!("seeds {first}..{last}"),
    };
    say(&format!("lockstorm {}: {lock} on {topology}, {seeds}", env!("CARGO_PKG_VERSION")));
    let until = if arguments.first { Until::First } else { Until::End };
    let search = arguments.budget.map(clock::silent);
    let explaining = clock::budget(arguments.budget.unwrap_or(EXPLAINING));
    let (budgets, shown) = ((search, explaining), shown(&hunt, arguments));
    let catch = act::hunt(&hunt, until, arguments.jobs, budgets, &shown);
    progress::clear();
    let seeds = match catch.next {
        Some(next) => format!("seeds {first}..{}, where the budget ended", next - 1),
        None => format!("seeds {first}..{last}"),
    };
    let (within, first) = (arguments.within_assumptions, arguments.first);
    tell(&Told { seeds: &seeds, within, first, folder: &arguments.report }, &catch)
}

/// The progress display: a bar, or with a time limit the number of plans.
fn shown(hunt: &Hunt, arguments: &HuntArguments) -> impl Fn(HuntProgress) + Sync {
    let plans = (hunt.seeds.end() - hunt.seeds.start()).saturating_add(1);
    let bar = arguments.budget.is_none().then(|| progress::bar(plans, "hunting"));
    let (tried, shrunk) = (AtomicU64::new(0), AtomicU64::new(0));
    move |far| match far {
        HuntProgress::Tried { seeds, groups, states } => {
            let tried = tried.fetch_add(seeds, Ordering::Relaxed) + seeds;
            let found = format!("{}, {}", count(groups as u64, "group"), count(states, "state"));
            match &bar {
                Some(bar) => {
                    bar.set_message(format!("hunting, {found}"));
                    bar.inc(seeds);
                }
                None => progress::now(&format!("hunting: {tried} plans, {found}")),
            }
        }
        HuntProgress::Shrunk => {
            let shrunk = shrunk.fetch_add(1, Ordering::Relaxed) + 1;
            progress::now(&format!("shrinking: {} done", count(shrunk, "group")));
        }
    }
}

fn quarry(arguments: &HuntArguments, shards: u32) -> Result<Quarry, Refusal> {
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
    quarry.strategies = arguments.strategy.parse().expect("the parser knows the words");
    quarry.faults = arguments.faults.iter().cloned().collect();
    quarry.within_assumptions = arguments.within_assumptions;
    quarry.seeds = match (&arguments.seeds, arguments.budget) {
        (Some(seeds), Some(_)) => seeds.clone(),
        (Some(seeds), None) => countable(seeds.clone(), shards)?,
        (None, Some(_)) => 1..=u64::MAX,
        (None, None) => SEEDS,
    };
    Ok(quarry)
}

/// What to say of a hunt, beside its result.
pub struct Told<'a> {
    /// Its seeds, in words.
    pub seeds: &'a str,
    /// Whether its plans stay within the assumptions of the lock.
    pub within: bool,
    /// Whether it stopped at the first violation.
    pub first: bool,
    /// The folder for plans and reports.
    pub folder: &'a Path,
}

/// Prints the result of a hunt, and writes its plans and the report of the first finding.
pub fn tell(told: &Told<'_>, catch: &Catch) -> Result<Exit, Refusal> {
    let tested = &catch.tally;
    let Some((first, others)) = catch.groups.split_first() else {
        return Ok(nothing(told, catch));
    };
    let finding = &first.finding;
    let groups = catch.groups.len();
    let all = match told.first {
        true => found(finding),
        false => {
            let plans = count(catch.violated, "violated plan");
            format!("{plans} in {}; {}", count(groups as u64, "group"), told.seeds)
        }
    };
    say(&format!("found after {tested}: {all}"));
    if !told.first {
        say(&headline(first, 1, groups));
    }
    say(&shrunk(first));
    act::in_short(finding).iter().for_each(|line| say(line));
    let is_outside = finding.class.as_ref().is_some_and(|class| !class.is_in_model());
    if is_outside && !told.within {
        say("a bug of the lock itself may hide behind this one: hunt with --within-assumptions");
    }
    let mut pages = [act::report(finding), catch.scenario.iter().cloned().collect()].concat();
    pages.extend((2..).zip(others).map(|(nth, other)| act::plan_page(&other.finding, nth)));
    let (seed, strategy) = (finding.seed, first.strategy);
    let last = format!("seed {seed} of --strategy {strategy}, plan {}", finding.plan_hash);
    if let Err(refusal) = output::write(told.folder, &pages) {
        say(&last);
        return Err(refusal);
    }
    let path = told.folder.join(format!("{}.plan.json", finding.scenario));
    say(&format!("report: {}", path.with_file_name(finding.scenario.clone() + ".md").display()));
    if let Some(page) = &catch.scenario {
        say(&format!("scenario: {}", path.with_file_name(&page.name).display()));
    }
    say(&format!("again: lockstorm replay {} --trace {}", path.display(), finding.trace_hash));
    for (nth, other) in (2..).zip(others) {
        say(&headline(other, nth, groups));
        say(&format!("  {}", shrunk(other)));
        act::how(&other.finding).iter().for_each(|line| say(line));
        let path = told.folder.join(act::plan_page(&other.finding, nth).name);
        let trace = &other.finding.trace_hash;
        say(&format!("  again: lockstorm replay {} --trace {trace}", path.display()));
    }
    if !others.is_empty() {
        say("lockstorm explain PLAN explains each of them");
    }
    say(&format!("explored: {}", catch.novelty));
    say(&last);
    Ok(Exit::Violated)
}

/// What a hunt that found nothing has shown.
fn nothing(told: &Told<'_>, catch: &Catch) -> Exit {
    let (tested, seeds) = (&catch.tally, told.seeds);
    if tested.struck_in_hold == 0 {
        let within = match told.within {
            true => " (such faults break its assumptions; --within-assumptions draws none)",
            false => "",
        };
        say(&format!("unknown: no fault struck inside a hold in {tested}{within}; {seeds}"));
        return Exit::Unknown;
    }
    if tested.held == 0 {
        say(&format!("unknown: no plan tested anything, of {tested}; {seeds}"));
        return Exit::Unknown;
    }
    say(&format!("no violation in {tested}; {seeds}"));
    say(&format!("explored: {}", catch.novelty));
    Exit::Held
}

/// What a group is, and how often it was seen.
fn headline(group: &Caught, nth: usize, groups: usize) -> String {
    let (what, plans) = (found(&group.finding), count(group.count, "plan"));
    let beside = group.sound.as_ref().map_or(String::new(), |sound| format!("; {}", words(sound)));
    format!("group {nth} of {groups}: {what}, in {plans}{beside}")
}

/// What a correct lock of the same family does in the plan.
fn words(sound: &Sound) -> String {
    let Sound { lock, same, other, is_unknown } = sound;
    let kinds =
        |kinds: &[Kind]| kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
    match (&same[..], &other[..]) {
        ([], []) if *is_unknown => format!("in this plan {lock} tests nothing"),
        ([], []) => format!("{lock} holds in this plan"),
        ([], other) => format!("{lock} only has another violation in this plan: {}", kinds(other)),
        (same, _) => format!("{lock} falls to this plan too: {}", kinds(same)),
    }
}

fn shrunk(group: &Caught) -> String {
    let smallest = if group.is_minimal { "" } else { ", and given up: it may become smaller" };
    format!("shrunk in {} runs to {}{smallest}", group.shrink_runs, faults(&group.finding))
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
