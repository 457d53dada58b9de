//! How violations became possible: for each scenario as its story says, and for drawn plans.
//!
//! `LOCKSTORM_MECHANISMS` sets how many seeds of each row are drawn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockstorm::explain::cause::sentences;
use lockstorm::explain::evidence::Evidence;
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::{Class, Finding};
use lockstorm::explain::mechanism::by_kind::mechanism;
use lockstorm::explain::mechanism::how::{How, Mechanism};
use lockstorm::explain::witness::Witness;
use lockstorm::explore::examine;
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::strategy::Strategy;
use lockstorm::ledger::part::Part;
use lockstorm::lock::catalogue::ALGORITHMS;
use lockstorm::plan::TopologyKind;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::report::page;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm_platform::fault::Verb;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::amount::{amount, sample, share};
use crate::{NO_TIME, histories};

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn scenarios_are_explained_by_what_happened_in_them() {
    let expected = std::fs::read_to_string("tests/golden/mechanisms.txt").expect("the table");
    let mut found = String::new();
    let mut files: Vec<_> = std::fs::read_dir("scenarios").expect("scenarios").collect();
    files.sort_by_key(|file| file.as_ref().expect("a file").path());
    for file in files {
        let path = file.expect("a file").path();
        let name = Path::new(&path).file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a scenario");
        let scenario = Scenario::parse(&name, &text).expect("a scenario");
        let finding = examine::judged(&Lab::default(), &scenario, scenario.seeds()[0]);
        if let Some(how) = mechanism(&Witness::of(&finding)) {
            found += &format!("{name} {}: {}\n", how.how.word(), how.sentence);
        }
    }
    #[allow(clippy::disallowed_methods, reason = "whether to write, not what")]
    if std::env::var("LOCKSTORM_GOLDEN").is_ok_and(|word| word == "write") {
        std::fs::write("tests/golden/mechanisms.txt", &found).expect("the table is written");
    } else {
        assert_eq!(found, expected, "LOCKSTORM_GOLDEN=write writes the table anew");
    }
    assert!(!found.contains("unclear"));
}

#[test]
fn a_key_that_an_older_release_counted_down_is_drawn_and_in_the_story() {
    let text = include_str!("../mechanisms/a-key-that-an-older-release-counted-down.toml");
    let scenario = Scenario::parse("counted-down", text).expect("a scenario");
    let finding = examine::judged(&Lab::default(), &scenario, scenario.seeds()[0]);
    let pages: String = page::of_finding(&finding).into_iter().map(|page| page.text).collect();
    assert!(pages.contains("c1's EVAL, 12.602 s on its way and sent again once its link was"));
    assert!(pages.contains(" was whole at 8.510 s, counts down its own newer key on n1."));
    assert!(pages.contains("deleted by c1's release<"), "the picture");
    assert!(!pages.contains("old release"), "the newest one deleted it");
}

