//! A member of the lock's key that another caller's operation removed by time. A member has no time
//! to live: whoever uses the key removes those that are past their deadlines. So the question is
//! that of a key that expired: whether its time was over, or by whose clock it seemed so.
//!
//! A lock computes a deadline and compares it later. It may read the node's clock both times, or
//! send the time of the caller.

use lockstorm_platform::time::{Clock, Instant, Nanos};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::mechanism::clock::disturbed;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::trial::{acts, is_clock_idle};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, Outcome, Request};
use crate::quantity::{length, moment};
use crate::reading::moment::Moment;

/// Why a member was removed, if time explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Its time was over.
    Due,
    /// Its time was not over for its holder.
    Early(Mechanism),
}

/// Whether time explains why a change removed the member of `owner`'s acquire.
pub fn reclaimed(witness: &Witness<'_>, end: usize, owner: OpId) -> Option<Reclaim> {
    let removal = Removal::of(witness, end, owner)?;
    if removal.due() <= removal.at.at {
        return Some(Reclaim::Due);
    }
    let by_node = removal.by_node(witness).map(Reclaim::Early);
    by_node
        .or_else(|| removal.set_back(witness))
        .or_else(|| removal.by_callers(witness).map(Reclaim::Early))
}

/// The removal of a member, and the last change before it, which gave the member its deadline.
struct Removal<'a> {
    owner: &'a Op,
    /// The operation that removed it, its request, and when.
    by: &'a Op,
    request: &'a Request,
    at: Instant,
    /// The operation that gave it its deadline, its request, and when that was executed.
    setter: &'a Op,
    setting: &'a Request,
    from: Instant,
    /// How long it was to live then.
    lasts: Nanos,
    /// The indices of both changes.
    keys: [usize; 2],
}

