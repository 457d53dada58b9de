//! A caller: a lock, or one for each segment, with a record of each call, and of what the lock does
//! on its own.
//!
//! It makes no decisions; [`crate::workload::client`] does. It does not trust the lock: breaches of
//! the contract are recorded, and what the contract allows is no finding.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::slice;

use lockstorm_platform::host::{Host, LocalFuture};
use lockstorm_platform::time::Nanos;

use crate::history::{OpId, OpKind, Outcome};
use crate::lock::config::LockConfig;
use crate::lock::{Acquired, Call, Extended, Grant, Lock, Notice, Notify, Released, Setting};
use crate::promise::contract::Clause;
use crate::workload::Job;
use crate::workload::guard::{Ending, Finished, Guard, bury};
use crate::workload::recorder::Recorder;

/// A lock used by one caller.
pub struct Caller {
    /// One, or one for each segment; present until the caller is dropped.
    locks: Vec<Box<dyn Lock>>,
    /// The keys of the segments, in the order of their locks.
    segments: Vec<String>,
    desk: Rc<CallerDesk>,
}

/// What the caller shares with the background tasks of its lock.
struct CallerDesk {
    host: Host,
    name: String,
    key: String,
    recorder: Recorder,
    guard: Rc<Guard>,
    /// The caller's current operation.
    call: Rc<Cell<Call>>,
    /// Whether that operation is an acquire.
    is_acquiring: Cell<bool>,
    /// Tokens that notices named during the acquire, before any grant had them.
    announced: RefCell<BTreeSet<String>>,
    /// The grants of the caller by token, in order.
    given: RefCell<BTreeMap<String, Vec<Given>>>,
    /// The grants that the caller knows to be lost.
    lost: RefCell<BTreeSet<OpId>>,
    /// Background renewals that have not ended.
    renewals: RefCell<BTreeSet<OpId>>,
}

/// A grant to which notices may refer.
struct Given {
    acquire: OpId,
    /// Whether the caller still has it.
    is_held: bool,
}

/// A grant, or what an unknown acquire may have left, with its acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The grant of the lock.
    pub grant: Grant,
    /// The operation that received it.
    pub acquire: OpId,
    /// Whether it is one in shared mode.
    pub shared: bool,
}

/// How a caller acquires the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Whether in shared mode.
    pub shared: bool,
    /// The group of keys, in the caller's order, or the key of a segment; empty if there is only
    /// the lock's key.
    pub keys: Vec<String>,
    /// How long it waits at most, ns.
    pub limit: Option<Nanos>,
}

/// The result of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The caller owns the lock.
    Granted(Held),
    /// The caller does not own the lock.
    Refused,
    /// The outcome is unknown. The caller has to release what may be left.
    Unknown(Held),
    /// The caller stopped waiting. The outcome is unknown, and there is no grant to release.
    GivenUp,
}

impl Caller {
    /// A caller named `name` on `host`, with its own lock. Callers of one process share `ending`.
    ///
    /// # Errors
    /// If the code that builds the lock ends the process.
    pub fn new(host: &Host, name: &str, job: &Job, ending: Ending) -> Result<Caller, Finished> {
        let call = Rc::default();
        let desk = Rc::new(CallerDesk {
            host: host.clone(),
            name: name.to_owned(),
            key: job.config.key.clone(),
            recorder: job.recorder.clone(),
            guard: Guard::new(host, (&job.recorder, &job.pulse), Rc::clone(&call), ending),
            call,
            is_acquiring: Cell::default(),
            announced: RefCell::default(),
            given: RefCell::default(),
            lost: RefCell::default(),
            renewals: RefCell::default(),
        });
        let setting = |key: &String| Setting {
            host: desk.guard.gate(),
            nodes: job.nodes.clone(),
            config: LockConfig { key: key.clone(), ..job.config.clone() },
            thread: thread(name),
            call: Rc::clone(&desk.call),
            notify: notify(&desk),
            mutex: job.mutex.clone(),
        };
        let segments = if job.takes_groups { Vec::new() } else { job.keys.clone() };
        let keys = if segments.is_empty() { slice::from_ref(&job.config.key) } else { &segments };
        let build = |key| desk.guard.within(|| (job.lock)(setting(key)));
        let locks = keys.iter().map(build).collect::<Result<_, _>>()?;
        Ok(Caller { locks, segments, desk })
    }

    /// The machine that it runs on.
    pub fn host(&self) -> &Host {
        &self.desk.host
    }

    /// The name under which its operations are recorded.
    pub fn name(&self) -> &str {
        &self.desk.name
    }

    /// Its last operation: the address of its next draw.
    pub fn last_call(&self) -> Call {
        self.desk.call.get()
    }

    /// Acquires the lock.
    ///
    /// # Errors
    /// If the lock ends the process.
    pub async fn acquire(&mut self, wish: &Wish) -> Result<Taken, Finished> {
        let Wish { shared, keys, limit } = wish;
        let call = self.desk.begin_acquire(wish).await?;
        self.desk.is_acquiring.set(true);
        // If the caller gave up its last acquire, that was never compared with a grant and may have
        // left tokens.
        self.desk.announced.borrow_mut().clear();
        let host = self.desk.host.clone();
        let is_group = !keys.is_empty() && self.segments.is_empty();
        let work = self.invoke(keys, |lock| match shared {
            _ if is_group => lock.acquire_all(keys),
            true => lock.acquire_shared(),
            false => lock.acquire(),
        });
        let acquired = match limit {
            None => Some(work.await),
            Some(limit) => host.timeout(*limit, work).await,
        };
        self.desk.is_acquiring.set(false);
        let (outcome, taken) = match acquired {
            Some(Ok(acquired)) => self.desk.take((call.op, wish), acquired),
            Some(Err(ended)) => return self.desk.fail(call, ended),
            None => (Outcome::Unknown, Taken::GivenUp),
        };
        self.desk.recorder.ret(&self.desk.host, call.op, outcome).await;
        Ok(taken)
    }

