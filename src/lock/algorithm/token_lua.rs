//! SET k token NX PX ttl; released by a Lua compare-and-delete, extended by a compare-and-PEXPIRE.
//!
//! The Redis documentation calls this the correct lock on a single node. The deadline counts from
//! before the send, so a slow reply shortens the grant and never lengthens it. A grant that is over
//! before its caller receives it is released.

use async_trait::async_trait;
use lockstorm_platform::host::HostMutexGuard;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use lockstorm_redis::frame::Reply;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::owned_key::OwnedKey;
use crate::lock::client::Client;
use crate::lock::client::answer::{self, Answer, HELD};
use crate::lock::config::{AcquireShape, AfterExtend, AfterTry, NoReply, TokenScope};
use crate::lock::defaults::{Choices, Defaults, LEASE};
use crate::lock::token::OwnerValues;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, lease, tries};

/// It makes the promise of every lease. Two machines measure the lease, without an allowance for
/// drift.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SET k token NX PX ttl, and a compare-and-delete in Lua",
    ..Algorithm::lease("token-lua", |setting| Box::new(TokenLua::new(setting)))
};

/// The lock of a Java utility class: a lease of milliseconds, retried every 100 ms for a second,
/// with the number of the thread as the owner. A caller that was refused releases as well.
pub const JEDIS_UTIL: Algorithm = Algorithm {
    about: "token-lua whose owner is a thread's number, released even if it was refused",
    name: "jedis-util",
    defaults: Defaults {
        ttl: 5 * MILLISECOND,
        timeout: |_| SECOND,
        tries: 11,
        retry: 100 * MILLISECOND,
        retry_from: |retry| retry,
        token: TokenScope::ThreadId,
        failed_try: AfterTry::Release,
        ..LEASE
    },
    ..ALGORITHM
};

/// The refusal of a grant that came too late to be of use.
pub const TOO_LATE: &str = "the lease was over before the caller had it";

/// The refusal of an acquire that had no reply, if that leaves its caller nothing.
pub const NO_REPLY: &str = "no reply came";

/// The lock of one caller.
pub struct TokenLua {
    setting: Setting,
    choices: Choices,
    tokens: OwnerValues,
    key: OwnedKey,
    /// The mutex of the process, if the lock takes it first.
    local: Option<HostMutexGuard>,
}

impl TokenLua {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> TokenLua {
        let choices = LEASE.settle(&setting.config);
        let key = OwnedKey::new(setting.clone(), choices.timeout);
        TokenLua { tokens: OwnerValues::new(choices.token), key, choices, setting, local: None }
    }

    /// One acquire; `numbered` draws a fence in the same step.
    pub async fn take(&mut self, numbered: bool) -> Acquired {
        if self.setting.config.local_lock && !self.lock_process().await {
            return Acquired::Refused(HELD.to_owned());
        }
        let acquired = match self.try_often(numbered).await {
            Acquired::Unknown(_) if self.setting.config.no_reply == NoReply::Nothing => {
                Acquired::Refused(NO_REPLY.to_owned())
            }
            acquired => acquired,
        };
        if matches!(acquired, Acquired::Refused(_)) {
            self.local = None;
        }
        acquired
    }

    /// Takes the mutex of the process, for which it waits as long as its tries may take.
    async fn lock_process(&mut self) -> bool {
        // One that its caller lost and did not release is let go here.
        self.local = None;
        let Setting { host, mutex, .. } = &self.setting;
        let longest = self.choices.retry.saturating_mul(u64::from(self.choices.tries));
        self.local = host.timeout(longest, mutex.clone().lock()).await;
        self.local.is_some()
    }

