//! The lock of a job that many instances try to run once a period: SET k token NX PX "at most", and
//! a release that keeps the key until "at least".
//!
//! A key that ended with a short run would let in an instance whose clock is behind, for the same
//! period. So a release before "at least" deletes nothing: it leaves the key what is left of that
//! time.

use async_trait::async_trait;
use lockstorm_platform::fault::MAX_LENGTH;
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::token_lua::TokenLua;
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Choices, LEASE};
use crate::lock::{Acquired, Deadline, Extended, Grant, Lock, Released, Setting, assumptions};
use crate::promise::{Assumption, Bounded, Model, Promise, Work, bound, exclusive};

/// The name of the lock.
pub const NAME: &str = "scheduled";

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "SET k token NX PX at most, kept until at least: one run of a job a period",
    promise,
    ..Algorithm::lease(NAME, |setting| Box::new(Scheduled::new(setting)))
};

/// How long the key of a run is kept at least: half of the lease, unless configured.
pub fn at_least(config: &LockConfig, choices: &Choices) -> Nanos {
    config.at_least.unwrap_or(choices.ttl / 2)
}

/// The lock of one caller.
pub struct Scheduled {
    setting: Setting,
    choices: Choices,
    lock: TokenLua,
    /// The token of the last grant, and until when its key is kept at least.
    run: Option<(String, Deadline)>,
}

impl Scheduled {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> Scheduled {
        let choices = LEASE.settle(&setting.config);
        Scheduled { lock: TokenLua::new(setting.clone()), choices, setting, run: None }
    }

    /// What is left of the time for which the key of a run is kept. The key of an acquire without
    /// an answer is kept for nobody: its caller runs nothing.
    fn left(&self, grant: &Grant) -> Option<Nanos> {
        let (_, (clock, until)) = self.run.as_ref().filter(|(token, _)| *token == grant.token)?;
        let left = until.saturating_sub(self.setting.host.now(*clock));
        // In whole milliseconds, and not too short.
        Some(left.div_ceil(MILLISECOND) * MILLISECOND).filter(|left| *left > 0)
    }
}

#[async_trait(?Send)]
impl Lock for Scheduled {
    async fn acquire(&mut self) -> Acquired {
        let acquired = self.lock.take(false).await;
        if let Acquired::Granted(Grant { token, deadline: Some((clock, over)), .. }) = &acquired {
            let at_least = at_least(&self.setting.config, &self.choices);
            let until = over.saturating_sub(self.choices.ttl).saturating_add(at_least);
            self.run = Some((token.clone(), (*clock, until)));
        }
        acquired
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.lock.extend(grant).await
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        match self.left(grant) {
            Some(left) => self.lock.keep(grant, left).await,
            None => self.lock.release(grant).await,
        }
    }
}

/// One holder, as every lease; and no second run of a period if callers fire once a period: the
/// key of the first run is there when the last instance asks.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let choices = LEASE.settle(config);
    let kept = at_least(config, &choices);
    let mut assumes = assumptions::of_lease(config, &choices, 0, work);
    if let Some(late) = work.fires_within {
        // An instance asks late because its clock is behind, because it fires late, because it is
        // paused when it asks, or because its request takes long. The clocks and the pause share
        // what the others leave.
        let spare = kept.saturating_sub(choices.timeout.saturating_add(late));
        if spare == 0 {
            // A request that is answered in time may come after the key of the first run.
            assumes.retain(|assumption| assumption.what != Bounded::Work);
            assumes.push(bound(Bounded::Work, 0));
        }
        assumes.push(bound(Bounded::Skew, spare / 2));
        narrow(&mut assumes, Bounded::ClientPause, spare / 2);
        narrow(&mut assumes, Bounded::ClientClockStep, 0);
    }
    Promise { kept, ..exclusive(Model::Lease, assumes) }
}

/// Adds an assumption, or makes one that is there stricter.
fn narrow(assumes: &mut Vec<Assumption>, what: Bounded, most: u64) {
    let known = assumes.iter().find(|known| known.what == what).map_or(MAX_LENGTH, |it| it.bound);
    assumes.retain(|known| known.what != what);
    assumes.push(bound(what, known.min(most)));
}
