//! Redisson's lock: a hash that counts for its owner, a watchdog, and a channel for waiters.
//!
//! The hash has one field: the owner, with the number of times it took the lock. A caller that
//! finds the lock held learns the key's time to live, subscribes to the lock's channel, and tries
//! again when a release is published or that time is over. The watchdog extends the key every third
//! of its lease while the field exists. It notifies nobody when the field is gone or when it gives
//! up.
//!
//! With the option `acks` each script is followed by WAIT on the same connection, as Redisson sends
//! it to servers with replicas. A grant counts if that many of the *connected* replicas have it: 1
//! is Redisson's check, 0 waits and checks nothing. A master without a replica waits for nobody.

use std::cell::OnceCell;
use std::rc::Rc;

use async_trait::async_trait;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_redis::frame::Reply;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::counted_hash::{
    Arg, CountedHash, DEFAULTS, Form, ScriptCall, ScriptKey, ack_delay, renewed, wait_for,
};
use crate::lock::algorithm::counted_watchdog::Watchdog;
use crate::lock::assumptions;
use crate::lock::background::Cancellation;
use crate::lock::client::answer::{self, Answer, HELD};
use crate::lock::client::scripts;
use crate::lock::client::subscription::Subscription;
use crate::lock::config::{FenceFrom, LockConfig};
use crate::lock::defaults::Choices;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, token};
use crate::promise::{Model, Promise, Work, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "a hash that counts for its owner, a watchdog, and waiters that are notified",
    renews: true,
    waits_for_turn: true,
    defaults: DEFAULTS,
    promise,
    ..Algorithm::lease("redisson", |setting| Box::new(Redisson::new(setting, &FORM)))
};

/// Its scripts.
pub const FORM: Form = Form {
    take: ScriptCall {
        script: scripts::COUNT_UP,
        keys: &[ScriptKey::Lock],
        args: &[Arg::Owner, Arg::Ttl],
    },
    give_back: ScriptCall {
        script: scripts::COUNT_DOWN,
        keys: &[ScriptKey::Lock, ScriptKey::Channel],
        args: &[Arg::Owner, Arg::Ttl],
    },
    extend: EXTEND,
    leave: None,
    channel: "redisson_lock__channel",
    has_own_channel: false,
    suffix: ":1",
};

/// Extends an owner's field, whatever the rest of the hash.
pub const EXTEND: ScriptCall = ScriptCall {
    script: scripts::COUNTED_PEXPIRE,
    keys: &[ScriptKey::Lock],
    args: &[Arg::Owner, Arg::Ttl],
};

/// The lock of one caller, in one of its forms.
pub struct Redisson {
    setting: Setting,
    choices: Choices,
    form: &'static Form,
    key: CountedHash,
    /// This caller, as Redisson names a process. Drawn at the first use.
    id: Rc<OnceCell<String>>,
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
    pub fn new(setting: Setting, form: &'static Form) -> Redisson {
        Redisson::of(setting, form, Rc::default())
    }

    /// One of several locks of a caller with this id.
    pub fn of(setting: Setting, form: &'static Form, id: Rc<OnceCell<String>>) -> Redisson {
        Redisson {
            choices: DEFAULTS.settle(&setting.config),
            key: CountedHash::new(&setting, form),
            form,
            id,
            depth: 0,
            watchdog: None,
            setting,
        }
    }

    /// The owner: this caller, as Redisson names a process and its thread.
    fn owner(&self) -> String {
        let (host, call) = (&self.setting.host, self.setting.call.get());
        let id = self.id.get_or_init(|| token::fresh(host, call, 0));
        format!("{id}{}", self.form.suffix)
    }

    /// Tries once.
    async fn look(&mut self) -> Look {
        let (host, call) = (self.setting.host.clone(), self.setting.call.get());
        let lease = self.choices.lease(&self.setting.config);
        let token = self.owner();
        host.step("acquiring").await;
        let sent = host.now(lease.clock);
        let answer = self.key.take(call, &token, lease.ttl).await;
        let deadline = Some(lease.deadline(&host, sent));
        let depth = self.depth.saturating_add(1);
        let grant = Grant { token, deadline, depth, ..Grant::default() };
        match answer.map(numbered) {
            None => Look::Done(self.undo(grant).await),
            Some((Ok(Reply::Nil), drawn)) => Look::Done(self.granted(grant, drawn).await),
            Some((Ok(Reply::Integer(ms)), _)) => Look::Busy(lifetime(ms)),
            Some((other, _)) => Look::Done(answer::acquired(&other, grant)),
        }
    }

