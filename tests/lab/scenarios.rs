//! Every scenario is a test by its presence: its expectation must be met, with the same trace in
//! debug and release, alone and in parallel, and the committed reports must equal those of a run.
//! A debug build tries the first seed of each (see `amount`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lockstorm::cli::act;
use lockstorm::explain::finding::Finding;
use lockstorm::explore::examine::{self, met};
use lockstorm::explore::trial::divergence;
use lockstorm::lock::catalogue::{ALGORITHMS, Locks};
use lockstorm::plan::Plan;
use lockstorm::report::page;
use lockstorm::run::Lab;
use lockstorm::scenario::expectation::{ExpectedVerdict, Fulfilled};
use lockstorm::scenario::written::{self, Question};
use lockstorm::scenario::{Scenario, link};
use lockstorm_platform::fault::{Anchor, Fault, Verb};
use lockstorm_platform::time::SECOND;
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};
use serde_json::Value;

use crate::amount::{is_whole, sample};

/// The file with the trace hashes, verdicts and signatures of all scenarios.
const GOLDEN: &str = "tests/golden/scenarios.txt";

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let folder = fs::read_dir(root().join("scenarios")).expect("the scenarios are there");
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(file).unwrap();
        Scenario::parse(&format!("scenarios/{name}"), &text)
            .unwrap_or_else(|no| panic!("{}", no.render(false)))
    };
    let mut read: Vec<Scenario> = files.iter().map(read).collect();
    let known = read.clone();
    link(&mut read, &known).expect("each remedy is a scenario");
    read
}

fn all() -> Vec<(Scenario, u64)> {
    let each = |scenario: Scenario| {
        let seeds = scenario.seeds();
        seeds.into_iter().map(move |seed| (scenario.clone(), seed))
    };
    scenarios().into_iter().flat_map(each).collect()
}

/// The recorded line of a finding.
fn line(finding: &Finding) -> String {
    let name = format!("{}@{}", finding.scenario, finding.seed);
    let words = lockstorm::explain::naming::verdict_words(&finding.judgement.verdict);
    let head = format!("{name} {} {}", finding.trace_hash, finding.records);
    let Some(signature) = &finding.signature else { return format!("{head} - {words}") };
    let class = signature.class.as_deref().expect("it was run again");
    let (broken, steps) = (signature.broken.join("+"), signature.steps.join("+"));
    format!("{head} {class} [{broken}] [{steps}] {words}")
}

#[test]
fn scenarios_are_found_as_they_expect_with_the_traces_that_are_written_down() {
    let all = all();
    let is_tried = |(scenario, seed): &&(Scenario, u64)| is_whole() || *seed == scenario.seeds()[0];
    let tried: Vec<_> = all.iter().filter(is_tried).collect();
    let findings: Vec<(Fulfilled, Finding)> = tried
        .par_iter()
        .map(|(scenario, seed)| {
            let finding = examine::judged(&Lab::default(), scenario, *seed);
            (met(scenario, &finding), finding)
        })
        .collect();
    let unexpected = findings.iter().filter(|(met, _)| *met != Fulfilled::Yes);
    let unexpected: Vec<String> = unexpected.map(|(_, finding)| line(finding)).collect();
    assert!(unexpected.is_empty(), "not as expected:\n{}", unexpected.join("\n"));
    let lines: String = findings.iter().map(|(_, finding)| line(finding) + "\n").collect();
    if std::env::var_os("LOCKSTORM_GOLDEN").is_some_and(|word| word == "write") {
        assert_eq!(tried.len(), all.len(), "a debug build tries fewer: write with --release");
        fs::write(root().join(GOLDEN), &lines).unwrap();
    }
    let golden = fs::read_to_string(root().join(GOLDEN)).expect("the golden hashes are there");
    let known: BTreeSet<&str> = golden.lines().collect();
    let new: Vec<&str> = lines.lines().filter(|line| !known.contains(line)).collect();
    assert!(new.is_empty(), "other than in {GOLDEN}:\n{}", new.join("\n"));
    assert_eq!(golden.lines().count(), all.len(), "{GOLDEN} has lines too many");
}

#[test]
fn a_run_leaves_no_mark_on_the_next_one() {
    let scenarios = sample(scenarios());
    let hash = |scenario: &Scenario| examine::judged(&Lab::default(), scenario, 1).trace_hash;
    let forwards: BTreeMap<&str, String> =
        scenarios.iter().map(|scenario| (scenario.name.as_str(), hash(scenario))).collect();
    for scenario in scenarios.iter().rev() {
        assert_eq!(forwards[scenario.name.as_str()], hash(scenario), "{}", scenario.name);
        let (lab, plan) = (Lab::default(), scenario.plan(2));
        let known = lab.run(&plan).trace.to_string();
        assert_eq!(divergence(&lab, &plan, &known), None, "{}", scenario.name);
    }
}

