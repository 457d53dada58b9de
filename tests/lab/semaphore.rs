//! A semaphore of one's own: a sorted set with a member for each holder, whose score ends its lease.
//! It is judged member by member. The correct one keeps its promise; each broken one is found.

use lockstorm::check::verdict::Kind;
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::own::{
    Acquired, Algorithm, Answer, Client, Extended, Grant, HuntTest, LEASE, Lock, LockConfig,
    Promise, Released, Setting, TopologyKind, Work, answer, assumptions, async_trait, hunt_own,
    milliseconds, token,
};
use lockstorm_platform::time::MILLISECOND;

use crate::amount::amount;
use crate::found::{how, is_in_model, kinds};

/// How many may hold it at once.
const HOLDERS: u32 = 2;

/// Removes the members whose leases are over, and adds one if there is room. KEYS: lock. ARGV: token,
/// ms, number of holders.
const TAKE: &str = r#"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[3]) then
    return 0
end
redis.call("ZADD", KEYS[1], now + ARGV[2] + 1, ARGV[1])
return 1"#;

/// Moves the end of a member's lease. KEYS: lock. ARGV: token, ms.
const PROLONG: &str = r#"
if not redis.call("ZSCORE", KEYS[1], ARGV[1]) then
    return 0
end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("ZADD", KEYS[1], now + ARGV[2] + 1, ARGV[1])
return 1"#;

/// Adds a member before it looks whether there is room, and leaves it there.
const TAKE_AND_LOOK: &str = r#"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
redis.call("ZADD", KEYS[1], now + ARGV[2] + 1, ARGV[1])
if redis.call("ZCARD", KEYS[1]) > tonumber(ARGV[3]) then
    return 0
end
return 1"#;

/// Moves the ends of all leases.
const PROLONG_ALL: &str = r#"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, member in ipairs(redis.call("ZRANGE", KEYS[1], 0, -1)) do
    redis.call("ZADD", KEYS[1], now + ARGV[2] + 1, member)
end
return redis.call("ZSCORE", KEYS[1], ARGV[1]) and 1 or 0"#;

/// Adds a member again that is gone.
const REVIVE: &str = r#"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("ZADD", KEYS[1], now + ARGV[2] + 1, ARGV[1])
return 1"#;

/// What a semaphore sends.
#[derive(Clone, Copy)]
struct Shape {
    take: &'static str,
    /// How many its script lets in.
    room: u32,
    prolong: &'static str,
    /// Whether a release removes the oldest member, whoever's it is.
    pops: bool,
}

const CORRECT: Shape = Shape { take: TAKE, room: HOLDERS, prolong: PROLONG, pops: false };

struct Semaphore(Client, Setting, Shape);

impl Semaphore {
    fn boxed(setting: Setting, shape: Shape) -> Box<dyn Lock> {
        Box::new(Semaphore(Client::of(&setting, &setting.nodes[0]), setting, shape))
    }

    async fn run(&mut self, script: &'static str, token: &str) -> Answer {
        let Semaphore(client, Setting { config, call, .. }, shape) = self;
        let (choices, room) = (LEASE.settle(config), shape.room.to_string());
        let ttl = milliseconds(choices.ttl);
        let args: [&[u8]; 3] = [token.as_bytes(), ttl.as_bytes(), room.as_bytes()];
        client.eval(call.get(), choices.timeout, script, &[config.key.as_bytes()], &args).await
    }
}

#[async_trait(?Send)]
impl Lock for Semaphore {
    async fn acquire(&mut self) -> Acquired {
        let host = self.1.host.clone();
        let lease = LEASE.settle(&self.1.config).lease(&self.1.config);
        let (token, sent) = (token::fresh(&host, self.1.call.get(), 0), host.now(lease.clock));
        let answer = self.run(self.2.take, &token).await;
        let deadline = Some(lease.deadline(&host, sent));
        answer::acquired(&answer, Grant::new(token, deadline))
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let host = self.1.host.clone();
        let lease = LEASE.settle(&self.1.config).lease(&self.1.config);
        let sent = host.now(lease.clock);
        let answer = self.run(self.2.prolong, &grant.token).await;
        answer::extended(&answer, lease.deadline(&host, sent))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        let (call, timeout) = (self.1.call.get(), LEASE.settle(&self.1.config).timeout);
        let (key, token) = (self.1.config.key.clone(), grant.token.as_bytes());
        let answer = match self.2.pops {
            true => self.0.request(call, timeout, "ZPOPMIN", &[key.as_bytes()]).await,
            false => self.0.request(call, timeout, "ZREM", &[key.as_bytes(), token]).await,
        };
        answer::released(&answer)
    }
}

