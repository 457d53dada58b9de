//! No lock at all: every caller is granted. The baseline against which locks are compared.

use async_trait::async_trait;

use crate::lock::algorithm::Algorithm;
use crate::lock::config::LockConfig;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};
use crate::promise::{Model, Promise, Work, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "no lock: everybody is let in",
    promise,
    ..Algorithm::mutex("none", |setting| Box::new(NoLock::new(setting)))
};

/// Grants at once and contacts no node.
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
        Acquired::Granted(Grant::new(String::new(), None))
    }

    /// There is nothing to extend, and no node that could report a loss.
    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Kept(None)
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        Released::Released
    }
}

/// It keeps nobody out, so the resource is judged alone. It has no assumptions: what damages the
/// resource is a bug.
fn promise(_config: &LockConfig, _work: Work) -> Promise {
    Promise { unguarded: true, ..exclusive(Model::None, Vec::new()) }
}
