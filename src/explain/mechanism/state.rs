//! A lock whose own state lets nobody in, though no caller has it, and who left that state.

use std::collections::BTreeSet;

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, Outcome, PROBE, Request};
use crate::quantity::{count, list, moment};

/// A probe that was answered without an error and refused, where no caller's key was.
pub fn state_stays(witness: &Witness<'_>) -> Option<Mechanism> {
    let history = witness.history();
    let is_clean = |request: &Request| !request.declined && request.answer.is_none();
    let is_free = |request: &Request| {
        !witness.lives.iter().any(|life| life.owner.is_some() && life.is_met_by(request))
    };
    let answers = history.requests.iter().enumerate();
    let answers: Vec<(usize, &Request)> = answers
        .filter(|(_, request)| witness.is_refused_to_probe(request.op) && request.is_answered())
        .collect();
    let (index, last) = answers.iter().next_back()?;
    // With a quorum, a node that did not reply may be the reason, so all must have replied.
    let mut all_of_last = witness.reading.requests_of(last.op).iter();
    if witness.quorum() > 1 && !all_of_last.all(|request| request.is_answered()) {
        return None;
    }
    let mut of_last = answers.iter().filter(|(_, request)| request.op == last.op);
    if !of_last.all(|(_, request)| is_clean(request) && is_free(request)) {
        return None;
    }
    let same = answers
        .iter()
        .filter(|(_, request)| request.to == last.to && is_clean(request) && is_free(request));
    let acquires: BTreeSet<OpId> = same.map(|(_, request)| request.op).collect();
    let mut text = format!(
        "The lock's own state lets nobody in: {} answered {} of the probe without an error, the \
         last {} at {}; no caller's key was there, and the probe was refused.",
        last.to,
        count(acquires.len() as u64, "acquire"),
        last.command,
        moment(last.at(Leg::Delivered)?.at)
    );
    let mut evidence = vec![Evidence::Op(last.op), Evidence::Request(*index)];
    if let Some((more, by)) = last_to_change(witness, last) {
        text += &more;
        evidence.extend(by);
    }
    if let Some(begun) = unfinished(witness, &last.to) {
        text += &format!(" {}", begun.in_words());
        evidence.push(Evidence::Op(begun.by.id));
    }
    Some(Mechanism::new(How::StateStays, text, evidence))
}

/// An operation that changed keys on a node and ended while a later request had no answer: what its
/// caller meant to do after that, it never did.
pub struct Unfinished<'a> {
    /// The operation.
    pub by: &'a Op,
    /// When it returned.
    pub at: Instant,
    /// The index of the request without an answer.
    pub request: usize,
    /// What it changed on that node.
    keys: Vec<String>,
    /// The command of the request without an answer.
    command: &'a str,
}

impl Unfinished<'_> {
    fn in_words(&self) -> String {
        format!(
            "{}'s {} of {} had changed {} there, and ended without an answer to its {}.",
            self.by.caller,
            self.by.kind.noun(),
            moment(self.by.call.at),
            list(&self.keys),
            self.command
        )
    }

    /// The same as a line of a story, at its end.
    pub fn line(&self) -> String {
        let (who, what, command) = (&self.by.caller, self.by.kind.noun(), self.command);
        let keys = list(&self.keys);
        format!(
            "{who}'s {what}, which has changed {keys}, ends without an answer to its {command}."
        )
    }
}

/// What left a lock in a state that lets nobody in, if that is the first such operation since a
/// caller was granted the lock last.
pub fn unfinished<'a>(witness: &Witness<'a>, node: &str) -> Option<Unfinished<'a>> {
    let history = witness.history();
    let granted = history.ops.iter().filter(|op| matches!(op.outcome, Outcome::Granted { .. }));
    let last =
        granted.filter(|op| op.process != PROBE).filter_map(|op| op.ret).map(|ret| ret.instant());
    let since = last.max().unwrap_or_default();
    let is_settled = |op: &&Op| op.process != PROBE && op.ret.is_some();
    history.ops.iter().filter(is_settled).find_map(|by| {
        let at = by.ret.map(|ret| ret.instant()).filter(|at| since <= *at)?;
        let is_own = |request: &(usize, &Request)| request.1.op == by.id && request.1.to == node;
        let mut requests = history.requests.iter().enumerate();
        let (index, last) = requests.rfind(is_own)?;
        let own = history.keys.iter().filter(|key| {
            key.by == Some(by.id) && key.node == node && key.of.is_none() && key.at < at
        });
        let keys: BTreeSet<String> = own.map(|key| key.key.to_string()).collect();
        let is_silent = !last.is_answered() && last.at(Leg::Sent).is_some();
        let (keys, command) = (keys.into_iter().collect::<Vec<_>>(), &*last.command);
        (is_silent && !keys.is_empty()).then_some(Unfinished {
            by,
            at,
            request: index,
            keys,
            command,
        })
    })
}

/// Who left the state that a request met: the operation that changed its key on its node last. That
/// is the lock's key, or another one that is there if the acquire asked for others only. `None` if
/// no operation of a caller did it.
fn last_to_change(witness: &Witness<'_>, met: &Request) -> Option<(String, [Evidence; 2])> {
    let (history, met_at) = (witness.history(), met.at(Leg::Applied)?);
    let lock_key = witness.reading.lock_key;
    let asks_others = witness.reading.requests_of(met.op).iter().all(|request| request.other_keys);
    let changes = history
        .keys
        .iter()
        .enumerate()
        .filter(|(_, key)| key.of.is_none() && key.node == met.to && key.at < met_at);
    let is_there = |name: &str| {
        let last = changes.clone().rfind(|(_, key)| key.key == name);
        last.is_some_and(|(_, key)| key.change.leaves_key())
    };
    let is_state = |key: &Key| match asks_others {
        true => key.key != lock_key && is_there(&key.key),
        false => key.key == lock_key,
    };
    let by_caller = |key: &Key| op(history, key.by?).filter(|by| by.process != PROBE);
    let mut last = changes.clone().filter(|(_, key)| is_state(key));
    let (index, key) = match asks_others {
        // The probe's own acquires change such a key again and again.
        true => last.rfind(|(_, key)| by_caller(key).is_some())?,
        false => last.next_back()?,
    };
    let by = by_caller(key)?;
    let does = match key.change {
        KeyChange::Deleted => "removed",
        KeyChange::Set => "set",
        KeyChange::Extended => "extended",
        _ => "changed",
    };
    let (apart, name) = match asks_others {
        true => ("Apart from the probe, ", key.key.as_str()),
        false => ("", "the lock's key"),
    };
    let text = format!(
        " {apart}{}'s {} of {} changed {name} there last: it {does} it at {}.",
        by.caller,
        by.kind.noun(),
        moment(by.call.at),
        moment(key.at.at)
    );
    Some((text, [Evidence::Op(by.id), Evidence::Key(index)]))
}
