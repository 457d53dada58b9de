//! The fake node against real Redis, byte for byte: scripts with recorded replies, the same scripts
//! on an installed redis-server, and random requests on both.
//!
//! `LOCKSTORM_TRUTH=write` records the replies again. `LOCKSTORM_REQUESTS` and `LOCKSTORM_SEED` set
//! how many random requests are compared, and which.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a real server lives in real time"
)]

#[path = "../../fuzz/src/body.rs"]
mod body;
mod cluster;
mod compat;
mod corpus;
mod fake;
mod files;
mod hunt;
mod item;
mod real;
mod rules;
mod sentinel;
mod shapes;
mod shrink;
mod wire;

use lockstorm_redis::compat::Compat;
use lockstorm_redis::specification::{all, find_full_in};

use crate::corpus::{Echo, Script, Step, folder, scripts, with_times, words};
use crate::fake::Fake;
use crate::real::{Real, encode, now_ms, of, sleep_ms};
use crate::rules::Rules;
use crate::shapes::{Dice, Shapes};

/// The start time of a script without a real server.
const EPOCH_MS: u64 = 1_900_000_000_000;

/// Runs a step on the fake node.
fn step_on_fake(fake: &mut Fake, step: &Step, start_ms: u64) -> Echo {
    match step {
        Step::Ask(name, line) => {
            fake.request(name, &words(&with_times(line, start_ms)));
            if name.is_empty() {
                fake.be_patient(name);
            }
        }
        Step::Pass(ms) => fake.pass(*ms),
        Step::Remark(_) => {}
    }
    fake.heard()
}

/// Runs a step on the real server.
fn step_on_real(real: &mut Real, step: &Step, start_ms: u64) -> Echo {
    match step {
        Step::Ask(name, line) => {
            real.send(name, &encode(&words(&with_times(line, start_ms))));
            if name.is_empty() {
                real.be_patient(name);
            }
        }
        Step::Pass(ms) => {
            sleep_ms(*ms);
            real.fence();
        }
        Step::Remark(_) => {}
    }
    real.heard()
}

/// The normal form of an echo for the comparison with the other side's, if that is already known;
/// and the rules that applied.
fn normal(rules: &mut Rules, step: &Step, mut echo: Echo, other: &Echo) -> (Echo, Vec<usize>) {
    let mut used = Vec::new();
    if let Step::Ask(name, line) = step
        && let Some(heard) = echo.get_mut(name)
    {
        (heard.bytes, used) =
            rules.apply(name, &words(&with_times(line, 0)), &heard.bytes, &of(other, name).bytes);
    }
    (echo, used)
}

/// A recorded echo, with the times of a script that starts now.
fn with_start(echo: &Echo, start_ms: u64) -> Echo {
    let mut echo = echo.clone();
    for heard in echo.values_mut().filter(|heard| heard.bytes.starts_with(b":<now+")) {
        let text = String::from_utf8_lossy(&heard.bytes).into_owned();
        heard.bytes = with_times(&text, start_ms).into_bytes();
    }
    echo
}

/// The inverse: times relative to the script's start.
fn without_start(mut echo: Echo, start_ms: u64) -> Echo {
    for heard in echo.values_mut() {
        let text = String::from_utf8_lossy(&heard.bytes);
        let number = text.strip_prefix(':').and_then(|text| text.strip_suffix("\r\n"));
        let number = number.and_then(|digits| digits.parse::<u64>().ok());
        let soon = |number: &u64| (start_ms..start_ms + 10_000_000).contains(number);
        if let Some(number) = number.filter(soon) {
            heard.bytes = format!(":<now+{}>\r\n", number - start_ms).into_bytes();
        }
    }
    echo
}

/// The difference between two echoes of a step, if any.
fn difference(script: &Script, step: &Step, redis: &Echo, ours: &Echo) -> Option<String> {
    if redis == ours {
        return None;
    }
    let what = match step {
        Step::Ask(name, line) => format!("{name}> {line}"),
        Step::Pass(ms) => format!("@ +{ms}"),
        Step::Remark(_) => String::new(),
    };
    let mut text = format!("{}: {what}", script.name);
    let names: std::collections::BTreeSet<&String> = redis.keys().chain(ours.keys()).collect();
    for name in names.into_iter().filter(|name| redis.get(*name) != ours.get(*name)) {
        let (redis, ours) = (of(redis, name).write(), of(ours, name).write());
        text.push_str(&format!("\n  redis {name}: {redis}\n  ours  {name}: {ours}"));
    }
    Some(text)
}

