//! What a failed test says and keeps: the story, the plan, and the line that runs it again.

use std::path::Path;

use crate::edge::output;
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::report::content;
use crate::report::page::Page;
use crate::report::text;

/// The folder for plans of failed tests and for results of hunts, relative to the package's root.
pub const FAILURES: &str = "target/lockstorm";

/// Saves the plan, and panics with the whole story.
#[track_caller]
pub fn fail(finding: &Finding, expected: &str) -> ! {
    let story = text::page(finding, &explain(finding), false);
    panic!("{story}\n{expected}\n{}\n", kept(finding));
}

/// Saves the plan under its hash, so that it replaces no other plan; returns how to run it again.
fn kept(finding: &Finding) -> String {
    let name = format!("{}-{}-{}.plan.json", finding.scenario, finding.seed, finding.plan_hash);
    let place = Path::new(FAILURES).join(&name);
    let page = Page { name, text: finding.plan.to_json() };
    let written = output::write(Path::new(FAILURES), &[page]);
    let again = match written {
        Ok(()) => format!("again: {}", again(finding, &place)),
        Err(_) => format!("the plan could not be written to {}", place.display()),
    };
    format!("seed {}, plan {}\n{again}", finding.seed, finding.plan_hash)
}

/// How to run the plan of a finding again, which is in this file: the command line knows only the
/// catalogue.
pub fn again(finding: &Finding, place: &Path) -> String {
    match content::owned(finding) {
        own if own.is_empty() => format!("lockstorm replay {}", place.display()),
        own => format!("lockstorm::test::replay({place:?}){own}.holds()"),
    }
}
