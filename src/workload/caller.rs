//! A caller: a lock whose every call is written down, with what the lock does by itself.
//!
//! It decides nothing; [`crate::workload::client`] does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use lockstorm_sim::platform::Host;

use crate::history::{OpId, OpKind, Outcome};
use crate::lock::{Acquired, Call, Extended, Grant, Lock, Notice, Released, Setting, Tell};
use crate::workload::Job;
use crate::workload::recorder::Recorder;

/// A lock in the hands of one caller.
pub struct Caller {
    lock: Box<dyn Lock>,
    desk: Rc<Desk>,
}

/// What the caller shares with the background tasks of its lock.
struct Desk {
    host: Host,
    name: String,
    key: String,
    recorder: Recorder,
    /// The operation that the caller is in now.
    call: Rc<Cell<Call>>,
    /// The acquire that each token was granted by.
    grants: RefCell<BTreeMap<String, OpId>>,
    /// The grants of which the caller was told that they are lost.
    lost: RefCell<Vec<OpId>>,
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
}

impl Caller {
    /// A caller named `name` on `host`, with a lock of its own.
    pub fn new(host: &Host, name: &str, job: &Job) -> Caller {
        let desk = Rc::new(Desk {
            host: host.clone(),
            name: name.to_owned(),
            key: job.config.key.clone(),
            recorder: job.recorder.clone(),
            call: Rc::default(),
            grants: RefCell::default(),
            lost: RefCell::default(),
        });
        let setting = Setting {
            host: host.clone(),
            nodes: job.nodes.clone(),
            config: job.config.clone(),
            call: Rc::clone(&desk.call),
            tell: tell(&desk),
        };
        Caller { lock: (job.lock)(setting), desk }
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
    pub async fn acquire(&mut self) -> Taken {
        let call = self.desk.begin(OpKind::Acquire).await;
        let acquired = self.lock.acquire().await;
        let held = |grant: &Grant| Held { grant: grant.clone(), acquire: call.op };
        let (outcome, taken) = match acquired {
            Acquired::Granted(grant) => {
                self.desk.grants.borrow_mut().insert(grant.token.clone(), call.op);
                let Grant { token, fence, deadline, .. } = grant.clone();
                (Outcome::Granted { token, fence, deadline }, Taken::Granted(held(&grant)))
            }
            Acquired::Refused(why) => (Outcome::Refused { why }, Taken::Refused),
            Acquired::Unknown(grant) => (Outcome::Unknown, Taken::Unknown(held(&grant))),
        };
        self.desk.recorder.ret(&self.desk.host, call.op, outcome).await;
        taken
    }

    /// Prolongs a grant; a new deadline is kept in `held`.
    pub async fn extend(&mut self, held: &mut Held) -> Extended {
        let call = self.desk.begin(OpKind::Extend { grant: held.acquire, background: false }).await;
        let extended = self.lock.extend(&held.grant).await;
        if let Extended::Kept(deadline) = extended {
            held.grant.deadline = deadline;
        }
        let outcome = outcome_of_extend(&extended);
        self.desk.recorder.ret(&self.desk.host, call.op, outcome).await;
        extended
    }

    /// Gives a grant back.
    pub async fn release(&mut self, held: &Held) -> Released {
        let call = self.desk.begin(OpKind::Release { grant: held.acquire }).await;
        let released = self.lock.release(&held.grant).await;
        self.desk.grants.borrow_mut().remove(&held.grant.token);
        let outcome = match released {
            Released::Released => Outcome::Released,
            Released::NotMine => Outcome::NotMine,
            Released::Unknown => Outcome::Unknown,
        };
        self.desk.recorder.ret(&self.desk.host, call.op, outcome).await;
        released
    }

    /// Whether the caller was told that the grant is lost.
    pub fn was_told_of_loss(&self, held: &Held) -> bool {
        self.desk.lost.borrow().contains(&held.acquire)
    }
}

impl Desk {
    async fn begin(&self, kind: OpKind) -> Call {
        let call = self.recorder.call(&self.host, &self.name, &self.key, kind).await;
        self.call.set(call);
        call
    }

    fn hear(&self, notice: Notice) -> Call {
        match notice {
            Notice::Extending { token } => {
                let kind = OpKind::Extend { grant: self.acquire_of(&token), background: true };
                return self.recorder.open(&self.host, &self.name, &self.key, kind);
            }
            Notice::Extended { op, result } => {
                self.recorder.close(&self.host, op, outcome_of_extend(&result));
            }
            Notice::Lost { token } => {
                let grant = self.acquire_of(&token);
                self.recorder.lost(&self.host, &self.name, &self.key, grant);
                self.lost.borrow_mut().push(grant);
            }
        }
        Call::default()
    }

    fn acquire_of(&self, token: &str) -> OpId {
        let known = self.grants.borrow().get(token).copied();
        known.expect("a lock tells of grants that its caller holds")
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
