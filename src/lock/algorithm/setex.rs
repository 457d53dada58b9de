//! SETEX k s 1 or PSETEX k ms 1, and DEL k to release it: an expiry in one step, but no NX.
//!
//! Both commands overwrite what is there and reply OK to everybody, so nobody is ever refused.

use async_trait::async_trait;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

use crate::lock::algorithm::Algorithm;
use crate::lock::client::{Client, answer};
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Defaults, LEASE};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, assumptions};
use crate::promise::{Model, Promise, Work, exclusive};

/// SETEX counts in whole seconds. It makes the promise of every lease. That it lets everybody in is
/// a bug of the lock.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SETEX k s 1, which overwrites the holder's key, and DEL k",
    defaults: SETEX.defaults,
    promise: |config, work| promise(&SETEX, config, work),
    ..Algorithm::lease("setex", |setting| Box::new(Setex::new(setting, &SETEX)))
};

/// The same with PSETEX, which counts in milliseconds.
pub const PSETEX: Algorithm = Algorithm {
    about: "PSETEX k ms 1, which overwrites the holder's key, and DEL k",
    defaults: IN_MILLISECONDS.defaults,
    promise: |config, work| promise(&IN_MILLISECONDS, config, work),
    ..Algorithm::lease("psetex", |setting| Box::new(Setex::new(setting, &IN_MILLISECONDS)))
};

/// What the two locks differ in.
struct Row {
    command: &'static str,
    /// The unit of the time to live that the command takes is that of the defaults.
    defaults: Defaults,
}

const SETEX: Row = Row { command: "SETEX", defaults: Defaults { unit: SECOND, ..LEASE } };
const IN_MILLISECONDS: Row =
    Row { command: "PSETEX", defaults: Defaults { unit: MILLISECOND, ..LEASE } };

/// The value of the key, the same for every caller.
const TAKEN: &str = "1";

/// The lock of one caller.
pub struct Setex {
    setting: Setting,
    row: &'static Row,
    timeout: Nanos,
    client: Client,
}

impl Setex {
    fn new(setting: Setting, row: &'static Row) -> Setex {
        let client = Client::of(&setting, &setting.nodes[0]);
        Setex { row, timeout: row.defaults.settle(&setting.config).timeout, client, setting }
    }
}

#[async_trait(?Send)]
impl Lock for Setex {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let Row { command, defaults } = self.row;
        let lease = defaults.settle(config).lease(config);
        let (key, ttl) = (config.key.as_bytes(), (lease.ttl / defaults.unit).to_string());
        let sent = host.now(lease.clock);
        let args = [key, ttl.as_bytes(), TAKEN.as_bytes()];
        let answer = self.client.request(call.get(), self.timeout, command, &args).await;
        let deadline = Some(lease.deadline(host, sent));
        let acquired = answer::acquired(&answer, Grant::new(TAKEN.to_owned(), deadline));
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
        answer::released(&self.client.request(call, self.timeout, "DEL", &[key]).await)
    }
}

fn promise(row: &Row, config: &LockConfig, work: Work) -> Promise {
    exclusive(Model::Lease, assumptions::of_lease(config, &row.defaults.settle(config), 0, work))
}
