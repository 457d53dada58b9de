//! token-lua with a background task that extends each grant every 2/3 of its lease.
//!
//! The task belongs to the process: a pause stops it too. It notifies the caller of a loss, at the
//! latest when the deadline passes without a reply, and stops with the release.

use async_trait::async_trait;
use lockstorm_platform::time::Nanos;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::owned_key::OwnedKey;
use crate::lock::algorithm::token_lua::TokenLua;
use crate::lock::assumptions::{self, Renewed};
use crate::lock::background::{Cancellation, GrantTasks};
use crate::lock::client::join;
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Choices, LEASE};
use crate::lock::lease::Lease;
use crate::lock::{Acquired, Deadline, Extended, Grant, Lock, Notice, Released, Setting};
use crate::promise::{Model, Promise, Work, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "token-lua with a task that prolongs the lease and reports its loss",
    renews: true,
    promise,
    ..Algorithm::lease("token-lua-renewed", |setting| Box::new(TokenLuaRenewed::new(setting)))
};

/// The lock of one caller.
pub struct TokenLuaRenewed {
    setting: Setting,
    lock: TokenLua,
    renewals: GrantTasks,
}

impl TokenLuaRenewed {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> TokenLuaRenewed {
        let lock = TokenLua::new(setting.clone());
        TokenLuaRenewed { setting, lock, renewals: GrantTasks::default() }
    }
}

#[async_trait(?Send)]
impl Lock for TokenLuaRenewed {
    async fn acquire(&mut self) -> Acquired {
        let acquired = self.lock.take(false).await;
        if let Acquired::Granted(grant) = &acquired {
            let setting = self.setting.clone();
            self.renewals.spawn(&self.setting.host, &grant.token, |released| {
                RenewalTask::new(setting, grant, released).run()
            });
        }
        acquired
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let extended = self.lock.extend(grant).await;
        if extended == Extended::Lost {
            self.renewals.end(&grant.token);
        }
        extended
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.renewals.end(&grant.token);
        self.lock.release(grant).await
    }
}

/// The task that extends one grant.
struct RenewalTask {
    setting: Setting,
    choices: Choices,
    key: OwnedKey,
    token: String,
    lease: Lease,
    every: Nanos,
    deadline: Deadline,
    released: Cancellation,
}

impl RenewalTask {
    fn new(setting: Setting, grant: &Grant, released: Cancellation) -> RenewalTask {
        let choices = LEASE.settle(&setting.config);
        let Renewed { every, ttl } = renewed(&setting.config);
        let lease = Lease { ttl, ..choices.lease(&setting.config) };
        RenewalTask {
            key: OwnedKey::new(setting.clone(), choices.timeout),
            every,
            deadline: grant.deadline.unwrap_or((choices.clock, 0)),
            token: grant.token.clone(),
            setting,
            choices,
            lease,
            released,
        }
    }

    /// Extends until the release or the loss.
    async fn run(mut self) {
        let mut wait = self.every;
        loop {
            self.rest(wait).await;
            if self.released.is_cancelled() {
                return;
            }
            if self.left() == 0 {
                return self.notify_lost();
            }
            match self.renew().await {
                Extended::Kept(deadline) => {
                    self.deadline = deadline.unwrap_or(self.deadline);
                    wait = self.every;
                }
                // The caller has released the lock, so the absence of its key is no loss.
                Extended::Lost if self.released.is_cancelled() => return,
                Extended::Lost => return self.notify_lost(),
                // No code catches the error: the task ends, and the caller is not notified.
                Extended::Unknown if self.key.lacks_script() => return,
                Extended::Unknown => wait = self.choices.retry,
            }
        }
    }

    /// Sleeps `wait` ns, but not past the deadline.
    async fn rest(&self, wait: Nanos) {
        let host = &self.setting.host;
        let (clock, deadline) = self.deadline;
        join::race(host.sleep_until(clock, deadline), host.sleep(wait)).await;
    }

    async fn renew(&mut self) -> Extended {
        self.setting.host.step("renewing").await;
        // Checked again: the caller may have released while a fault at this step delayed the task.
        if self.released.is_cancelled() {
            return Extended::Lost;
        }
        let left = self.left();
        let RenewalTask { setting, key, token, lease, released, .. } = self;
        let extend =
            setting.extending(token, async |call| key.extend(call, token, lease, left).await);
        match setting.config.cancel_renewal {
            true => released.run_until_cancelled(extend).await.unwrap_or(Extended::Lost),
            false => extend.await,
        }
    }

    /// The time left of the grant, ns.
    fn left(&self) -> Nanos {
        let (clock, deadline) = self.deadline;
        deadline.saturating_sub(self.setting.host.now(clock))
    }

    fn notify_lost(&self) {
        if !reports_loss(&self.setting.config) {
            return;
        }
        (self.setting.notify)(Notice::Lost { token: self.token.clone() });
    }
}

/// How a grant is extended: every 2/3 of its lease.
fn renewed(config: &LockConfig) -> Renewed {
    let choices = LEASE.settle(config);
    Renewed::of(config, &choices, choices.ttl / 3 * 2)
}

/// Whether the caller is notified of a loss.
fn reports_loss(config: &LockConfig) -> bool {
    config.report_loss.unwrap_or(true)
}

/// A lease that a running process extends; its caller is notified of a loss.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let choices = LEASE.settle(config);
    let assumes = assumptions::of_renewed(config, &choices, renewed(config), work);
    Promise { reports_loss: reports_loss(config), ..exclusive(Model::Lease, assumes) }
}
