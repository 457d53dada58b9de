//! Redlock: grants from a majority of independent nodes, requested concurrently, within the lease.
//!
//! The steps are those of the published algorithm. Its two conditions are a quorum and a remaining
//! validity. `redlock-no-validity` omits the second. With `replies = "quorum"` an acquire or an
//! extend goes on as soon as the replies decide it: it does not wait for a slow node. A release
//! always waits for all.

use async_trait::async_trait;
use lockstorm_platform::host::LocalFuture;
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::lock::algorithm::owned_key;
use crate::lock::algorithm::{Algorithm, Nodes};
use crate::lock::client::answer::{self, Answer, Said};
use crate::lock::client::{Client, RequestError, join};
use crate::lock::config::{AfterExtend, AfterTry, AskOrder, LockConfig, QuorumOf, RepliesShape};
use crate::lock::defaults::{Choices, Defaults, LEASE};
use crate::lock::lease::{Lease, drift_allowance};
use crate::lock::token::OwnerValues;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, assumptions, tries};
use crate::promise::{Bounded, Model, Promise, Work, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "token-lua on a majority of independent nodes, within the lease",
    nodes: Nodes::Quorum,
    defaults: DEFAULTS,
    promise,
    ..Algorithm::lease("redlock", |setting| Box::new(Redlock::new(setting)))
};

/// Redlock that asks the nodes one after the other, as its first implementations do.
pub const SEQUENTIAL: Algorithm = Algorithm {
    name: "redlock-sequential",
    about: "redlock that asks one node after the other",
    defaults: Defaults { order: AskOrder::Sequential, ..DEFAULTS },
    ..ALGORITHM
};

/// Redlock without the check of the time that the requests took.
pub const WITHOUT_VALIDITY: Algorithm = Algorithm {
    name: "redlock-no-validity",
    about: "redlock that ignores the time that its requests took",
    defaults: Defaults { validity: false, ..DEFAULTS },
    ..ALGORITHM
};

/// Three tries, up to 200 ms apart; a timeout far below the lease. A try that fails is released on
/// all nodes.
pub const DEFAULTS: Defaults = Defaults {
    timeout: |ttl| (ttl / 20).min(50 * MILLISECOND),
    tries: 3,
    drift: drift_allowance,
    failed_try: AfterTry::Release,
    ..LEASE
};

/// The lock of one caller.
pub struct Redlock {
    setting: Setting,
    choices: Choices,
    lease: Lease,
    quorum: usize,
    tokens: OwnerValues,
    clients: Vec<Client>,
    /// Whether the nodes that could not be reached at first are left out for good.
    is_connected: bool,
}

impl Redlock {
    /// The lock on all nodes of `setting`.
    pub fn new(setting: Setting) -> Redlock {
        let choices = DEFAULTS.settle(&setting.config);
        let client = |node: &String| Client::of(&setting, node);
        Redlock {
            choices,
            lease: choices.lease(&setting.config),
            quorum: quorum(&setting.config, setting.nodes.len()),
            tokens: OwnerValues::new(choices.token),
            clients: setting.nodes.iter().map(client).collect(),
            is_connected: setting.config.quorum_of == QuorumOf::All,
            setting,
        }
    }

