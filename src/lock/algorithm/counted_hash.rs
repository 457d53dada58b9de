//! The hash of Redisson's locks on one node: a field for each owner, with the number of times that
//! it took the lock. The locks of this family differ in the scripts that they run: their [`Form`].

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_redis::frame::Reply;

use crate::lock::algorithm::replicas::Replicas;
use crate::lock::assumptions::Renewed;
use crate::lock::client::answer::{self, Answer};
use crate::lock::client::subscription::Subscription;
use crate::lock::client::{Client, milliseconds};
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Defaults, LEASE};
use crate::lock::lease::Lease;
use crate::lock::{Call, Extended, Released, Setting};

/// Redisson's defaults: `lockWatchdogTimeout`, `timeout`, `retryAttempts`, `retryInterval`.
pub const DEFAULTS: Defaults = Defaults {
    ttl: 30 * SECOND,
    timeout: |ttl| (ttl / 10).min(3 * SECOND),
    tries: 4,
    retry: 1_500 * MILLISECOND,
    ..LEASE
};

/// The names of the locks of this family.
pub const LOCKS: [&str; 4] = ["redisson", "redisson-fair", "redisson-fenced", "read-write"];

/// The scripts of a lock, and the names that they use.
pub struct Form {
    /// Takes the lock: nil, or the time to live of what keeps the caller out, in ms.
    pub take: ScriptCall,
    /// Gives one entry back: 1 if it was the owner's last, 0 if it has more, nil if it has none.
    pub give_back: ScriptCall,
    /// Extends the owner's hold: 0 if it has none.
    pub extend: ScriptCall,
    /// Leaves the queue. An acquire runs it when it gives up.
    pub leave: Option<ScriptCall>,
    /// The prefix of the channel on which releases are published.
    pub channel: &'static str,
    /// Whether each waiter has a channel of its own.
    pub has_own_channel: bool,
    /// What follows the owner's id in its field.
    pub suffix: &'static str,
}

/// A script, with its keys and arguments.
pub struct ScriptCall {
    /// Its text.
    pub script: &'static str,
    /// Its keys.
    pub keys: &'static [ScriptKey],
    /// Its arguments.
    pub args: &'static [Arg],
}

/// A key of a script.
#[derive(Clone, Copy)]
pub enum ScriptKey {
    /// The hash.
    Lock,
    /// The channel, or the prefix of the channels if each waiter has its own.
    Channel,
    /// The counter of the numbers.
    Fence,
    /// The list of waiters.
    Queue,
    /// The sorted set of their deadlines.
    Deadlines,
    /// The prefix of the keys whose expiry is that of one reader's hold.
    Holds,
}

/// An argument of a script.
#[derive(Clone, Copy)]
pub enum Arg {
    /// The owner's field.
    Owner,
    /// The field of the same owner as a writer.
    Writer,
    /// The time to live, in ms.
    Ttl,
    /// The reading of the caller's wall clock, in ms.
    Now,
    /// How long a waiter keeps its place at the head of the queue, in ms.
    QueueWait,
}

/// The hash on one node, with its own connection.
pub struct CountedHash {
    form: &'static Form,
    client: Client,
    setting: Setting,
    timeout: Nanos,
    replicas: Option<Replicas>,
}

impl CountedHash {
    /// The hash on the first node of `setting`.
    pub fn new(setting: &Setting, form: &'static Form) -> CountedHash {
        let client = Client::of(setting, &setting.nodes[0]);
        let timeout = DEFAULTS.settle(&setting.config).timeout;
        let host = setting.host.clone();
        let replicas = |acks| Replicas::new(host, acks, timeout, ack_timeout(&setting.config));
        let replicas = setting.config.acks.map(replicas);
        CountedHash { form, client, setting: setting.clone(), timeout, replicas }
    }

    /// Takes the lock. `None` if the node did, and too few replicas have it.
    pub async fn take(&mut self, call: Call, owner: &str, ttl: Nanos) -> Option<Answer> {
        self.run(call, &self.form.take, owner, ttl).await
    }

    /// Gives an entry back. The caller keeps `left` grants. `None` if the node did that, and too
    /// few replicas have it.
    pub async fn give_back(
        &mut self,
        call: Call,
        owner: &str,
        ttl: Nanos,
        left: u32,
    ) -> Option<Released> {
        Some(match self.run(call, &self.form.give_back, owner, ttl).await? {
            // The node has counted one more: an acquire with an unknown outcome took the lock as
            // well. The key stays until its lease ends.
            Ok(Reply::Integer(0)) if left == 0 => Released::Unknown,
            Ok(Reply::Integer(0)) => Released::Released,
            answer => answer::released(&answer),
        })
    }

    /// Extends the owner's hold.
    pub async fn extend(&mut self, call: Call, owner: &str, lease: &Lease) -> Extended {
        let host = self.setting.host.clone();
        let sent = host.now(lease.clock);
        match self.run(call, &self.form.extend, owner, lease.ttl).await {
            Some(answer) => answer::extended(&answer, lease.deadline(&host, sent)),
            None => Extended::Unknown,
        }
    }

