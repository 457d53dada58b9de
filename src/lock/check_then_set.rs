//! Check, then set: GET k, and SET k 1 if it is absent or 0. Release: SET k 0.
//!
//! Two steps that are not atomic: another caller that checks between them also acquires the lock.

use async_trait::async_trait;
use lockstorm_redis::frame::Reply;

use crate::lock::answer::{self, Answer, HELD, Said};
use crate::lock::client::Client;
use crate::lock::defaults::{Choices, MUTEX};
use crate::lock::promise::{self, Work, exclusive};
use crate::lock::{Acquired, Extended, Grant, Lock, LockConfig, Model, Promise, Released, Setting};

/// The value of a held lock, the same for every caller.
const TAKEN: &str = "1";
/// The value of a free lock.
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
        let client = Client::new(setting.host.clone(), &setting.nodes[0]);
        CheckThenSet { choices: MUTEX.settle(&setting.config), client, setting }
    }

    async fn set(&mut self, value: &str) -> Answer {
        let key = self.setting.config.key.as_bytes();
        let call = self.setting.call.get();
        self.client.request(call, self.choices.timeout, "SET", &[key, value.as_bytes()]).await
    }

    /// Why the lock cannot be acquired now, if so.
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
        let grant = Grant { token: TAKEN.to_owned(), depth: 1, ..Grant::default() };
        let acquired = answer::acquired(&answer, grant);
        if matches!(acquired, Acquired::Granted(_)) {
            self.setting.host.step("granted").await;
        }
        acquired
    }

    /// There is no expiry to extend: this only checks whether the lock is still held. The value
    /// does not show by which caller.
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

/// A holder that dies never frees it; the gap between check and set is the lock's own fault.
pub fn promise(_config: &LockConfig, work: Work) -> Promise {
    exclusive(Model::Mutex, promise::of_mutex(work))
}
