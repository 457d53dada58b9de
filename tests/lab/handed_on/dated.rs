//! A lock whose key never expires: its value is a deadline on its caller's wall clock, and a caller
//! that reads one which is over sets its own over it. As redis-mutex for Ruby, with what that lacks:
//! a value names its owner, and is replaced and deleted only by who has just read it.

use lockstorm::own::{
    Acquired, Algorithm, Answer, Bounded, Choices, Client, Clock, Extended, Grant, LEASE, Lock,
    LockConfig, MILLISECOND, Promise, Released, Reply, Setting, Work, answer, assumptions,
    async_trait, bound, token,
};

/// How often a caller asks again.
const EVERY: u64 = 100 * MILLISECOND;

/// Replaces a value that was read before. KEYS: lock. ARGV: that value, the new one.
const REPLACE: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("SET", KEYS[1], ARGV[2])
    return 1
end
return 0"#;

/// Deletes the key of a token. KEYS: lock. ARGV: token.
const DELETE: &str = r#"
if string.match(redis.call("GET", KEYS[1]) or "", ":(.*)$") == ARGV[1] then
    return redis.call("DEL", KEYS[1])
end
return 0"#;

/// Replaces the deadline of a token by a later one: a request that comes late must not shorten what
/// a newer one has set. KEYS: lock. ARGV: token, the new value.
const PROLONG: &str = r#"
local value = redis.call("GET", KEYS[1]) or ""
if string.match(value, ":(.*)$") ~= ARGV[1] then
    return 0
end
if value < ARGV[2] then
    redis.call("SET", KEYS[1], ARGV[2])
end
return 1"#;

struct Dated {
    client: Client,
    setting: Setting,
    choices: Choices,
}

impl Dated {
    async fn ask(&mut self, command: &'static str, args: &[&[u8]]) -> Answer {
        self.client.request(self.setting.call.get(), self.choices.timeout, command, args).await
    }

    async fn run(&mut self, script: &'static str, args: &[&[u8]]) -> Answer {
        let (call, key) = (self.setting.call.get(), self.setting.config.key.clone());
        self.client.eval(call, self.choices.timeout, script, &[key.as_bytes()], args).await
    }

    /// A lease from now on: its deadline, and the value that says so.
    fn lease(&self, token: &str) -> (u64, String) {
        let until = self.setting.host.now(Clock::Wall) + self.choices.ttl;
        (until, format!("{until}:{token}"))
    }

    /// One try: sets the key, or replaces a value whose deadline is over.
    async fn attempt(&mut self, token: &str) -> Acquired {
        let key = self.setting.config.key.clone();
        let (until, value) = self.lease(token);
        let grant = Grant::new(token.to_owned(), Some((Clock::Wall, until)));
        let set = self.ask("SET", &[key.as_bytes(), value.as_bytes(), b"NX"]).await;
        let Acquired::Refused(why) = answer::acquired(&set, grant) else {
            return answer::acquired(
                &set,
                Grant::new(token.to_owned(), Some((Clock::Wall, until))),
            );
        };
        let Ok(Reply::Bulk(read)) = self.ask("GET", &[key.as_bytes()]).await else {
            return Acquired::Refused(why);
        };
        let (until, value) = self.lease(token);
        if deadline_of(&read) + self.choices.ttl >= until {
            return Acquired::Refused(why);
        }
        let grant = Grant::new(token.to_owned(), Some((Clock::Wall, until)));
        answer::acquired(&self.run(REPLACE, &[&read, value.as_bytes()]).await, grant)
    }
}

fn deadline_of(value: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(value);
    text.split(':').next().and_then(|until| until.parse().ok()).unwrap_or(0)
}

#[async_trait(?Send)]
impl Lock for Dated {
    async fn acquire(&mut self) -> Acquired {
        let host = self.setting.host.clone();
        let token = token::fresh(&host, self.setting.call.get(), 0);
        let until = host.now(Clock::Monotonic) + self.choices.ttl;
        loop {
            match self.attempt(&token).await {
                Acquired::Refused(_) if host.now(Clock::Monotonic) < until => {
                    host.sleep(EVERY).await;
                }
                other => return other,
            }
        }
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let (until, value) = self.lease(&grant.token);
        let answer = self.run(PROLONG, &[grant.token.as_bytes(), value.as_bytes()]).await;
        answer::extended(&answer, (Clock::Wall, until))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        answer::released(&self.run(DELETE, &[grant.token.as_bytes()]).await)
    }
}

/// All clocks are its callers' wall clocks: they show the same time and do not step.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let config = LockConfig { clock: Some(Clock::Wall), ..config.clone() };
    let mut promise = assumptions::lease(&config, work);
    promise.assumes.push(bound(Bounded::Skew, 0));
    promise
}

/// Keeps its promise.
pub const DATED: Algorithm = Algorithm {
    promise,
    ..Algorithm::lease("dated", |setting| {
        let client = Client::of(&setting, &setting.nodes[0]);
        Box::new(Dated { client, choices: LEASE.settle(&setting.config), setting })
    })
};
