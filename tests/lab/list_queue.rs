//! A lock of one's own with a queue in a list on the node, which is asked for one's turn again and
//! again. Its scripts make it fair or not.

use lockstorm::own::{
    Acquired, Algorithm, Answer, Choices, Client, Clock, Extended, Grant, LEASE, Lock, LockConfig,
    MILLISECOND, Promise, Released, SECOND, Setting, Work, answer, assumptions, async_trait,
    milliseconds, token,
};

/// How often a waiter asks for its turn.
const EVERY: u64 = 100 * MILLISECOND;

const PROLONG: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0"#;

/// A lock with a queue in a list. Its scripts get the keys of lock and queue, and as arguments the
/// token, the lease and how long a sign of life of a waiter stays, in milliseconds.
pub struct ListQueue {
    client: Client,
    setting: Setting,
    choices: Choices,
    turn: &'static str,
    leave: &'static str,
}

impl ListQueue {
    /// One whose waiters run `turn` until it says 1, and which runs `leave` to give up and to release.
    pub fn boxed(setting: Setting, turn: &'static str, leave: &'static str) -> Box<dyn Lock> {
        let client = Client::of(&setting, &setting.nodes[0]);
        Box::new(ListQueue { client, choices: LEASE.settle(&setting.config), setting, turn, leave })
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
impl Lock for ListQueue {
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

fn promise(config: &LockConfig, work: Work) -> Promise {
    Promise { queue: Some(queue_of(config)), ..assumptions::lease(config, work) }
}

/// A lock whose callers wait, without the promise of an order.
pub const fn waiting(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { waits_for_turn: true, ..Algorithm::lease(name, build) }
}

/// A lock that promises the order of its queue.
pub const fn queueing(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { promise, ..waiting(name, build) }
}
