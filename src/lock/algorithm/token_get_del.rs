//! SET k token NX EX s, five tries 10 ms apart with a new token each. Release: GET k, compare in
//! the client, DEL k.
//!
//! The key has an owner, but GET and DEL are two steps: in between, the key can expire and be taken
//! by another caller.

use async_trait::async_trait;
use lockstorm_platform::time::{MILLISECOND, SECOND};
use lockstorm_redis::frame::Reply;

use crate::lock::algorithm::Algorithm;
use crate::lock::client::Client;
use crate::lock::client::answer::{self, HELD};
use crate::lock::config::ReleaseShape;
use crate::lock::defaults::{Choices, Defaults, LEASE};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, token};

/// It makes the promise of every lease. That GET and DEL are two steps is a bug of the lock.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SET k token NX EX s; GET, compare in the client, DEL",
    defaults: DEFAULTS,
    ..Algorithm::lease("token-get-del", |setting| Box::new(TokenGetDel::new(setting)))
};

/// Five tries, 10 ms apart. EX counts whole seconds.
pub const DEFAULTS: Defaults =
    Defaults { unit: SECOND, tries: 5, retry: 10 * MILLISECOND, ..LEASE };

/// The lock of one caller.
pub struct TokenGetDel {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl TokenGetDel {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> TokenGetDel {
        let client = Client::of(&setting, &setting.nodes[0]);
        TokenGetDel { choices: DEFAULTS.settle(&setting.config), client, setting }
    }

    async fn try_once(&mut self, attempt: u32) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let lease = self.choices.lease(config);
        let token = token::fresh(host, call.get(), attempt);
        let seconds = (lease.ttl / SECOND).to_string();
        let sent = host.now(lease.clock);
        let args: [&[u8]; 5] =
            [config.key.as_bytes(), token.as_bytes(), b"NX", b"EX", seconds.as_bytes()];
        let answer = self.client.request(call.get(), self.choices.timeout, "SET", &args).await;
        let deadline = Some(lease.deadline(host, sent));
        answer::acquired(&answer, Grant::new(token, deadline))
    }

    /// Whether the key holds the token at the time of a GET.
    async fn reads(&mut self, token: &str) -> Result<bool, Released> {
        let Setting { config, call, .. } = &self.setting;
        let args = [config.key.as_bytes()];
        match self.client.request(call.get(), self.choices.timeout, "GET", &args).await {
            Ok(Reply::Nil) => Ok(false),
            Ok(Reply::Bulk(value)) => Ok(value == token.as_bytes()),
            _ => Err(Released::Unknown),
        }
    }
}

#[async_trait(?Send)]
impl Lock for TokenGetDel {
    async fn acquire(&mut self) -> Acquired {
        for attempt in 0..self.choices.tries {
            if attempt > 0 {
                self.setting.host.sleep(self.choices.retry).await;
            }
            match self.try_once(attempt).await {
                Acquired::Refused(_) => {}
                Acquired::Granted(grant) => {
                    self.setting.host.step("granted").await;
                    return Acquired::Granted(grant);
                }
                unknown => return unknown,
            }
        }
        Acquired::Refused(HELD.to_owned())
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        if self.setting.config.release == ReleaseShape::Own {
            match self.reads(&grant.token).await {
                Ok(true) => self.setting.host.step("read").await,
                Ok(false) => return Released::NotMine,
                Err(unknown) => return unknown,
            }
        }
        let Setting { config, call, .. } = &self.setting;
        let args = [config.key.as_bytes()];
        let answer = self.client.request(call.get(), self.choices.timeout, "DEL", &args).await;
        answer::released(&answer)
    }
}
