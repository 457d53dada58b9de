//! A mutex inside one host, as `flock` or a lock of the language: it sends nothing to anybody.
//!
//! It excludes the callers on one host, and is freed by the death of its holder. Callers on another
//! host have a mutex of their own.

use async_trait::async_trait;
use lockstorm_platform::host::HostMutexGuard;

use crate::lock::algorithm::Algorithm;
use crate::lock::client::answer::HELD;
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Choices, MUTEX};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};
use crate::promise::{Bounded, Model, Promise, Work, bound, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "a mutex inside one host: nothing is sent, and another host has its own",
    promise,
    ..Algorithm::mutex("host-local", |setting| Box::new(HostLocal::new(setting)))
};

/// The lock of one caller.
pub struct HostLocal {
    setting: Setting,
    choices: Choices,
    guard: Option<HostMutexGuard>,
}

impl HostLocal {
    /// The lock on the host of `setting`.
    pub fn new(setting: Setting) -> HostLocal {
        HostLocal { choices: MUTEX.settle(&setting.config), setting, guard: None }
    }
}

#[async_trait(?Send)]
impl Lock for HostLocal {
    /// Waits until it is free, as `flock -w` does: at most for the lock's timeout.
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, mutex, .. } = &self.setting;
        let Some(guard) = host.timeout(self.choices.timeout, mutex.clone().lock()).await else {
            return Acquired::Refused(HELD.to_owned());
        };
        self.guard = Some(guard);
        self.setting.host.step("granted").await;
        Acquired::Granted(Grant::new(String::new(), None))
    }

    /// There is nothing to extend: the mutex is the caller's until it gives it back.
    async fn extend(&mut self, _grant: &Grant) -> Extended {
        self.setting.host.step("extending").await;
        if self.guard.is_some() { Extended::Kept(None) } else { Extended::Lost }
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        match self.guard.take() {
            Some(guard) => {
                drop(guard);
                Released::Released
            }
            None => Released::NotMine,
        }
    }
}

/// One holder among all clients, as every lock here. It makes no assumption about the number of
/// hosts, so that a second host shows a bug: no condition of the run makes it exclude one. A death
/// frees it, which no model of a mutex says, so no order is promised; but a write that the dead
/// holder had sent may then arrive beside the next one.
fn promise(_config: &LockConfig, work: Work) -> Promise {
    let assumes = vec![bound(Bounded::ClientCrash, 0), bound(Bounded::AccessDelay, work.patience)];
    exclusive(Model::None, assumes)
}
