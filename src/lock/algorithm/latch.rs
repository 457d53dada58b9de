//! A count-down latch: each party counts down once, and all go on when none is left.
//!
//! It excludes nobody, so it is no mutex. An acquire is a party's count-down and its wait: it is
//! refused while the latch is closed, and the caller tries again. The keys are beside the lock's
//! own, because no caller owns them.
//!
//! By default the node keeps the names of the parties that have counted down, so a request that is
//! sent again counts once. With `count = "decr"` it keeps how many are left, as Redisson's
//! RCountDownLatch does: DECR, and DEL and PUBLISH at 0. A caller that gets no reply does not know
//! whether it was counted, and counts down again: the latch then opens before all are there.

use async_trait::async_trait;
use lockstorm_platform::fault::MAX_LENGTH;

use crate::lock::algorithm::Algorithm;
use crate::lock::assumptions;
use crate::lock::client::answer::{self, Answer, Reply, Said};
use crate::lock::client::{Client, scripts};
use crate::lock::config::{CountShape, LockConfig};
use crate::lock::defaults::{Choices, MUTEX};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};
use crate::promise::{Model, Promise, Work, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "a count-down latch: each party counts down once, and all go on at 0",
    promise,
    ..Algorithm::mutex(NAME, |setting| Box::new(Latch::new(setting)))
};

/// Its name in scenarios.
pub const NAME: &str = "latch";

/// The number of parties if the configuration has none.
const PARTIES: u32 = 3;

/// The refusal while the latch is closed.
const CLOSED: &str = "not every party has counted down";

/// How many parties have to count down.
pub fn parties(config: &LockConfig) -> u32 {
    config.parties.unwrap_or(PARTIES)
}

/// Everybody may go on at once, unless the node forgets who has counted down. It stays closed while
/// a party is missing, also one that has died.
fn promise(_config: &LockConfig, _work: Work) -> Promise {
    let assumes = assumptions::of_key(MAX_LENGTH);
    Promise { holders: u32::MAX, ..exclusive(Model::None, assumes) }
}

/// The latch of one caller.
pub struct Latch {
    setting: Setting,
    choices: Choices,
    client: Client,
    /// Whether the node has replied that this party has counted down.
    is_counted: bool,
}

impl Latch {
    /// The latch on the first node of `setting`.
    pub fn new(setting: Setting) -> Latch {
        let client = Client::of(&setting, &setting.nodes[0]);
        Latch { choices: MUTEX.settle(&setting.config), client, setting, is_counted: false }
    }

    /// Counts down if it is not known that this party has, and asks how many are left.
    async fn count_down(&mut self) -> Answer {
        let config = &self.setting.config;
        let beside = |of: &str| beside(&config.key, of);
        let (party, all) = (self.setting.host.name().to_owned(), parties(config).to_string());
        let (script, keys, args) = match (config.count, self.is_counted) {
            (CountShape::Names, _) => {
                (scripts::COUNT_NAME, vec![beside("parties"), beside("opened")], vec![party, all])
            }
            (CountShape::Decr, false) => {
                let keys = vec![beside("count"), beside("made"), beside("opened")];
                (scripts::COUNT_DECR, keys, vec![all])
            }
            (CountShape::Decr, true) => (scripts::COUNT_LEFT, vec![beside("count")], Vec::new()),
        };
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        self.client.eval(call, timeout, script, &keys, &args).await
    }
}

/// The name of a key beside the lock's, in the same slot.
fn beside(key: &str, of: &str) -> String {
    if key.contains('{') { format!("{key}:{of}") } else { format!("{{{key}}}:{of}") }
}

#[async_trait(?Send)]
impl Lock for Latch {
    async fn acquire(&mut self) -> Acquired {
        self.setting.host.step("acquiring").await;
        let answer = self.count_down().await;
        self.is_counted |= matches!(answer, Ok(Reply::Integer(_)));
        let grant = Grant::new("open".to_owned(), None);
        match answer::said(&answer) {
            Said::No => Acquired::Granted(grant),
            Said::Yes => Acquired::Refused(CLOSED.to_owned()),
            Said::Refused(why) => Acquired::Refused(why),
            Said::Unknown => Acquired::Unknown(grant),
        }
    }

    /// It is open for good.
    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Kept(None)
    }

    /// What has been counted stays counted.
    async fn release(&mut self, _grant: &Grant) -> Released {
        Released::Released
    }
}
