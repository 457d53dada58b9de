//! A key on one node with the same value for every caller: it says that the lock is taken, and not
//! by whom. So a release deletes whatever is there.

use crate::lock::client::Client;
use crate::lock::client::answer::{self, Answer};
use crate::lock::defaults::{Choices, Defaults};
use crate::lock::token::CONSTANT;
use crate::lock::{Acquired, Deadline, Grant, Released, Setting};

/// The key of a lock, with its connection.
pub struct TakenKey {
    /// The setting of its caller.
    pub setting: Setting,
    /// The configuration, with the defaults of the lock's row.
    pub choices: Choices,
    client: Client,
}

impl TakenKey {
    /// The key on the first node of `setting`.
    pub fn new(setting: Setting, defaults: &Defaults) -> TakenKey {
        let client = Client::of(&setting, &setting.nodes[0]);
        TakenKey { choices: defaults.settle(&setting.config), client, setting }
    }

    /// Sends a command about the key, which is its first argument.
    pub async fn request(&mut self, command: &'static str, args: &[&[u8]]) -> Answer {
        let key = self.setting.config.key.as_bytes();
        let args: Vec<&[u8]> = [key].iter().chain(args).copied().collect();
        let call = self.setting.call.get();
        self.client.request(call, self.choices.timeout, command, &args).await
    }

    /// What the answer to an acquire means.
    pub async fn acquired(&self, answer: &Answer, deadline: Option<Deadline>) -> Acquired {
        let acquired = answer::acquired(answer, Grant::new(CONSTANT.to_owned(), deadline));
        if matches!(acquired, Acquired::Granted(_)) {
            self.setting.host.step("granted").await;
        }
        acquired
    }

    /// Deletes the key, whoever has set it.
    pub async fn release(&mut self) -> Released {
        self.setting.host.step("releasing").await;
        answer::released(&self.request("DEL", &[]).await)
    }
}
