//! `merge`: joins the logs of a campaign into one, or reports what all of them found.

use lockstorm_world::engine::kind::EngineKind;

use crate::cli::act;
use crate::cli::args::MergeArguments;
use crate::cli::hunting::reader;
use crate::edge::ending::Exit;
use crate::edge::terminal::say;
use crate::edge::{campaign_file, clock, merged};
use crate::hunt::campaign::{Campaign, log};
use crate::hunt::seeded::Hunt;
use crate::lock::catalogue;
use crate::refusal::Refusal;
use crate::run::Lab;

/// Joins logs; then writes one log, or reports.
pub fn merge(arguments: &MergeArguments) -> Result<Exit, Refusal> {
    let campaign = merged::joined(&arguments.inputs)?;
    if let Some(path) = &arguments.into {
        if path.is_dir() {
            let what = format!("{} is a folder", path.display());
            return Err(Refusal::new(what, "--into names the file of the joined log"));
        }
        campaign_file::write(path, &log::text(&campaign))?;
        say(&format!("written to {}", path.display()));
        return Ok(Exit::Held);
    }
    let hunt = hunt(&campaign)?;
    let (limits, reader) = (clock::limits(arguments.budget), reader(&arguments.report));
    act::side_by_side(arguments.jobs, || merged::report(&campaign, &hunt, limits, &reader))
}

/// The hunt of a campaign, which only the same build can repeat.
fn hunt(campaign: &Campaign) -> Result<Hunt, Refusal> {
    let settings = &campaign.settings;
    let lock = &settings.base.lock.algorithm;
    if catalogue::is_own(lock) {
        let what = format!("'{lock}' is a lock of your own, which this program does not have");
        let instead = "the program that hunted merges: hunt_own(...).merge(\"campaign\"). Its \
                       plans run in your tests: \
                       lockstorm::test::replay(\"campaign/plans/...\").lock(...).holds()";
        return Err(Refusal::new(what, instead));
    }
    merged::refuse_other_build(settings)?;
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