impl<'a> Removal<'a> {
    fn of(witness: &Witness<'a>, end: usize, owner: OpId) -> Option<Removal<'a>> {
        let history = witness.history();
        let last = history.keys.get(end).filter(|_| witness.reading.by_member)?;
        let (owner, by) = (op(history, owner)?, op(history, last.by?)?);
        if last.change != KeyChange::Deleted || by.caller == owner.caller {
            return None;
        }
        let set = history.keys[..end].iter().rposition(|key| is_same(key, last))?;
        let key = &history.keys[set];
        let setter = op(history, key.by.filter(|_| key.change.leaves_key())?)?;
        let setting = request_of(witness, setter, key)?;
        Some(Removal {
            owner,
            by,
            request: request_of(witness, by, last)?,
            at: last.at,
            setter,
            setting,
            from: setting.at(Leg::Applied)?,
            lasts: lasts(witness, setter, owner.id)?,
            keys: [set, end],
        })
    }

    /// When a true clock would have ended its time, from the request that set its deadline.
    fn due(&self) -> Nanos {
        self.from.at.saturating_add(self.lasts)
    }

    fn early(&self) -> String {
        length(self.due().saturating_sub(self.at.at))
    }

    /// The mechanism if its time had passed on the node's clock only.
    fn by_node(&self, witness: &Witness<'_>) -> Option<Mechanism> {
        let (set_on, node) = (&self.setting.to, &self.request.to);
        let from = wall(witness, set_on, self.from)?;
        if from.saturating_add(self.lasts) > wall(witness, node, self.at)?
            || [set_on, node].iter().all(|host| is_clock_idle(witness.finding, host))
        {
            return None;
        }
        let (whose, early) = (&self.owner.caller, self.early());
        let (how, text) = match set_on == node {
            true => {
                let text = format!("By {node}'s clock {whose}'s key was over {early} early.");
                (How::NodeClock, text)
            }
            false => {
                let text = format!(
                    "{whose}'s key was set by the clock of {set_on}, and by that of {node} it was \
                     over {early} early."
                );
                (How::ReplicaClock, text)
            }
        };
        let disturbance = self.disturbance(witness, node, (self.from.into(), self.at.into()));
        Some(self.mechanism(how, text, disturbance))
    }

    /// An operation that was sent before newer ones and came after them: it set the deadline back.
    fn set_back(&self, witness: &Witness<'_>) -> Option<Reclaim> {
        let sent = self.setting.at(Leg::Sent)?;
        let over = sent.at.saturating_add(self.lasts);
        if over > self.at.at {
            return None;
        }
        let history = witness.history();
        let (set, end) = (self.keys[0], &history.keys[self.keys[1]]);
        let is_newer = |key: &Key| {
            let by = key.by.and_then(|by| op(history, by));
            let newer = by.and_then(|by| request_of(witness, by, key)?.at(Leg::Sent));
            newer.is_some_and(|newer| newer > sent)
        };
        let before = history.keys[..set].iter().rev().filter(|key| is_same(key, end));
        if !before.take_while(|key| key.change.leaves_key()).any(is_newer) {
            return Some(Reclaim::Due);
        }
        let (who, node) = (&self.owner.caller, &self.setting.to);
        let text = format!(
            "{who}'s {} at {} came to {node} only at {}, after a newer one, and set the end of \
             {who}'s key back to {}.",
            self.setter.kind.noun(),
            moment(self.setter.call.at),
            moment(self.from.at),
            moment(over)
        );
        Some(Reclaim::Early(self.mechanism(How::DeadlineTooLate, text, None)))
    }

    /// The mechanism if its time had passed from the clock of who set its deadline to that of who
    /// removed it.
    fn by_callers(&self, witness: &Witness<'_>) -> Option<Mechanism> {
        let (set, removed) = (self.setting.at(Leg::Sent)?, self.request.at(Leg::Sent)?);
        let (one, other) = (&self.setter.process, &self.by.process);
        let (from, now) = (wall(witness, one, set)?, wall(witness, other, removed)?);
        if from.saturating_add(self.lasts) > now
            || [one, other].iter().all(|host| is_clock_idle(witness.finding, host))
        {
            return None;
        }
        let (whose, node, early) = (&self.owner.caller, &self.request.to, self.early());
        // What its clock shows beyond the true time that has passed since.
        let passed = removed.at.saturating_sub(set.at);
        let ahead = length(now.saturating_sub(from).saturating_sub(passed));
        let text = format!(
            "By {other}'s clock, {ahead} ahead of {one}'s, {whose}'s key on {node} was over \
             {early} early."
        );
        let disturbance = self
            .disturbance(witness, other, (Moment::default(), removed.into()))
            .or_else(|| self.disturbance(witness, one, (Moment::default(), set.into())));
        Some(self.mechanism(How::HolderClock, text, disturbance))
    }

    /// What disturbed a clock, unless trials found that it made no difference.
    fn disturbance(
        &self,
        witness: &Witness<'_>,
        host: &str,
        span: (Moment, Moment),
    ) -> Option<Evidence> {
        let found = disturbed(witness, host, span)?;
        let intervals = &witness.history().fault_intervals;
        let is_idle = match &found {
            Evidence::FaultInterval(index) => {
                acts(witness.finding, &intervals[*index]) == Some(false)
            }
            _ => false,
        };
        (!is_idle).then_some(found)
    }

    fn mechanism(&self, how: How, text: String, disturbance: Option<Evidence>) -> Mechanism {
        let mut ops = vec![self.owner.id, self.setter.id, self.by.id];
        ops.dedup();
        let ops = ops.into_iter().map(Evidence::Op);
        let evidence = ops.chain(self.keys.map(Evidence::Key)).chain(disturbance);
        Mechanism::new(how, text, evidence.collect())
    }
}

/// Whether two changes are of one member on one node.
fn is_same(one: &Key, other: &Key) -> bool {
    (&one.node, &one.key, &one.of) == (&other.node, &other.key, &other.of)
}

/// The request by which an operation made a change: on the node itself, or on the one that it
/// follows.
fn request_of<'a>(witness: &Witness<'a>, by: &Op, change: &Key) -> Option<&'a Request> {
    let applied = |request: &Request| request.at(Leg::Applied).map(|at| at.at);
    let own = witness.reading.requests_of(by.id);
    let here =
        own.iter().find(|it| it.to == change.node && applied(it) >= Some(change.at.at)).copied();
    let before = |it: &&&Request| applied(it).is_some_and(|at| at <= change.at.at);
    here.or_else(|| own.iter().rfind(before).copied())
}

/// How long the lease is that an operation gives: what its caller counts, at most the plan's, since
/// a caller may count from the reply. Without an answer, what other operations of the grant gave.
fn lasts(witness: &Witness<'_>, op: &Op, grant: OpId) -> Option<Nanos> {
    let given = |op: &Op| {
        let (Outcome::Granted { deadline, .. } | Outcome::Kept { deadline }) = op.outcome else {
            return None;
        };
        let (clock, until) = deadline?;
        let line = witness.reading.clocks.line(&op.process, clock, op.call.into())?;
        Some(until.saturating_sub(line.at(op.call.at)))
    };
    let others = || witness.reading.op(grant).into_iter().chain(witness.reading.ops_of(grant));
    let given = given(op).or_else(|| others().filter_map(given).min());
    let ttl = Some(witness.finding.plan.longest_ttl()).filter(|ttl| *ttl > 0);
    given.into_iter().chain(ttl).min()
}

fn wall(witness: &Witness<'_>, host: &str, at: Instant) -> Option<Nanos> {
    Some(witness.reading.clocks.line(host, Clock::Wall, at.into())?.at(at.at))
}
