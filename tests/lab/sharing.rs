//! A lock of readers and a writer of one's own: a hash with its mode and a field for each holder.
//! The correct one keeps its promise; one whose writer ignores readers, and one whose reader
//! removes the whole key, are found.

use lockstorm::check::verdict::Kind;
use lockstorm::explain::evidence::Evidence;
use lockstorm::explain::explanation::explain;
use lockstorm::explain::mechanism::how::How;
use lockstorm::history::{History, Op, OpKind, Outcome};
use lockstorm::own::{
    Acquired, Algorithm, Answer, Client, Extended, Grant, HuntTest, LEASE, Lock, Released, Setting,
    TopologyKind, answer, async_trait, base_plan_of, hunt_own, milliseconds, token,
};
use lockstorm::run::Lab;

use crate::amount::amount;
use crate::found::{how, is_in_model, kinds};

/// Enters as a reader unless a writer has the lock. KEYS: lock. ARGV: token, ms.
const READ: &str = r#"
if redis.call("HGET", KEYS[1], "mode") == "write" then
    return 0
end
redis.call("HSET", KEYS[1], "mode", "read", ARGV[1], 1)
if redis.call("PTTL", KEYS[1]) < tonumber(ARGV[2]) then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 1"#;

/// Enters as the writer if nobody has the lock. KEYS: lock. ARGV: token, ms.
const WRITE: &str = r#"
if redis.call("EXISTS", KEYS[1]) == 1 then
    return 0
end
redis.call("HSET", KEYS[1], "mode", "write", ARGV[1], 1)
redis.call("PEXPIRE", KEYS[1], ARGV[2])
return 1"#;

/// Enters as the writer although readers may have the lock.
const WRITE_ANYWAY: &str = r#"
if redis.call("HGET", KEYS[1], "mode") == "write" then
    return 0
end
redis.call("HSET", KEYS[1], "mode", "write", ARGV[1], 1)
redis.call("PEXPIRE", KEYS[1], ARGV[2])
return 1"#;

/// Leaves; the last one removes the key. KEYS: lock. ARGV: token.
const LEAVE: &str = r#"
if redis.call("HDEL", KEYS[1], ARGV[1]) == 0 then
    return 0
end
if redis.call("HLEN", KEYS[1]) == 1 then
    redis.call("DEL", KEYS[1])
end
return 1"#;

/// Removes the key although others may have the lock.
const LEAVE_NOBODY: &str = r#"
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
    return 0
end
return redis.call("DEL", KEYS[1])"#;

/// Extends the lease of the key. KEYS: lock. ARGV: token, ms.
const PROLONG: &str = r#"
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
    return 0
end
if redis.call("PTTL", KEYS[1]) < tonumber(ARGV[2]) then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 1"#;

/// Enters if nobody has the lock, and writes the set of those that have it anew each time.
/// KEYS: lock. ARGV: token, ms.
const ALONE: &str = r#"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local members = redis.call("ZRANGE", KEYS[1], 0, -1, "WITHSCORES")
redis.call("DEL", KEYS[1])
local count = 0
for place = 1, #members, 2 do
    if tonumber(members[place + 1]) > now then
        redis.call("ZADD", KEYS[1], members[place + 1], members[place])
        count = count + 1
    end
end
if count > 0 then
    return 0
end
redis.call("ZADD", KEYS[1], now + ARGV[2] + 1, ARGV[1])
return 1"#;

const LEAVE_THE_SET: &str = r#"
return redis.call("ZREM", KEYS[1], ARGV[1])"#;

/// Counts a reader in the key, which a writer sets for itself. KEYS: lock. ARGV: token, ms.
const COUNT: &str = r#"
if string.sub(redis.call("GET", KEYS[1]) or "", 1, 1) == "w" then
    return 0
end
redis.call("INCR", KEYS[1])
return redis.call("PEXPIRE", KEYS[1], ARGV[2])"#;

/// The same; the key expires with the lease of the first reader.
const COUNT_ONCE: &str = r#"
if string.sub(redis.call("GET", KEYS[1]) or "", 1, 1) == "w" then
    return 0
end
if redis.call("INCR", KEYS[1]) == 1 then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 1"#;

const WRITE_COUNTED: &str = r#"
if redis.call("SET", KEYS[1], "w" .. ARGV[1], "NX", "PX", ARGV[2]) then
    return 1
end
return 0"#;

/// Counts a reader down, and does not know whether it was counted up.
const COUNT_DOWN: &str = r#"
local value = redis.call("GET", KEYS[1])
if not value or string.sub(value, 1, 1) == "w" and value ~= "w" .. ARGV[1] then
    return 0
