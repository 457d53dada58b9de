use lockstorm::own::{
    Acquired, Algorithm, Cancellation, Choices, Client, Extended, Grant, GrantTasks, LEASE, Lock,
    LockConfig, Model, Notice, Promise, Released, Setting, Work, answer, assumptions, async_trait,
    exclusive, join, milliseconds, scripts, token,
};

const RENEWED: Algorithm = Algorithm {
    renews: true,
    promise,
    ..Algorithm::lease("mine-renewed", |setting| Box::new(Mine::new(setting)))
};

/// How a grant is extended: each third of its lease.
fn renewed(config: &LockConfig, choices: &Choices) -> assumptions::Renewed {
    assumptions::Renewed::of(config, choices, choices.ttl / 3)
}

/// One holder, who may work for any time, and who is told if the lock is lost.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let choices = LEASE.settle(config);
    let assumes = assumptions::of_renewed(config, &choices, renewed(config, &choices), work);
    Promise { reports_loss: true, ..exclusive(Model::Lease, assumes) }
}

struct Mine {
    setting: Setting,
    choices: Choices,
    client: Client,
    renewals: GrantTasks,
}

impl Mine {
    fn new(setting: Setting) -> Mine {
        let client = Client::of(&setting, &setting.nodes[0]);
        let choices = LEASE.settle(&setting.config);
        Mine { choices, client, setting, renewals: GrantTasks::default() }
    }

    async fn set(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let lease = self.choices.lease(config);
        let (token, ttl) = (token::fresh(host, call.get(), 0), milliseconds(lease.ttl));
        let args: [&[u8]; 5] =
            [config.key.as_bytes(), token.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        let sent = host.now(lease.clock);
        let answer = self.client.request(call.get(), self.choices.timeout, "SET", &args).await;
        host.step("granted").await;
        answer::acquired(&answer, Grant::new(token, Some(lease.deadline(host, sent))))
    }
}

/// Extends a grant until it is released or lost.
async fn renew(setting: Setting, grant: Grant, released: Cancellation) {
    let choices = LEASE.settle(&setting.config);
    let (lease, host) = (choices.lease(&setting.config), &setting.host);
    let (mut client, token) = (Client::of(&setting, &setting.nodes[0]), &grant.token);
    let mut wait = renewed(&setting.config, &choices).every;
    let (clock, mut until) = grant.deadline.expect("the lock has a lease");
    loop {
        // Not past the deadline: its end is the loss, whether a reply comes or not.
        join::race(host.sleep_until(clock, until), host.sleep(wait)).await;
        host.step("renewing").await;
        let left = until.saturating_sub(host.now(clock));
        if released.is_cancelled() {
            return;
        }
        if left == 0 {
            break;
        }
        let extended = setting
            .extending(token, async |call| {
                let (key, ttl) = (setting.config.key.as_bytes(), milliseconds(lease.ttl));
                let (args, within) =
                    ([token.as_bytes(), ttl.as_bytes()], choices.timeout.min(left));
                let (sent, script) = (host.now(clock), scripts::COMPARE_AND_PEXPIRE);
                let answer = client.eval(call, within, script, &[key], &args).await;
                answer::extended(&answer, lease.deadline(host, sent))
            })
            .await;
        match extended {
            Extended::Kept(deadline) => {
                until = deadline.map_or(until, |(_, until)| until);
                wait = renewed(&setting.config, &choices).every;
            }
            // The key that a release has deleted is no loss.
            Extended::Lost if released.is_cancelled() => return,
            Extended::Lost => break,
            Extended::Unknown => wait = choices.retry,
        }
    }
    (setting.notify)(Notice::Lost { token: token.clone() });
}

#[async_trait(?Send)]
impl Lock for Mine {
    async fn acquire(&mut self) -> Acquired {
        let acquired = self.set().await;
        if let Acquired::Granted(grant) = &acquired {
            let (setting, grant) = (self.setting.clone(), grant.clone());
            let token = grant.token.clone();
            let task = |released| renew(setting, grant, released);
            self.renewals.spawn(&self.setting.host, &token, task);
        }
        acquired
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let Setting { host, config, call, .. } = &self.setting;
        let lease = self.choices.lease(config);
        let (key, ttl) = (config.key.as_bytes(), milliseconds(lease.ttl));
        let (args, timeout) = ([grant.token.as_bytes(), ttl.as_bytes()], self.choices.timeout);
        let (sent, script) = (host.now(lease.clock), scripts::COMPARE_AND_PEXPIRE);
        let answer = self.client.eval(call.get(), timeout, script, &[key], &args).await;
        let extended = answer::extended(&answer, lease.deadline(host, sent));
        if extended == Extended::Lost {
            self.renewals.end(&grant.token);
        }
        extended
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        // First, so that no renewal starts after the release.
        self.renewals.end(&grant.token);
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        let (key, token) = (self.setting.config.key.as_bytes(), grant.token.as_bytes());
        let script = scripts::COMPARE_AND_DELETE;
        answer::released(&self.client.eval(call, timeout, script, &[key], &[token]).await)
    }
}
