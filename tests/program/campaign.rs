//! Campaigns as a scheduler runs them: shards that are killed, disks that are full, logs that do
//! not belong together.

#![allow(clippy::disallowed_methods, reason = "processes are waited for in real time")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lockstorm::hunt::campaign::log::{self, Record};
use lockstorm::hunt::campaign::{Campaign, Settings};
use lockstorm::plan::Plan;
use tempfile::TempDir;

/// A hunt that finds one bug often. With one strategy a campaign draws the plans of a whole hunt.
const HUNT: &str = "hunt --lock check-then-set --topology single --within-assumptions --jobs 2 \
                    --strategy random";

/// The variables of schedulers, which the machine that runs the tests may have set.
const SET: [&str; 5] = [
    "SLURM_ARRAY_TASK_ID",
    "JOB_COMPLETION_INDEX",
    "AWS_BATCH_JOB_ARRAY_INDEX",
    "CI_NODE_INDEX",
    "BUILDKITE_PARALLEL_JOB",
];

fn command(folder: &TempDir, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
    command.current_dir(folder.path()).args(words.split_whitespace());
    SET.iter().for_each(|name| _ = command.env_remove(name));
    command
}

/// The command exits with this code and writes these texts; returns what it wrote.
#[track_caller]
fn check(command: &mut Command, code: i32, texts: &[&str]) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    assert_eq!(status.code(), Some(code), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    texts.iter().for_each(|text| assert!(words.contains(text), "'{text}' is not in:\n{said}"));
    said
}

fn path(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

fn segments(log: &Path) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| line.contains("\"record\":{\"segment\"")).count()
}

#[test]
fn a_killed_shard_goes_on_and_the_campaign_finds_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let shard = |nth: u32, into: &str| {
        let words = format!("{HUNT} --seeds 1..256 --shard {nth}/2 --campaign {into}");
        command(&folder, &words)
    };
    // One campaign without disturbance.
    for nth in [1, 2] {
        check(&mut shard(nth, "calm"), 1, &["complete", "violated plans in "]);
    }
    // Of the other, the second shard is killed after its first segment, within a line.
    check(&mut shard(1, "hard"), 1, &["shard 1/2: complete"]);
    let log = path(&folder, "hard/shard-00002-of-00002.jsonl");
    let mut killed = shard(2, "hard").stdout(Stdio::null()).spawn().expect("it starts");
    while segments(&log) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill().expect("it can be killed");
    killed.wait().expect("it ends");
    let mut torn = fs::read_to_string(&log).expect("a log");
    torn.push_str("{\"hash\":\"0123");
    fs::write(&log, torn).expect("it fits");
    let left = "incomplete: 64 seeds of shard 2/2; run it again to continue";
    check(&mut command(&folder, "merge hard"), 1, &["1 torn line skipped", left]);
    let texts = ["resumes after 64 plans; 1 torn line in its log", "shard 2/2: complete"];
    check(&mut shard(2, "hard"), 1, &texts);
    check(&mut shard(2, "hard"), 1, &["resumes after 128 plans", "complete"]);

    // Both campaigns know the same, whatever the order and number of logs.
    let into = |logs: &str, name: &str| {
        let texts = ["256 plans", "written to"];
        check(&mut command(&folder, &format!("merge {logs} --into {name}")), 0, &texts);
        fs::read_to_string(path(&folder, name)).expect("a log")
    };
    let calm = into("calm", "calm.jsonl");
    assert_eq!(into("hard", "hard.jsonl"), calm);
    let (one, two) = ("hard/shard-00001-of-00002.jsonl", "hard/shard-00002-of-00002.jsonl");
    assert_eq!(into(&format!("{two} calm.jsonl {one} {two}"), "all.jsonl"), calm);

    // They find what one hunt finds.
    let whole = format!("{HUNT} --seeds 1..256 --budget 1h --report whole");
    let whole = check(&mut command(&folder, &whole), 1, &["group 1 of ", "double-grant"]);
    let merged = check(&mut command(&folder, "merge all.jsonl --report merged"), 1, &[]);
    let found = |said: &str| {
        let lines = said.lines().skip_while(|line| !line.starts_with("found after"));
        // Logs keep a sample of the states, and no order of the plans.
        let lines = lines.filter(|line| !line.starts_with("explored: "));
        lines.map(|line| line.replace("whole/", "merged/")).collect::<Vec<_>>()
    };
    assert_eq!(found(&merged), found(&whole));
    let list = fs::read_to_string(path(&folder, "merged/hunt-check-then-set-single.md")).unwrap();
    let (_, plan) = list.split_once("[plan](").expect("a plan");
    let (plan, _) = plan.split_once(')').expect("a link");
    assert!(path(&folder, &format!("merged/{plan}")).exists(), "the plan is saved");
    let texts = ["group 1 of ", "; not shrunk, because the budget was used up: the same hunt with"];
    check(&mut command(&folder, "merge all.jsonl --budget 1ms --report cut"), 1, &texts);
    // Each plan of a group's example is saved under its hash.
    let plans = fs::read_dir(path(&folder, "hard/plans")).expect("plans");
    for plan in plans.map(|plan| plan.expect("a file").path()) {
        let text = fs::read_to_string(&plan).expect("a plan");
        let read = Plan::from_json("plan", &text).expect("a plan");
        assert!(plan.ends_with(format!("{}.plan.json", read.digest())), "{}", plan.display());
    }
}