end
if string.sub(value, 1, 1) == "w" or redis.call("DECR", KEYS[1]) <= 0 then
    redis.call("DEL", KEYS[1])
end
return 1"#;

/// What a lock of readers and a writer sends.
#[derive(Clone, Copy)]
struct Shape {
    read: &'static str,
    write: &'static str,
    leave: &'static str,
}

const FIELDS: Shape = Shape { read: READ, write: WRITE, leave: LEAVE };

const COUNTED: Shape = Shape { read: COUNT, write: WRITE_COUNTED, leave: COUNT_DOWN };

struct ReadersWriter {
    client: Client,
    setting: Setting,
    shape: Shape,
}

impl ReadersWriter {
    fn boxed(setting: Setting, shape: Shape) -> Box<dyn Lock> {
        let client = Client::of(&setting, &setting.nodes[0]);
        Box::new(ReadersWriter { client, setting, shape })
    }

    async fn run(&mut self, script: &'static str, token: &str) -> Answer {
        let ReadersWriter { client, setting, .. } = self;
        let choices = LEASE.settle(&setting.config);
        let (key, ttl) = (setting.config.key.as_bytes(), milliseconds(choices.ttl));
        let args = [token.as_bytes(), ttl.as_bytes()];
        client.eval(setting.call.get(), choices.timeout, script, &[key], &args).await
    }

    async fn enter(&mut self, script: &'static str) -> Acquired {
        let host = self.setting.host.clone();
        let lease = LEASE.settle(&self.setting.config).lease(&self.setting.config);
        let token = token::fresh(&host, self.setting.call.get(), 0);
        let sent = host.now(lease.clock);
        let answer = self.run(script, &token).await;
        let deadline = Some(lease.deadline(&host, sent));
        answer::acquired(&answer, Grant::new(token, deadline))
    }
}

#[async_trait(?Send)]
impl Lock for ReadersWriter {
    async fn acquire(&mut self) -> Acquired {
        self.enter(self.shape.write).await
    }

    async fn acquire_shared(&mut self) -> Acquired {
        self.enter(self.shape.read).await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let host = self.setting.host.clone();
        let lease = LEASE.settle(&self.setting.config).lease(&self.setting.config);
        let sent = host.now(lease.clock);
        let answer = self.run(PROLONG, &grant.token).await;
        answer::extended(&answer, lease.deadline(&host, sent))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        answer::released(&self.run(self.shape.leave, &grant.token).await)
    }
}

const fn shared(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { shares: true, ..Algorithm::lease(name, build) }
}

const CORRECT: Algorithm =
    shared("readers-writer", |setting| ReadersWriter::boxed(setting, FIELDS));

fn hunt(lock: Algorithm) -> HuntTest {
    hunt_own(lock, TopologyKind::Single).clients(4).within_assumptions()
}

/// The grants of a mode.
fn grants(history: &History, shared: bool) -> impl Iterator<Item = &Op> {
    let granted = |op: &&Op| matches!(op.outcome, Outcome::Granted { .. });
    history.ops.iter().filter(granted).filter(move |op| op.shared == shared)
}

/// `LOCKSTORM_SHAPES` sets the number of plans.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_lock_of_readers_and_a_writer_keeps_its_promise() {
    let plans = amount("LOCKSTORM_SHAPES", 2_000) as u64;
    let tally = hunt(CORRECT).seeds(1..=plans).holds();
    assert!(tally.struck_in_hold > plans / 4, "{tally:?}");
}

/// `LOCKSTORM_SHAPES` sets the number of plans. Who is refused writes the set as it was: that harms
/// nobody.
#[test]
fn a_lock_that_writes_its_members_anew_keeps_its_promise() {
    let lock = shared("alone", |setting| {
        let shape = Shape { read: ALONE, write: ALONE, leave: LEAVE_THE_SET };
        ReadersWriter::boxed(setting, shape)
    });
    let plans = amount("LOCKSTORM_SHAPES", 500) as u64;
    let tally = hunt(lock).seeds(1..=plans).holds();
    assert!(tally.struck_in_hold > plans / 4, "{tally:?}");
}