fn promise(config: &LockConfig, work: Work) -> Promise {
    Promise { holders: HOLDERS, ..assumptions::lease(config, work) }
}

const fn semaphore(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { promise, ..Algorithm::lease(name, build) }
}

fn hunt(lock: Algorithm) -> HuntTest {
    hunt_own(lock, TopologyKind::Single).within_assumptions().clients(4)
}

fn found(hunt: HuntTest) -> Finding {
    let finding = hunt.seeds(1..=400).finds();
    assert!(is_in_model(&finding));
    finding
}

/// `LOCKSTORM_SHAPES` sets the number of plans.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_semaphore_keeps_its_promise() {
    let lock = semaphore("sorted-set", |setting| Semaphore::boxed(setting, CORRECT));
    let plans = amount("LOCKSTORM_SHAPES", 2_000) as u64;
    let tally = hunt(lock).seeds(1..=plans).holds();
    assert!(tally.struck_in_hold > plans / 4, "{tally:?}");
    let extended = hunt(lock).extend("1/2".parse().unwrap()).hold(4_000 * MILLISECOND);
    assert!(extended.seeds(1..=plans / 10).holds().grants > 0);
}

#[test]
fn one_holder_too_many_is_found_and_the_others_are_named() {
    let lock = semaphore("too-many", |setting| {
        Semaphore::boxed(setting, Shape { room: HOLDERS + 1, ..CORRECT })
    });
    let finding = found(hunt(lock));
    assert!(kinds(&finding).contains(&Kind::DoubleGrant));
    let (_, how) = how(&finding);
    let (who, leases) = how.split_once(" in though 2 held the lock already: ").expect(&how);
    assert!(who.starts_with("n1 let c"), "{how}");
    assert_eq!(leases.matches(" until ").count(), 2, "{how}");
}

#[test]
fn a_release_of_anothers_member_is_found() {
    let lock =
        semaphore("popping", |setting| Semaphore::boxed(setting, Shape { pops: true, ..CORRECT }));
    let finding = found(hunt(lock));
    assert!(kinds(&finding).contains(&Kind::ForeignRelease), "{:?}", kinds(&finding));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn an_extend_of_anothers_member_is_found() {
    let lock = semaphore("extending-all", |setting| {
        Semaphore::boxed(setting, Shape { prolong: PROLONG_ALL, ..CORRECT })
    });
    let hunt = hunt(lock).extend("1/2".parse().unwrap()).hold(2_500 * MILLISECOND);
    let finding = found(hunt);
    assert!(kinds(&finding).contains(&Kind::ForeignExtend), "{:?}", kinds(&finding));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_member_that_a_refused_acquire_left_is_found() {
    let lock = semaphore("leaving", |setting| {
        Semaphore::boxed(setting, Shape { take: TAKE_AND_LOOK, ..CORRECT })
    });
    let finding = found(hunt(lock));
    assert!(kinds(&finding).contains(&Kind::Leak), "{:?}", kinds(&finding));
    // Its collection may have a time to live, so the story does not say that the member has none.
    let told = explain(&finding).story.lines.into_iter().map(|line| line.text);
    let sets: Vec<String> = told.filter(|line| line.contains("acquire sets the key on")).collect();
    assert!(!sets.is_empty() && !sets.iter().any(|line| line.contains("live")), "{sets:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_member_that_an_extend_adds_again_is_found() {
    let lock = semaphore("reviving", |setting| {
        Semaphore::boxed(setting, Shape { prolong: REVIVE, ..CORRECT })
    });
    // The correct one holds with the same settings: see the first test.
    let hunt = hunt(lock).extend("1/2".parse().unwrap()).hold(4_000 * MILLISECOND);
    let finding = found(hunt);
    assert!(kinds(&finding).contains(&Kind::RenewalAfterRelease), "{:?}", kinds(&finding));
}
