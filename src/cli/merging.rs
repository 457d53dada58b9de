//! `merge`: joins the logs of a campaign, and reports what all of them found as a hunt does.

use lockstorm_world::engine::kind::EngineKind;

use crate::cli::args::MergeArguments;
use crate::cli::hunting::reader;
use crate::cli::{act, kept};
use crate::edge::ending::Exit;
use crate::edge::terminal::{complain, say};
use crate::edge::{campaign_file, clock, hunt_result, output, progress};
use crate::explore::campaign::{Campaign, log, sample};
use crate::explore::catch::catch;
use crate::explore::hunt::{Hunt, Scouted, Until};
use crate::explore::novelty::Novelty;
use crate::lock::catalogue;
use crate::quantity::count;
use crate::refusal::Refusal;
use crate::report;
use crate::run::Lab;

/// The number of segments whose sample is run again.
const SAMPLES: usize = 16;
/// The number of incomplete shards that are named.
const NAMED: usize = 5;

/// Joins logs; then writes one log, or reports.
pub fn merge(arguments: &MergeArguments) -> Result<Exit, Refusal> {
    let (campaign, torn, logs) = joined(arguments)?;
    let tally = campaign.tally();
    say(&format!("{}: {}", count(logs as u64, "log"), count(tally.runs, "plan")));
    if torn > 0 {
        say(&format!("{} skipped: their seeds are not counted", count(torn as u64, "torn line")));
    }
    if let Some(path) = &arguments.into {
        campaign_file::write(path, &log::text(&campaign))?;
        say(&format!("written to {}", path.display()));
        return Ok(Exit::Held);
    }
    let is_complete = say_missing(&campaign);
    let hunt = hunt(&campaign)?;
    output::refuse_foreign(&arguments.report, report::hunt::names(&hunt.base.name))?;
    if let Some(seed) = differing(&campaign, &hunt) {
        complain(&format!(
            "seed {seed} gives another trace here than in its log: no verdict is reliable\n"
        ));
        return Ok(Exit::Diverged);
    }
    let novelty = Novelty::of(campaign.states());
    let scouted = Scouted { tally, groups: campaign.groups(), novelty, next: None };
    let budget = clock::budget(arguments.budget);
    let progress = progress::hunting(None);
    let catch =
        act::side_by_side(arguments.jobs, || catch(&hunt, Until::End, scouted, budget, &progress));
    progress::clear();
    hunt_result::show(&catch, &reader(&arguments.report))?;
    Ok(Exit::of_hunt(catch.violated(), is_complete, &tally))
}

/// What all logs show together, the number of torn lines, and that of logs.
fn joined(arguments: &MergeArguments) -> Result<(Campaign, usize, usize), Refusal> {
    let (mut all, mut torn, mut logs): (Option<Campaign>, usize, usize) = (None, 0, 0);
    for path in campaign_file::logs(&arguments.inputs)? {
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
    all.map(|all| (all, torn, logs)).ok_or_else(none)
}

/// Names the shards that are not complete; whether all are.
fn say_missing(campaign: &Campaign) -> bool {
    let missing = campaign.missing_shards();
    for (shard, seeds) in missing.iter().take(NAMED) {
        let seeds = count(*seeds, "seed");
        say(&format!("incomplete: {seeds} of shard {shard}; run it again, it goes on"));
    }
    if missing.len() > NAMED {
        say(&format!("incomplete: {} more", count((missing.len() - NAMED) as u64, "shard")));
    }
    missing.is_empty()
}

/// The hunt of a campaign, which only the same build can repeat.
fn hunt(campaign: &Campaign) -> Result<Hunt, Refusal> {
    let (settings, own) = (&campaign.settings, kept::build());
    let lock = &settings.base.lock.algorithm;
    if catalogue::is_own(lock) {
        let what = format!("'{lock}' is a lock of your own, which this program does not have");
        let instead = "its plans run in your tests: \
                       lockstorm::test::replay(\"campaign/plans/...\").lock(...).holds()";
        return Err(Refusal::new(what, instead));
    }
    let here = (env!("CARGO_PKG_VERSION"), own.as_str());
    if here != (settings.version.as_str(), settings.build.as_str()) {
        let what = format!(
            "the logs are of version {}, build {}; this is version {}, build {}",
            settings.version, settings.build, here.0, here.1
        );
        let instead = "merge with the program that hunted: another one draws other plans from the \
                       same seeds. --into joins logs of any build, and plans/ has saved plans";
        return Err(Refusal::new(what, instead));
    }
    let lab = match settings.engine {
        EngineKind::Event => Lab::default(),
        #[cfg(feature = "turmoil")]
        EngineKind::Turmoil => Lab::turmoil(),
        #[cfg(feature = "live")]
        EngineKind::Live => {
            let what = "the logs are of real servers, on which no run can be repeated";
            return Err(Refusal::new(what, "hunt with --engine event"));
        }
    };
    Ok(settings.hunt(act::watched(lab)))
}

/// The first of some seeds whose run has another trace here than in its log.
fn differing(campaign: &Campaign, hunt: &Hunt) -> Option<u64> {
    let step = campaign.segments.len().div_ceil(SAMPLES).max(1);
    let mut samples = campaign.segments.values().step_by(step);
    let differs = samples.find(|one| sample(hunt, one.seeds.0) != one.sample)?;
    Some(differs.seeds.0)
}