    async fn try_often(&mut self, numbered: bool) -> Acquired {
        // A try without a reply may take effect after all others.
        let mut unknown = None;
        let (mut refusal, mut token) = (String::new(), String::new());
        for attempt in 0..self.choices.tries {
            if attempt > 0 {
                tries::back_off(&self.setting, &self.choices, attempt).await;
            }
            token = self.tokens.next(&self.setting, attempt);
            match self.try_once(numbered, &token).await {
                Acquired::Granted(grant) => return Acquired::Granted(grant),
                Acquired::Refused(why) => refusal = why,
                Acquired::Unknown(grant) if self.asks_again() => unknown = Some(grant),
                Acquired::Unknown(grant) => return Acquired::Unknown(grant),
            }
        }
        if self.choices.failed_try == AfterTry::ReleaseAtEnd {
            self.key.release(self.setting.call.get(), &token).await;
        }
        unknown.map_or(Acquired::Refused(refusal), Acquired::Unknown)
    }

    /// Whether a try without a reply may be repeated: its key is then the caller's own.
    fn asks_again(&self) -> bool {
        let is_own = ![TokenScope::Try, TokenScope::Constant].contains(&self.choices.token);
        is_own && self.setting.config.acquire == AcquireShape::AbsentOrOwn
    }

    async fn try_once(&mut self, numbered: bool, token: &str) -> Acquired {
        let (host, call) = (self.setting.host.clone(), self.setting.call.get());
        let lease = self.choices.lease(&self.setting.config);
        host.step("acquiring").await;
        let sent = host.now(lease.clock);
        let answer = match numbered {
            true => self.key.set_and_fence(call, token, lease.ttl).await,
            false => self.key.set(call, token, lease.ttl, self.choices.unit).await,
        };
        let fence = if numbered { fence(&answer) } else { None };
        let deadline = Some(lease.deadline(&host, sent));
        match answer::acquired(&answer, Grant { fence, ..Grant::new(token.to_owned(), deadline) }) {
            Acquired::Granted(grant) => self.unless_over(grant).await,
            Acquired::Refused(why) if self.choices.failed_try == AfterTry::Release => {
                self.key.release(call, token).await;
                Acquired::Refused(why)
            }
            other => other,
        }
    }

    /// The client whose connection takes the lock.
    pub fn client(&mut self) -> &mut Client {
        self.key.client()
    }

    /// Keeps the key of a grant for `left` ns from now, if it holds the grant's token: a release of
    /// a lock whose key stays.
    pub async fn keep(&mut self, grant: &Grant, left: Nanos) -> Released {
        self.setting.host.step("keeping").await;
        self.key.keep(self.setting.call.get(), &grant.token, left).await
    }

    /// Releases a grant that is over before its caller receives it. No await is between this check
    /// of the clock and the return of a grant.
    async fn unless_over(&mut self, grant: Grant) -> Acquired {
        self.setting.host.step("granted").await;
        let is_over = lease::is_over(&self.setting.host, grant.deadline);
        if !self.choices.validity || !is_over {
            return Acquired::Granted(grant);
        }
        self.key.release(self.setting.call.get(), &grant.token).await;
        Acquired::Refused(TOO_LATE.to_owned())
    }
}

fn fence(answer: &Answer) -> Option<u64> {
    match answer {
        Ok(Reply::Integer(fence)) => u64::try_from(*fence).ok(),
        _ => None,
    }
}

#[async_trait(?Send)]
impl Lock for TokenLua {
    async fn acquire(&mut self) -> Acquired {
        self.take(false).await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.setting.host.step("extending").await;
        let lease = self.choices.lease(&self.setting.config);
        let call = self.setting.call.get();
        let extended = self.key.extend(call, &grant.token, &lease, self.choices.timeout).await;
        let is_kept = matches!(extended, Extended::Kept(_));
        if extended == Extended::Lost {
            // Its caller has nothing more to release.
            self.local = None;
        }
        if !is_kept && self.choices.failed_extend == AfterExtend::Release {
            self.key.release(call, &grant.token).await;
        }
        extended
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        let released = self.key.release(self.setting.call.get(), &grant.token).await;
        self.local = None;
        released
    }
}
