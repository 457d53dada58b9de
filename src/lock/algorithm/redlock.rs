//! Redlock: grants from a majority of independent nodes, requested concurrently, within the lease.
//!
//! The steps are those of the published algorithm. Its two conditions are a quorum and a remaining
//! validity. `redlock-no-validity` omits the second. With `replies = "quorum"` an acquire or an
//! extend goes on as soon as the replies decide it: it does not wait for a slow node. A release
//! always waits for all.

use async_trait::async_trait;
use lockstorm_platform::host::LocalFuture;
use lockstorm_platform::rng::{Purpose, below};
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::lock::algorithm::owned_key;
use crate::lock::algorithm::{Algorithm, Nodes};
use crate::lock::client::answer::{self, Answer, Said};
use crate::lock::client::{Client, join, milliseconds};
use crate::lock::config::{LockConfig, RepliesShape};
use crate::lock::defaults::{Choices, Defaults, LEASE};
use crate::lock::lease::{Lease, drift_allowance};
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, assumptions, token};
use crate::promise::{Bounded, Model, Promise, Work, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "token-lua on a majority of independent nodes, within the lease",
    nodes: Nodes::Quorum,
    defaults: DEFAULTS,
    promise,
    ..Algorithm::lease("redlock", |setting| Box::new(Redlock::new(setting)))
};

/// Redlock without the check of the time that the requests took.
pub const WITHOUT_VALIDITY: Algorithm = Algorithm {
    name: "redlock-no-validity",
    about: "redlock that ignores the time that its requests took",
    build: |setting| Box::new(Redlock::without_validity(setting)),
    promise: promise_without_validity,
    ..ALGORITHM
};

/// Three tries, up to 200 ms apart; a timeout far below the lease.
pub const DEFAULTS: Defaults =
    Defaults { timeout: |ttl| (ttl / 20).min(50 * MILLISECOND), tries: 3, ..LEASE };

/// The relative rate error that the allowance of 1 % covers, ppm.
const DRIFT_PPM: u64 = 10_000;

/// The lock of one caller.
pub struct Redlock {
    setting: Setting,
    choices: Choices,
    lease: Lease,
    quorum: usize,
    checks_validity: bool,
    clients: Vec<Client>,
}

impl Redlock {
    /// The lock on all nodes of `setting`.
    pub fn new(setting: Setting) -> Redlock {
        let choices = DEFAULTS.settle(&setting.config);
        let drift = drift_allowance(choices.ttl);
        let client = |node: &String| Client::of(&setting, node);
        Redlock {
            choices,
            lease: Lease { drift, ..choices.lease(&setting.config) },
            quorum: quorum(&setting.config, setting.nodes.len()),
            checks_validity: true,
            clients: setting.nodes.iter().map(client).collect(),
            setting,
        }
    }

    /// The same without the check of the time that the requests took.
    pub fn without_validity(setting: Setting) -> Redlock {
        Redlock { checks_validity: false, ..Redlock::new(setting) }
    }

    async fn try_once(&mut self, attempt: u32) -> Result<Grant, String> {
        let host = self.setting.host.clone();
        let token = token::fresh(&host, self.setting.call.get(), attempt);
        // The lease counts from before the first request: each node starts its time to live later.
        let sent = host.now(self.lease.clock);
        host.step("asking").await;
        let granted = count(&self.set_on_all(&token).await, &Said::Yes);
        host.step("replies-in").await;
        if let Err(why) = self.judge(granted, sent) {
            self.delete_on_all(&token).await;
            return Err(why);
        }
        let deadline = Some(self.lease.deadline(&host, sent));
        if self.checks_validity {
            host.step("validity-checked").await;
        }
        host.step("granted").await;
        Ok(Grant::new(token, deadline))
    }

    /// Checks the two conditions: a quorum, and enough of the lease left.
    fn judge(&self, granted: usize, sent: Nanos) -> Result<(), String> {
        if granted < self.quorum {
            let nodes = self.clients.len();
            return Err(format!("{granted} of {nodes} nodes granted, {} needed", self.quorum));
        }
        let needs = self.setting.config.needs.unwrap_or(0);
        let left = self.lease.left(sent, self.setting.host.now(self.lease.clock));
        match left {
            _ if !self.checks_validity => Ok(()),
            None => Err("the lease was over before the replies were in".to_owned()),
            Some(left) if left < needs => Err("less is left than the work needs".to_owned()),
            Some(_) => Ok(()),
        }
    }

