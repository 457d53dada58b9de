//! A lock whose every method runs one script of its file on the first node.

use lockstorm::own::{
    Acquired, Algorithm, Answer, Choices, Client, Clock, Extended, Grant, LEASE, Lock, LockConfig,
    MILLISECOND, Nodes, Promise, Released, Reply, Setting, Work, answer, assumptions, async_trait,
    milliseconds, token,
};

use super::file::{self, File};

/// Between two tries of an acquire whose outcome is unknown.
const AGAIN: u64 = 50 * MILLISECOND;

struct Scripted {
    file: &'static File,
    client: Client,
    setting: Setting,
    choices: Choices,
    /// The name of the caller: the token of its first acquire.
    caller: Option<String>,
    /// The token of the last acquire that was no re-entry.
    tenure: String,
    /// How often the caller has the lock.
    depth: u32,
}

/// The lock of the file with this name.
pub fn algorithm(name: &'static str) -> Algorithm {
    let file = file::named(name);
    Algorithm {
        promise,
        shares: file.acquire_shared.is_some(),
        groups: file.groups,
        nodes: if file.groups { Nodes::Chosen } else { Nodes::First },
        waits_for_turn: file.poll_ms.is_some(),
        fences: file.fences,
        ..Algorithm::lease(name, build)
    }
}

fn build(setting: Setting) -> Box<dyn Lock> {
    let file = file::named(&setting.config.algorithm);
    let client = Client::of(&setting, &setting.nodes[0]);
    let choices = LEASE.settle(&setting.config);
    let (caller, tenure) = (None, String::new());
    Box::new(Scripted { file, client, setting, choices, caller, tenure, depth: 0 })
}

fn promise(config: &LockConfig, work: Work) -> Promise {
    let file = file::named(&config.algorithm);
    let queue = file.queues.then(|| queue_of(config));
    Promise { holders: file.holders, queue, ..assumptions::lease(config, work) }
}

/// Its braces keep it in the slot of the lock's key.
fn queue_of(config: &LockConfig) -> String {
    format!("{{{}}}:queue", config.key)
}

impl Scripted {
    async fn run(&mut self, script: &'static str, grant: &Grant) -> Answer {
        let Setting { config, call, .. } = &self.setting;
        let (ttl, alive) =
            (milliseconds(self.choices.ttl), milliseconds(self.file.alive_ms * MILLISECOND));
        let (queue, other) = (queue_of(config), format!("{{{}}}:other", config.key));
        let own = [config.key.clone(), queue, other];
        let keys = if grant.keys.is_empty() { own.iter() } else { grant.keys.iter() };
        let keys: Vec<&[u8]> = keys.map(|key| key.as_bytes()).collect();
        let caller = self.caller.as_deref().unwrap_or_default();
        let depth = grant.depth.to_string();
        let args = [&grant.token, &ttl, &alive, &depth, caller, &self.tenure].map(str::as_bytes);
        self.client.eval(call.get(), self.choices.timeout, script, &keys, &args).await
    }

    /// The grant of an acquire. The token of a shared lock states the mode.
    fn grant(&mut self, mode: &str, group: &[String]) -> Grant {
        let fresh = token::fresh(&self.setting.host, self.setting.call.get(), 0);
        self.caller.get_or_insert_with(|| fresh.clone());
        if self.depth == 0 {
            self.tenure.clone_from(&fresh);
        }
        let is_shared = self.file.acquire_shared.is_some();
        let token = if is_shared { format!("{mode}:{fresh}") } else { fresh };
        Grant { token, depth: self.depth + 1, keys: group.to_vec(), ..Grant::default() }
    }

    /// A try. What it gets may have to be confirmed.
    async fn ask(&mut self, script: &'static str, grant: &Grant) -> Answer {
        let answer = self.run(script, grant).await;
        let gets = matches!(answer::acquired(&answer, grant.clone()), Acquired::Granted(_));
        match &self.file.confirm {
            Some(confirm) if gets => self.run(confirm, grant).await,
            _ => answer,
        }
    }

    async fn take(&mut self, script: &'static str, mut grant: Grant) -> Acquired {
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let patience = self.setting.config.wait_for.unwrap_or(self.choices.ttl);
        let until = host.now(Clock::Monotonic) + patience;
        // A try without a reply may still be executed after all others.
        let mut is_sure = true;
        loop {
            grant.deadline = Some(lease.deadline(&host, host.now(lease.clock)));
            let answer = self.ask(script, &grant).await;
            let is_over = host.now(Clock::Monotonic) >= until;
            let pause = match answer::acquired(&answer, grant.clone()) {
                Acquired::Refused(why) => match self.file.poll_ms {
                    Some(poll) if !is_over => poll * MILLISECOND,
                    _ => {
                        let has_left = self.leave(&grant).await && is_sure;
                        let refused = Acquired::Refused(why);
                        return if has_left { refused } else { Acquired::Unknown(grant) };
                    }
                },
                Acquired::Unknown(_) if self.file.asks_again && !is_over => {
                    is_sure = false;
                    AGAIN
                }
                Acquired::Unknown(grant) => return Acquired::Unknown(grant),
                Acquired::Granted(grant) => {
                    self.depth = grant.depth;
                    return Acquired::Granted(Grant { fence: self.fence(&answer), ..grant });
                }
            };
            host.sleep(pause).await;
        }
    }

    fn fence(&self, answer: &Answer) -> Option<u64> {
        let Ok(Reply::Integer(number)) = answer else { return None };
        u64::try_from(*number).ok().filter(|_| self.file.fences)
    }

    /// Gives up. Whether nothing of the acquire is left: only a node that has answered, and not
    /// with an error, surely has nothing.
    async fn leave(&mut self, grant: &Grant) -> bool {
        let Some(script) = &self.file.give_up else { return true };
        answer::released(&self.run(script, grant).await) != Released::Unknown
    }
}

#[async_trait(?Send)]
impl Lock for Scripted {
    async fn acquire(&mut self) -> Acquired {
        let grant = self.grant("w", &[]);
        self.take(&self.file.acquire, grant).await
    }

    async fn acquire_shared(&mut self) -> Acquired {
        let grant = self.grant("r", &[]);
        let script = self.file.acquire_shared.as_ref().expect("a lock that is shared");
        self.take(script, grant).await
    }

    async fn acquire_all(&mut self, keys: &[String]) -> Acquired {
        let grant = self.grant("w", keys);
        self.take(&self.file.acquire, grant).await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let sent = host.now(lease.clock);
        let answer = self.run(&self.file.extend, grant).await;
        let extended = answer::extended(&answer, lease.deadline(&host, sent));
        if extended == Extended::Lost {
            self.depth = 0;
        }
        extended
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.depth = self.depth.min(grant.depth - 1);
        answer::released(&self.run(&self.file.release, grant).await)
    }
}
