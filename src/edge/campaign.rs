//! One part of a campaign: it goes on where an earlier process stopped.

use std::collections::BTreeMap;
use std::path::Path;

use lockstorm_platform::time::Nanos;

use crate::edge::campaign_file::LogFile;
use crate::edge::ending::Exit;
use crate::edge::environment::variable;
use crate::edge::terminal::{complain, say};
use crate::edge::{clock, environment, output, progress};
use crate::explore::budget::Spending;
use crate::hunt::campaign::log::{Log, Record};
use crate::hunt::campaign::shard::{Choice, Shard, array_variable, from_environment};
use crate::hunt::campaign::{Campaign, Segment, Settings};
use crate::hunt::group::{Example, GroupKey};
use crate::hunt::seeded::{Hunt, draw};
use crate::quantity::count;
use crate::refusal::Refusal;
use crate::report::page::Page;
use crate::run::Lab;

/// The folder of plans, below that of the campaign.
const PLANS: &str = "plans";

/// The shard that was chosen.
pub fn shard(choice: Choice) -> Result<Shard, Refusal> {
    match choice {
        Choice::Given(shard) => Ok(shard),
        Choice::Auto(count) => from_environment(count, &variable),
    }
}

/// Says how a job of an array takes a part, if this process is one and hunts as a whole: a hunt
/// must not silently test a fraction of its seeds, or every job test all of them unnoticed.
pub fn warn_of_array(how: &str) {
    if let Some(name) = array_variable(&variable) {
        complain(&format!("{name} is set, but this hunt tries all seeds: {how} takes a part\n"));
    }
}

/// A shard to run.
pub struct ShardRun<'a> {
    /// Which one.
    pub shard: Shard,
    /// The folder of the campaign.
    pub folder: &'a Path,
    /// The time limit of this process, ns.
    pub budget: Option<Nanos>,
    /// What joins the logs of all shards.
    pub merge: &'a str,
    /// Looks for planted violations first, and says which one is not found: see
    /// [`crate::hunt::campaign::canary::dead`].
    pub canary: fn(&Lab) -> Option<String>,
}

/// Runs the shard's segments that no earlier process has finished.
pub fn run(hunt: &Hunt, part: &ShardRun<'_>) -> Result<Exit, Refusal> {
    let (build, shard) = (environment::build(), part.shard);
    if build.is_empty() {
        let what = "the program cannot read itself, so nobody could tell which build hunted";
        return Err(Refusal::new(what, "make the program's file readable"));
    }
    let settings = Settings::of(hunt, build);
    let (segments, Shard { index, count: shards }) = (settings.segments(), shard);
    if u64::from(shards) > segments {
        let have = count(segments, "segment");
        let what = format!("{shards} shards have only {have} of seeds to share");
        let most = count(segments, "shard");
        let instead = format!("take at most {most}, or more seeds");
        return Err(Refusal::new(what, instead));
    }
    let path = part.folder.join(format!("shard-{index:05}-of-{shards:05}.jsonl"));
    let (mut file, known) = LogFile::open(&path)?;
    let mut campaign = Campaign::new(settings.clone());
    let torn = known.torn;
    if let Log { campaign: Some(known), .. } = known {
        campaign.merge(known).map_err(|refusal| {
            let what = format!("{}: {}", path.display(), refusal.what);
            Refusal::new(what, "name another campaign folder for another hunt")
        })?;
    }
    let lock = &hunt.base.lock.algorithm;
    say(&format!("lockstorm {}: shard {shard} of a hunt for {lock}", env!("CARGO_PKG_VERSION")));
    if let Some(why) = (part.canary)(&hunt.lab) {
        complain(&format!("the canary failed: {why}. No verdict of this machine is reliable\n"));
        return Ok(Exit::Diverged);
    }
    file.append(&Record::Session { settings: Box::new(settings), shards: vec![shard] })?;
    let done = campaign.tally().runs;
    if done > 0 || torn > 0 {
        let lines = count(torn as u64, "torn line");
        say(&format!("resumes after {}; {lines} in its log", count(done, "plan")));
    }
    go_on(hunt, part, &mut campaign, &mut file)?;
    progress::clear();
    Ok(ended(&campaign, part, &path))
}

