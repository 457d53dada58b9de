//! SET k token NX PX ttl; released by a Lua compare-and-delete, extended by a compare-and-PEXPIRE.
//!
//! The Redis documentation calls this the correct lock on a single node. The deadline counts from
//! before the send, so a slow reply shortens the grant and never lengthens it. A grant that is over
//! before its caller receives it is released.

use async_trait::async_trait;
use lockstorm_redis::frame::Reply;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::owned_key::OwnedKey;
use crate::lock::client::Client;
use crate::lock::client::answer::{self, Answer};
use crate::lock::defaults::{Choices, LEASE};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, lease, token};

/// It makes the promise of every lease. Two machines measure the lease, without an allowance for
/// drift.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SET k token NX PX ttl, and a compare-and-delete in Lua",
    ..Algorithm::lease("token-lua", |setting| Box::new(TokenLua::new(setting)))
};

/// The refusal of a grant that came too late to be of use.
pub const TOO_LATE: &str = "the lease was over before the caller had it";

/// The lock of one caller.
pub struct TokenLua {
    setting: Setting,
    choices: Choices,
    key: OwnedKey,
}

impl TokenLua {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> TokenLua {
        let choices = LEASE.settle(&setting.config);
        TokenLua { key: OwnedKey::new(setting.clone(), choices.timeout), choices, setting }
    }

    /// One acquire; `numbered` draws a fence in the same step.
    pub async fn take(&mut self, numbered: bool) -> Acquired {
        let (host, call) = (self.setting.host.clone(), self.setting.call.get());
        let lease = self.choices.lease(&self.setting.config);
        let token = token::fresh(&host, call, 0);
        host.step("acquiring").await;
        let sent = host.now(lease.clock);
        let answer = match numbered {
            true => self.key.set_and_fence(call, &token, lease.ttl).await,
            false => self.key.set_if_absent(call, &token, lease.ttl).await,
        };
        let fence = if numbered { fence(&answer) } else { None };
        let deadline = Some(lease.deadline(&host, sent));
        match answer::acquired(&answer, Grant { fence, ..Grant::new(token, deadline) }) {
            Acquired::Granted(grant) => self.unless_over(grant).await,
            other => other,
        }
    }

    /// The client whose connection takes the lock.
    pub fn client(&mut self) -> &mut Client {
        self.key.client()
    }

    /// Releases a grant that is over before its caller receives it. No await is between this check
    /// of the clock and the return of a grant.
    async fn unless_over(&mut self, grant: Grant) -> Acquired {
        self.setting.host.step("granted").await;
        if !lease::is_over(&self.setting.host, grant.deadline) {
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
        self.key.extend(call, &grant.token, &lease, self.choices.timeout).await
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        self.key.release(self.setting.call.get(), &grant.token).await
    }
}