#[test]
fn a_full_disk_stops_a_shard_and_loses_no_segment() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = format!("{HUNT} --seeds 1..192 --shard 1/1");
    check(&mut command(&folder, &format!("{words} --budget 1ms")), 1, &["128 seeds left"]);
    let log = path(&folder, "campaign/shard-00001-of-00001.jsonl");
    let blocks = fs::metadata(&log).expect("a log").len() / 512 + 1;
    // No file may become longer than this: the next line is torn.
    let program = env!("CARGO_BIN_EXE_lockstorm");
    let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec {program} {words}");
    let mut limited_command = Command::new("sh");
    limited_command.current_dir(folder.path()).args(["-c", &limited]);
    let texts = ["cannot be written: ", "the same command goes on from there"];
    check(&mut limited_command, 3, &texts);
    assert_eq!(segments(&log), 1);
    let texts = ["resumes after 64 plans; 1 torn line", "complete", "tested: 192 plans"];
    check(&mut command(&folder, &words), 1, &texts);
    assert_eq!(segments(&log), 3);
}

/// The log with other settings.
fn changed(log: &Path, change: impl FnOnce(&mut Settings)) -> String {
    let text = fs::read_to_string(log).expect("a log");
    let campaign = log::read(&text).expect("a log").campaign.expect("a session");
    let mut settings = campaign.settings.clone();
    change(&mut settings);
    log::text(&Campaign { settings, ..campaign })
}

