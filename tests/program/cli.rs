//! The command as a whole: its output, its refusals, its exit codes. Each test starts the real
//! program in a folder of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use lockstorm::scenario::Scenario;

const WHOLE: &str = include_str!("../whole.toml");

/// A folder of one test, deleted after the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn with(self, name: &str, bytes: impl AsRef<[u8]>) -> Folder {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    fn run(&self, arguments: &[&str]) -> Output {
        lockstorm(&self.0, arguments)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lockstorm(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// The program exits with this code and writes these texts to the matching stream; returns what it
/// wrote there.
pub fn check(folder: &Folder, arguments: &[&str], code: i32, texts: &[&str]) -> String {
    let output = folder.run(arguments);
    let stream = if code == 3 { &output.stderr } else { &output.stdout };
    let said = String::from_utf8_lossy(stream);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{output:?}");
    for text in texts {
        assert!(said.contains(text), "{arguments:?} does not say '{text}':\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "no colours and no bars in a pipe: {said:?}");
    said.into_owned()
}

#[test]
fn help_and_version_are_no_failures() {
    let folder = Folder::new("help");
    check(&folder, &["--help"], 0, &["Breaks Redis locks on purpose", "Exit codes", "hunt"]);
    check(&folder, &["run", "--help"], 0, &["--seeds <A..B>", "--report <DIR>"]);
    check(&folder, &["--version"], 0, &["lockstorm 0.1.0"]);
}

#[test]
fn a_full_disk_under_standard_output_is_an_error() {
    for arguments in [&["--help"][..], &["--version"], &["list", "locks"]] {
        let full = fs::File::create("/dev/full").expect("every write to it fails");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
        let output = command.args(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("standard output could not be written"), "{arguments:?}: {said}");
    }
}

#[test]
fn wrong_usage_ends_with_3_and_the_nearest_word() {
    let folder = Folder::new("usage");
    check(&folder, &["rum"], 3, &["unrecognized subcommand 'rum'", "'run'"]);
    check(&folder, &["run"], 3, &["FILE|DIR"]);
    check(&folder, &["run", "--seed", "x", "a.toml"], 3, &["invalid value 'x'"]);
    check(
        &folder,
        &["run", "--seeds", "5..1", "a.toml"],
        3,
        &["the range of seeds '5..1' is empty (write '1..5')"],
    );
    check(&folder, &["run", "--seed", "1", "--seeds", "1..2", "a"], 3, &["cannot be used with"]);
    let hunt = ["hunt", "--lock", "redlok", "--topology", "single"];
    check(&folder, &hunt, 3, &["invalid value 'redlok'", "'redlock'"]);
    let hunt = ["hunt", "--lock", "redlock", "--topology", "single", "--faults", "pause,crush"];
    check(&folder, &hunt, 3, &["invalid value 'crush'", "'crash'"]);
    let hunt = ["hunt", "--lock", "redlock", "--seeds", "-5..5"];
    check(&folder, &hunt, 3, &["invalid value '-5..5'"]);
    let folder = folder.with("w.toml", WHOLE);
    let seeds = ["run", "w.toml", "--seeds", "0..18446744073709551615"];
    check(&folder, &seeds, 3, &["these are more than 100000 plans"]);
    let hunt = ["hunt", "--lock", "token-lua", "--topology", "single", "--faults", "failover"];
    check(&folder, &hunt, 3, &["'failover' needs a replica", "--topology replicated"]);
    let hunt = ["hunt", "--lock", "token-lua", "--topology", "single", "--faults", "lying-disk"];
    check(&folder, &hunt, 3, &["'lying-disk' needs data on a disk", "--persistence aof-always"]);
    let hunt = ["hunt", "--lock", "redlock", "--topology", "independent", "--quorum", "0"];
    check(&folder, &hunt, 3, &["invalid value '0'"]);
    let hunt = ["hunt", "--lock", "setnx", "--topology", "single", "--ttl", "3s"];
    check(&folder, &hunt, 3, &["a key of setnx has no time to live"]);
    let within = ["hunt", "--lock", "token-lua", "--topology", "single", "--within-assumptions"];
    let hunt = [&within[..], &["--hold", "12s"]].concat();
    let beyond = ["no plan like this is within", "clients work for 12s", "--extend"];
    check(&folder, &hunt, 3, &beyond);
    let hunt = [&within[..], &["--timeout", "3s"]].concat();
    check(&folder, &hunt, 3, &["time-outs and messages leave nothing"]);
    let hunt = ["hunt", "--lock", "token-lua", "--topology", "single", "--ttl", "-10s"];
    check(&folder, &hunt, 3, &["'-10s' is a negative length", "write '10s'"]);
    let hunt = ["hunt", "--lock", "token-lua", "--topology", "single", "--extend", "3/2"];
    check(&folder, &hunt, 3, &["a share below 1 of the lease"]);
    check(&folder, &["replay", "x.plan.json", "--trace", "zzz"], 3, &["32 hexadecimal digits"]);
    check(&folder, &["list", "clocks"], 3, &["'locks'"]);
}

#[test]
fn files_that_are_no_scenarios_are_refused() {
    let folder = Folder::new("refused")
        .with("typo.toml", WHOLE.replace("ttl = \"10s\"", "tll = \"10s\""))
        .with("bytes.toml", [b'a', b'=', 0xff])
        .with("a/one.toml", WHOLE)
        .with("b/two.toml", WHOLE)
        .with("none/readme.md", "");
    let typo = ["[lock] has no key 'tll'", "typo.toml:18:1", "did you mean 'ttl'?", "one of: alg"];
    check(&folder, &["run", "typo.toml"], 3, &typo);
    check(&folder, &["run", "bytes.toml"], 3, &["bytes.toml is not text", "byte 2 is not UTF-8"]);
    check(&folder, &["run", "gone.toml"], 3, &["gone.toml cannot be read", "No such file"]);
    check(&folder, &["run", "none"], 3, &["there is no scenario in none", ".toml"]);
    check(&folder, &["run", "a", "b"], 3, &["are both named 'whole'"]);
    check(&folder, &[], 3, &["scenarios cannot be read"]);
    check(&folder, &["list", "scenarios"], 3, &["scenarios cannot be read"]);
    check(&folder, &["replay", "typo.toml"], 3, &["this is not a plan that lockstorm wrote"]);
    check(&folder, &["replay", "none"], 3, &["none is a folder", "name a file in it"]);
}

#[test]
fn a_plan_of_another_version_says_so() {
    let plan = Scenario::parse("whole.toml", WHOLE).unwrap().plan(7).to_json();
    let folder =
        Folder::new("versions").with("p.json", plan.replace("\"format\": 1", "\"format\": 9"));
    let texts = ["written by another version: format 9, this version reads 1", "p.json:2:3"];
    check(&folder, &["replay", "p.json"], 3, &texts);
}

#[test]
fn the_first_and_the_last_line_name_seed_and_plan() {
    let scenario = Scenario::parse("whole.toml", WHOLE).unwrap();
    let folder =
        Folder::new("lines").with("w.toml", WHOLE).with("p.json", scenario.plan(7).to_json());
    let name = format!("seed 7, plan {}", scenario.plan(7).digest());
    for arguments in [&["run", "--seed", "7", "w.toml"][..], &["replay", "p.json"]] {
        let output = folder.run(arguments);
        let said = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines.first().unwrap().ends_with(&name), "{said}");
        assert!(lines.last().unwrap().ends_with(&name), "{said}");
    }
    let output = folder.run(&["run", "w.toml"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("seeds 1..3, 3 plans "));
}

#[test]
fn lists_name_every_word() {
    let violated = "{ violated = [\"double-grant\", \"corruption\"], class = \"out-of-model\" }";
    let held = WHOLE.replace("\"whole\"", "\"held\"").replace(violated, "{ holds = true }");
    let folder = Folder::new("lists").with("scenarios/w.toml", WHOLE);
    let folder = folder.with("scenarios/x.toml", held);
    check(&folder, &["list", "locks"], 0, &["token-lua-renewed", "SETNX k 1, then EXPIRE"]);
    let parts = [
        "setnx-expire: SETNX k 1, then EXPIRE",
        "Acquire:\n    n1  SETNX lock 1 -> 1\n    n1  EXPIRE lock 3 -> 1\n",
        "no key is evicted or flushed: the key is the lock",
        "Violated:\n  - whole: Is every word of a scenario read?",
        "Held:\n  - held: Is every word of a scenario read?",
        "redis-py 8.1.0: SET k token NX PX ttl",
    ];
    check(&folder, &["list", "locks", "--details"], 0, &parts);
    let parts = ["aioredlock 0.7.3: ", "failed_try     release-at-end  whether", "on the page of"];
    let said = check(&folder, &["list", "locks", "--details", "aioredlock"], 0, &parts);
    assert!(!said.contains("setnx"), "{said}");
    check(&folder, &["list", "locks", "redlock"], 3, &["--details"]);
    let redlok = ["list", "locks", "--details", "redlok"];
    check(&folder, &redlok, 3, &["'redlock'"]);
    check(&folder, &["list", "faults", "--details"], 3, &["only locks have details"]);
    check(&folder, &["list", "faults"], 0, &["power-loss", "the wall clock jumps (with by)"]);
    check(&folder, &["list", "workloads"], 0, &["counter", "stock", "append-log"]);
    check(&folder, &["list", "topologies"], 0, &["single", "replicated", "independent"]);
    check(&folder, &["list", "models"], 0, &["mutex", "lease"]);
    check(&folder, &["list", "verdicts"], 0, &["stale-holder", "not-linearizable"]);
    check(&folder, &["list", "compat"], 0, &["DELIFEQ", "valkey-server 9.0.0 was run"]);
    check(&folder, &["list", "scenarios"], 0, &["whole", "Is every word of a scenario read?"]);
}

/// The saved plans that a hunt names, in its order.
fn saved(said: &str) -> Vec<String> {
    let lines =
        said.lines().filter_map(|line| line.trim().strip_prefix("again: lockstorm replay "));
    lines.filter_map(|line| Some(line.split_once(" --trace ")?.0.to_owned())).collect()
}

#[test]
fn a_hunt_saves_what_it_finds_and_replay_runs_it_again() {
    let folder = Folder::new("hunts");
    let hunt = ["hunt", "--lock", "none", "--topology", "single", "--seeds", "1..5"];
    let said = check(&folder, &hunt, 1, &["found after", "corruption", "seed "]);
    let [plan, ..] = &saved(&said)[..] else { panic!("no plan is saved:\n{said}") };
    assert!(plan.starts_with("reports/hunt-none-single-"), "{plan}");
    check(&folder, &["replay", plan], 1, &["the same as that of a second run", "corruption"]);
    let wrong = ["replay", plan, "--trace", "00000000000000000000000000000000"];
    let output = folder.run(&wrong);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("differs from the requested one"));
    let stem = plan.strip_suffix(".plan.json").expect("a plan");
    for ending in [".md", ".svg", ".json", ".toml"] {
        assert!(folder.0.join(format!("{stem}{ending}")).exists(), "{ending}");
    }
    // The scenario has a name of its own, so that its report replaces no other one.
    let stem = stem.strip_prefix("reports/").expect("the folder");
    check(&folder, &["run", &format!("reports/{stem}.toml")], 0, &[stem, "1 as expected"]);
}

/// Every file of a folder with its text, but for some.
fn files(folder: &Path, but: &[&str]) -> BTreeMap<String, String> {
    let all = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let all = all.map(|path| (name(&path), fs::read_to_string(&path).unwrap()));
    all.filter(|(name, _)| !but.contains(&name.as_str())).collect()
}

/// Files of a finding bear the hash of its plan; the list is that of the last hunt.
#[test]
fn no_hunt_replaces_what_another_one_found() {
    let folder = Folder::new("two-hunts");
    let reports = folder.0.join("reports");
    let list = "hunt-px-constant-single.md";
    let read = |list: &str| fs::read_to_string(reports.join(list)).unwrap();
    let hunt = |topology, more: &[&str], code, text| {
        let hunt = ["hunt", "--lock", "px-constant", "--topology", topology];
        saved(&check(&folder, &[&hunt[..], more].concat(), code, &[text]))
    };
    let calm = ["--within-assumptions", "--faults", "delay", "--seeds", "1..1"];
    assert_eq!(hunt("single", &calm, 0, "no violation in 1 plan"), [""; 0]);
    assert!(read(list).contains("no violation in 1 plan"), "a clean hunt is on record");
    let command = "`lockstorm hunt --lock px-constant --topology single --within-assumptions ";
    assert!(read(list).contains(command), "{}", read(list));
    let six = ["--seeds", "1..6", "--budget", "1s"];
    let first = hunt("single", &six, 1, "list: reports/hunt-px-constant-single.md");
    let linked = |list: &str, plan: &String| {
        read(list).contains(&format!("[plan]({})", plan.strip_prefix("reports/").unwrap()))
    };
    assert!(!first.is_empty() && first.iter().all(|plan| linked(list, plan)), "{first:?}");
    let before = files(&reports, &[list]);
    let other = hunt("replicated", &six, 1, "group 1 of");
    let second = hunt("single", &[&six[..], &["--hold", "100ms"]].concat(), 1, "group 1 of");
    let now = files(&reports, &[list]);
    assert!(before.iter().all(|(name, text)| now.get(name) == Some(text)), "a file is replaced");
    assert!(second.iter().all(|plan| linked(list, plan) && !first.contains(plan)), "{second:?}");
    assert!(!first.iter().any(|plan| linked(list, plan)), "the list of an earlier hunt stays");
    assert!(other.iter().all(|plan| linked("hunt-px-constant-replicated.md", plan)));
    assert_eq!(hunt("single", &calm, 0, "list: reports/hunt-px-constant-single.md"), [""; 0]);
    let now_clean = read(list).contains("no violation in 1 plan") && !read(list).contains("[plan]");
    assert!(now_clean, "{}", read(list));
    assert_eq!(files(&reports, &[list]), now);
}

/// A hunt that has begun; its first line has been read.
fn begun(folder: &Folder, lock: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
    let hunt = ["hunt", "--topology", "single", "--within-assumptions", "--seeds", "1..9999999"];
    let command = command.current_dir(&folder.0).args(hunt).args(["--lock", lock]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    (child, out)
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_hunt_that_is_stopped_reports_what_it_has() {
    let rows = [
        ("check-then-set", 1, "violated plans in "),
        ("token-lua", 2, "no violation so far"),
        ("token-lua", 2, "assumed, with the figures of the base plan"),
    ];
    for (lock, code, text) in rows {
        let folder = Folder::new(&format!("stopped-{lock}"));
        let (mut child, mut out) = begun(&folder, lock);
        interrupt(&child);
        let mut said = String::new();
        out.read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{said}");
        assert!(said.contains(text) && said.contains("where it was stopped"), "{said}");
        assert_eq!(saved(&said).iter().filter(|plan| !folder.0.join(plan).exists()).count(), 0);
    }
    let folder = Folder::new("stopped-twice");
    let (mut child, _out) = begun(&folder, "check-then-set");
    // Two signals that come at once may be one.
    while child.try_wait().unwrap().is_none() {
        interrupt(&child);
    }
    assert_eq!(child.wait().unwrap().code(), Some(130), "the second one ends the process");
}

#[test]
fn a_hunt_goes_on_after_the_first_violation() {
    let folder = Folder::new("groups");
    let hunt = ["hunt", "--lock", "px-constant", "--topology", "single"];
    let all = [&hunt[..], &["--faults", "flush", "--budget", "1ms"]].concat();
    let ended = ["found after 64 plans", "violated plans in ", "seeds 1..64, where the budget"];
    check(&folder, &all, 1, &ended);
    let all = [&hunt[..], &["--seeds", "1..20"]].concat();
    let texts = ["group 1 of ", "(in-model)", "group 2 of ", "token-lua holds in this plan"];
    let said = check(&folder, &all, 1, &texts);
    let plan = &saved(&said)[1];
    check(&folder, &["replay", plan], 1, &["the same as that of a second run"]);
    let first = [&all[..], &["--first"]].concat();
    check(&folder, &first, 1, &["found after ", "foreign-release", "shrunk in "]);
    let endless = [&hunt[..], &["--seeds", "0..18446744073709551615"]].concat();
    check(&folder, &endless, 3, &["18446744073709551616 plans", "--budget 10m"]);
    check(&folder, &[&hunt[..], &["--budget", "0s"]].concat(), 3, &["a budget of 0 runs no plan"]);
}

/// The scenario of these tests with a pause that harms its holder.
fn paused() -> String {
    std::fs::read_to_string("scenarios/gc-pause-outlives-lease.toml").unwrap()
}

#[test]
fn explain_says_how_why_and_from_where_on() {
    let folder = Folder::new("explain").with("pause.toml", paused());
    let explain = ["explain", "pause.toml", "--report", "out"];
    let texts = [
        "c1 was paused for 15 s, and its lease ran out. (stood-still)",
        "why:    Necessary: c1's pause of 15 s.",
        "fault:1.for (15 s here): 9.578 s holds though open to another (84.3 ms), 9.579 s",
        "report: out/gc-pause-outlives-lease.md",
    ];
    check(&folder, &explain, 0, &texts);
    let plan = "out/gc-pause-outlives-lease.plan.json";
    check(&folder, &["explain", plan], 1, &texts[..3]);
    check(&folder, &["explain", plan, "--seed", "2"], 3, &["a plan has its own seed"]);
    check(&folder, &["explain", "out"], 3, &["out is a folder", "name one scenario"]);
}

#[test]
fn threshold_finds_the_requested_figure_or_names_those_that_can_be_requested() {
    let calm = paused().replace("15s", "3s").replace("[[fault]]", "# shorter\n[[fault]]");
    let folder = Folder::new("threshold").with("pause.toml", paused()).with("calm.toml", calm);
    let of = |of| ["threshold", "pause.toml", "--of", of];
    let pause = "fault:1.for: 9.578 s holds though open to another (84.3 ms), 9.579 s breaks";
    check(&folder, &of("fault:1.for"), 0, &[pause]);
    let names = "it has: fault:1.for, lock.ttl, workload.hold, lock.timeout";
    check(&folder, &of("links.loss"), 3, &[names]);
    check(&folder, &["threshold", "calm.toml"], 0, &[pause]);
}

#[test]
fn a_run_ends_with_what_it_found() {
    let folder = Folder::new("endings");
    let scenario = |name: &str| format!("{}/scenarios/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(scenario("gc-pause-outlives-lease.toml")).unwrap();
    let folder = folder
        .with("met.toml", &text)
        .with("renamed.toml", text.replace("gc-pause-outlives-lease", "renamed"))
        .with("not.toml", text.replace("\"stale-holder\", ", ""))
        .with("unknown.toml", text.replace("nth = 1", "nth = 999"));
    let in_short =
        ["1 as expected, 0 not, 0 unknown", "  how:    c1 was paused for 15 s", "  heals:"];
    check(&folder, &["run", "met.toml"], 0, &in_short);
    let cut = ["the budget was used up", "1 as expected"];
    check(&folder, &["run", "met.toml", "--budget", "0s"], 0, &cut);
    check(&folder, &["run", "not.toml"], 1, &["NOT as expected"]);
    let why = ["why: lockstorm explain not.toml --seed 1", "1 as expected, 1 not"];
    check(&folder, &["run", "renamed.toml", "not.toml"], 1, &why);
    check(&folder, &["run", "unknown.toml"], 2, &["nothing was tested", "1 unknown"]);
}

#[test]
fn only_what_lockstorm_wrote_is_replaced() {
    let race = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/none-counter-race.toml");
    let mine = "# My project\n";
    let folder = Folder::new("reports")
        .with("scenarios/race.toml", fs::read_to_string(race).unwrap())
        .with("README.md", mine)
        .with("reports/hunt-none-single.md", mine)
        .with("reports/README.md", "");
    let refused = |arguments: &[&str], texts: &[&str]| {
        let texts = [texts, &["name another folder with --report, or move the file away"]].concat();
        check(&folder, arguments, 3, &texts);
        assert_eq!(fs::read_to_string(folder.0.join("README.md")).unwrap(), mine);
        assert!(!folder.0.join("none-counter-race.md").exists(), "nothing else is written");
    };
    let run = ["run", "scenarios", "--report", "."];
    refused(&run, &["README.md would be replaced: lockstorm did not write it"]);
    refused(&[], &["reports/README.md would be replaced"]);
    let hunt = ["hunt", "--lock", "none", "--topology", "single", "--seeds", "1..5"];
    refused(&hunt, &["reports/hunt-none-single.md would be replaced"]);
    fs::write(folder.0.join("none-counter-race.svg"), "<svg/>").unwrap();
    refused(&run, &["none-counter-race.svg would be replaced", "nor another file there"]);
    // The files in such a folder were written by lockstorm, and are replaced.
    for _ in 0..2 {
        check(&folder, &["run", "scenarios", "--report", "own"], 0, &["1 as expected"]);
    }
    let own = [&hunt[..], &["--report", "own"]].concat();
    check(&folder, &own, 1, &["report: own/hunt-none-single-"]);
    check(&folder, &own, 1, &["list: own/hunt-none-single.md"]);
    let index = fs::read_to_string(folder.0.join("own/README.md")).unwrap();
    assert!(index.contains("[none-counter-race](none-counter-race.md)"), "{index}");
    assert!(!folder.0.join("own/INDEX.md").exists(), "one page links every report");
}

/// The newest build of the library beside this test: the test of another project links to it as
/// cargo would, without building everything again.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let files = fs::read_dir(test.parent().unwrap()).unwrap().map(|file| file.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let is_library = |path: &PathBuf| {
        let name = name(path);
        name.starts_with("liblockstorm-") && name.ends_with(".rlib")
    };
    let newest = files.filter(is_library).max_by_key(|p| fs::metadata(p).unwrap().modified().ok());
    newest.expect("this test needs it")
}

#[test]
fn a_new_project_has_a_lock_that_keeps_its_promise() {
    let folder = Folder::new("new");
    let new = ["new", "lock", "my-lock", "--into", "a/b"];
    check(&folder, &new, 0, &["a/b/Cargo.toml", "a/b/src/main.rs", "cd a/b && cargo run"]);
    let manifest: toml::Table =
        fs::read_to_string(folder.0.join("a/b/Cargo.toml")).unwrap().parse().unwrap();
    let path = manifest["dependencies"]["lockstorm"]["path"].as_str().unwrap();
    assert_eq!(Path::new(path), Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap());
    assert_eq!(manifest["dependencies"].as_table().unwrap().len(), 1, "no second crate");
    let library = library();
    let (externs, deps) = (format!("lockstorm={}", library.display()), library.parent().unwrap());
    let built = Command::new("rustc")
        .current_dir(folder.0.join("a/b"))
        .args(["--edition", "2024", "--test", "src/main.rs", "-o", "tests", "-D", "warnings"])
        .args(["--extern", &externs])
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let tests = Command::new("./tests").current_dir(folder.0.join("a/b")).output().unwrap();
    let said = String::from_utf8_lossy(&tests.stdout);
    assert!(said.contains("2 passed; 0 failed"), "{said}");
}

#[test]
fn a_new_project_replaces_nothing() {
    let folder = Folder::new("new-refused").with("mine/notes.txt", "keep");
    let new = |rest: &[&'static str]| [&["new", "lock"][..], rest].concat();
    check(&folder, &new(&["mine"]), 3, &["mine exists already", "--into"]);
    check(&folder, &new(&["other", "--into", "mine"]), 3, &["mine exists already"]);
    check(&folder, &new(&["other", "--into", "mine/notes.txt"]), 3, &["exists already"]);
    check(&folder, &new(&["redlock"]), 3, &["there is a lock named 'redlock' already"]);
    check(&folder, &new(&["My_Lock"]), 3, &["'My_Lock' cannot be the name", "'my-lock'"]);
    let elsewhere = ["x", "--lockstorm", "mine"];
    check(&folder, &new(&elsewhere), 3, &["lockstorm's own source is not in mine", "--lockstorm"]);
    check(&folder, &["new"], 3, &["lock"]);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing else is written");
    assert_eq!(fs::read_dir(folder.0.join("mine")).unwrap().count(), 1);
}

#[cfg(feature = "turmoil")]
#[test]
fn a_second_engine_is_chosen_by_its_name() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/none-counter-race.toml");
    let race = fs::read_to_string(file).unwrap();
    let expected = race.lines().find(|line| line.starts_with("expect")).unwrap().to_owned();
    let other = race.replace(&expected, "expect = { holds = true }");
    let folder = Folder::new("engines").with("scenarios/race.toml", race).with("other.toml", other);
    let both = |file| ["run", file, "--engine", "both"];
    let race = both("scenarios/race.toml");
    check(&folder, &race, 0, &["corruption", " agree ", "1 agree, 0 do not"]);
    check(&folder, &both("other.toml"), 1, &["agree, NOT as expected", "1 agree"]);
    check(&folder, &["--engine", "turmoil"], 0, &["1 as expected", "corruption"]);
    assert!(!folder.0.join("reports").exists(), "the reports are those of the event engine");
    check(&folder, &["run", "scenarios", "--engine", "clock"], 3, &["'clock'", "both"]);
    let hunt = ["hunt", "--lock", "none", "--topology", "single", "--seeds", "1..1"];
    let hunt = [&hunt[..], &["--engine", "turmoil"]].concat();
    let said = check(&folder, &hunt, 1, &["corruption"]);
    let replay = ["replay", &saved(&said)[0], "--engine", "turmoil"];
    check(&folder, &replay, 1, &["the same as that of a second run"]);
}

/// What cannot be kept is told before a hunt that may take hours, and not after it.
#[test]
fn a_folder_that_cannot_be_written_is_refused_before_the_hunt() {
    let folder = Folder::new("unwritable");
    let hunt = ["hunt", "--lock", "px-constant", "--topology", "single", "--seeds", "1..9999999"];
    let texts = ["/proc/reports cannot be written"];
    check(&folder, &[&hunt[..], &["--report", "/proc/reports"]].concat(), 3, &texts);
}
