//! Redisson's lock: a hash that counts for its owner, a watchdog, and a channel for waiters.
//!
//! The hash has one field: the owner, with the number of times it took the lock. A caller that
//! finds the lock held learns the key's time to live, subscribes to the lock's channel, and tries
//! again when a release is published or that time is over. The watchdog extends the key every third
//! of its lease while the field exists. It notifies nobody when the field is gone or when it gives
//! up.

use async_trait::async_trait;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_redis::frame::Reply;

use crate::lock::algorithm::Algorithm;
use crate::lock::assumptions::{self, Renewed};
use crate::lock::background::Cancellation;
use crate::lock::client::answer::{self, Answer, HELD};
use crate::lock::client::subscription::Subscription;
use crate::lock::client::{Client, milliseconds, scripts};
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Choices, Defaults, LEASE};
use crate::lock::lease::Lease;
use crate::lock::{Acquired, Call, Extended, Grant, Lock, Released, Setting, token};
use crate::promise::{Model, Promise, Work, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "a hash that counts for its owner, a watchdog, and waiters that are notified",
    renews: true,
    waits_for_turn: true,
    defaults: DEFAULTS,
    promise,
    ..Algorithm::lease(NAME, |setting| Box::new(Redisson::new(setting)))
};

/// Its name in scenarios.
pub const NAME: &str = "redisson";

/// Redisson's defaults: `lockWatchdogTimeout`, `timeout`, `retryAttempts`, `retryInterval`.
pub const DEFAULTS: Defaults = Defaults {
    ttl: 30 * SECOND,
    timeout: |ttl| (ttl / 10).min(3 * SECOND),
    tries: 4,
    retry: 1_500 * MILLISECOND,
    ..LEASE
};

/// The lock of one caller.
pub struct Redisson {
    setting: Setting,
    choices: Choices,
    key: CountedKey,
    /// The owner: this caller, as Redisson names a process and its thread. Drawn at the first use.
    owner: Option<String>,
    /// The number of the caller's grants: the lock is re-entrant.
    depth: u32,
    /// The switch that stops the watchdog. One watchdog serves all grants.
    watchdog: Option<Cancellation>,
}

/// The result of one try.
enum Look {
    /// Another owner has the lock. The key's time to live, ns.
    Busy(Nanos),
    /// The acquire is finished.
    Done(Acquired),
}

impl Redisson {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> Redisson {
        Redisson {
            choices: DEFAULTS.settle(&setting.config),
            key: CountedKey::new(&setting),
            owner: None,
            depth: 0,
            watchdog: None,
            setting,
        }
    }

    /// Tries once.
    async fn look(&mut self) -> Look {
        let (host, call) = (self.setting.host.clone(), self.setting.call.get());
        let lease = self.choices.lease(&self.setting.config);
        let fresh = || format!("{}:1", token::fresh(&host, call, 0));
        let token = self.owner.get_or_insert_with(fresh).clone();
        host.step("acquiring").await;
        let sent = host.now(lease.clock);
        let answer = self.key.take(call, &token, lease.ttl).await;
        let deadline = Some(lease.deadline(&host, sent));
        let depth = self.depth.saturating_add(1);
        let grant = Grant { token, deadline, depth, ..Grant::default() };
        match answer {
            Ok(Reply::Nil) => Look::Done(Acquired::Granted(self.watch(grant))),
            Ok(Reply::Integer(ms)) => Look::Busy(lifetime(ms)),
            other => Look::Done(answer::acquired(&other, grant)),
        }
    }

    /// Starts a watchdog for the grant unless one runs already.
    fn watch(&mut self, grant: Grant) -> Grant {
        self.depth = grant.depth;
        if self.watchdog.as_ref().is_none_or(Cancellation::is_cancelled) {
            let released = Cancellation::default();
            let watchdog = Watchdog::new(self.setting.clone(), &grant, released.clone());
            self.watchdog = Some(released);
            self.setting.host.spawn(watchdog.run());
        }
        grant
    }

