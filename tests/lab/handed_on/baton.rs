//! A lock with a queue that its release hands on: it takes a waiter out of the queue and sets the
//! key to the token of that waiter, which learns of it with its next request.

use lockstorm::own::{
    Acquired, Algorithm, Answer, Choices, Client, Clock, Extended, Grant, LEASE, Lock, LockConfig,
    MILLISECOND, Promise, Released, SECOND, Setting, Work, answer, assumptions, async_trait,
    milliseconds, token,
};

/// How often a waiter asks whether the lock was handed to it.
const EVERY: u64 = 100 * MILLISECOND;

/// Takes the lock if it was handed to the caller, or if it is free and the caller is the first that
/// still gives a sign of life. KEYS: lock, queue. ARGV: token, ms of the lease, ms of a sign of life.
const TURN: &str = r#"
redis.call("SET", KEYS[2] .. ":" .. ARGV[1], 1, "PX", ARGV[3])
if redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
    return 1
end
if not redis.call("LPOS", KEYS[2], ARGV[1]) then
    redis.call("RPUSH", KEYS[2], ARGV[1])
end
if redis.call("EXISTS", KEYS[1]) == 1 then
    return 0
end
local head = redis.call("LINDEX", KEYS[2], 0)
while redis.call("EXISTS", KEYS[2] .. ":" .. head) == 0 do
    redis.call("LPOP", KEYS[2])
    head = redis.call("LINDEX", KEYS[2], 0)
end
if head ~= ARGV[1] then
    return 0
end
redis.call("LPOP", KEYS[2])
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1"#;

/// The same, but whoever finds the lock free hands it to the first in the queue.
const USHER: &str = r#"
redis.call("SET", KEYS[2] .. ":" .. ARGV[1], 1, "PX", ARGV[3])
if redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
    return 1
end
if not redis.call("LPOS", KEYS[2], ARGV[1]) then
    redis.call("RPUSH", KEYS[2], ARGV[1])
end
if redis.call("EXISTS", KEYS[1]) == 1 then
    return 0
end
local head = redis.call("LPOP", KEYS[2])
while redis.call("EXISTS", KEYS[2] .. ":" .. head) == 0 do
    head = redis.call("LPOP", KEYS[2])
end
redis.call("SET", KEYS[1], head, "PX", ARGV[2])
return head == ARGV[1] and 1 or 0"#;

/// As [`TURN`], but a caller that finds its token keeps the time to live that the release gave.
const LATE: &str = r#"
redis.call("SET", KEYS[2] .. ":" .. ARGV[1], 1, "PX", ARGV[3])
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return 1
end
if not redis.call("LPOS", KEYS[2], ARGV[1]) then
    redis.call("RPUSH", KEYS[2], ARGV[1])
end
if redis.call("EXISTS", KEYS[1]) == 1 then
    return 0
end
local head = redis.call("LINDEX", KEYS[2], 0)
while redis.call("EXISTS", KEYS[2] .. ":" .. head) == 0 do
    redis.call("LPOP", KEYS[2])
    head = redis.call("LINDEX", KEYS[2], 0)
end
if head ~= ARGV[1] then
    return 0
end
redis.call("LPOP", KEYS[2])
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1"#;

/// Leaves the queue, and hands the lock on to the first that still gives a sign of life. KEYS: lock,
/// queue. ARGV: token, ms of the lease.
const HAND_ON: &str = r#"
redis.call("LREM", KEYS[2], 1, ARGV[1])
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
    return 0
end
local next = redis.call("LPOP", KEYS[2])
while next and redis.call("EXISTS", KEYS[2] .. ":" .. next) == 0 do
    next = redis.call("LPOP", KEYS[2])
end
if next then
    redis.call("SET", KEYS[1], next, "PX", ARGV[2])
else
    redis.call("DEL", KEYS[1])
end
return 1"#;

/// The same, but it hands the lock to the last in the queue.
const TO_THE_LAST: &str = r#"
redis.call("LREM", KEYS[2], 1, ARGV[1])
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
    return 0
end
local next = redis.call("RPOP", KEYS[2])
while next and redis.call("EXISTS", KEYS[2] .. ":" .. next) == 0 do
    next = redis.call("RPOP", KEYS[2])