    /// The grant with its number, if the lock gives one.
    async fn granted(&mut self, grant: Grant, drawn: Option<u64>) -> Acquired {
        let mut grant = self.watch(Grant { fence: drawn, ..grant });
        if drawn.is_some() {
            self.setting.host.step("numbering").await;
        }
        if self.setting.config.fence_from == FenceFrom::Counter {
            let Some(read) = self.key.number(self.setting.call.get()).await else {
                return Acquired::Unknown(grant);
            };
            grant.fence = Some(read);
        }
        Acquired::Granted(grant)
    }

    /// Gives back what too few replicas have.
    async fn undo(&mut self, grant: Grant) -> Acquired {
        let (call, ttl) = (self.setting.call.get(), self.choices.ttl);
        match self.key.give_back(call, &grant.token, ttl, self.depth).await {
            Some(Released::Unknown) => Acquired::Unknown(grant),
            _ => Acquired::Refused("too few have acknowledged".to_owned()),
        }
    }

    /// Gives up, and leaves the queue.
    async fn give_up(&mut self, why: String) -> Acquired {
        let (call, token) = (self.setting.call.get(), self.owner());
        match self.key.leave(call, &token).await {
            true => Acquired::Refused(why),
            false => Acquired::Unknown(Grant::new(token, None)),
        }
    }

    /// Starts a watchdog for the grant unless one runs already.
    fn watch(&mut self, grant: Grant) -> Grant {
        self.depth = grant.depth;
        if self.watchdog.as_ref().is_none_or(Cancellation::is_cancelled) {
            let released = Cancellation::default();
            let watchdog = Watchdog::new(self.setting.clone(), self.form, &grant, released.clone());
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
            let (call, owner) = (self.setting.call.get(), self.owner());
            *channel = self.key.listen(call, left, &owner).await;
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
                Look::Done(Acquired::Unknown(grant)) if channel.is_some() => {
                    // A try without a reply ends the wait.
                    self.give_up(HELD.to_owned()).await;
                    return Acquired::Unknown(grant);
                }
                Look::Done(acquired) => return acquired,
            };
            if left() > 0
                && let Err(why) = self.wait(&mut channel, ttl, left()).await
            {
                return self.give_up(why).await;
            }
            if left() == 0 {
                return self.give_up(HELD.to_owned()).await;
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
        released.unwrap_or(Released::Unknown)
    }
}

/// What a try replied, without the number that it drew, and that number. A lock with numbers
/// replies with two: the time to live first, which is -1 for a grant.
fn numbered(answer: Answer) -> (Answer, Option<u64>) {
    let Ok(Reply::Array(both)) = &answer else { return (answer, None) };
    match both[..] {
        [Reply::Integer(-1), Reply::Integer(drawn)] => (Ok(Reply::Nil), u64::try_from(drawn).ok()),
        [Reply::Integer(ms), _] => (Ok(Reply::Integer(ms)), None),
        _ => (answer, None),
    }
}

/// The reply of PTTL for an existing key, in ns. A key without an expiry is polled each second.
fn lifetime(ms: i64) -> Nanos {
    u64::try_from(ms).map_or(SECOND, |ms| ms.max(1).saturating_mul(MILLISECOND))
}

/// A lease that a running process extends. No caller is notified of its loss.
/// With `acks` the acquire takes longer, and a failover is still none that the lock withstands: it
/// counts replicas, and does not choose the one that is promoted.
pub fn promise(config: &LockConfig, work: Work) -> Promise {
    let choices = DEFAULTS.settle(config);
    let work = Work { lasts: work.lasts.saturating_add(ack_delay(config)), ..work };
    exclusive(Model::Lease, assumptions::of_renewed(config, &choices, renewed(config), work))
}
