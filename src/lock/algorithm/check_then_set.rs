//! Check, then set: GET k, then SET k 1 if it was absent or 0. Release: SET k 0.
//!
//! The two steps are not atomic: a caller that checks between them takes the lock as well.

use async_trait::async_trait;
use lockstorm_redis::frame::Reply;

use crate::lock::algorithm::Algorithm;
use crate::lock::client::Client;
use crate::lock::client::answer::{self, Answer, HELD, Said};
use crate::lock::defaults::{Choices, MUTEX};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};

/// It makes the promise of every mutex. The gap between check and set is a bug of the lock.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "GET k, then SET k 1 if it was free: two steps",
    ..Algorithm::mutex("check-then-set", |setting| Box::new(CheckThenSet::new(setting)))
};

/// The value while the lock is held. All callers use the same one.
const TAKEN: &str = "1";
/// The value while the lock is free.
const FREE: &str = "0";

/// The lock of one caller.
pub struct CheckThenSet {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl CheckThenSet {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> CheckThenSet {
        let client = Client::of(&setting, &setting.nodes[0]);
        CheckThenSet { choices: MUTEX.settle(&setting.config), client, setting }
    }

    async fn set(&mut self, value: &str) -> Answer {
        let key = self.setting.config.key.as_bytes();
        let call = self.setting.call.get();
        self.client.request(call, self.choices.timeout, "SET", &[key, value.as_bytes()]).await
    }

    /// Why the lock cannot be taken now; `None` if it is free.
    async fn taken(&mut self) -> Option<String> {
        let key = self.setting.config.key.as_bytes();
        let call = self.setting.call.get();
        match self.client.request(call, self.choices.timeout, "GET", &[key]).await {
            Ok(Reply::Nil) => None,
            Ok(Reply::Bulk(value)) if value == FREE.as_bytes() => None,
            Ok(Reply::Bulk(_)) => Some(HELD.to_owned()),
            answer => match answer::said(&answer) {
                Said::Refused(why) => Some(why),
                _ => Some("nobody knows whether it is free".to_owned()),
            },
        }
    }
}

#[async_trait(?Send)]
impl Lock for CheckThenSet {
    async fn acquire(&mut self) -> Acquired {
        if let Some(why) = self.taken().await {
            return Acquired::Refused(why);
        }
        self.setting.host.step("checked").await;
        let answer = self.set(TAKEN).await;
        let grant = Grant::new(TAKEN.to_owned(), None);
        let acquired = answer::acquired(&answer, grant);
        if matches!(acquired, Acquired::Granted(_)) {
            self.setting.host.step("granted").await;
        }
        acquired
    }

    /// There is no expiry to extend: the reply says only whether the lock is still taken. The value
    /// does not identify the holder.
    async fn extend(&mut self, _grant: &Grant) -> Extended {
        self.setting.host.step("extending").await;
        let key = self.setting.config.key.as_bytes();
        let call = self.setting.call.get();
        match self.client.request(call, self.choices.timeout, "GET", &[key]).await {
            Ok(Reply::Bulk(value)) if value == TAKEN.as_bytes() => Extended::Kept(None),
            Ok(Reply::Nil | Reply::Bulk(_)) => Extended::Lost,
            _ => Extended::Unknown,
        }
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        answer::released(&self.set(FREE).await)
    }
}