/// A file of `tests/mechanisms/` is a scenario whose first comments name what its mechanism must
/// say, what the sentences about its causes must, and its class.
#[test]
fn plans_are_explained_by_what_made_the_difference() {
    let files = std::fs::read_dir("tests/mechanisms").expect("plans");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort_unstable();
    let rerun = sample(paths.clone());
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a scenario");
        let wanted = |key: &str| {
            let lead = format!("# {key} = \"");
            let line = text.lines().find_map(|line| line.strip_prefix(&lead));
            line.map(|line| line.trim_end_matches('"').to_owned())
        };
        if wanted("why").is_some() && !rerun.contains(&path) {
            continue;
        }
        let scenario = Scenario::parse(&path.to_string_lossy(), &text).expect("a scenario");
        let (lab, plan) = (Lab::default(), scenario.plan(scenario.seeds()[0]));
        let mut finding = examine::classified(&lab, &plan);
        // The causes need reruns; the mechanism does not.
        if wanted("why").is_some() {
            finding = examine::explained(&lab, Some(NO_TIME), &[], finding);
        }
        let Some(Mechanism { sentence: how, .. }) = mechanism(&Witness::of(&finding)) else {
            wrong.push(format!("{}: not violated", path.display()));
            continue;
        };
        let why = sentences(&finding).join(" ");
        let has = |said: &str, key| wanted(key).is_none_or(|wanted| said.contains(&wanted));
        let is_in_model = finding.class.as_ref().is_some_and(Class::is_in_model);
        let class = if is_in_model { "in-model" } else { "out-of-model" };
        let is_right = wanted("how").is_some() && has(&how, "how") && has(&why, "why");
        if !is_right || !has(class, "class") {
            wrong.push(format!("{}: {class}: {how}\n  {why}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A file of `tests/histories/` may name its mechanism, and then what its story says, and what it
/// never says.
#[test]
fn histories_are_explained_by_what_they_show() {
    let wrong = histories::expected().into_iter().filter_map(|(finding, wanted)| {
        let how = mechanism(&Witness::of(&finding)).map(|how| how.sentence).unwrap_or_default();
        let story = explain(&finding).story;
        let story: Vec<_> = story.lines.into_iter().chain(story.folded).map(|it| it.text).collect();
        let says = |words: &String| story.iter().any(|line| line.contains(words));
        let is_right = how.contains(wanted.how.as_ref()?)
            && wanted.says.iter().all(says)
            && !wanted.never.iter().any(says);
        (!is_right).then(|| format!("{}: {how}\n  {}", finding.scenario, story.join("\n  ")))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn drawn_violations_have_a_mechanism() {
    let seeds = amount("LOCKSTORM_MECHANISMS", 30) as u64;
    let topologies = [
        TopologyKind::Single,
        TopologyKind::Replicated,
        TopologyKind::Sentinel,
        TopologyKind::Cluster,
        TopologyKind::Independent,
    ];
    let lab = Lab::default();
    let rows = ALGORITHMS.iter().flat_map(|lock| topologies.map(|kind| (*lock, kind)));
    let hunts = rows.filter_map(|(lock, kind)| {
        let base = base_plan(lock.name, kind);
        base.validate().ok()?;
        let alphabet = Alphabet::of(lock);
        Some(Hunt::new(lab.clone(), base, alphabet, 1..=seeds))
    });
    let hunts: Vec<Hunt> = sample(hunts);
    let found: Vec<(String, Mechanism, Option<String>)> = hunts
        .into_par_iter()
        .flat_map_iter(|hunt| (1..=seeds).filter_map(move |seed| hunted(&hunt, seed)))
        .collect();
    let mut counts: BTreeMap<How, u32> = BTreeMap::new();
    for (_, how, _) in &found {
        *counts.entry(how.how).or_default() += 1;
    }
    println!("{} violated plans: {counts:?}", found.len());
    let unclear: Vec<&String> =
        found.iter().filter(|(_, how, _)| how.how == How::Unclear).map(|(what, ..)| what).collect();
    let doubts = found.iter().filter_map(|(what, _, doubt)| Some((what, doubt.as_ref()?)));
    let doubts: Vec<String> = doubts.map(|(what, doubt)| format!("{what}: {doubt}")).collect();
    assert!(doubts.is_empty(), "these contradict the class:\n{}", doubts.join("\n"));
    assert!(unclear.is_empty(), "{} of {}:\n{unclear:#?}", unclear.len(), found.len());
    assert!(counts.len() > share(10), "few mechanisms are met: {counts:?}");
}

/// The mechanism of the plan that a seed draws, if it is violated.
fn hunted(hunt: &Hunt, seed: u64) -> Option<(String, Mechanism, Option<String>)> {
    let plan = draw(hunt, seed, Strategy::Random);
    let finding = examine::classified(&hunt.lab, &plan);
    let how = mechanism(&Witness::of(&finding))?;
    let kind = lockstorm::explain::witness::kinds(&finding.judgement.verdict);
    let (lock, topology) = (&plan.lock.algorithm, plan.topology.kind);
    let doubt = doubt(&finding, &how).or_else(|| {
        // The causes take many runs: those of a share.
        let is_checked = seed.is_multiple_of(IDLE_OF);
        is_checked.then(|| {
            let explained = examine::explained(&hunt.lab, Some(NO_TIME), &[], finding);
            let how = mechanism(&Witness::of(&explained))?;
            let doubt = idle(&explained, &how).or_else(|| acts_not(&explained, &how));
            doubt.or_else(|| spared(&explained))
        })?
    });
    Some((format!("{lock} {topology:?} seed {seed}: {kind:?}"), how, doubt))
}

/// Of so many seeds one is asked for its causes.
const IDLE_OF: u64 = 5;

/// Why a mechanism contradicts the causes, if it does: what proves it is a fault that made no
/// difference.
fn idle(finding: &Finding, how: &Mechanism) -> Option<String> {
    let causes = &finding.experiments.as_ref()?.causes;
    let mut named = how.evidence.iter().filter_map(|evidence| match evidence {
        Evidence::FaultInterval(index) => {
            Some(Part::Fault(finding.history.fault_intervals[*index].fault))
        }
        _ => None,
    });
    let idle = named.find(|part| causes.idle.contains(part))?;
    Some(format!("{} by {idle:?}, which made no difference", how.sentence))
}

/// Why the causes contradict the class, if they do: a part is necessary without which the class has
/// found the violation.
fn spared(finding: &Finding) -> Option<String> {
    let (causes, class) = (&finding.experiments.as_ref()?.causes, finding.class.as_ref()?);
    let kind = Witness::of(finding).primary?.kind;
    let mut without = class.without.iter().filter(|_| class.in_model.contains(&kind));
    let part = without.find(|part| causes.necessary.iter().any(|other| part.includes(*other)))?;
    Some(format!("{part:?} is necessary, and {kind:?} occurs without {:?}", class.without))
}

/// Why a mechanism contradicts the causes, if it does: no part that made the difference could have
/// brought it about.
fn acts_not(finding: &Finding, how: &Mechanism) -> Option<String> {
    let causes = &finding.experiments.as_ref()?.causes;
    let verbs = |is_it: fn(&Verb) -> bool| {
        let faults = finding.plan.faults.iter().filter(move |fault| is_it(&fault.verb));
        faults.map(|fault| Part::Fault(fault.id)).collect::<Vec<Part>>()
    };
    let is_clock = |part: &Part| {
        matches!(part, Part::Clocks | Part::Rate(_) | Part::Offsets | Part::Offset(_))
    };
    // What is needed only beside the others takes part in the run as it is.
    let acting = [causes.acting(), causes.needed_here.clone()].concat();
    let acts = |faults: Vec<Part>| acting.iter().any(|part| faults.contains(part));
    let is_fit = match how.how {
        How::StoodStill => acts(verbs(Verb::halts)),
        How::NodeClock | How::ReplicaClock | How::HolderClock => {
            let clocks = |verb: &Verb| verb.disturbs_clocks() || *verb == Verb::Suspend;
            acts(verbs(clocks)) || acting.iter().any(is_clock)
        }
        How::Forgotten => acts(verbs(Verb::kills)) || acting.contains(&Part::Persistence),
        How::RenewalFailed => {
            let halts = verbs(Verb::halts);
            acting.is_empty() || acting.iter().any(|part| !halts.contains(part))
        }
        How::Overworked => !causes.idle.iter().any(|part| matches!(part, Part::Work(_))),
        _ => true,
    };
    let is_sure = causes.untested.is_empty();
    (is_sure && !is_fit).then(|| format!("{}, and what acted was {acting:?}", how.sentence))
}

/// Why a mechanism contradicts the class, if it does: everything that made the difference is an
/// assumption, and the run breached none of those that the mechanism breaches. An assumption that
/// was breached and made no difference is another way to the same violation.
fn doubt(finding: &Finding, how: &Mechanism) -> Option<String> {
    let class = finding.class.as_ref()?;
    let kind = Witness::of(finding).primary?.kind;
    let broken: Vec<_> = class.broken.iter().filter(|b| b.goes.contains(&kind)).collect();
    let possible = how.how.may_breach();
    let fits = finding.breaches.iter().any(|breach| possible.contains(&breach.what));
    let is_sure = class.out_of_model.contains(&kind) && !broken.is_empty() && !possible.is_empty();
    let names = broken.iter().map(|broken| format!("{:?}", broken.what)).collect::<Vec<_>>();
    (is_sure && !fits).then(|| format!("{} against {}", how.sentence, names.join(", ")))
}