#[test]
fn what_makes_no_campaign_is_refused_with_what_to_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let hunt = |rest: &str| command(&folder, &format!("{HUNT} --seeds 1..128 {rest}"));
    let refused = |command: &mut Command, texts: &[&str]| _ = check(command, 3, texts);
    refused(&mut hunt("--shard 3/2"), &["there is no shard 3 of 2", "'1/2' to '2/2'"]);
    refused(&mut hunt("--shard three"), &["'three' is not a shard", "'3/10'"]);
    refused(&mut hunt("--shard auto"), &["the environment names no shard", "'1/10' as the shard"]);
    refused(&mut hunt("--shard 1/9"), &["9 shards have only 2 segments", "at most 2 shards"]);
    refused(&mut hunt("--campaign there"), &["--shard"]);
    refused(&mut hunt("--shard 1/2 --first"), &["cannot be used with"]);
    let mut alone = hunt("--shard auto");
    refused(alone.env("JOB_COMPLETION_INDEX", "1"), &["the number of shards is not", "auto/10"]);
    let mut two = hunt("--shard auto/2");
    two.env("JOB_COMPLETION_INDEX", "1").env("CI_NODE_INDEX", "1").env("CI_NODE_TOTAL", "2");
    refused(&mut two, &["is shard 2/2 of a Kubernetes Indexed Job, and 1/2 of a parallel job"]);

    // A job of an array that asks for no part runs everything, and says so.
    let mut whole = hunt("--first");
    let note = "SLURM_ARRAY_TASK_ID is set, but this hunt tries all seeds: --shard auto";
    check(whole.env("SLURM_ARRAY_TASK_ID", "1"), 1, &[note, "found after"]);
    let mut part = hunt("--shard auto/2");
    check(part.env("JOB_COMPLETION_INDEX", "1"), 1, &["shard 2/2: complete"]);

    let log = path(&folder, "campaign/shard-00002-of-00002.jsonl");
    refused(&mut hunt("--shard 2/2 --hold 1s"), &["two campaigns", "another campaign folder"]);
    let other = changed(&log, |settings| settings.version = "9.9.9".to_owned());
    fs::write(path(&folder, "other.jsonl"), other).expect("it fits");
    refused(&mut command(&folder, "merge campaign other.jsonl"), &["versions 0.1.0 and 9.9.9"]);
    refused(&mut command(&folder, "merge other.jsonl"), &["with the program that hunted"]);
    let mine = changed(&log, |settings| settings.base.lock.algorithm = "mine".to_owned());
    fs::write(path(&folder, "mine.jsonl"), mine).expect("it fits");
    let own = ["'mine' is a lock of your own", ".merge(", "lockstorm::test::replay"];
    refused(&mut command(&folder, "merge mine.jsonl"), &own);
    let plans = fs::read_dir(path(&folder, "campaign/plans")).expect("plans");
    let plan = plans.last().expect("a plan").expect("a file").path();
    let plan = fs::read_to_string(plan).expect("a plan").replace("check-then-set\",", "mine\",");
    fs::write(path(&folder, "mine.plan.json"), plan).expect("it fits");
    let own = ["no lock 'mine'", "lockstorm::test::replay(\"mine.plan.json\").lock(...)"];
    refused(&mut command(&folder, "replay mine.plan.json"), &own);
    fs::write(path(&folder, "notes.jsonl"), "{\"a\": 1}\n").expect("it fits");
    refused(&mut command(&folder, "merge notes.jsonl"), &["is not the log of a shard"]);
    refused(&mut command(&folder, "merge /dev/zero"), &["/dev/zero is no file"]);
    let into = ["is not the log of a shard"];
    refused(&mut command(&folder, "merge campaign --into notes.jsonl"), &into);
    refused(&mut command(&folder, "merge nothing.jsonl"), &["cannot be read"]);
    refused(&mut command(&folder, "merge ."), &["is not the log of a shard"]);
    refused(&mut command(&folder, "merge campaign/plans"), &["there is no log in"]);
    fs::write(path(&folder, "torn.jsonl"), "{\"hash\":\"01").expect("it fits");
    refused(&mut command(&folder, "merge torn.jsonl"), &["no log has a whole line"]);
    // A plan whose run differs here is of a machine, or a program, that cannot be trusted.
    let text = fs::read_to_string(&log).expect("a log");
    let mut campaign = log::read(&text).expect("a log").campaign.expect("a session");
    campaign.segments.values_mut().for_each(|one| one.sample = "0".repeat(32));
    fs::write(path(&folder, "odd.jsonl"), log::text(&campaign)).expect("it fits");
    check(&mut command(&folder, "merge odd.jsonl"), 70, &["has a trace here that differs"]);
    let record = Record::Segment(campaign.segments.into_values().next().expect("a segment"));
    fs::write(path(&folder, "twice.jsonl"), text + &log::line(&record)).expect("it fits");
    refused(&mut command(&folder, "merge twice.jsonl"), &["have two results"]);
}
