//! SETEX k s 1 or PSETEX k ms 1, and DEL k to release it: an expiry in one step, but no NX.
//!
//! Both commands overwrite what is there and reply OK to everybody, so nobody is ever refused.

use async_trait::async_trait;
use lockstorm_platform::time::SECOND;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::taken_key::TakenKey;
use crate::lock::defaults::{Defaults, LEASE};
use crate::lock::token::CONSTANT;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};

/// SETEX counts in whole seconds. It makes the promise of every lease. That it lets everybody in is
/// a bug of the lock.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SETEX k s 1, which overwrites the holder's key, and DEL k",
    defaults: IN_SECONDS,
    ..Algorithm::lease("setex", |setting| Box::new(Setex::new(setting, "SETEX")))
};

/// The same with PSETEX, which counts in milliseconds.
pub const PSETEX: Algorithm = Algorithm {
    about: "PSETEX k ms 1, which overwrites the holder's key, and DEL k",
    ..Algorithm::lease("psetex", |setting| Box::new(Setex::new(setting, "PSETEX")))
};

/// The defaults of a lease in whole seconds.
pub const IN_SECONDS: Defaults = Defaults { unit: SECOND, ..LEASE };

/// The lock of one caller.
pub struct Setex {
    key: TakenKey,
    command: &'static str,
}

impl Setex {
    fn new(setting: Setting, command: &'static str) -> Setex {
        Setex { key: TakenKey::new(setting, &LEASE), command }
    }
}

#[async_trait(?Send)]
impl Lock for Setex {
    async fn acquire(&mut self) -> Acquired {
        let Setex { key, command } = self;
        let (host, lease) = (key.setting.host.clone(), key.choices.lease(&key.setting.config));
        let ttl = (lease.ttl / key.choices.unit).to_string();
        let sent = host.now(lease.clock);
        let answer = key.request(command, &[ttl.as_bytes(), CONSTANT.as_bytes()]).await;
        key.acquired(&answer, Some(lease.deadline(&host, sent))).await
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        self.key.release().await
    }
}
