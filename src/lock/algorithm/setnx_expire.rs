//! SETNX k 1, then EXPIRE k s, so that a dead holder's lock expires; DEL k to release it.
//!
//! These are two steps: a caller that dies between them leaves a key for ever. The lock ignores the
//! reply to EXPIRE, as does the code in which this pattern is found.

use async_trait::async_trait;
use lockstorm_platform::time::SECOND;

use crate::lock::algorithm::Algorithm;
use crate::lock::client::{Client, answer};
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Choices, Defaults, LEASE};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, assumptions};
use crate::promise::{Bounded, Model, Promise, Work, bound, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SETNX k 1, then EXPIRE k s: two steps, no owner",
    defaults: DEFAULTS,
    promise,
    ..Algorithm::lease("setnx-expire", |setting| Box::new(SetnxExpire::new(setting)))
};

/// EXPIRE counts in whole seconds.
pub const DEFAULTS: Defaults = Defaults { unit: SECOND, ..LEASE };

/// The value of the key, the same for every caller.
const TAKEN: &str = "1";

/// The lock of one caller.
pub struct SetnxExpire {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl SetnxExpire {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> SetnxExpire {
        let client = Client::of(&setting, &setting.nodes[0]);
        SetnxExpire { choices: DEFAULTS.settle(&setting.config), client, setting }
    }
}

#[async_trait(?Send)]
impl Lock for SetnxExpire {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let (key, timeout) = (config.key.as_bytes(), self.choices.timeout);
        let args = [key, TAKEN.as_bytes()];
        let answer = self.client.request(call.get(), timeout, "SETNX", &args).await;
        let grant = Grant::new(TAKEN.to_owned(), None);
        let Acquired::Granted(grant) = answer::acquired(&answer, grant.clone()) else {
            return answer::acquired(&answer, grant);
        };
        host.step("set").await;
        let lease = self.choices.lease(config);
        let sent = host.now(lease.clock);
        let seconds = (lease.ttl / SECOND).to_string();
        let args = [key, seconds.as_bytes()];
        let _ignored = self.client.request(call.get(), timeout, "EXPIRE", &args).await;
        let deadline = Some(lease.deadline(host, sent));
        host.step("granted").await;
        Acquired::Granted(Grant { deadline, ..grant })
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        let key = self.setting.config.key.as_bytes();
        let call = self.setting.call.get();
        answer::released(&self.client.request(call, self.choices.timeout, "DEL", &[key]).await)
    }
}

/// The promise of a lease, if no client dies: between the two steps there is no lease yet.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let mut assumes = assumptions::of_lease(config, &DEFAULTS.settle(config), 0, work);
    assumes.push(bound(Bounded::ClientCrash, 0));
    exclusive(Model::Lease, assumes)
}
