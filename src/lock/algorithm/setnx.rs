//! SETNX k 1, released by DEL k: the most common first attempt at a lock.
//!
//! It is atomic, but its key outlives a holder that dies, and any caller's DEL frees it.

use async_trait::async_trait;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::taken_key::TakenKey;
use crate::lock::client::answer::{self, Said};
use crate::lock::defaults::MUTEX;
use crate::lock::token::CONSTANT;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};

/// It makes the promise of every mutex. A DEL by a caller that does not hold the lock is a bug of
/// the lock.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SETNX k 1, and DEL k: no time to live, no owner",
    ..Algorithm::mutex("setnx", |setting| Box::new(Setnx::new(setting)))
};

/// The lock of one caller.
pub struct Setnx(TakenKey);

impl Setnx {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> Setnx {
        Setnx(TakenKey::new(setting, &MUTEX))
    }
}

#[async_trait(?Send)]
impl Lock for Setnx {
    async fn acquire(&mut self) -> Acquired {
        let answer = self.0.request("SETNX", &[CONSTANT.as_bytes()]).await;
        self.0.acquired(&answer, None).await
    }

    /// There is no expiry to extend: the reply says only whether the key still exists. The value
    /// does not identify the holder.
    async fn extend(&mut self, _grant: &Grant) -> Extended {
        self.0.setting.host.step("extending").await;
        match answer::said(&self.0.request("EXISTS", &[]).await) {
            Said::Yes => Extended::Kept(None),
            Said::No => Extended::Lost,
            Said::Refused(_) | Said::Unknown => Extended::Unknown,
        }
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        self.0.release().await
    }
}