fn fail_if_any(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_recorded_answers_are_ours() {
    if writes() {
        return;
    }
    let wrong =
        scripts().into_iter().flat_map(|script| against_recorded(&script, Compat::default()));
    fail_if_any(&wrong.collect::<Vec<_>>());
}

/// The differences of a compatible node from the recorded replies.
fn against_recorded(script: &Script, compat: Compat) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut theirs, mut ours) = (Rules::read_once(), Rules::read_once());
    let mut fake = Fake::start_like(compat, &script.settings, EPOCH_MS);
    for (step, recorded) in &script.steps {
        let told = step_on_fake(&mut fake, step, EPOCH_MS);
        let recorded = with_start(recorded, EPOCH_MS);
        let (recorded, _) = normal(&mut theirs, step, recorded, &Echo::new());
        let (told, _) = normal(&mut ours, step, told, &recorded);
        wrong.extend(difference(script, step, &recorded, &told));
    }
    wrong
}

#[test]
fn the_installed_redis_answers_alike() {
    let mut wrong = Vec::new();
    for mut script in scripts() {
        let Some(mut real) = Real::start(&script.settings) else {
            eprintln!("SKIPPED: redis-server is not installed; recorded answers were compared");
            return;
        };
        wrong.extend(against_real(&mut script, Compat::default(), &mut real));
        if writes() {
            let path = folder().join(format!("{}.txt", script.name));
            std::fs::write(path, script.write()).expect("a file of cases can be written");
        }
    }
    fail_if_any(&wrong);
}

/// The differences of a compatible node from the real server, whose replies replace those of the
/// script.
fn against_real(script: &mut Script, compat: Compat, real: &mut Real) -> Vec<String> {
    let mut wrong = Vec::new();
    let start_ms = now_ms();
    let (mut theirs, mut ours) = (Rules::read_once(), Rules::read_once());
    let mut fake = Fake::start_like(compat, &script.settings, start_ms);
    for at in 0..script.steps.len() {
        let step = &script.steps[at].0;
        fake.set_time(now_ms());
        let answered = step_on_real(real, step, start_ms);
        // A recorded reply stays if it is equal under the rules.
        let recorded = with_start(&script.steps[at].1, start_ms);
        let (answered, _) = normal(&mut theirs, step, answered, &recorded);
        let told = step_on_fake(&mut fake, step, start_ms);
        let (told, _) = normal(&mut ours, step, told, &answered);
        wrong.extend(difference(script, step, &answered, &told));
        script.steps[at].1 = without_start(answered, start_ms);
    }
    wrong
}

/// Whether the replies of the installed server are to be recorded.
fn writes() -> bool {
    std::env::var("LOCKSTORM_TRUTH").is_ok_and(|word| word == "write")
}

#[test]
fn every_rule_is_used() {
    let mut rules = Rules::read_once();
    let mut idle: std::collections::BTreeSet<usize> = (0..rules.rules.len()).collect();
    for script in scripts() {
        for (step, recorded) in &script.steps {
            let (_, used) = normal(&mut rules, step, recorded.clone(), &Echo::new());
            idle.retain(|at| !used.contains(at));
        }
    }
    let idle = idle.iter().map(|at| &rules.rules[*at].command[..]);
    let shapes = Shapes::read(None);
    let idle =
        idle.filter(|name| find_full_in(all(), name.as_bytes()).is_some() && !shapes.draws(name));
    let idle: Vec<&str> = idle.collect();
    assert!(idle.is_empty(), "rules for which there is neither a case nor a shape: {idle:?}");
}

/// A number from the environment, or the default.
fn given(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_requests_are_answered_alike() {
    let Some(mut real) = Real::start(&[]) else {
        eprintln!("SKIPPED: redis-server is not installed; no random request was compared");
        return;
    };
    let family = std::env::var("LOCKSTORM_FAMILY").ok();
    let shapes = Shapes::read(family.as_deref());
    let (requests, seed) = (given("LOCKSTORM_REQUESTS", 20_000), given("LOCKSTORM_SEED", 1));
    let mut dice = Dice(seed);
    let mut asked = 0;
    while asked < requests {
        let script = hunt::script(&shapes, &mut dice);
        let (done, found) = hunt::play(&mut real, &script);
        asked += done as u64;
        if let Some(found) = found {
            let short = shrink::shrink(&mut real, script, found.at);
            let report = shrink::report(&mut real, &short);
            let first = found.text;
            panic!("seed {seed}, before request {asked}:\n{first}\n\nin short:\n{report}");
        }
    }
}
