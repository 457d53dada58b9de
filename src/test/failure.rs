//! What a failed test says and keeps: the story, the plan, and the line that runs it again.

use std::path::Path;

use crate::check::signature::Signature;
use crate::edge::output;
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::lock::catalogue;
use crate::plan::WorkloadKind;
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
    match owned(finding) {
        own if own.is_empty() => format!("lockstorm replay {}", place.display()),
        own => format!("lockstorm::test::replay({place:?}){own}.holds()"),
    }
}

/// What a replay of the plan needs from the test's author.
fn owned(finding: &Finding) -> String {
    let plan = &finding.plan;
    let lock = catalogue::find(&plan.lock.algorithm).is_none().then_some(".lock(...)");
    let work = matches!(plan.workload.kind, WorkloadKind::Own(_)).then_some(".workload(...)");
    let is_own = !Signature::of(&finding.judgement.verdict).checks.is_empty();
    let check = is_own.then_some(".check(...)");
    lock.into_iter().chain(work).chain(check).collect()
}
