//! A lock of one's own with a queue: a list of waiters, each with a sign of life beside it. A waiter
//! without one is skipped. The correct one keeps its promise; one that skips nobody, one that lets
//! newcomers pass, one whose waiters give up their own places, one whose newcomers throw out all who
//! wait, and one whose waiters leave without a word are found.

use lockstorm::check::judge::judge;
use lockstorm::check::verdict::{Kind, Verdict};
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explain::mechanism::how::How;
use lockstorm::own::{Algorithm, HuntTest, TopologyKind, base_plan_of, hunt_own};
use lockstorm::run::Lab;

use crate::amount::amount;
use crate::found::{is_in_model, kinds};
use crate::list_queue::{ListQueue, queueing};

/// Joins the queue, drops heads that gave no sign of life, and takes the lock if it is free and the
/// caller is the first. KEYS: lock, queue. ARGV: token, ms of the lease, ms of a sign of life.
const TURN: &str = r#"
redis.call("SET", KEYS[2] .. ":" .. ARGV[1], 1, "PX", ARGV[3])
if not redis.call("LPOS", KEYS[2], ARGV[1]) then
    redis.call("RPUSH", KEYS[2], ARGV[1])
end
local head = redis.call("LINDEX", KEYS[2], 0)
while redis.call("EXISTS", KEYS[2] .. ":" .. head) == 0 do
    redis.call("LPOP", KEYS[2])
    head = redis.call("LINDEX", KEYS[2], 0)
end
if head ~= ARGV[1] or redis.call("EXISTS", KEYS[1]) == 1 then
    return 0
end
redis.call("LPOP", KEYS[2])
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1"#;

/// The same for a queue that waits for its head whatever became of it.
const PATIENT: &str = r#"
if not redis.call("LPOS", KEYS[2], ARGV[1]) then
    redis.call("RPUSH", KEYS[2], ARGV[1])
end
if redis.call("LINDEX", KEYS[2], 0) ~= ARGV[1] or redis.call("EXISTS", KEYS[1]) == 1 then
    return 0
end
redis.call("LPOP", KEYS[2])
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1"#;

/// The same, but a waiter whose turn has not come joins the queue anew.
fn restless() -> &'static str {
    let joins_anew = r#"
    redis.call("LREM", KEYS[2], 1, ARGV[1])
    redis.call("RPUSH", KEYS[2], ARGV[1])
    return 0"#;
    Box::leak(TURN.replacen("\n    return 0", joins_anew, 1).into_boxed_str())
}

/// The same, but who finds the lock free takes it, and does not look at the queue.
const BARGE: &str = r#"
if redis.call("EXISTS", KEYS[1]) == 1 then
    if not redis.call("LPOS", KEYS[2], ARGV[1]) then
        redis.call("RPUSH", KEYS[2], ARGV[1])
    end
    return 0
end
redis.call("LREM", KEYS[2], 1, ARGV[1])
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1"#;

/// The same, but who comes empties the queue first.
const THROW_OUT: &str = r#"
redis.call("DEL", KEYS[2])
redis.call("RPUSH", KEYS[2], ARGV[1])
if redis.call("EXISTS", KEYS[1]) == 1 then
    return 0
end
redis.call("DEL", KEYS[2])
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1"#;

/// Leaves the queue, and the lock. KEYS: lock, queue. ARGV: token.
const LEAVE: &str = r#"
redis.call("LREM", KEYS[2], 1, ARGV[1])
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
end
return 0"#;

/// Leaves the lock, and not the queue.
const LEAVE_LOCK: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
end
return 0"#;

const CORRECT: Algorithm = queueing("fair", |setting| ListQueue::boxed(setting, TURN, LEAVE));

fn hunt(lock: Algorithm) -> HuntTest {
    hunt_own(lock, TopologyKind::Single).within_assumptions().clients(4)
}

/// The mechanism of a finding with its sentence, and the lines of its story.
fn told(finding: &Finding) -> (How, String, Vec<String>) {
    let explanation = explain(finding);
    let found = explanation.mechanism.expect("it is violated");
    let lines = explanation.story.lines.into_iter().map(|line| line.text);
    (found.how, found.sentence, lines.collect())
}

/// `LOCKSTORM_SHAPES` sets the number of plans.
#[test]
fn a_queue_keeps_its_promise() {
    let plans = amount("LOCKSTORM_SHAPES", 1_000) as u64;
    let tally = hunt(CORRECT).seeds(1..=plans).holds();
    assert!(tally.struck_in_hold > plans / 8, "{tally:?}");
}