    /// Reads the last number that was drawn; `None` if no reply has one.
    pub async fn number(&mut self, call: Call) -> Option<u64> {
        let counter = self.name(ScriptKey::Fence);
        let answer = self.client.request(call, self.timeout, "GET", &[counter.as_bytes()]).await;
        let Ok(Reply::Bulk(read)) = answer else { return None };
        std::str::from_utf8(&read).ok()?.parse().ok()
    }

    /// Leaves the queue, if the lock has one. Returns whether the place is gone.
    pub async fn leave(&mut self, call: Call, owner: &str) -> bool {
        let Some(leave) = &self.form.leave else { return true };
        let left = self.run(call, leave, owner, 0).await;
        left.is_none_or(|answer| answer::released(&answer) != Released::Unknown)
    }

    /// Subscribes to the channel of the owner's lock.
    pub async fn listen(&mut self, call: Call, within: Nanos, owner: &str) -> Option<Subscription> {
        let mut channel = self.name(ScriptKey::Channel);
        if self.form.has_own_channel {
            channel = format!("{channel}:{owner}");
        }
        self.client.listen(call, self.timeout.min(within), &channel).await
    }

    /// Runs a script. `None` if it was executed, and fewer replicas than must acknowledge have it.
    async fn run(
        &mut self,
        call: Call,
        step: &ScriptCall,
        owner: &str,
        ttl: Nanos,
    ) -> Option<Answer> {
        let keys: Vec<String> = step.keys.iter().map(|name| self.name(*name)).collect();
        let args: Vec<String> = step.args.iter().map(|arg| self.arg(*arg, owner, ttl)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let script = step.script;
        let CountedHash { client, timeout, .. } = self;
        let Some(replicas) = &mut self.replicas else {
            return Some(client.eval(call, *timeout, script, &keys, &args).await);
        };
        if let Err(error) = replicas.count(client, call).await {
            return Some(Err(error));
        }
        let answer = client.eval(call, *timeout, script, &keys, &args).await;
        let is_executed = answer.as_ref().is_ok_and(|reply| !matches!(reply, Reply::Error(_)));
        if !is_executed {
            return Some(answer);
        }
        match replicas.have_it(client, call).await {
            Ok(true) => Some(answer),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    fn name(&self, name: ScriptKey) -> String {
        let config = &self.setting.config;
        match name {
            ScriptKey::Lock => config.key.clone(),
            ScriptKey::Channel => format!("{}:{}", self.form.channel, tagged(config)),
            ScriptKey::Fence => format!("redisson_lock_token:{}", tagged(config)),
            ScriptKey::Queue => queue_of(config),
            ScriptKey::Deadlines => format!("redisson_lock_timeout:{}", tagged(config)),
            ScriptKey::Holds => tagged(config),
        }
    }

    fn arg(&self, arg: Arg, owner: &str, ttl: Nanos) -> String {
        match arg {
            Arg::Owner => owner.to_owned(),
            Arg::Writer => format!("{owner}:write"),
            Arg::Ttl => milliseconds(ttl),
            Arg::Now => milliseconds(self.setting.host.now(Clock::Wall)),
            Arg::QueueWait => milliseconds(queue_wait(&self.setting.config)),
        }
    }
}

/// The lock's key as a part of other names: in a cluster they are in its slot.
fn tagged(config: &LockConfig) -> String {
    let key = &config.key;
    if key.contains('{') { key.clone() } else { format!("{{{key}}}") }
}

/// The list in which waiters stand.
pub fn queue_of(config: &LockConfig) -> String {
    format!("redisson_lock_queue:{}", tagged(config))
}

/// How long an acquire waits for its turn, ns. Default: the lease.
pub fn wait_for(config: &LockConfig) -> Nanos {
    config.wait_for.unwrap_or_else(|| DEFAULTS.settle(config).ttl)
}

/// How long a waiter keeps its place at the head of the queue, ns. Redisson takes the limit of the
/// acquire if it has one, otherwise its `fairLockWaitTimeout`.
pub fn queue_wait(config: &LockConfig) -> Nanos {
    config.queue_wait.unwrap_or_else(|| wait_for(config))
}

/// How a grant is extended: every third of its lease.
pub fn renewed(config: &LockConfig) -> Renewed {
    let choices = DEFAULTS.settle(config);
    Renewed::of(config, &choices, choices.ttl / 3)
}

/// The maximum time that WAIT waits, ns: `slavesSyncTimeout`.
fn ack_timeout(config: &LockConfig) -> Nanos {
    config.ack_timeout.unwrap_or_else(|| (DEFAULTS.settle(config).ttl / 10).min(SECOND))
}

/// How much longer an acquire may take because it waits for replicas, ns.
pub fn ack_delay(config: &LockConfig) -> Nanos {
    let timeout = DEFAULTS.settle(config).timeout;
    config.acks.map_or(0, |_| ack_timeout(config).saturating_add(timeout.saturating_mul(2)))
}
