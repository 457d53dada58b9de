//! SET k 1 NX PX ttl, with the same value for all callers, and DEL k to release it.
//!
//! Atomic and with an expiry, but without an owner: an overrun holder deletes the next owner's key.

use async_trait::async_trait;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::taken_key::TakenKey;
use crate::lock::client::milliseconds;
use crate::lock::defaults::LEASE;
use crate::lock::token::CONSTANT;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};

/// It makes the promise of every lease. A DEL that removes another caller's key is a bug of the
/// lock.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SET k 1 NX PX ttl with one value for everybody, and DEL k",
    ..Algorithm::lease("px-constant", |setting| Box::new(PxConstant::new(setting)))
};

/// The lock of one caller.
pub struct PxConstant(TakenKey);

impl PxConstant {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> PxConstant {
        PxConstant(TakenKey::new(setting, &LEASE))
    }
}

#[async_trait(?Send)]
impl Lock for PxConstant {
    async fn acquire(&mut self) -> Acquired {
        let PxConstant(key) = self;
        let (host, lease) = (key.setting.host.clone(), key.choices.lease(&key.setting.config));
        let ttl = milliseconds(lease.ttl);
        let sent = host.now(lease.clock);
        let args: [&[u8]; 4] = [CONSTANT.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        let answer = key.request("SET", &args).await;
        key.acquired(&answer, Some(lease.deadline(&host, sent))).await
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        self.0.release().await
    }
}