    /// Drops the last grant. The node's reply to its release does not matter.
    fn forget(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0
            && let Some(watchdog) = self.watchdog.take()
        {
            watchdog.cancel();
        }
    }

    /// Waits until the lock may be free: a release is published, its key expires, or `left` ns are
    /// over. The first call only subscribes, since a release may have been published before that.
    async fn wait(
        &mut self,
        channel: &mut Option<Subscription>,
        ttl: Nanos,
        left: Nanos,
    ) -> Result<(), String> {
        let host = self.setting.host.clone();
        let Some(open) = channel else {
            let call = self.setting.call.get();
            *channel = self.key.listen(call, left).await;
            let refusal = || "the channel of the lock cannot be listened to".to_owned();
            return channel.as_ref().map(|_| ()).ok_or_else(refusal);
        };
        host.step("waiting").await;
        if let Some(Err(_)) = host.timeout(ttl.min(left), open.message()).await {
            *channel = None;
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl Lock for Redisson {
    async fn acquire(&mut self) -> Acquired {
        let host = self.setting.host.clone();
        let until = host.now(Clock::Monotonic).saturating_add(wait_for(&self.setting.config));
        let left = || until.saturating_sub(host.now(Clock::Monotonic));
        let mut channel = None;
        loop {
            let ttl = match self.look().await {
                Look::Busy(ttl) => ttl,
                Look::Done(acquired) => return acquired,
            };
            if left() > 0
                && let Err(why) = self.wait(&mut channel, ttl, left()).await
            {
                return Acquired::Refused(why);
            }
            if left() == 0 {
                return Acquired::Refused(HELD.to_owned());
            }
        }
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.setting.host.step("extending").await;
        let lease = self.choices.lease(&self.setting.config);
        let extended = self.key.extend(self.setting.call.get(), &grant.token, &lease).await;
        if extended == Extended::Lost {
            // The field is gone and with it all grants, so one decrement has to stop the watchdog.
            self.depth = 1;
            self.forget();
        }
        extended
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        if self.depth > 0 && grant.depth > self.depth {
            // Whether the node counted this grant is unknown, and a decrement could free a held
            // lock.
            return Released::Unknown;
        }
        let call = self.setting.call.get();
        let left = self.depth.saturating_sub(1);
        let released = self.key.give_back(call, &grant.token, self.choices.ttl, left).await;
        self.forget();
        released
    }
}

/// The hash on one node, with its own connection.
struct CountedKey {
    client: Client,
    setting: Setting,
    timeout: Nanos,
}

impl CountedKey {
    fn new(setting: &Setting) -> CountedKey {
        let client = Client::of(setting, &setting.nodes[0]);
        let timeout = DEFAULTS.settle(&setting.config).timeout;
        CountedKey { client, setting: setting.clone(), timeout }
    }

    async fn take(&mut self, call: Call, owner: &str, ttl: Nanos) -> Answer {
        self.run(call, scripts::COUNT_UP, false, owner, ttl).await
    }

    /// Decrements the count. The caller keeps `left` grants.
    async fn give_back(&mut self, call: Call, owner: &str, ttl: Nanos, left: u32) -> Released {
        match self.run(call, scripts::COUNT_DOWN, true, owner, ttl).await {
            // The node has counted one more: an acquire with an unknown outcome took the lock as
            // well. The key stays until its lease ends.
            Ok(Reply::Integer(0)) if left == 0 => Released::Unknown,
            Ok(Reply::Integer(0)) => Released::Released,
            answer => answer::released(&answer),
        }
    }

    async fn extend(&mut self, call: Call, owner: &str, lease: &Lease) -> Extended {
        let host = self.setting.host.clone();
        let sent = host.now(lease.clock);
        let answer = self.run(call, scripts::COUNTED_PEXPIRE, false, owner, lease.ttl).await;
        answer::extended(&answer, lease.deadline(&host, sent))
    }

    async fn run(
        &mut self,
        call: Call,
        script: &'static str,
        publishes: bool,
        owner: &str,
        ttl: Nanos,
    ) -> Answer {
        let (key, channel) = (self.setting.config.key.as_bytes(), self.channel());
        let (keys, ttl) = ([key, channel.as_bytes()], milliseconds(ttl));
        let keys = if publishes { &keys[..] } else { &keys[..1] };
        let args = [owner.as_bytes(), ttl.as_bytes()];
        self.client.eval(call, self.timeout, script, keys, &args).await
    }

    async fn listen(&mut self, call: Call, within: Nanos) -> Option<Subscription> {
        let channel = self.channel();
        self.client.listen(call, self.timeout.min(within), &channel).await
    }

    /// The channel on which releases are published; in a cluster, in the slot of the key.
    fn channel(&self) -> String {
        match self.setting.config.key.as_str() {
            tagged if tagged.contains('{') => format!("redisson_lock__channel:{tagged}"),
            key => format!("redisson_lock__channel:{{{key}}}"),
        }
    }
}

/// The task that extends the lease of the caller's grants.
struct Watchdog {
    setting: Setting,
    choices: Choices,
    key: CountedKey,
    token: String,
    lease: Lease,
    every: Nanos,
    released: Cancellation,
}

impl Watchdog {
    fn new(setting: Setting, grant: &Grant, released: Cancellation) -> Watchdog {
        let choices = DEFAULTS.settle(&setting.config);
        let Renewed { every, ttl } = renewed(&setting.config);
        let lease = Lease { ttl, ..choices.lease(&setting.config) };
        let (key, token) = (CountedKey::new(&setting), grant.token.clone());
        Watchdog { setting, choices, key, token, lease, every, released }
    }

    /// Extends until the release, the loss, or as many failures in a row as there are tries.
    async fn run(mut self) {
        let (every, tries) = (self.every, self.choices.tries);
        let (mut wait, mut failures) = (every, 0);
        while failures < tries {
            self.setting.host.sleep(wait).await;
            self.setting.host.step("renewing").await;
            // Checked after the wait: the caller may have released during it, and the renewal would
            // be late.
            if self.released.is_cancelled() {
                return;
            }
            (wait, failures) = match self.renew().await {
                Extended::Kept(_) => (every, 0),
                Extended::Lost => break,
                Extended::Unknown => (self.choices.retry, failures + 1),
            };
        }
        // This shows the next grant that no watchdog runs, so that it starts one.
        self.released.cancel();
    }

    async fn renew(&mut self) -> Extended {
        let Watchdog { setting, key, token, lease, released, .. } = self;
        let extend = setting.extending(token, async |call| key.extend(call, token, lease).await);
        match setting.config.cancel_renewal {
            true => released.run_until_cancelled(extend).await.unwrap_or(Extended::Lost),
            false => extend.await,
        }
    }
}

/// The reply of PTTL for an existing key, in ns. A key without an expiry is polled each second.
fn lifetime(ms: i64) -> Nanos {
    u64::try_from(ms).map_or(SECOND, |ms| ms.max(1).saturating_mul(MILLISECOND))
}

/// How long an acquire waits for its turn, ns. Default: the lease.
fn wait_for(config: &LockConfig) -> Nanos {
    config.wait_for.unwrap_or_else(|| DEFAULTS.settle(config).ttl)
}

/// How a grant is extended: every third of its lease.
fn renewed(config: &LockConfig) -> Renewed {
    let choices = DEFAULTS.settle(config);
    Renewed::of(config, &choices, choices.ttl / 3)
}

/// A lease that a running process extends. No caller is notified of its loss.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let choices = DEFAULTS.settle(config);
    exclusive(Model::Lease, assumptions::of_renewed(config, &choices, renewed(config), work))
}