/// CI also compares them with those of the program, byte for byte.
#[test]
#[cfg_attr(debug_assertions, ignore = "half a minute: a release build compares them")]
fn the_committed_reports_are_what_a_run_writes() {
    let scenarios = scenarios();
    // Only showcases are explained: the index of all needs verdicts.
    let examine = |scenario: &Scenario| match act::SHOWCASES.contains(&scenario.name.as_str()) {
        true => examine::scenario(&Lab::default(), scenario, scenario.seeds()[0]),
        false => examine::judged(&Lab::default(), scenario, scenario.seeds()[0]),
    };
    let findings: Vec<Finding> = scenarios.par_iter().map(examine).collect();
    let contents = act::contents(&findings.iter().collect::<Vec<_>>(), true);
    let [readme, all] = contents.as_slice() else { panic!("one is committed, the other is not") };
    assert_eq!(all.text.matches(".md)").count(), scenarios.len(), "every report is linked");
    let mut pages = vec![readme.clone()];
    let shown = |finding: &&Finding| act::SHOWCASES.contains(&finding.scenario.as_str());
    pages.extend(findings.iter().filter(shown).flat_map(page::of_finding));
    let mut size = 0;
    for page in pages.iter().filter(|page| !page.name.ends_with(".json")) {
        let committed = fs::read_to_string(root().join("reports").join(&page.name));
        assert!(
            committed.is_ok_and(|text| text == page.text),
            "reports/{} is not what a run writes: cargo run --release writes it again",
            page.name
        );
        size += page.text.len();
    }
    assert!(size < 1_000_000, "the committed reports have {size} bytes");
    assert!(act::SHOWCASES.iter().all(|name| scenarios.iter().any(|s| s.name == *name)));
}

