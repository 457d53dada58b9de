//! `hunt --shard`: runs one part of a campaign, and goes on where an earlier process stopped.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::args::HuntArguments;
use crate::cli::{act, kept};
use crate::edge::campaign_file::LogFile;
use crate::edge::ending::Exit;
use crate::edge::terminal::{complain, say};
use crate::edge::{clock, output, progress};
use crate::explore::budget::Spending;
use crate::explore::campaign::log::{Log, Record};
use crate::explore::campaign::shard::{Choice, Shard, array_variable, from_environment};
use crate::explore::campaign::{Campaign, Segment, Settings, canary};
use crate::explore::group::{Example, GroupKey};
use crate::explore::hunt::{Hunt, draw};
use crate::quantity::count;
use crate::refusal::Refusal;
use crate::report::page::Page;

/// The folder of plans, below that of the campaign.
const PLANS: &str = "plans";

/// A variable of the environment that is set.
#[expect(clippy::disallowed_methods, reason = "which shard runs, not what a plan does")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The shard that was typed. `None` for a whole hunt; a job of an array is told how to take a part:
/// a hunt must not silently test a fraction of its seeds, or every job test all of them unnoticed.
pub fn shard(choice: Option<Choice>) -> Result<Option<Shard>, Refusal> {
    match choice {
        Some(Choice::Given(shard)) => Ok(Some(shard)),
        Some(Choice::Auto(count)) => from_environment(count, &variable).map(Some),
        None => {
            if let Some(name) = array_variable(&variable) {
                complain(&format!(
                    "{name} is set, but this hunt tries all seeds: --shard auto takes a part\n"
                ));
            }
            Ok(None)
        }
    }
}

/// Runs the shard's segments that no earlier process has finished.
pub fn run(arguments: &HuntArguments, hunt: &Hunt, shard: Shard) -> Result<Exit, Refusal> {
    let build = kept::build();
    if build.is_empty() {
        let what = "the program cannot read itself, so nobody could tell which build hunted";
        return Err(Refusal::new(what, "make the program's file readable"));
    }
    let settings = Settings::of(hunt, build);
    let (segments, Shard { index, count: shards }) = (settings.segments(), shard);
    if u64::from(shards) > segments {
        let what = format!("{shards} shards have only {segments} segments of seeds to share");
        let instead = format!("take at most {segments} shards, or more --seeds");
        return Err(Refusal::new(what, instead));
    }
    let folder = &arguments.campaign;
    let path = folder.join(format!("shard-{index:05}-of-{shards:05}.jsonl"));
    let (mut file, known) = LogFile::open(&path)?;
    let mut campaign = Campaign::new(settings.clone());
    let torn = known.torn;
    if let Log { campaign: Some(known), .. } = known {
        campaign.merge(known).map_err(|refusal| {
            let what = format!("{}: {}", path.display(), refusal.what);
            Refusal::new(what, "name another --campaign folder for another hunt")
        })?;
    }
    let lock = &arguments.lock;
    say(&format!("lockstorm {}: shard {shard} of a hunt for {lock}", env!("CARGO_PKG_VERSION")));
    if let Some(why) = canary::dead(&hunt.lab) {
        complain(&format!("the canary failed: {why}. No verdict of this machine is reliable\n"));
        return Ok(Exit::Diverged);
    }
    file.append(&Record::Session { settings: Box::new(settings), shards: vec![shard] })?;
    let done = campaign.tally().runs;
    if done > 0 || torn > 0 {
        let lines = count(torn as u64, "torn line");
        say(&format!("goes on after {}; {lines} in its log", count(done, "plan")));
    }
    act::side_by_side(arguments.jobs, || {
        go_on(arguments, hunt, shard, (&mut campaign, &mut file))
    })?;
    progress::clear();
    Ok(ended(&campaign, shard, &path))
}

/// Runs what is missing, as far as the budget permits.
fn go_on(
    arguments: &HuntArguments,
    hunt: &Hunt,
    shard: Shard,
    (campaign, file): (&mut Campaign, &mut LogFile),
) -> Result<(), Refusal> {
    let spending = Spending::of(arguments.budget.map(clock::silent));
    let mut smallest: BTreeMap<GroupKey, Example> = BTreeMap::new();
    for (key, group) in campaign.groups().iter() {
        smallest.extend(group.smallest.first().map(|example| (key.clone(), *example)));
    }
    let mut has_run = false;
    for seeds in campaign.settings.clone().seeds_of(shard) {
        if campaign.segments.contains_key(seeds.start()) {
            continue;
        }
        // At least one segment runs, so that a campaign gets on.
        if has_run && spending.is_used_up() {
            return Ok(());
        }
        has_run = true;
        let (first, last) = (*seeds.start(), *seeds.end());
        progress::now(&format!("shard {shard}: seeds {first}..{last}"));
        let segment = Segment::run(hunt, seeds);
        // The plans come before the line that counts them: whoever reads the line finds them.
        keep_plans(&arguments.campaign, hunt, &segment, &mut smallest)?;
        file.append(&Record::Segment(segment.clone()))?;
        campaign.add(segment)?;
    }
    Ok(())
}

/// Saves the plans that are the smallest ones of their groups so far, each under its own hash.
fn keep_plans(
    folder: &Path,
    hunt: &Hunt,
    segment: &Segment,
    smallest: &mut BTreeMap<GroupKey, Example>,
) -> Result<(), Refusal> {
    let mut pages = Vec::new();
    for (key, group) in segment.groups.iter() {
        let Some(example) = group.smallest.first() else { continue };
        if smallest.get(key).is_some_and(|known| known <= example) {
            continue;
        }
        smallest.insert(key.clone(), *example);
        let plan = draw(hunt, example.seed, example.strategy).current();
        pages.push(Page { name: format!("{}.plan.json", plan.digest()), text: plan.to_json() });
    }
    if pages.is_empty() { Ok(()) } else { output::write(&folder.join(PLANS), &pages) }
}

/// What the shard has shown. A part shows no more than a whole hunt: see `merge`.
fn ended(campaign: &Campaign, shard: Shard, path: &Path) -> Exit {
    let (tally, groups) = (campaign.tally(), campaign.groups());
    let left = campaign.missing(shard);
    let state = match left {
        None => "ended by its budget".to_owned(),
        Some(0) => "complete".to_owned(),
        Some(left) => format!("{} left: the same command goes on", count(left, "seed")),
    };
    let violated: u64 = groups.iter().map(|(_, group)| group.count).sum();
    let plans = count(violated, "violated plan");
    say(&format!("shard {shard}: {state}; {plans} in {}", count(groups.len() as u64, "group")));
    say(&format!("tested: {tally}"));
    say(&format!("explored: {}", campaign.states()));
    say(&format!("log: {}; lockstorm merge joins the logs of all shards", path.display()));
    Exit::of_hunt(violated, left.is_none_or(|left| left == 0), &tally)
}