#[test]
fn a_dead_head_that_nobody_skips_is_found() {
    let lock = queueing("patient", |setting| ListQueue::boxed(setting, PATIENT, LEAVE));
    let finding = hunt(lock).faults(["crash"]).seeds(1..=400).finds();
    assert_eq!(kinds(&finding), [Kind::Stuck]);
    let (how, sentence, story) = told(&finding);
    assert_eq!(how, How::LeftInQueue, "{sentence}");
    let parts = [" stood at the head of the queue on n1, its process died at ", "to the end of"];
    assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
    let parts = ["joins the queue on n1.", "dies while", "is still at the head of the queue on n1"];
    let is_there = |part: &&str| story.iter().any(|line| line.contains(*part));
    assert!(parts.iter().all(is_there), "{story:#?}");
}

#[test]
fn a_newcomer_that_passes_the_queue_is_found() {
    let lock = queueing("barging", |setting| ListQueue::boxed(setting, BARGE, LEAVE));
    let finding = hunt(lock).seeds(1..=200).finds();
    assert!(kinds(&finding).contains(&Kind::Overtaken), "{:?}", kinds(&finding));
    let (how, sentence, story) = told(&finding);
    assert_eq!(how, How::QueueSkipped, "{sentence}");
    assert!(sentence.starts_with("n1 let c") && sentence.contains(" had stood in it since "));
    assert!(story.iter().any(|line| line.ends_with("joins the queue on n1.")), "{story:#?}");
    assert!(is_in_model(&finding));
}

#[test]
fn waiters_that_give_up_their_own_places_are_found() {
    let lock = queueing("restless", |setting| ListQueue::boxed(setting, restless(), LEAVE));
    let finding = hunt(lock).seeds(1..=200).finds();
    assert!(kinds(&finding).contains(&Kind::Overtaken), "{:?}", kinds(&finding));
    let (how, sentence, story) = told(&finding);
    assert_eq!(how, How::PlaceGivenUp, "{sentence}");
    let part = ": its own acquire gave that place up for another one at ";
    assert!(sentence.contains(part), "{sentence}");
    let gives =
        |line: &String| line.ends_with(" gives up its place in the queue on n1 for another one.");
    assert!(story.iter().any(gives), "{story:#?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn newcomers_that_throw_out_who_waits_are_found() {
    let lock = queueing("ruthless", |setting| ListQueue::boxed(setting, THROW_OUT, LEAVE));
    let finding = hunt(lock).seeds(1..=200).finds();
    assert_eq!(kinds(&finding), [Kind::Overtaken]);
    let (how, sentence, story) = told(&finding);
    assert_eq!(how, How::QueueSkipped, "{sentence}");
    let parts = [" had stood in it since ", ", in a place that c", "'s acquire removed at "];
    assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
    let removes = |line: &String| {
        line.contains(" removes c") && line.ends_with("'s place from the queue on n1.")
    };
    assert!(story.iter().any(removes), "{story:#?}");
    assert!(is_in_model(&finding));
}

/// Without faults nobody waits for a place in the queue.
#[test]
fn a_waiter_at_the_head_waits_for_nobody() {
    let mut plan = base_plan_of(&CORRECT, TopologyKind::Single);
    plan.workload.clients = 4;
    let lab = Lab::default().with_lock(CORRECT);
    let judgement = judge(&lab.run(&plan).history, &lab.terms(&plan));
    let out = judgement.availability.unavailable.expect("a grant takes its time");
    let reasons = out.reasons.iter().map(|share| format!("{:?}", share.reason));
    let others: Vec<String> =
        reasons.filter(|why| !["Waiting", "Releasing"].contains(&&**why)).collect();
    assert_eq!((judgement.verdict, others), (Verdict::Holds, Vec::new()));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_waiter_that_leaves_without_its_place_is_found() {
    let lock = queueing("leaving", |setting| ListQueue::boxed(setting, PATIENT, LEAVE_LOCK));
    let finding = hunt(lock).seeds(1..=200).finds();
    let (how, sentence, _) = told(&finding);
    assert_eq!(how, How::LeftInQueue, "{sentence}");
    let ends = ["its acquire was refused at", "its acquire had ended at"];
    assert!(ends.iter().any(|end| sentence.contains(end)), "{sentence}");
}
