//! A lock of readers and a writer of one's own: a hash with its mode and a field for each holder.
//! The correct one keeps its promise; one whose writer ignores readers, and one whose reader
//! removes the whole key, are found.

use lockstorm::check::verdict::Kind;
use lockstorm::explain::evidence::Evidence;
use lockstorm::explain::explanation::explain;
use lockstorm::history::{History, Op, OpKind, Outcome};
use lockstorm::own::{
    Acquired, Algorithm, Answer, Client, Extended, Grant, HuntTest, LEASE, Lock, Released, Setting,
    TopologyKind, answer, async_trait, base_plan_of, hunt_own, milliseconds, token,
};
use lockstorm::run::Lab;

use crate::amount::share;
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

struct ReadersWriter {
    client: Client,
    setting: Setting,
    write: &'static str,
    leave: &'static str,
}

impl ReadersWriter {
    fn boxed(setting: Setting, write: &'static str, leave: &'static str) -> Box<dyn Lock> {
        let client = Client::of(&setting, &setting.nodes[0]);
        Box::new(ReadersWriter { client, setting, write, leave })
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
        self.enter(self.write).await
    }

    async fn acquire_shared(&mut self) -> Acquired {
        self.enter(READ).await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let host = self.setting.host.clone();
        let lease = LEASE.settle(&self.setting.config).lease(&self.setting.config);
        let sent = host.now(lease.clock);
        let answer = self.run(PROLONG, &grant.token).await;
        answer::extended(&answer, lease.deadline(&host, sent))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        answer::released(&self.run(self.leave, &grant.token).await)
    }
}

const fn shared(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { shares: true, ..Algorithm::lease(name, build) }
}

const CORRECT: Algorithm =
    shared("readers-writer", |setting| ReadersWriter::boxed(setting, WRITE, LEAVE));

fn hunt(lock: Algorithm) -> HuntTest {
    hunt_own(lock, TopologyKind::Single).clients(4).within_assumptions()
}

/// The grants of a mode.
fn grants(history: &History, shared: bool) -> impl Iterator<Item = &Op> {
    let granted = |op: &&Op| matches!(op.outcome, Outcome::Granted { .. });
    history.ops.iter().filter(granted).filter(move |op| op.shared == shared)
}

#[test]
fn a_lock_of_readers_and_a_writer_keeps_its_promise() {
    let plans = share(2_000) as u64;
    let tally = hunt(CORRECT).seeds(1..=plans).holds();
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
    let lock =
        shared("writes-anyway", |setting| ReadersWriter::boxed(setting, WRITE_ANYWAY, LEAVE));
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
    let lock =
        shared("leaves-nobody", |setting| ReadersWriter::boxed(setting, WRITE, LEAVE_NOBODY));
    let finding = hunt(lock).seeds(1..=200).finds();
    let found = kinds(&finding);
    assert!(is_in_model(&finding) && found.contains(&Kind::ForeignRelease), "{found:?}");
}
