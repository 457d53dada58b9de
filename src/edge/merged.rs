//! The logs of a campaign joined, and what all of them found reported as a hunt does.

use std::path::PathBuf;

use crate::edge::ending::Exit;
use crate::edge::environment::build;
use crate::edge::terminal::{complain, say};
use crate::edge::{campaign_file, hunt_result, output, progress, stop};
use crate::hunt::campaign::{Campaign, Settings, sample};
use crate::hunt::catch::{TimeLimits, catch};
use crate::hunt::novelty::Novelty;
use crate::hunt::search::{Scouted, Until};
use crate::hunt::seeded::Hunt;
use crate::quantity::count;
use crate::refusal::Refusal;
use crate::report;
use crate::report::hunt::Audience;

/// The number of segments whose sample is run again.
const SAMPLES: usize = 16;
/// The number of incomplete shards that are named.
const NAMED: usize = 5;

/// Says how much the logs have, and returns what all of them show together.
pub fn joined(inputs: &[PathBuf]) -> Result<Campaign, Refusal> {
    let (mut all, mut torn, mut logs): (Option<Campaign>, usize, usize) = (None, 0, 0);
    for path in campaign_file::logs(inputs)? {
        let log = campaign_file::read(&path)?;
        logs += 1;
        torn += log.torn;
        let Some(part) = log.campaign else { continue };
        match &mut all {
            None => all = Some(part),
            Some(all) => all.merge(part).map_err(|refusal| {
                let what = format!("{}: {}", path.display(), refusal.what);
                Refusal::new(what, refusal.instead)
            })?,
        }
    }
    let none = || Refusal::new("no log has a whole line", "run the shards again: nothing was kept");
    let all = all.ok_or_else(none)?;
    say(&format!("{}: {}", count(logs as u64, "log"), count(all.tally().runs, "plan")));
    if torn > 0 {
        say(&format!("{} skipped: their seeds are not counted", count(torn as u64, "torn line")));
    }
    Ok(all)
}

/// Shrinks, explains and reports what a campaign found; `hunt` is the hunt of its settings. A user
/// who stops it gets the groups as far as they are shrunk.
pub fn report(
    campaign: &Campaign,
    hunt: &Hunt,
    limits: TimeLimits,
    audience: &Audience<'_>,
) -> Result<Exit, Refusal> {
    stop::listen();
    let is_complete = say_missing(campaign);
    output::prepare(audience.folder, report::hunt::names(&hunt.base))?;
    if let Some(seed) = differing(campaign, hunt) {
        complain(&format!(
            "seed {seed} has a trace here that differs from its log: no verdict is reliable\n"
        ));
        return Ok(Exit::Diverged);
    }
    let (tally, groups) = (campaign.tally(), campaign.groups());
    let scouted = Scouted { tally, groups, novelty: Novelty::of(campaign.states()), next: None };
    let catch = catch(hunt, Until::End, scouted, limits, &progress::hunting(None));
    progress::clear();
    let violated = catch.violated();
    hunt_result::show(catch, audience)?;
    Ok(Exit::of_hunt(violated, is_complete, &tally))
}

/// Refuses the logs of another build, which draws other plans from the same seeds.
pub fn refuse_other_build(settings: &Settings) -> Result<(), Refusal> {
    let (version, build) = (env!("CARGO_PKG_VERSION"), build());
    if (version, &build) == (settings.version.as_str(), &settings.build) {
        return Ok(());
    }
    let what = format!(
        "the logs are of version {}, build {}; this is version {version}, build {build}",
        settings.version, settings.build
    );
    let instead = "merge with the program that hunted: another one draws other plans from the \
                   same seeds. 'lockstorm merge --into' joins logs of any build, and plans/ has \
                   saved plans";
    Err(Refusal::new(what, instead))
}

/// Names the shards that are not complete; whether all are.
fn say_missing(campaign: &Campaign) -> bool {
    let missing = campaign.missing_shards();
    for (shard, seeds) in missing.iter().take(NAMED) {
        match seeds {
            Some(seeds) => {
                let seeds = count(*seeds, "seed");
                say(&format!("incomplete: {seeds} of shard {shard}; run it again to continue"));
            }
            None => say(&format!("incomplete: no plan of shard {shard} was run; run it")),
        }
    }
    if missing.len() > NAMED {
        say(&format!("incomplete: {} more", count((missing.len() - NAMED) as u64, "shard")));
    }
    missing.is_empty()
}

/// The first of some seeds whose run has another trace here than in its log.
fn differing(campaign: &Campaign, hunt: &Hunt) -> Option<u64> {
    let step = campaign.segments.len().div_ceil(SAMPLES).max(1);
    let mut samples = campaign.segments.values().step_by(step);
    let differs = samples.find(|one| sample(hunt, one.seeds.0) != one.sample)?;
    Some(differs.seeds.0)
}