    async fn try_once(&mut self, token: &str) -> Result<Grant, String> {
        let host = self.setting.host.clone();
        // The lease counts from before the first request: each node starts its time to live later.
        let sent = host.now(self.lease.clock);
        host.step("asking").await;
        let answers = self.set_on_all(token).await;
        self.leave_out_unreached(&answers);
        host.step("replies-in").await;
        if let Err(why) = self.judge(count(&answers, &Said::Yes), sent) {
            if self.choices.failed_try == AfterTry::Release {
                self.delete_on_all(token).await;
            }
            return Err(why);
        }
        let deadline = Some(self.lease.deadline(&host, sent));
        if self.choices.validity {
            host.step("validity-checked").await;
        }
        host.step("granted").await;
        Ok(Grant::new(token.to_owned(), deadline))
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
            _ if !self.choices.validity => Ok(()),
            None => Err("the lease was over before the replies were in".to_owned()),
            Some(left) if left < needs => Err("less is left than the work needs".to_owned()),
            Some(_) => Ok(()),
        }
    }

    async fn set_on_all(&mut self, token: &str) -> Vec<Answer> {
        let decided = self.decided();
        let Redlock { setting, choices, clients, .. } = self;
        let (call, config) = (setting.call.get(), &setting.config);
        let Choices { ttl, unit, timeout, order, .. } = *choices;
        on_all(clients, order, decided, |client| {
            Box::pin(owned_key::set(client, call, timeout, config, token, (ttl, unit)))
        })
        .await
    }

    /// Leaves out for good the nodes that could not be reached at first, if the quorum is one of
    /// those that could.
    fn leave_out_unreached(&mut self, answers: &[Answer]) {
        if std::mem::replace(&mut self.is_connected, true) {
            return;
        }
        let mut answers = answers.iter();
        let unreached = Err(RequestError::NotSent);
        self.clients.retain(|_| answers.next().is_none_or(|answer| *answer != unreached));
        self.quorum = quorum(&self.setting.config, self.clients.len());
    }

    /// Deletes the key on every node, including those that did not reply: they may have set it.
    async fn delete_on_all(&mut self, token: &str) -> Vec<Answer> {
        let Redlock { setting, choices, clients, .. } = self;
        let (call, timeout, config) = (setting.call.get(), choices.timeout, &setting.config);
        on_all(
            clients,
            choices.order,
            |_| false,
            |client| Box::pin(owned_key::delete(client, call, timeout, config, token)),
        )
        .await
    }

    async fn prolong_on_all(&mut self, token: &str) -> Vec<Answer> {
        let decided = self.decided();
        let Redlock { setting, choices, clients, .. } = self;
        let (call, timeout, config) = (setting.call.get(), choices.timeout, &setting.config);
        on_all(clients, choices.order, decided, |client| {
            Box::pin(owned_key::prolong(client, call, timeout, config, token, choices.ttl))
        })
        .await
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
        let (mut refusal, mut token) = (String::new(), String::new());
        for attempt in 0..self.choices.tries {
            if attempt > 0 {
                tries::back_off(&self.setting, &self.choices, attempt).await;
            }
            token = self.tokens.next(&self.setting, attempt);
            match self.try_once(&token).await {
                Ok(grant) => return Acquired::Granted(grant),
                Err(why) => refusal = why,
            }
        }
        if self.choices.failed_try == AfterTry::ReleaseAtEnd {
            self.delete_on_all(&token).await;
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
        if !kept && self.choices.failed_extend == AfterExtend::Release {
            self.delete_on_all(&grant.token).await;
        }
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

/// Sends a request to every node, at the same time or to one after the other, and waits for the
/// replies that decide. In the order of the nodes, as far as they have replied.
async fn on_all<'a>(
    clients: &'a mut [Client],
    order: AskOrder,
    decided: impl Fn(&[Option<Answer>]) -> bool,
    ask: impl Fn(&'a mut Client) -> LocalFuture<'a, Answer>,
) -> Vec<Answer> {
    if order == AskOrder::Parallel {
        let replies = join::until(clients.iter_mut().map(ask).collect(), decided).await;
        return replies.into_iter().flatten().collect();
    }
    let mut replies = vec![None; clients.len()];
    for (nth, client) in clients.iter_mut().enumerate() {
        replies[nth] = Some(ask(client).await);
        if decided(&replies) {
            break;
        }
    }
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
///
/// A lock that omits the check of validity promises the whole lease for the work: the check turns a
/// grant that comes too late into a refusal, and without it the lock may grant when nothing of the
/// lease is left, and cannot notify its callers.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let mut choices = DEFAULTS.settle(config);
    let own = choices;
    let in_turn = if choices.order == AskOrder::Sequential { work.nodes } else { 1 };
    choices.timeout = choices.patience().saturating_mul(in_turn.max(1));
    choices.resend = 0;
    let given = work;
    let mut work = work;
    // A grant with less validity than the work needs is released, however long its requests took.
    // An extend, or a re-entry that is refused, may still take longer.
    if let Some(needs) = config.needs.filter(|_| !work.extends) {
        let spent = choices.ttl.saturating_sub(choices.drift.saturating_add(needs));
        let first = choices.timeout.min(spent);
        let further = work.calls.saturating_mul(choices.timeout - first);
        work.lasts = work.lasts.saturating_add(further);
        choices.timeout = first;
    }
    let assumes = assumptions::of_lease(config, &choices, choices.drift_ppm(), work);
    let mut promise = exclusive(Model::Lease, assumes);
    if !choices.validity {
        let whole = own.ttl.saturating_sub(own.drift);
        for assumption in promise.assumes.iter_mut().filter(|a| a.what == Bounded::Work) {
            assumption.bound = assumptions::work_within(whole, &own, given);
        }
    }
    promise
}
