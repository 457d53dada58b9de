//! A semaphore: a sorted set with a member for each permit in use; its score is the deadline.
//!
//! A script removes the permits whose deadlines have passed, counts the others, and adds one if
//! there is room. So a permit of a dead holder returns by itself, and nobody frees the permit of
//! another. By default the node's clock sets all deadlines and is compared with them. Libraries
//! send the time of the client instead (`reclaim_by = "client"`): then the clocks of two clients
//! are compared, and a fast one reclaims permits that are in use.

use async_trait::async_trait;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::token_lua::TOO_LATE;
use crate::lock::assumptions;
use crate::lock::client::answer::{self, Answer};
use crate::lock::client::{Client, milliseconds, scripts};
use crate::lock::config::{LockConfig, ReclaimShape};
use crate::lock::defaults::{Choices, LEASE};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, lease, token};
use crate::promise::{Bounded, Model, Promise, Work, bound, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "a sorted set of permits with their deadlines, reclaimed in Lua",
    promise,
    ..Algorithm::lease(NAME, |setting| Box::new(Semaphore::new(setting)))
};

/// Its name in scenarios.
pub const NAME: &str = "semaphore";

/// The number of permits if the configuration has none.
const PERMITS: u32 = 3;

/// How many callers may hold the semaphore at once.
pub fn permits(config: &LockConfig) -> u32 {
    config.permits.unwrap_or(PERMITS)
}

/// It makes the promise of every lease to so many holders. If clients compare their own clocks,
/// those have to agree, and the node's clock does not matter.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let mut assumes = assumptions::of_lease(config, &LEASE.settle(config), 0, work);
    if config.reclaim_by == ReclaimShape::Client {
        let is_of_node = |what| matches!(what, Bounded::NodeClockStep | Bounded::ClientClockStep);
        assumes.retain(|assumption| !is_of_node(assumption.what));
        assumes.push(bound(Bounded::ClientClockStep, 0));
        assumes.push(bound(Bounded::Skew, 0));
    }
    Promise { holders: permits(config), ..exclusive(Model::Lease, assumes) }
}

/// The semaphore of one caller.
pub struct Semaphore {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl Semaphore {
    /// The semaphore on the first node of `setting`.
    pub fn new(setting: Setting) -> Semaphore {
        let client = Client::of(&setting, &setting.nodes[0]);
        Semaphore { choices: LEASE.settle(&setting.config), client, setting }
    }

    /// Runs a script on the set. The last argument is the client's time, if that decides.
    async fn run(&mut self, script: &'static str, args: &[&str]) -> Answer {
        let config = &self.setting.config;
        let now = match config.reclaim_by {
            ReclaimShape::Node => None,
            ReclaimShape::Client => Some(self.wall_ms().to_string()),
        };
        let args: Vec<&[u8]> =
            args.iter().copied().chain(now.as_deref()).map(str::as_bytes).collect();
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        self.client.eval(call, timeout, script, &[config.key.as_bytes()], &args).await
    }

    fn wall_ms(&self) -> Nanos {
        self.setting.host.now(Clock::Wall) / MILLISECOND
    }

    /// Releases a grant that is over before its caller receives it.
    async fn unless_over(&mut self, grant: Grant) -> Acquired {
        self.setting.host.step("granted").await;
        if !lease::is_over(&self.setting.host, grant.deadline) {
            return Acquired::Granted(grant);
        }
        self.give_back(&grant.token).await;
        Acquired::Refused(TOO_LATE.to_owned())
    }

    /// ZREM key permit.
    async fn give_back(&mut self, permit: &str) -> Released {
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        let args = [self.setting.config.key.as_bytes(), permit.as_bytes()];
        answer::released(&self.client.request(call, timeout, "ZREM", &args).await)
    }
}

#[async_trait(?Send)]
impl Lock for Semaphore {
    async fn acquire(&mut self) -> Acquired {
        let (host, call) = (self.setting.host.clone(), self.setting.call.get());
        let lease = self.choices.lease(&self.setting.config);
        let permit = token::fresh(&host, call, 0);
        host.step("acquiring").await;
        // Read before the time that the permit's deadline counts from.
        let sent = host.now(lease.clock);
        let (ttl, room) = (milliseconds(lease.ttl), permits(&self.setting.config).to_string());
        let answer = self.run(scripts::TAKE_PERMIT, &[&permit, &ttl, &room]).await;
        let deadline = Some(lease.deadline(&host, sent));
        match answer::acquired(&answer, Grant::new(permit, deadline)) {
            Acquired::Granted(grant) => self.unless_over(grant).await,
            other => other,
        }
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let host = self.setting.host.clone();
        host.step("extending").await;
        let lease = self.choices.lease(&self.setting.config);
        let sent = host.now(lease.clock);
        let ttl = milliseconds(lease.ttl);
        let answer = self.run(scripts::KEEP_PERMIT, &[&grant.token, &ttl]).await;
        answer::extended(&answer, lease.deadline(&host, sent))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        self.give_back(&grant.token).await
    }
}
