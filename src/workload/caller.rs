//! A caller: a lock whose every call is written down, with what the lock does by itself.
//!
//! It decides nothing; [`crate::workload::client`] does. It takes nothing of the lock on trust:
//! what breaks the contract is written down, and what the contract allows is no finding.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use lockstorm_platform::host::{Host, LocalFuture};
use lockstorm_platform::time::Nanos;

use crate::history::{OpId, OpKind, Outcome};
use crate::lock::{Acquired, Call, Extended, Grant, Lock, Notice, Released, Setting, Tell};
use crate::promise::contract::Clause;
use crate::workload::Job;
use crate::workload::guard::{Ended, Guard, bury};
use crate::workload::recorder::Recorder;

/// A lock in the hands of one caller.
pub struct Caller {
    /// There until the caller goes.
    lock: Option<Box<dyn Lock>>,
    desk: Rc<Desk>,
}

/// What the caller shares with the background tasks of its lock.
struct Desk {
    host: Host,
    name: String,
    key: String,
    holders: u32,
    recorder: Recorder,
    guard: Rc<Guard>,
    /// The operation that the caller is in now.
    call: Rc<Cell<Call>>,
    /// Whether that is an acquire.
    is_acquiring: Cell<bool>,
    /// The tokens that notices named while it was under way, and that nobody had been given.
    foretold: RefCell<BTreeSet<String>>,
    /// What the caller was given, by its token, in order.
    given: RefCell<BTreeMap<String, Vec<Given>>>,
    /// The grants of which the caller knows that they are lost.
    lost: RefCell<BTreeSet<OpId>>,
    /// Renewals in the background that have not ended.
    renewals: RefCell<BTreeSet<OpId>>,
}

/// A grant as notices may mean it.
struct Given {
    acquire: OpId,
    /// Whether the caller has it still.
    is_held: bool,
}

/// A grant, or what an unknown acquire may have left, together with its acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What the lock gave.
    pub grant: Grant,
    /// The operation that it gave it to.
    pub acquire: OpId,
}

/// What an acquire came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The caller owns the lock.
    Granted(Held),
    /// It does not.
    Refused,
    /// Nobody knows; to be released.
    Unknown(Held),
    /// The caller would wait no longer. Nobody knows, and there is nothing to be released with.
    GivenUp,
}

impl Caller {
    /// A caller named `name` on `host`, with a lock of its own.
    ///
    /// # Errors
    /// If the lock cannot even be made.
    pub fn new(host: &Host, name: &str, job: &Job) -> Result<Caller, Ended> {
        let call = Rc::default();
        let desk = Rc::new(Desk {
            host: host.clone(),
            name: name.to_owned(),
            key: job.config.key.clone(),
            holders: job.holders,
            recorder: job.recorder.clone(),
            guard: Guard::new(host, &job.recorder, &job.pulse, Rc::clone(&call)),
            call,
            is_acquiring: Cell::default(),
            foretold: RefCell::default(),
            given: RefCell::default(),
            lost: RefCell::default(),
            renewals: RefCell::default(),
        });
        let setting = Setting {
            host: desk.guard.gate(),
            nodes: job.nodes.clone(),
            config: job.config.clone(),
            call: Rc::clone(&desk.call),
            tell: tell(&desk),
        };
        let lock = Some(desk.guard.within(|| (job.lock)(setting))?);
        Ok(Caller { lock, desk })
    }

    /// The machine that it runs on.
    pub fn host(&self) -> &Host {
        &self.desk.host
    }

    /// The name that its operations carry.
    pub fn name(&self) -> &str {
        &self.desk.name
    }

    /// Its last operation: the address of what it draws next.
    pub fn last_call(&self) -> Call {
        self.desk.call.get()
    }

    /// Asks for the lock.
    ///
    /// # Errors
    /// If the lock ends the process.
    pub async fn acquire(&mut self) -> Result<Taken, Ended> {
        self.acquire_within(None).await
    }

