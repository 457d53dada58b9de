//! `hunt`: runs seeded random plans, groups what they violate, and shrinks, saves and reports it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::cli::act;
use crate::cli::act::watched;
use crate::cli::args::HuntArguments;
use crate::cli::args::configured::Configured;
use crate::edge::campaign::{self, ShardRun};
use crate::edge::ending::Exit;
use crate::edge::terminal::say;
use crate::edge::{clock, environment, hunt_result, output, progress, stop};
use crate::explain::finding::Finding;
use crate::hunt::campaign::canary;
use crate::hunt::catch::catch;
use crate::hunt::quarry::{Quarry, seeds_of};
use crate::hunt::search::{Until, scout};
use crate::hunt::wording::Wording;
use crate::lock::{library, options};
use crate::plan::base_plan::{base_plan, base_plan_of_library};
use crate::plan::{Plan, TopologyKind};
use crate::quantity::length;
use crate::refusal::Refusal;
use crate::report;
use crate::report::hunt::Audience;
use crate::scenario::tables::{PERSISTENCES, TOPOLOGIES};

/// The seeds of a hunt without a time limit, unless others are given.
const SEEDS: RangeInclusive<u64> = 1..=1_000;

/// Runs the hunt that the arguments describe.
pub fn hunt(arguments: &HuntArguments) -> Result<Exit, Refusal> {
    let shard = arguments.shard.map(campaign::shard).transpose()?;
    let shards = shard.map_or(1, |shard| shard.count);
    let hunt = quarry(arguments, shards)?.hunt(watched(arguments.engine.lab()))?;
    if let Some(shard) = shard {
        let (folder, budget) = (&arguments.campaign, arguments.budget);
        let (merge, canary) = ("lockstorm merge", canary::dead);
        let part = ShardRun { shard, folder, budget, merge, canary };
        return act::side_by_side(arguments.jobs, || campaign::run(&hunt, &part));
    }
    campaign::warn_of_array("--shard auto");
    // Refused before the hunt, which may take hours, rather than when its result is written.
    output::prepare(&arguments.report, report::hunt::names(&hunt.base))?;
    let (first, last) = (hunt.seeds.start(), hunt.seeds.end());
    let (lock, topology) = (&arguments.lock, &arguments.topology);
    let seeds = match arguments.budget {
        Some(budget) if *last == u64::MAX => format!("seeds from {first} for {}", length(budget)),
        Some(budget) => format!("seeds {first}..{last} for at most {}", length(budget)),
        None => format!("seeds {first}..{last}"),
    };
    stop::listen();
    say(&format!("lockstorm {}: {lock} on {topology}, {seeds}", env!("CARGO_PKG_VERSION")));
    let until = if arguments.first { Until::First } else { Until::End };
    let search = clock::search(arguments.budget);
    let limits = clock::limits(arguments.budget);
    let progress = progress::hunting(arguments.budget.is_none().then(|| hunt.plans()));
    let catch = act::side_by_side(arguments.jobs, || {
        let scouted = scout(&hunt, until, Some(search), &progress);
        catch(&hunt, until, scouted, limits, &progress)
    });
    progress::clear();
    hunt_result::show(catch, &reader(&arguments.report))
}

fn quarry(arguments: &HuntArguments, shards: u32) -> Result<Quarry, Refusal> {
    let base = base(&arguments.lock, topology(&arguments.topology));
    let mut quarry = configured(base, &arguments.configured)?;
    quarry.strategies = arguments.strategy.parse().expect("the parser knows the words");
    quarry.faults = arguments.faults.iter().cloned().collect();
    quarry.within_assumptions = arguments.within_assumptions;
    let (given, is_limited) = (arguments.seeds.clone(), arguments.budget.is_some());
    quarry.seeds = seeds_of(given, is_limited, shards, (SEEDS, quarry.wording))?;
    Ok(quarry)
}

/// The kind of topology of this name.
pub fn topology(word: &str) -> TopologyKind {
    let found = TOPOLOGIES.iter().find(|(known, _)| *known == word);
    found.expect("the parser knows the words").1
}

/// The base plan of a lock of the catalogue, or of a client library.
pub fn base(lock: &str, topology: TopologyKind) -> Plan {
    match library::find(lock) {
        Some(library) => base_plan_of_library(library, topology),
        None => base_plan(lock, topology),
    }
}

/// A search around a base plan that is configured like this.
pub fn configured(mut base: Plan, given: &Configured) -> Result<Quarry, Refusal> {
    let mut keys = BTreeSet::new();
    for option in &given.options {
        let (key, value) = undrawn(option)?;
        if !keys.insert(key) {
            return Err(Refusal::new(format!("'{key}' is given twice"), "one value"));
        }
        base.lock = options::set(&base.lock, key, value)?;
    }
    let mut quarry = Quarry::like(base);
    let persistence = given.persistence.iter().map(|given| {
        let known = PERSISTENCES.iter().find(|(word, _)| word == given);
        known.expect("the parser knows the words").1
    });
    persistence.for_each(|persistence| quarry.persistence(persistence));
    given.ttl.into_iter().for_each(|length| quarry.ttl(length));
    given.timeout.into_iter().for_each(|length| quarry.timeout(length));
    given.needs.into_iter().for_each(|length| quarry.needs(length));
    given.quorum.into_iter().for_each(|count| quarry.quorum(count));
    given.nodes.into_iter().for_each(|count| quarry.nodes(count));
    given.hold.into_iter().for_each(|length| quarry.hold(length));
    given.clients.into_iter().for_each(|count| quarry.clients(count));
    given.callers.into_iter().for_each(|count| quarry.callers(count));
    given.extend.into_iter().for_each(|extend| quarry.extend(extend));
    given.reenter.into_iter().for_each(|reenter| quarry.reenter(reenter));
    given.check_validity.into_iter().for_each(|check| quarry.check_validity(check));
    Ok(quarry)
}

/// The key and the value of an option that the hunt does not draw: those that it draws have
/// arguments of their own.
fn undrawn(option: &str) -> Result<(&str, &str), Refusal> {
    let no = || Refusal::new(format!("'{option}' is no option with a value"), "KEY=VALUE");
    let (key, value) = option.split_once('=').ok_or_else(no)?;
    let is_drawn = ["ttl", "timeout", "needs", "quorum"].contains(&key);
    let what = format!("--option {key} has an argument of its own");
    if is_drawn { Err(Refusal::new(what, format!("--{key} {value}"))) } else { Ok((key, value)) }
}

/// Who reads what the command line prints of a hunt.
pub fn reader(folder: &Path) -> Audience<'_> {
    let again = &|finding: &Finding, path: &Path| {
        format!("lockstorm replay {} --trace {}", path.display(), finding.trace_hash)
    };
    let (wording, others) = (Wording::Options, "lockstorm explain PLAN explains each of them");
    let command = Some(environment::command());
    Audience { folder, is_whole: false, command, wording, again, others }
}
