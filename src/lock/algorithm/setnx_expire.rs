//! SETNX k 1, then EXPIRE k s, so that a dead holder's lock expires; DEL k to release it.
//!
//! These are two steps: a caller that dies between them leaves a key for ever. The lock ignores the
//! reply to EXPIRE, as does the code in which this pattern is found.

use async_trait::async_trait;
use lockstorm_platform::time::SECOND;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::setex::IN_SECONDS;
use crate::lock::algorithm::taken_key::TakenKey;
use crate::lock::client::answer;
use crate::lock::config::LockConfig;
use crate::lock::defaults::LEASE;
use crate::lock::token::CONSTANT;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, assumptions};
use crate::promise::{Bounded, Promise, Work, bound};

/// The algorithm's row of the catalogue. EXPIRE counts in whole seconds.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SETNX k 1, then EXPIRE k s: two steps, no owner",
    defaults: IN_SECONDS,
    promise,
    ..Algorithm::lease("setnx-expire", |setting| Box::new(SetnxExpire::new(setting)))
};

/// The lock of one caller.
pub struct SetnxExpire(TakenKey);

impl SetnxExpire {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> SetnxExpire {
        SetnxExpire(TakenKey::new(setting, &LEASE))
    }
}

#[async_trait(?Send)]
impl Lock for SetnxExpire {
    async fn acquire(&mut self) -> Acquired {
        let SetnxExpire(key) = self;
        let answer = key.request("SETNX", &[CONSTANT.as_bytes()]).await;
        let grant = match answer::acquired(&answer, Grant::new(CONSTANT.to_owned(), None)) {
            Acquired::Granted(grant) => grant,
            other => return other,
        };
        let host = key.setting.host.clone();
        host.step("set").await;
        let lease = key.choices.lease(&key.setting.config);
        let sent = host.now(lease.clock);
        let seconds = (lease.ttl / SECOND).to_string();
        let _ignored = key.request("EXPIRE", &[seconds.as_bytes()]).await;
        let deadline = Some(lease.deadline(&host, sent));
        host.step("granted").await;
        Acquired::Granted(Grant { deadline, ..grant })
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        self.0.release().await
    }
}

/// The promise of a lease, if no client dies: between the two steps there is no lease yet.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let mut promise = assumptions::lease(config, work);
    promise.assumes.push(bound(Bounded::ClientCrash, 0));
    promise
}