    /// Asks for the lock, and waits no longer than `limit` ns, if there is one.
    ///
    /// # Errors
    /// As [`Caller::acquire`].
    pub async fn acquire_within(&mut self, limit: Option<Nanos>) -> Result<Taken, Ended> {
        let call = self.desk.begin(OpKind::Acquire).await;
        self.desk.is_acquiring.set(true);
        self.desk.foretold.borrow_mut().clear();
        let acquired = match limit {
            None => Some(self.ask(|lock| lock.acquire()).await),
            Some(limit) => {
                let host = self.desk.host.clone();
                host.timeout(limit, self.ask(|lock| lock.acquire())).await
            }
        };
        self.desk.is_acquiring.set(false);
        let (outcome, taken) = match acquired {
            Some(Ok(acquired)) => self.desk.take(call.op, acquired),
            Some(Err(ended)) => return self.desk.fail(call, ended),
            None => (Outcome::Unknown, Taken::GivenUp),
        };
        self.desk.recorder.ret(&self.desk.host, call.op, outcome).await;
        Ok(taken)
    }

    /// Prolongs a grant; a new deadline is kept in `held`.
    ///
    /// # Errors
    /// As [`Caller::acquire`].
    pub async fn extend(&mut self, held: &mut Held) -> Result<Extended, Ended> {
        let call = self.desk.begin(OpKind::Extend { grant: held.acquire, background: false }).await;
        let extended = self.ask(|lock| lock.extend(&held.grant)).await;
        let extended = extended.or_else(|ended| self.desk.fail(call, ended))?;
        match &extended {
            Extended::Kept(deadline) => held.grant.deadline = *deadline,
            Extended::Lost => self.desk.lose(held.acquire),
            Extended::Unknown => {}
        }
        let outcome = outcome_of_extend(&extended);
        self.desk.recorder.ret(&self.desk.host, call.op, outcome).await;
        Ok(extended)
    }

    /// Gives a grant back.
    ///
    /// # Errors
    /// As [`Caller::acquire`].
    pub async fn release(&mut self, held: &Held) -> Result<Released, Ended> {
        let call = self.desk.begin(OpKind::Release { grant: held.acquire }).await;
        let released = self.ask(|lock| lock.release(&held.grant)).await;
        self.desk.end_of(held.acquire);
        let released = released.or_else(|ended| self.desk.fail(call, ended))?;
        let outcome = match released {
            Released::Released => Outcome::Released,
            Released::NotMine => Outcome::NotMine,
            Released::Unknown => Outcome::Unknown,
        };
        self.desk.recorder.ret(&self.desk.host, call.op, outcome).await;
        Ok(released)
    }

    /// Whether the caller knows that the grant is lost: it was notified, or an extend said so.
    pub fn has_lost(&self, held: &Held) -> bool {
        self.desk.lost.borrow().contains(&held.acquire)
    }

    /// Whether the lock has ended the process.
    pub fn has_ended(&self) -> bool {
        self.desk.guard.has_ended()
    }

    async fn ask<'a, T>(
        &'a mut self,
        call: impl FnOnce(&'a mut dyn Lock) -> LocalFuture<'a, T>,
    ) -> Result<T, Ended> {
        let Caller { lock, desk } = self;
        let lock = lock.as_deref_mut().ok_or(Ended)?;
        let work = desk.guard.within(|| call(lock))?;
        desk.guard.watch(work).await
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        bury(self.lock.take());
    }
}

impl Desk {
    async fn begin(&self, kind: OpKind) -> Call {
        let call = self.recorder.call(&self.host, &self.name, &self.key, kind).await;
        self.call.set(call);
        call
    }

    /// The operation in which the lock ended the process.
    fn fail<T>(&self, call: Call, ended: Ended) -> Result<T, Ended> {
        self.recorder.close(&self.host, call.op, Outcome::Unknown);
        Err(ended)
    }

    fn take(&self, acquire: OpId, acquired: Acquired) -> (Outcome, Taken) {
        let held = |grant: &Grant| Held { grant: grant.clone(), acquire };
        match acquired {
            Acquired::Granted(grant) => {
                self.give(&grant, acquire);
                self.check_permit(&grant);
                let taken = Taken::Granted(held(&grant));
                let Grant { token, fence, deadline, .. } = grant;
                (Outcome::Granted { token, fence, deadline }, taken)
            }
            Acquired::Refused(why) => {
                self.hold_to(|_| false);
                (Outcome::Refused { why }, Taken::Refused)
            }
            Acquired::Unknown(grant) => {
                self.give(&grant, acquire);
                (Outcome::Unknown, Taken::Unknown(held(&grant)))
            }
        }
    }

