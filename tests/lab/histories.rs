//! Every file in `tests/histories/` is a case: a history and its expected judgement. To add a case,
//! add a file; `accept-` must not show its folder's kind, `reject-` must.

use std::fs;
use std::path::{Path, PathBuf};

use lockstorm::check::case::Case;
use lockstorm::check::judge::{Judgement, judge};
use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::{Cause, Kind, Turn, TurnEnd, Verdict, Violation};
use lockstorm::explain::finding::Finding;
use lockstorm::ledger::breach::Breach;
use lockstorm::ledger::part::Part;
use lockstorm::ledger::seen;
use lockstorm_platform::time::MILLISECOND;

use crate::story::{Story, unit};

#[test]
fn every_file_is_judged_as_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let wrong = files.iter().filter_map(|file| check(file).err()).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

#[test]
fn every_kind_has_a_file_that_shows_it_and_one_that_does_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    // A check of one's own has its history in its own test.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::OwnCheck) {
        let mut files = Vec::new();
        collect(&root.join(kind.word()), &mut files);
        for prefix in ["accept-", "reject-"] {
            let has = files.iter().any(|file| name(file).starts_with(prefix));
            assert!(has, "no {prefix} file for {}", kind.word());
        }
    }
}

/// The files that name a mechanism, each as a finding.
pub fn expected() -> Vec<(Finding, Story)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file).expect("a readable file");
        let story = toml::from_str::<Story>(&text).expect("a history");
        story.how.as_ref()?;
        Some((story.finding(&name(file)), story))
    };
    files.iter().filter_map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn name(file: &Path) -> String {
    file.file_name().expect("a file has a name").to_string_lossy().into_owned()
}

fn check(file: &Path) -> Result<(), String> {
    let wrong = |why: String| format!("{}: {why}", file.display());
    let text = fs::read_to_string(file).map_err(|why| wrong(why.to_string()))?;
    let story = toml::from_str::<Story>(&text).map_err(|why| wrong(why.to_string()))?;
    let judgement = judge(&story.history(), &story.terms());
    let kinds = Signature::of(&judgement.verdict).kinds;
    let words = kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>();
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let shows = match &*folder {
        "ledger" => story.broken.as_ref().is_some_and(|broken| !broken.is_empty()),
        "unavailable" => judgement.availability.unavailable.is_some(),
        kind => words.contains(&kind),
    };
    let verdict = &judgement.verdict;
    if words != story.expect {
        return Err(wrong(format!("expected {:?}, found {verdict:?}", story.expect)));
    }
    if shows != name(file).starts_with("reject-") {
        return Err(wrong("the name and what it expects do not agree".to_owned()));
    }
    details(&story, &judgement).map_err(wrong)?;
    same("broken", story.broken.as_ref(), &broken(&story)).map_err(wrong)
}

/// The breaches in the ledger, in the notation of a file.
fn broken(story: &Story) -> Vec<String> {
    let (history, terms) = (story.history(), story.terms());
    let seen = seen::seen(&Case::new(&history, &terms), &terms.site);
    let breach = |breach: &Breach| {
        let word = serde_json::to_value(breach.what).expect("an assumption has a word");
        let word = word.as_str().expect("a word is text").to_owned();
        let parts = breach.parts.iter().map(|part| match part {
            Part::Fault(id) => id.to_string(),
            Part::Clocks => "clocks".to_owned(),
            Part::Loss => "loss".to_owned(),
            Part::Work(_) => "work".to_owned(),
            Part::Misuse => "misuse".to_owned(),
            _ => unreachable!("no assumption speaks of {part:?}"),
        });
        let figures = [word, (breach.actual / unit(breach.what)).to_string()];
        figures.into_iter().chain(parts).collect::<Vec<_>>().join(" ")
    };
    seen.iter().map(breach).collect()
}

fn details(story: &Story, judgement: &Judgement) -> Result<(), String> {
    let (unknown, violations) = match &judgement.verdict {
        Verdict::Unknown(why) => (Some(why), &[][..]),
        Verdict::Violated(violations) => (None, violations.as_slice()),
        Verdict::Holds => (None, &[][..]),
    };
    let said = |part: &String| unknown.is_some_and(|why| why.contains(part));
    if story.unknown.is_some() != unknown.is_some() || !story.unknown.iter().all(said) {
        return Err(format!("expected unknown {:?}, found {unknown:?}", story.unknown));
    }
    let of = |found: fn(&Violation) -> Option<u64>| violations.iter().filter_map(found).collect();
    let ops = violations.iter().map(|violation| violation.ops.clone()).collect();
    let causes = violations.iter().filter_map(|violation| violation.cause.map(word)).collect();
    same("ops", story.ops.as_ref(), &ops)?;
    let turns = violations.iter().flat_map(|violation| &violation.turns).map(turn).collect();
    same("turns", story.turns.as_ref(), &turns)?;
    same("cause", story.cause.as_ref(), &causes)?;
    same("late", story.late.as_ref(), &of(|violation| Some(violation.late? / MILLISECOND)))?;
    let miss = judgement.nearest_miss.map(|miss| miss / MILLISECOND as i64);
    same("nearest_miss", story.nearest_miss.map(Some).as_ref(), &miss)?;
    same("unavailable", story.unavailable.as_ref(), &unavailable(judgement))?;
    same("contended", story.contended.as_ref(), &judgement.counts.contended)?;
    same("struck_in_hold", story.struck_in_hold.as_ref(), &judgement.counts.struck_in_hold)
}

/// The longest time without the lock, and how much of the callers' time each reason took, in ms in
/// the notation of a file, or empty.
fn unavailable(judgement: &Judgement) -> String {
    let Some(out) = &judgement.availability.unavailable else { return String::new() };
    let each = out.reasons.iter().map(|share| {
        let reason = serde_json::to_value(share.reason).expect("a reason has a word");
        format!(" {} {}", reason.as_str().expect("a word is text"), share.spent / MILLISECOND)
    });
    format!("{}:{}", out.length() / MILLISECOND, each.collect::<String>())
}

fn turn(turn: &Turn) -> String {
    let end = match turn.end {
        TurnEnd::Released(op) => format!("released by {op}"),
        TurnEnd::MayBeReleased(op) => format!("may be released by {op}"),
        TurnEnd::Lease(op) => format!("lease of {op}"),
        TurnEnd::Never => "never".to_owned(),
        TurnEnd::Contradiction => "contradiction".to_owned(),
    };
    format!("{} {end}", turn.grant)
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: Option<&T>,
    found: &T,
) -> Result<(), String> {
    match expected {
        Some(expected) if expected != found => {
            Err(format!("{what}: expected {expected:?}, found {found:?}"))
        }
        _ => Ok(()),
    }
}

fn word(cause: Cause) -> String {
    match cause {
        Cause::Overlap => "overlap",
        Cause::InFlight => "in-flight",
        Cause::Caller => "caller",
        Cause::Again => "again",
        Cause::Test => "test",
        Cause::Endless => "endless",
        Cause::OneSegment => "one-segment",
        Cause::None => "none",
    }
    .to_owned()
}