/// Readers hold it at once, and write nothing.
#[test]
fn callers_use_both_modes() {
    let plan = base_plan_of(&CORRECT, TopologyKind::Single);
    let history = Lab::default().with_lock(CORRECT).run(&plan).history;
    assert!(grants(&history, false).count() > 5);
    let readers: Vec<&Op> = grants(&history, true).collect();
    assert!(readers.len() > 5, "{}", readers.len());
    let returned = |op: &Op| op.ret.map_or(u64::MAX, |ret| ret.at);
    let left = |op: &Op| {
        let release = OpKind::Release { grant: op.id };
        let mut releases = history.ops.iter().filter(|op| op.kind == release);
        releases.next().map_or(u64::MAX, |op| op.call.at)
    };
    let overlaps = |one: &Op| {
        readers.iter().any(|other| {
            other.id != one.id && returned(other) < left(one) && returned(one) < left(other)
        })
    };
    assert!(readers.iter().any(|reader| overlaps(reader)), "readers hold it together");
    let mut writes = history.ops.iter().filter_map(|op| match op.kind {
        OpKind::Write { grant, .. } => grant,
        _ => None,
    });
    assert!(writes.all(|grant| !history.ops[grant as usize].shared));
}

#[test]
fn a_writer_that_ignores_readers_is_found() {
    let lock = shared("writes-anyway", |setting| {
        ReadersWriter::boxed(setting, Shape { write: WRITE_ANYWAY, ..FIELDS })
    });
    let finding = hunt(lock).seeds(1..=200).finds();
    assert!(is_in_model(&finding) && kinds(&finding).contains(&Kind::DoubleGrant));
    let (_, how) = how(&finding);
    assert!(how.contains(" in though ") && how.contains(" held the lock already: c"), "{how}");
    assert!(how.contains(" in shared mode until "), "{how}");
    let explanation = explain(&finding);
    assert!(explanation.verdict.contains(" in shared mode)"), "{}", explanation.verdict);
    let mut modes = [0, 0];
    for line in &explanation.story.lines {
        let Some(Evidence::Op(grant)) = line.evidence.first() else { continue };
        if line.text.contains(" is granted the lock") {
            let shared = finding.history.ops[*grant as usize].shared;
            assert_eq!(line.text.contains(" in shared mode"), shared, "{}", line.text);
            modes[usize::from(shared)] += 1;
        }
    }
    assert!(!modes.contains(&0), "the story has a writer and a reader: {modes:?}");
}

#[test]
fn a_reader_that_removes_the_whole_key_is_found() {
    let lock = shared("leaves-nobody", |setting| {
        ReadersWriter::boxed(setting, Shape { leave: LEAVE_NOBODY, ..FIELDS })
    });
    let finding = hunt(lock).seeds(1..=200).finds();
    let found = kinds(&finding);
    assert!(is_in_model(&finding) && found.contains(&Kind::ForeignRelease), "{found:?}");
}

/// The readers are counted in one key, which belongs to none of them.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_key_of_readers_that_a_release_without_a_part_counts_down_is_told() {
    let lock = shared("counted", |setting| ReadersWriter::boxed(setting, COUNTED));
    let finding = hunt(lock).seeds(1..=200).finds();
    assert!(is_in_model(&finding) && kinds(&finding).contains(&Kind::DoubleGrant));
    let (how, sentence) = how(&finding);
    assert_eq!(how, How::BlindCommand, "{sentence}");
    assert!(sentence.ends_with(" had no part in that key."), "{sentence}");
    let story: Vec<String> =
        explain(&finding).story.lines.into_iter().map(|line| line.text).collect();
    let is_told = |part: &str| story.iter().any(|line| line.contains(part));
    assert!(is_told("'s release takes effect on the key on n1 by which c"), "{story:#?}");
}

/// Only the first reader gives the key an expiry.
#[test]
fn a_key_of_readers_that_expires_for_all_of_them_is_told() {
    let lock = shared("counted-once", |setting| {
        ReadersWriter::boxed(setting, Shape { read: COUNT_ONCE, ..COUNTED })
    });
    let mut seeds = 1..=200;
    let (finding, sentence) = loop {
        let finding = hunt(lock).seeds(seeds.clone()).finds();
        seeds = finding.seed + 1..=200;
        let (how, sentence) = how(&finding);
        if how == How::DeadlineTooLate {
            break (finding, sentence);
        }
    };
    assert!(sentence.ends_with(" counts on its lease for longer than its key lives."));
    let story: Vec<String> =
        explain(&finding).story.lines.into_iter().map(|line| line.text).collect();
    let is_told = |part: &str| story.iter().any(|line| line.contains(part));
    assert!(is_told(" in shared mode on n1, sharing c"), "{story:#?}");
    assert!(is_told(" has the lock is gone: it has expired."), "{story:#?}");
}