    /// Holds what was told of a grant before it came to what came.
    fn hold_to(&self, is_given: impl Fn(&str) -> bool) {
        for token in self.foretold.take().into_iter().filter(|token| !is_given(token)) {
            self.unknown_grant("a notice before the grant", &token);
        }
    }

    fn give(&self, grant: &Grant, acquire: OpId) {
        self.hold_to(|token| *token == grant.token);
        let is_held = !self.lost.borrow().contains(&acquire);
        let mut given = self.given.borrow_mut();
        given.entry(grant.token.clone()).or_default().push(Given { acquire, is_held });
    }

    fn check_permit(&self, grant: &Grant) {
        if let Some(permit) = grant.permit.filter(|permit| *permit >= self.holders) {
            let holders = self.holders;
            let details = format!("there are {holders}, and this permit is {permit}");
            self.guard.breach(Clause::PermitInRange, details);
        }
    }

    fn lose(&self, acquire: OpId) {
        self.lost.borrow_mut().insert(acquire);
        self.end_of(acquire);
    }

    fn end_of(&self, acquire: OpId) {
        let mut given = self.given.borrow_mut();
        for given in given.values_mut().flatten().filter(|given| given.acquire == acquire) {
            given.is_held = false;
        }
    }

    fn hear(&self, notice: Notice) -> Call {
        // That one may be sent while the process dies, when nobody counts or writes down anything.
        if !matches!(notice, Notice::Abandoned { .. }) {
            self.guard.pass();
        }
        match notice {
            Notice::Abandoned { op } => {
                let is_under_way = self.renewals.borrow_mut().remove(&op);
                self.guard.abandon(op, is_under_way);
            }
            Notice::Extending { token } => {
                let Some(grant) = self.meant(&token).first().copied() else {
                    return self.unknown_grant("Extending", &token);
                };
                let kind = OpKind::Extend { grant, background: true };
                let call = self.recorder.open(&self.host, &self.name, &self.key, kind);
                self.renewals.borrow_mut().insert(call.op);
                return call;
            }
            Notice::Extended { op, result } if self.renewals.borrow_mut().remove(&op) => {
                self.recorder.close(&self.host, op, outcome_of_extend(&result));
            }
            Notice::Extended { op, .. } => self.guard.unknown_renewal(op),
            Notice::Lost { token } => {
                let meant = self.meant(&token);
                if meant.is_empty() {
                    return self.unknown_grant("Lost", &token);
                }
                for grant in meant {
                    self.recorder.lost(&self.host, &self.name, &self.key, grant);
                    self.lose(grant);
                }
            }
        }
        Call::default()
    }

    fn unknown_grant(&self, notice: &str, token: &str) -> Call {
        let shown: String = token.chars().take(40).collect();
        let details = format!("{notice} names '{shown}'");
        self.guard.breach(Clause::KnownGrant, details);
        // No operation has this number, so what ends it is a breach as well.
        Call { op: OpId::MAX, nth: 0 }
    }

    /// The acquires that a notice with this token means: those whose grants are held; else the
    /// last one that was; else the one that is under way.
    fn meant(&self, token: &str) -> Vec<OpId> {
        let given = self.given.borrow();
        let all = given.get(token).map_or(&[][..], Vec::as_slice);
        let mut meant: Vec<OpId> =
            all.iter().filter(|given| given.is_held).map(|given| given.acquire).collect();
        if meant.is_empty() && self.is_acquiring.get() && all.is_empty() {
            self.foretold.borrow_mut().insert(token.to_owned());
            meant.push(self.call.get().op);
        }
        if meant.is_empty() {
            meant.extend(all.last().map(|given| given.acquire));
        }
        meant
    }
}

fn tell(desk: &Rc<Desk>) -> Tell {
    let desk = Rc::clone(desk);
    Rc::new(move |notice| desk.hear(notice))
}

fn outcome_of_extend(extended: &Extended) -> Outcome {
    match extended {
        Extended::Kept(deadline) => Outcome::Kept { deadline: *deadline },
        Extended::Lost => Outcome::Lost,
        Extended::Unknown => Outcome::Unknown,
    }
}
