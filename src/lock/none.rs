//! No lock at all: every caller is granted. The baseline against which locks are compared.

use async_trait::async_trait;

use crate::lock::promise::{Work, exclusive};
use crate::lock::{Acquired, Extended, Grant, Lock, LockConfig, Model, Promise, Released, Setting};

/// Grants at once, without any request.
pub struct NoLock {
    setting: Setting,
}

impl NoLock {
    /// The lock for one caller.
    pub fn new(setting: Setting) -> NoLock {
        NoLock { setting }
    }
}

#[async_trait(?Send)]
impl Lock for NoLock {
    async fn acquire(&mut self) -> Acquired {
        self.setting.host.step("granted").await;
        Acquired::Granted(Grant { depth: 1, ..Grant::default() })
    }

    /// There is nothing to extend, and no node that could report a loss.
    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Kept(None)
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        Released::Released
    }
}

/// It assumes nothing, so every violation is its own fault.
pub fn promise(_config: &LockConfig, _work: Work) -> Promise {
    exclusive(Model::None, Vec::new())
}