#[test]
fn a_plan_that_is_saved_and_read_again_is_the_same_run() {
    for (scenario, seed) in all() {
        let plan = scenario.plan(seed);
        let read = lockstorm::plan::Plan::from_json("plan.json", &plan.to_json()).unwrap();
        assert_eq!(read, plan, "{}", scenario.name);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_plan_that_is_written_as_a_scenario_is_read_as_the_same_plan_from_no_longer_a_file() {
    let settings = |text: &str| text.lines().filter(|line| line.contains(" = ")).count();
    let drawn = |(index, (scenario, seed)): (usize, (Scenario, u64))| {
        let plan = scenario.plan(seed);
        (scenario, seed, Plan { is_drawn: index % 2 == 1, ..plan })
    };
    for (scenario, seed, plan) in all().into_iter().enumerate().map(drawn) {
        let question = Question { ask: "Is it the same?", note: "It is.", violated: None };
        let text = written::text(&Locks::default(), &plan, &question).expect(&scenario.name);
        let read = Scenario::parse("written", &text).unwrap_or_else(|no| panic!("{no:?}\n{text}"));
        assert_eq!(read.plan(seed), plan, "{}", scenario.name);
        // A hand-written file has no seed, may omit the note, and is not drawn.
        let longest = settings(&scenario.text) + 2 + usize::from(plan.is_drawn);
        assert!(settings(&text) <= longest, "{}:\n{text}", scenario.name);
    }
}

/// The draws of a fault depend on its number, and a report names it by that.
#[test]
fn a_plan_from_which_faults_are_taken_keeps_the_numbers_of_the_others_in_its_scenario() {
    let scenarios = scenarios();
    let named = |scenario: &&Scenario| scenario.name == "promoted-replica-with-fast-clock";
    let mut plan = scenarios.iter().find(named).expect("it is there").plan(1);
    plan.faults.retain(|fault| fault.id == 2);
    plan.faults[0].anchor = Anchor::At(SECOND);
    let question = Question { ask: "Is it the same?", note: "It is.", violated: None };
    let text = written::text(&Locks::default(), &plan, &question).expect("a scenario");
    let read = Scenario::parse("written", &text).unwrap_or_else(|no| panic!("{no:?}\n{text}"));
    assert_eq!(read.plan(1), plan, "{text}");
    assert!(text.contains("\nid = 2\n"), "{text}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn taking_a_fault_out_moves_no_unrelated_draw() {
    for scenario in scenarios().iter().filter(|scenario| !scenario.plan(1).faults.is_empty()) {
        let with = scenario.plan(1);
        let mut without = with.clone();
        without.faults.clear();
        let (with, without) = (Lab::default().run_whole(&with), Lab::default().run_whole(&without));
        let differs = with.lines.iter().zip(&without.lines).position(|(a, b)| a != b);
        let first = with.history.fault_intervals.first().map(|interval| interval.from.seq);
        if let (Some(differs), Some(first)) = (differs, first) {
            assert!(differs as u64 >= first, "{}: differs before the fault", scenario.name);
        }
    }
}

#[test]
fn every_file_is_one_question_in_plain_words() {
    let mut questions = BTreeSet::new();
    for scenario in scenarios() {
        let name = &scenario.name;
        assert_eq!(scenario.file, format!("scenarios/{name}.toml"));
        assert!(scenario.text.starts_with("# "), "{name}: the first line says it in plain words");
        assert!(scenario.ask.ends_with('?'), "{name}: {}", scenario.ask);
        assert_ne!(scenario.expect.answer, ExpectedVerdict::Unstated, "{name}");
        assert!(questions.insert(scenario.ask.clone()), "{name} asks what another file asks");
    }
    assert!(questions.len() >= 24);
}

/// What a remedy may change: the lock, the durability of the nodes, the clocks, the behaviour of
/// resource and client. The end of the run depends on the lock's lease.
fn is_a_remedys(path: &str) -> bool {
    let tables = ["name", "seed", "until", "clocks.", "topology.persistence", "topology.compat"];
    let keys = [
        "topology.min_replicas",
        "workload.buggy_caller",
        "workload.check_validity",
        "workload.fence",
        "workload.extend",
        "workload.kind",
    ];
    let of_lock = [
        "algorithm",
        "at_least",
        "acks",
        "ack_timeout",
        "acquire",
        "clock",
        "count",
        "deadline_from",
        "discovery",
        "drift",
        "extend",
        "failed_extend",
        "fence_from",
        "fsync",
        "quorum",
        "quorum_of",
        "queue_wait",
        "reclaim_by",
        "report_loss",
        "scripts",
        "token",
        "wait",
    ];
    let is_of_lock = path.strip_prefix("lock.").is_some_and(|key| of_lock.contains(&key));
    is_of_lock || tables.iter().chain(&keys).any(|start| path.starts_with(start))
}

/// A restart is done by the operator, so postponing it is a remedy; all other faults must stay the
/// same.
fn is_kept(fault: &Fault, with_remedy: &Fault) -> bool {
    let put_off = Fault { verb: Verb::Crash, length: with_remedy.length, ..fault.clone() };
    fault == with_remedy || fault.verb == Verb::Restart && *with_remedy == put_off
}

fn differences(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned();
                let (a, b) = (of(a).unwrap_or_default(), of(b).unwrap_or_default());
                differences(&path, &a, &b, found);
            }
        }
        _ if one == other => {}
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn a_remedy_changes_nothing_but_the_remedy() {
    let scenarios: BTreeMap<String, Scenario> =
        scenarios().into_iter().map(|scenario| (scenario.name.clone(), scenario)).collect();
    let mut links = 0;
    for scenario in scenarios.values() {
        for remedy in scenario.remedies.iter().map(|name| &scenarios[name]) {
            let (ill, healed) = (scenario.name.as_str(), remedy.name.as_str());
            let seeds = remedy.seeds();
            assert!(scenario.seeds().iter().all(|seed| seeds.contains(seed)), "{ill}: {healed}");
            let whole = |scenario: &Scenario| serde_json::to_value(scenario.plan(1)).unwrap();
            let (one, mut other) = (whole(scenario), whole(remedy));
            let (faults, kept) = (scenario.plan(1).faults, remedy.plan(1).faults);
            if faults.len() == kept.len() && faults.iter().zip(&kept).all(|(a, b)| is_kept(a, b)) {
                other["faults"] = one["faults"].clone();
            }
            // A lock without a lease may receive one, and one with a lease keeps it.
            if one["lock"]["ttl"].is_null() {
                other["lock"]["ttl"] = one["lock"]["ttl"].clone();
            }
            let mut found = Vec::new();
            differences("", &one, &other, &mut found);
            found.retain(|path| !is_a_remedys(path));
            assert!(found.is_empty(), "{healed} changes more of {ill} than a remedy: {found:?}");
            links += 1;
        }
    }
    assert!(links >= 29, "{links} remedies are named");
}

#[test]
fn every_lock_has_a_file() {
    let tried: BTreeSet<String> =
        scenarios().iter().map(|scenario| scenario.plan(1).lock.algorithm).collect();
    for algorithm in ALGORITHMS {
        assert!(tried.contains(algorithm.name), "no scenario tries {}", algorithm.name);
    }
}