    /// Extends a grant; a new deadline is stored in `held`.
    ///
    /// # Errors
    /// As [`Caller::acquire`].
    pub async fn extend(&mut self, held: &mut Held) -> Result<Extended, Finished> {
        let call =
            self.desk.begin(OpKind::Extend { grant: held.acquire, background: false }).await?;
        let extended = self.invoke(&held.grant.keys, |lock| lock.extend(&held.grant)).await;
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

    /// Releases a grant.
    ///
    /// # Errors
    /// As [`Caller::acquire`].
    pub async fn release(&mut self, held: &Held) -> Result<Released, Finished> {
        let call = self.desk.begin(OpKind::Release { grant: held.acquire }).await?;
        let released = self.invoke(&held.grant.keys, |lock| lock.release(&held.grant)).await;
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

    /// Whether the caller knows that the grant is lost: by a notice, or by an extend.
    pub fn has_lost(&self, held: &Held) -> bool {
        self.desk.lost.borrow().contains(&held.acquire)
    }

    /// Whether the lock has ended the process.
    pub fn has_ended(&self) -> bool {
        self.desk.guard.has_ended()
    }

    /// Calls the lock of these keys: of a segment, or the only one.
    async fn invoke<'a, T>(
        &'a mut self,
        keys: &[String],
        call: impl FnOnce(&'a mut dyn Lock) -> LocalFuture<'a, T>,
    ) -> Result<T, Finished> {
        let Caller { locks, segments, desk } = self;
        let place = segments.iter().position(|key| keys.first() == Some(key)).unwrap_or(0);
        let lock = locks.get_mut(place).ok_or(Finished)?.as_mut();
        let work = desk.guard.within(|| call(lock))?;
        desk.guard.watch(work).await
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.locks.drain(..).for_each(bury);
    }
}

impl CallerDesk {
    async fn begin_acquire(&self, wish: &Wish) -> Result<Call, Finished> {
        self.guard.lives()?;
        let call = self.recorder.open(&self.host, &self.name, &self.key, OpKind::Acquire);
        self.recorder.detail(call.op, wish.shared, &wish.keys);
        self.host.struck().await;
        self.call.set(call);
        Ok(call)
    }

    async fn begin(&self, kind: OpKind) -> Result<Call, Finished> {
        self.guard.lives()?;
        let call = self.recorder.call(&self.host, &self.name, &self.key, kind).await;
        self.call.set(call);
        Ok(call)
    }

    /// Records the operation in which the lock ended the process.
    fn fail<T>(&self, call: Call, ended: Finished) -> Result<T, Finished> {
        // The operations of the other callers in the process never return.
        if self.guard.has_broken() {
            self.recorder.close(&self.host, call.op, Outcome::Unknown);
        }
        Err(ended)
    }

    fn take(&self, (acquire, wish): (OpId, &Wish), acquired: Acquired) -> (Outcome, Taken) {
        let held = |grant: &Grant| {
            let grant = Grant { keys: wish.keys.clone(), ..grant.clone() };
            Held { grant, acquire, shared: wish.shared }
        };
        match acquired {
            Acquired::Granted(grant) => {
                self.give(&grant, acquire);
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
                self.recorder.tried_with(acquire, &grant.token);
                (Outcome::Unknown, Taken::Unknown(held(&grant)))
            }
        }
    }

    /// Compares the notices that arrived before their grant with the grant that came.
    fn hold_to(&self, is_given: impl Fn(&str) -> bool) {
        for token in self.announced.take().into_iter().filter(|token| !is_given(token)) {
            self.unknown_grant("a notice before the grant", &token);
        }
    }

    fn give(&self, grant: &Grant, acquire: OpId) {
        self.hold_to(|token| *token == grant.token);
        // The loss of the grant may have been reported before the acquire returned.
        let is_held = !self.lost.borrow().contains(&acquire);
        let mut given = self.given.borrow_mut();
        given.entry(grant.token.clone()).or_default().push(Given { acquire, is_held });
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
        // An `Abandoned` notice may be sent while the process dies, when no step is counted or
        // recorded.
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
        // No operation has this number, so the notice that ends the renewal is a breach as well.
        Call { op: OpId::MAX, nth: 0 }
    }

    /// The acquires to which a notice with this token refers: those whose grants are held;
    /// otherwise the last one whose grant was held; otherwise the pending one.
    fn meant(&self, token: &str) -> Vec<OpId> {
        let given = self.given.borrow();
        let all = given.get(token).map_or(&[][..], Vec::as_slice);
        let mut meant: Vec<OpId> =
            all.iter().filter(|given| given.is_held).map(|given| given.acquire).collect();
        if meant.is_empty() && self.is_acquiring.get() && all.is_empty() {
            self.announced.borrow_mut().insert(token.to_owned());
            meant.push(self.call.get().op);
        }
        if meant.is_empty() {
            meant.extend(all.last().map(|given| given.acquire));
        }
        meant
    }
}

fn notify(desk: &Rc<CallerDesk>) -> Notify {
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

/// The number of a caller of this name among those of its process: `c1.2` is the second of `c1`.
fn thread(name: &str) -> u32 {
    let number = name.split_once('.').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1)
}