end
if next then
    redis.call("SET", KEYS[1], next, "PX", ARGV[2])
else
    redis.call("DEL", KEYS[1])
end
return 1"#;

/// The same, but it empties the queue and leaves the lock to the next that asks.
const DISPERSE: &str = r#"
redis.call("LREM", KEYS[2], 1, ARGV[1])
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call("DEL", KEYS[1], KEYS[2])
return 1"#;

const PROLONG: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0"#;

struct Baton {
    client: Client,
    setting: Setting,
    choices: Choices,
    turn: &'static str,
    leave: &'static str,
}

impl Baton {
    fn boxed(setting: Setting, turn: &'static str, leave: &'static str) -> Box<dyn Lock> {
        let client = Client::of(&setting, &setting.nodes[0]);
        Box::new(Baton { client, choices: LEASE.settle(&setting.config), setting, turn, leave })
    }

    async fn run(&mut self, script: &'static str, token: &str) -> Answer {
        let Setting { config, call, .. } = &self.setting;
        let (ttl, alive) = (milliseconds(self.choices.ttl), milliseconds(3 * SECOND));
        let queue = queue_of(config);
        let keys = [config.key.as_bytes(), queue.as_bytes()];
        let args = [token.as_bytes(), ttl.as_bytes(), alive.as_bytes()];
        self.client.eval(call.get(), self.choices.timeout, script, &keys, &args).await
    }
}

#[async_trait(?Send)]
impl Lock for Baton {
    async fn acquire(&mut self) -> Acquired {
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let token = token::fresh(&host, self.setting.call.get(), 0);
        let wait_for = self.setting.config.wait_for.unwrap_or(self.choices.ttl);
        let until = host.now(Clock::Monotonic) + wait_for;
        loop {
            let sent = host.now(lease.clock);
            let answer = self.run(self.turn, &token).await;
            let grant = Grant::new(token.clone(), Some(lease.deadline(&host, sent)));
            match answer::acquired(&answer, grant.clone()) {
                Acquired::Refused(why) if host.now(Clock::Monotonic) >= until => {
                    // Only a queue that has answered, and not with an error, is surely left.
                    let left = answer::released(&self.run(self.leave, &token).await);
                    return match left {
                        Released::Unknown => Acquired::Unknown(grant),
                        Released::Released | Released::NotMine => Acquired::Refused(why),
                    };
                }
                Acquired::Refused(_) => host.sleep(EVERY).await,
                other => return other,
            }
        }
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let sent = host.now(lease.clock);
        let answer = self.run(PROLONG, &grant.token).await;
        answer::extended(&answer, lease.deadline(&host, sent))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        answer::released(&self.run(self.leave, &grant.token).await)
    }
}

fn queue_of(config: &LockConfig) -> String {
    format!("{}:queue", config.key)
}

fn in_order(config: &LockConfig, work: Work) -> Promise {
    Promise { queue: Some(queue_of(config)), ..assumptions::lease(config, work) }
}

const fn waiting(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { waits_for_turn: true, ..Algorithm::lease(name, build) }
}

const fn queueing(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { promise: in_order, ..waiting(name, build) }
}

/// Keeps its promise.
pub const BATON: Algorithm = queueing("baton", |setting| Baton::boxed(setting, TURN, HAND_ON));

/// The same, without the promise of an order.
pub const UNORDERED: Algorithm =
    waiting("baton-unordered", |setting| Baton::boxed(setting, TURN, HAND_ON));

/// Keeps its promise: those who wait hand the lock to their first, too.
pub const USHERED: Algorithm =
    queueing("baton-ushered", |setting| Baton::boxed(setting, USHER, HAND_ON));

/// Hands the lock to who came last.
pub const NEWEST: Algorithm =
    queueing("baton-newest", |setting| Baton::boxed(setting, TURN, TO_THE_LAST));

/// Forgets all who wait whenever the lock is released.
pub const DISPERSING: Algorithm =
    queueing("baton-dispersing", |setting| Baton::boxed(setting, TURN, DISPERSE));

/// Counts the lease from the request by which a waiter learns of it, not from the hand-over.
pub const LATE_LEASE: Algorithm =
    queueing("baton-late-lease", |setting| Baton::boxed(setting, LATE, HAND_ON));
