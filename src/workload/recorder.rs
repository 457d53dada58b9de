//! Records every operation of a run, in the order of invocation, and the accesses at the resource.
//!
//! The recorder is outside the simulated processes: the record of a process outlives it. An
//! operation whose process dies stays pending.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use lockstorm_platform::host::Host;
use lockstorm_platform::trace::Event;

use crate::history::{Access, ContractBreach, History, Op, OpId, OpKind, Outcome};
use crate::lock::Call;

/// The record of one run. Cheap to clone.
#[derive(Clone, Default)]
pub struct Recorder(Rc<RefCell<Recording>>);

#[derive(Default)]
struct Recording {
    ops: Vec<Op>,
    /// How many operations each process has called.
    called: BTreeMap<String, u32>,
    accesses: Vec<Access>,
    breaches: Vec<ContractBreach>,
}

impl Recorder {
    /// Records that `caller` invokes `kind` on `object`, and lets the faults that are anchored to
    /// this strike.
    pub async fn call(&self, host: &Host, caller: &str, object: &str, kind: OpKind) -> Call {
        let call = self.open(host, caller, object, kind);
        host.struck().await;
        call
    }

    /// Records the outcome of an operation, and lets the faults that are anchored to this strike.
    pub async fn ret(&self, host: &Host, op: OpId, outcome: Outcome) {
        self.close(host, op, outcome);
        host.struck().await;
    }

    /// Like [`Recorder::call`], for code in which nothing can strike before the next await.
    pub fn open(&self, host: &Host, caller: &str, object: &str, kind: OpKind) -> Call {
        self.0.borrow_mut().open(host, caller, object, kind)
    }

    /// Like [`Recorder::ret`], for code in which nothing can strike before the next await.
    pub fn close(&self, host: &Host, op: OpId, outcome: Outcome) {
        self.0.borrow_mut().close(host, op, outcome);
    }

    /// Records that the loss of a grant became visible: invoked and returned at once.
    pub fn lost(&self, host: &Host, caller: &str, object: &str, grant: OpId) {
        let mut book = self.0.borrow_mut();
        let call = book.open(host, caller, object, OpKind::Lost { grant });
        let op = book.at(call.op);
        op.ret = Some(op.call);
        op.outcome = Outcome::Lost;
    }

    /// Records how an acquire takes the lock: whether in shared mode, and which group of keys.
    pub fn detail(&self, op: OpId, shared: bool, keys: &[String]) {
        let mut book = self.0.borrow_mut();
        let op = book.at(op);
        (op.shared, op.keys) = (shared, keys.to_vec());
    }

    /// Records the owner value with which an acquire of unknown outcome may have taken the lock.
    pub fn tried_with(&self, op: OpId, token: &str) {
        self.0.borrow_mut().at(op).tried_with = Some(token.to_owned());
    }

    /// Records an access on which the resource has decided.
    pub fn access(&self, access: Access) {
        self.0.borrow_mut().accesses.push(access);
    }

    /// Records that a lock broke its contract.
    pub fn breach(&self, breach: ContractBreach) {
        self.0.borrow_mut().breaches.push(breach);
    }

    /// Moves the record into a history and leaves it empty.
    pub fn fill(&self, history: &mut History) {
        let Recording { ops, accesses, breaches, .. } = self.0.take();
        (history.ops, history.accesses, history.breaches) = (ops, accesses, breaches);
    }
}

impl Recording {
    fn open(&mut self, host: &Host, caller: &str, object: &str, kind: OpKind) -> Call {
        let id = OpId::try_from(self.ops.len()).expect("a run has under 2^32 operations");
        let process = host.name().to_owned();
        let nth = self.called.entry(process.clone()).or_default();
        *nth += 1;
        let nth = *nth;
        let call = host.record(Event::Outcome { op: id, what: kind.invocation_word() });
        let (caller, object) = (caller.to_owned(), object.to_owned());
        let outcome = Outcome::Pending;
        let (ret, tried_with, shared, keys) = (None, None, false, Vec::new());
        let op =
            Op { id, process, caller, object, call, ret, kind, outcome, tried_with, shared, keys };
        self.ops.push(op);
        Call { op: id, nth }
    }

    fn close(&mut self, host: &Host, op: OpId, outcome: Outcome) {
        let op = self.at(op);
        assert!(op.ret.is_none(), "an operation returns once");
        let what = outcome.return_word(&op.kind);
        op.ret = Some(host.record(Event::Outcome { op: op.id, what }));
        op.outcome = outcome;
    }

    fn at(&mut self, op: OpId) -> &mut Op {
        &mut self.ops[usize::try_from(op).expect("an index fits")]
    }
}
