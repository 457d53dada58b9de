//! SETNX k 1, released by DEL k: the most common first attempt at a lock.
//!
//! It is atomic, but its key outlives a holder that dies, and any caller's DEL frees it.

use async_trait::async_trait;

use crate::lock::algorithm::Algorithm;
use crate::lock::client::Client;
use crate::lock::client::answer::{self, Said};
use crate::lock::defaults::{Choices, MUTEX};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};

/// It makes the promise of every mutex. A DEL by a caller that does not hold the lock is a bug of
/// the lock.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SETNX k 1, and DEL k: no time to live, no owner",
    ..Algorithm::mutex("setnx", |setting| Box::new(Setnx::new(setting)))
};

/// The value of the key. All callers use the same one.
const TAKEN: &str = "1";

/// The lock of one caller.
pub struct Setnx {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl Setnx {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> Setnx {
        let client = Client::of(&setting, &setting.nodes[0]);
        Setnx { choices: MUTEX.settle(&setting.config), client, setting }
    }
}

#[async_trait(?Send)]
impl Lock for Setnx {
    async fn acquire(&mut self) -> Acquired {
        let key = self.setting.config.key.as_bytes();
        let call = self.setting.call.get();
        let args = [key, TAKEN.as_bytes()];
        let answer = self.client.request(call, self.choices.timeout, "SETNX", &args).await;
        let grant = Grant::new(TAKEN.to_owned(), None);
        let acquired = answer::acquired(&answer, grant);
        if matches!(acquired, Acquired::Granted(_)) {
            self.setting.host.step("granted").await;
        }
        acquired
    }

    /// There is no expiry to extend: the reply says only whether the key still exists. The value
    /// does not identify the holder.
    async fn extend(&mut self, _grant: &Grant) -> Extended {
        self.setting.host.step("extending").await;
        let key = self.setting.config.key.as_bytes();
        let call = self.setting.call.get();
        let timeout = self.choices.timeout;
        match answer::said(&self.client.request(call, timeout, "EXISTS", &[key]).await) {
            Said::Yes => Extended::Kept(None),
            Said::No => Extended::Lost,
            Said::Refused(_) | Said::Unknown => Extended::Unknown,
        }
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        let key = self.setting.config.key.as_bytes();
        let call = self.setting.call.get();
        answer::released(&self.client.request(call, self.choices.timeout, "DEL", &[key]).await)
    }
}
