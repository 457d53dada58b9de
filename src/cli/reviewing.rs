//! `review`: all that a design review has to know about one lock, in one report.

use crate::cli::act;
use crate::cli::args::review::ReviewArguments;
use crate::cli::hunting::{base, configured, reader, topology};
use crate::edge::ending::Exit;
use crate::edge::terminal::say;
use crate::edge::{clock, progress, review_result, stop};
use crate::hunt::matrix::Contender;
use crate::hunt::quarry::seeds_of;
use crate::hunt::review::Inquiry;
use crate::plan::base_plan::home;
use crate::quantity::length;
use crate::refusal::Refusal;
use crate::run::Lab;

/// Reviews the lock that the arguments describe.
pub fn review(arguments: &ReviewArguments) -> Result<Exit, Refusal> {
    let name = &arguments.lock;
    let lock = Contender::find(name).expect("the parser knows the words").lock;
    let kind = arguments.topology.as_deref().map_or_else(|| home(lock), topology);
    let mut quarry = configured(base(name, kind), &arguments.configured)?;
    let given = arguments.seeds.clone();
    let limit = clock::review_length(given.is_some(), arguments.budget);
    quarry.seeds = seeds_of(given, limit.is_some(), 1, (1..=1, quarry.wording))?;
    let inquiry = Inquiry::of(&act::watched(Lab::default()), &quarry)?;
    review_result::prepare(&arguments.report, &inquiry)?;
    stop::listen();
    let (first, last) = (quarry.seeds.start(), quarry.seeds.end());
    let extent = match limit {
        Some(limit) if *last == u64::MAX => format!("for {}", length(limit)),
        Some(limit) => format!("seeds {first}..{last} for at most {}", length(limit)),
        None => format!("seeds {first}..{last}"),
    };
    say(&format!("lockstorm {}: review of {name}, {extent}", env!("CARGO_PKG_VERSION")));
    let limit = clock::reviewing(limit);
    let found = act::side_by_side(arguments.jobs, || inquiry.review(limit));
    progress::clear();
    review_result::show(&found, &reader(&arguments.report))
}