    async fn set_on_all(&mut self, token: &str) -> Vec<Answer> {
        let decided = self.decided();
        let Redlock { setting, choices, clients, .. } = self;
        let (key, ttl) = (setting.config.key.as_bytes(), milliseconds(choices.ttl));
        let args: [&[u8]; 5] = [key, token.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        let (call, timeout) = (setting.call.get(), choices.timeout);
        on_all(clients, decided, |client| Box::pin(client.request(call, timeout, "SET", &args)))
            .await
    }

    /// Deletes the key on every node, including those that did not reply: they may have set it.
    async fn delete_on_all(&mut self, token: &str) -> Vec<Answer> {
        let Redlock { setting, choices, clients, .. } = self;
        let (call, timeout, config) = (setting.call.get(), choices.timeout, &setting.config);
        on_all(
            clients,
            |_| false,
            |client| Box::pin(owned_key::delete(client, call, timeout, config, token)),
        )
        .await
    }

    async fn prolong_on_all(&mut self, token: &str) -> Vec<Answer> {
        let decided = self.decided();
        let Redlock { setting, choices, clients, .. } = self;
        let (call, timeout, config) = (setting.call.get(), choices.timeout, &setting.config);
        on_all(clients, decided, |client| {
            Box::pin(owned_key::prolong(client, call, timeout, config, token, choices.ttl))
        })
        .await
    }

    /// Sleeps for a random time, so that callers that each got some of the nodes do not collide
    /// again.
    async fn back_off(&self, attempt: u32) {
        let Setting { host, call, .. } = &self.setting;
        let draw = host.draw(Purpose::Backoff, token::ordinal(call.get(), attempt));
        host.sleep(below(draw, self.choices.retry.saturating_add(1))).await;
    }

    /// Whether the replies so far decide a request, for a lock that does not wait for the rest.
    fn decided(&self) -> impl Fn(&[Option<Answer>]) -> bool + use<> {
        let (quorum, nodes) = (self.quorum, self.clients.len());
        let waits = self.setting.config.replies == RepliesShape::All;
        move |answers| {
            let known = answers.iter().flatten();
            let yes = known.clone().filter(|answer| answer::said(answer) == Said::Yes).count();
            let others = known.count() - yes;
            !waits && (yes >= quorum || nodes - others < quorum)
        }
    }

    /// Whether so many nodes lack the key that the other nodes are no quorum.
    fn is_out_of_reach(&self, without: usize) -> bool {
        self.clients.len() - without < self.quorum
    }
}

#[async_trait(?Send)]
impl Lock for Redlock {
    /// A failed try is released on all nodes and counts as a refusal, as the algorithm prescribes,
    /// even where a node's reply is unknown.
    async fn acquire(&mut self) -> Acquired {
        let mut refusal = String::new();
        for attempt in 0..self.choices.tries {
            if attempt > 0 {
                self.back_off(attempt).await;
            }
            match self.try_once(attempt).await {
                Ok(grant) => return Acquired::Granted(grant),
                Err(why) => refusal = why,
            }
        }
        Acquired::Refused(refusal)
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let host = self.setting.host.clone();
        let sent = host.now(self.lease.clock);
        host.step("extending").await;
        let answers = self.prolong_on_all(&grant.token).await;
        host.step("replies-in").await;
        let kept = self.judge(count(&answers, &Said::Yes), sent).is_ok();
        match kept {
            true => Extended::Kept(Some(self.lease.deadline(&host, sent))),
            false if self.is_out_of_reach(count(&answers, &Said::No)) => Extended::Lost,
            false => Extended::Unknown,
        }
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.setting.host.step("releasing").await;
        let answers = self.delete_on_all(&grant.token).await;
        match count(&answers, &Said::Yes) {
            removed if removed >= self.quorum => Released::Released,
            _ if self.is_out_of_reach(count(&answers, &Said::No)) => Released::NotMine,
            _ => Released::Unknown,
        }
    }
}

/// Sends a request to every node at the same time, and waits for the replies that decide.
async fn on_all<'a>(
    clients: &'a mut [Client],
    decided: impl Fn(&[Option<Answer>]) -> bool,
    ask: impl Fn(&'a mut Client) -> LocalFuture<'a, Answer>,
) -> Vec<Answer> {
    let replies = join::until(clients.iter_mut().map(ask).collect(), decided).await;
    replies.into_iter().flatten().collect()
}

fn count(answers: &[Answer], said: &Said) -> usize {
    answers.iter().filter(|answer| answer::said(answer) == *said).count()
}

/// How many nodes must grant: N/2+1 unless the configuration sets another number.
pub fn quorum(config: &LockConfig, nodes: usize) -> usize {
    let chosen = config.quorum.and_then(|quorum| usize::try_from(quorum).ok());
    chosen.unwrap_or(nodes / 2 + 1)
}

/// A lease with an allowance for drift. A bare majority does not withstand single nodes that forget
/// keys or step their clocks; it does withstand a minority that is down or cut off.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let mut choices = DEFAULTS.settle(config);
    let mut work = Work { lasts: work.lasts.saturating_add(drift_allowance(0)), ..work };
    // A grant with less validity than the work needs is released, however long its requests took.
    // An extend, or a re-entry that is refused, may still take longer.
    if let Some(needs) = config.needs.filter(|_| !work.extends) {
        let spent = choices.ttl.saturating_sub(drift_allowance(choices.ttl).saturating_add(needs));
        let first = choices.timeout.min(spent);
        let further = work.calls.saturating_mul(choices.timeout - first);
        work.lasts = work.lasts.saturating_add(further);
        choices.timeout = first;
    }
    exclusive(Model::Lease, assumptions::of_lease(config, &choices, DRIFT_PPM, work))
}

/// Like [`promise`], but without the assumption about pauses, and with the whole lease for the
/// work. The check turns a grant that comes too late into a refusal. A lock that omits it may grant
/// when nothing of the lease is left, and cannot notify its callers.
fn promise_without_validity(config: &LockConfig, work: Work) -> Promise {
    let mut promise = promise(config, work);
    promise.assumes.retain(|assumption| assumption.what != Bounded::ClientPause);
    let choices = DEFAULTS.settle(config);
    let whole = choices.ttl.saturating_sub(drift_allowance(choices.ttl));
    for assumption in promise.assumes.iter_mut().filter(|a| a.what == Bounded::Work) {
        assumption.bound = assumptions::work_within(whole, &choices, work);
    }
    promise
}
