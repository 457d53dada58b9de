//! SET k 1 NX PX ttl, with the same value for all callers, and DEL k to release it.
//!
//! Atomic and with an expiry, but without an owner: an overrun holder deletes the next owner's key.

use async_trait::async_trait;

use crate::lock::algorithm::Algorithm;
use crate::lock::client::{Client, answer, milliseconds};
use crate::lock::defaults::{Choices, LEASE};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};

/// It makes the promise of every lease. A DEL that removes another caller's key is a bug of the
/// lock.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SET k 1 NX PX ttl with one value for everybody, and DEL k",
    ..Algorithm::lease("px-constant", |setting| Box::new(PxConstant::new(setting)))
};

/// The value of the key, the same for every caller.
const TAKEN: &str = "1";

/// The lock of one caller.
pub struct PxConstant {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl PxConstant {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> PxConstant {
        let client = Client::of(&setting, &setting.nodes[0]);
        PxConstant { choices: LEASE.settle(&setting.config), client, setting }
    }
}

#[async_trait(?Send)]
impl Lock for PxConstant {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let lease = self.choices.lease(config);
        let (key, ttl) = (config.key.as_bytes(), milliseconds(lease.ttl));
        let sent = host.now(lease.clock);
        let args: [&[u8]; 5] = [key, TAKEN.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        let answer = self.client.request(call.get(), self.choices.timeout, "SET", &args).await;
        let deadline = Some(lease.deadline(host, sent));
        let grant = Grant::new(TAKEN.to_owned(), deadline);
        let acquired = answer::acquired(&answer, grant);
        if matches!(acquired, Acquired::Granted(_)) {
            host.step("granted").await;
        }
        acquired
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
