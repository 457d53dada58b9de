//! A semaphore that only counts: INCR below the limit to take a permit, DECR to give it back, each
//! in Lua.
//!
//! Nothing tells who has a permit. A permit of a holder that dies is never returned; and if the
//! reply to an acquire is lost, nobody knows whether there is a permit to give back. Giving one
//! back in doubt would free the permit of another holder, so the permit may be lost instead.

use async_trait::async_trait;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::semaphore::permits;
use crate::lock::assumptions;
use crate::lock::client::answer::{self, Answer, Said};
use crate::lock::client::{Client, scripts};
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Choices, MUTEX};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};
use crate::promise::{Promise, Work};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "a number of permits that are taken, counted in Lua: no owner, no deadline",
    promise,
    ..Algorithm::mutex(NAME, |setting| Box::new(SemaphoreCounter::new(setting)))
};

/// Its name in scenarios.
pub const NAME: &str = "semaphore-counter";

/// The token of every grant.
const ONE_OF_THEM: &str = "1";

/// It makes the promise of every lock without a lease, to so many holders.
fn promise(config: &LockConfig, work: Work) -> Promise {
    Promise { holders: permits(config), ..assumptions::mutex(config, work) }
}

/// The semaphore of one caller.
pub struct SemaphoreCounter {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl SemaphoreCounter {
    /// The semaphore on the first node of `setting`.
    pub fn new(setting: Setting) -> SemaphoreCounter {
        let client = Client::of(&setting, &setting.nodes[0]);
        SemaphoreCounter { choices: MUTEX.settle(&setting.config), client, setting }
    }

    async fn run(&mut self, script: &'static str, args: &[&[u8]]) -> Answer {
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        let key = self.setting.config.key.as_bytes();
        self.client.eval(call, timeout, script, &[key], args).await
    }
}

#[async_trait(?Send)]
impl Lock for SemaphoreCounter {
    async fn acquire(&mut self) -> Acquired {
        self.setting.host.step("acquiring").await;
        let room = permits(&self.setting.config).to_string();
        let answer = self.run(scripts::COUNT_PERMIT, &[room.as_bytes()]).await;
        match answer::acquired(&answer, Grant::new(ONE_OF_THEM.to_owned(), None)) {
            // Held not even once: see `release`.
            Acquired::Unknown(grant) => Acquired::Unknown(Grant { depth: 0, ..grant }),
            other => other,
        }
    }

    /// There is no expiry to extend: the reply says only whether anybody has a permit.
    async fn extend(&mut self, _grant: &Grant) -> Extended {
        self.setting.host.step("extending").await;
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        let key = self.setting.config.key.as_bytes();
        match answer::said(&self.client.request(call, timeout, "EXISTS", &[key]).await) {
            Said::Yes => Extended::Kept(None),
            Said::No => Extended::Lost,
            Said::Refused(_) | Said::Unknown => Extended::Unknown,
        }
    }

    /// What an unknown acquire left is not given back: it may be the permit of another holder.
    async fn release(&mut self, grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        if grant.depth == 0 {
            return Released::Unknown;
        }
        answer::released(&self.run(scripts::UNCOUNT_PERMIT, &[]).await)
    }
}