/// Runs what is missing, as far as the budget permits.
fn go_on(
    hunt: &Hunt,
    part: &ShardRun<'_>,
    campaign: &mut Campaign,
    file: &mut LogFile,
) -> Result<(), Refusal> {
    let ShardRun { shard, folder, budget, .. } = *part;
    let spending = Spending::of(budget.map(clock::silent));
    let mut smallest: BTreeMap<GroupKey, Example> = BTreeMap::new();
    for (key, group) in campaign.groups().iter() {
        smallest.extend(group.smallest.first().map(|example| (key.clone(), *example)));
    }
    let mut has_run = false;
    for seeds in campaign.settings.clone().seeds_of(shard) {
        if campaign.segments.contains_key(seeds.start()) {
            continue;
        }
        // At least one segment runs, so that a campaign makes progress.
        if has_run && spending.is_used_up() {
            return Ok(());
        }
        has_run = true;
        let (first, last) = (*seeds.start(), *seeds.end());
        progress::now(&format!("shard {shard}: seeds {first}..{last}"));
        let segment = Segment::run(hunt, seeds);
        // The plans come before the line that counts them: whoever reads the line finds them.
        keep_plans(folder, hunt, &segment, &mut smallest)?;
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
        let plan = draw(hunt, example.seed, example.strategy);
        pages.push(Page { name: format!("{}.plan.json", plan.digest()), text: plan.to_json() });
    }
    if pages.is_empty() { Ok(()) } else { output::write(&folder.join(PLANS), &pages) }
}

/// What the shard has shown. A part shows no more than a whole hunt: see `merge`.
fn ended(campaign: &Campaign, part: &ShardRun<'_>, path: &Path) -> Exit {
    let (shard, merge) = (part.shard, part.merge);
    let (tally, groups) = (campaign.tally(), campaign.groups());
    let left = campaign.missing(shard);
    let state = match left {
        None => "ended by its budget".to_owned(),
        Some(0) => "complete".to_owned(),
        Some(left) => format!("{} left: run the same command to continue", count(left, "seed")),
    };
    let violated: u64 = groups.iter().map(|(_, group)| group.count).sum();
    let plans = count(violated, "violated plan");
    say(&format!("shard {shard}: {state}; {plans} in {}", count(groups.len() as u64, "group")));
    say(&format!("tested: {tally}"));
    say(&format!("explored: {}", campaign.states()));
    say(&format!("log: {}; {merge} joins the logs of all shards", path.display()));
    Exit::of_hunt(violated, left.is_none_or(|left| left == 0), &tally)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{ShardRun, run};
    use crate::edge::ending::Exit;
    use crate::hunt::campaign::shard::Shard;
    use crate::hunt::drawing::Alphabet;
    use crate::hunt::seeded::Hunt;
    use crate::lock::catalogue::find;
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::base_plan;
    use crate::run::Lab;

    #[test]
    fn a_shard_does_not_hunt_if_its_canary_is_dead() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = base_plan("none", TopologyKind::Single);
        let alphabet = Alphabet::of(*find("none").expect("a lock"));
        let hunt = Hunt::new(Lab::default(), base, alphabet, 1..=1);
        let ended = run(
            &hunt,
            &ShardRun {
                shard: Shard { index: 1, count: 1 },
                folder: folder.path(),
                budget: None,
                merge: "merge",
                canary: |_| Some("a planted bug was not found".to_owned()),
            },
        );
        assert!(matches!(ended, Ok(Exit::Diverged)));
        let log = folder.path().join("shard-00001-of-00001.jsonl");
        assert_eq!(fs::read_to_string(log).expect("a log"), "", "nothing is said of a hunt");
    }
}
