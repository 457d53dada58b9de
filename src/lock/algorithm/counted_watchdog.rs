//! The watchdog of Redisson's locks: a task that extends the lease of its caller's grants. It
//! notifies nobody when the owner's field is gone or when it gives up.

use lockstorm_platform::time::Nanos;

use crate::lock::algorithm::counted_hash::{CountedHash, DEFAULTS, Form, renewed};
use crate::lock::assumptions::Renewed;
use crate::lock::background::Cancellation;
use crate::lock::defaults::Choices;
use crate::lock::lease::Lease;
use crate::lock::{Extended, Grant, Setting};

/// The task that extends the lease of the caller's grants.
pub struct Watchdog {
    setting: Setting,
    choices: Choices,
    key: CountedHash,
    token: String,
    lease: Lease,
    every: Nanos,
    released: Cancellation,
}

impl Watchdog {
    /// The watchdog of `grant`. `released` ends it.
    pub fn new(
        setting: Setting,
        form: &'static Form,
        grant: &Grant,
        released: Cancellation,
    ) -> Watchdog {
        let choices = DEFAULTS.settle(&setting.config);
        let Renewed { every, ttl } = renewed(&setting.config);
        let lease = Lease { ttl, ..choices.lease(&setting.config) };
        let (key, token) = (CountedHash::new(&setting, form), grant.token.clone());
        Watchdog { setting, choices, key, token, lease, every, released }
    }

    /// Extends until the release, the loss, or as many failures in a row as there are tries.
    pub async fn run(mut self) {
        let (every, tries) = (self.every, self.choices.tries);
        let (mut wait, mut failures) = (every, 0);
        while failures < tries {
            self.setting.host.sleep(wait).await;
            self.setting.host.step("renewing").await;
            // Checked after the wait: the caller may have released during it, and the renewal would
            // be late.
            if self.released.is_cancelled() {
                return;
            }
            (wait, failures) = match self.renew().await {
                Extended::Kept(_) => (every, 0),
                Extended::Lost => break,
                Extended::Unknown => (self.choices.retry, failures + 1),
            };
        }
        // This shows the next grant that no watchdog runs, so that it starts one.
        self.released.cancel();
    }

    async fn renew(&mut self) -> Extended {
        let Watchdog { setting, key, token, lease, released, .. } = self;
        let extend = setting.extending(token, async |call| key.extend(call, token, lease).await);
        match setting.config.cancel_renewal {
            true => released.run_until_cancelled(extend).await.unwrap_or(Extended::Lost),
            false => extend.await,
        }
    }
}
