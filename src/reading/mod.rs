//! A reading of a history: callers, the operations of each grant, deaths, clock readings, all holds
//! with their coverage, all lives of the lock's key. It is computed once; checks judge it,
//! explanations describe it. It judges nothing itself.
//!
//! - [`moment`]: points in time that can be compared
//! - [`clocks`]: the readings of a host's clocks
//! - [`hold`]: the interval in which a caller believes that it owns the lock
//! - [`tenure`]: nested grants of one caller, as one
//! - [`incarnation`]: one life of the lock's key on one node
//! - [`leaders`]: when no master could have served the lock
//!
//! A history is derived from a trace, and that is read here too:
//!
//! - [`provenance`]: what caused a change of a key, however the change reached its node

pub mod clocks;
pub mod hold;
pub mod incarnation;
pub mod leaders;
pub mod moment;
pub mod provenance;
pub mod tenure;

use std::collections::BTreeMap;

use lockstorm_platform::fault::Target;
use lockstorm_platform::time::{Clock, Instant, MILLISECOND};
use lockstorm_platform::trace::Leg;

use crate::history::{Condition, History, Op, OpId, OpKind, Outcome, Seen};
use crate::reading::clocks::Clocks;
use crate::reading::hold::{Ended, Ending, Hold};
use crate::reading::incarnation::{Incarnation, Lives};
use crate::reading::moment::Moment;
use crate::reading::tenure::Tenure;

/// A history and what follows directly from it.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// What happened.
    pub history: &'a History,
    /// The lock's key.
    pub lock_key: &'a str,
    /// Every host's clocks.
    pub clocks: Clocks<'a>,
    /// The holds of the lock, in order of their start.
    pub holds: Vec<Hold>,
    /// The tenures formed by the holds, in order of their beginning.
    pub tenures: Vec<Tenure>,
    /// The lives of the lock's key on every node.
    pub lives: Lives<'a>,
    callers: Vec<usize>,
    by_grant: Vec<Vec<OpId>>,
    /// The tenure of each acquire that has one, by index.
    by_acquire: BTreeMap<OpId, usize>,
    deaths: BTreeMap<&'a str, Vec<Death>>,
}

/// When a process died, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Death {
    /// The moment.
    pub at: Moment,
    /// Index of the fault interval; `None` if its own lock stopped it.
    pub condition: Option<usize>,
}

/// An interval in which a process was halted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halt<'a> {
    /// The fault interval that caused it.
    pub condition: &'a Condition,
    /// Its beginning.
    pub from: Moment,
    /// When it resumed or died.
    pub to: Moment,
}

impl<'a> Reading<'a> {
    /// Reads a history for the lock with that key. `nests` says whether grants of one caller nest:
    /// see [`tenure::nest`].
    pub fn of(history: &'a History, lock_key: &'a str, nests: bool) -> Reading<'a> {
        let mut reading = Reading {
            history,
            lock_key,
            clocks: Clocks::of(history),
            holds: Vec::new(),
            tenures: Vec::new(),
            lives: Lives::of(history, lock_key),
            callers: number_callers(history),
            by_grant: sort_by_grant(history),
            by_acquire: BTreeMap::new(),
            deaths: deaths(history),
        };
        let acquires = reading.acquires().map(|op| op.id).collect::<Vec<_>>();
        reading.holds = acquires.into_iter().filter_map(|id| hold::hold_of(&reading, id)).collect();
        reading.holds.sort_by_key(|hold| hold.start);
        reading.tenures = tenure::tenures(&reading, nests);
        for (index, tenure) in reading.tenures.iter().enumerate() {
            reading.by_acquire.extend(tenure.acquires.iter().map(|acquire| (*acquire, index)));
        }
        reading
    }

    /// The operation with that number.
    pub fn op(&self, id: OpId) -> Option<&'a Op> {
        let ops = &self.history.ops;
        let place = ops.get(id as usize).filter(|op| op.id == id);
        place.or_else(|| ops.binary_search_by_key(&id, |op| op.id).ok().map(|at| &ops[at]))
    }

    /// The number of an operation's caller: equal numbers mean the same caller.
    pub fn caller(&self, id: OpId) -> usize {
        self.callers[id as usize]
    }

    /// The acquire whose key an operation sets or extends: itself, or the acquire of an extend. A
    /// key that a release sets has no owner.
    pub fn owner(&self, by: OpId) -> Option<OpId> {
        let owner = match self.op(by)?.kind {
            OpKind::Acquire => by,
            OpKind::Extend { grant, .. } => grant,
            _ => return None,
        };
        self.op(owner).is_some_and(|op| op.kind == OpKind::Acquire).then_some(owner)
    }

    /// Every acquire of the lock.
    pub fn acquires(&self) -> impl Iterator<Item = &'a Op> + '_ {
        let ops = self.history.ops.iter();
        ops.filter(|op| op.kind == OpKind::Acquire && op.object == self.lock_key)
    }

    /// The extends, releases and losses of an acquire's grant, by number.
    pub fn ops_of(&self, grant: OpId) -> impl Iterator<Item = &'a Op> {
        let ops = self.by_grant.get(grant as usize).map_or(&[][..], Vec::as_slice);
        ops.iter().filter_map(|id| self.op(*id))
    }

    /// The tenure that an acquire began, or in which it was called.
    pub fn tenure(&self, acquire: OpId) -> Option<&Tenure> {
        self.by_acquire.get(&acquire).map(|index| &self.tenures[*index])
    }

    /// The acquire that represents an acquire's tenure: the one that began it; itself without one.
    pub fn outermost(&self, acquire: OpId) -> OpId {
        self.tenure(acquire).map_or(acquire, |tenure| tenure.whole.grant)
    }

    /// Whether two acquires belong to one tenure.
    pub fn are_one(&self, one: OpId, other: OpId) -> bool {
        self.outermost(one) == self.outermost(other)
    }

    /// The acquires of an acquire's tenure; only itself without a tenure.
    pub fn together(&self, acquire: OpId) -> Vec<OpId> {
        self.tenure(acquire).map_or_else(|| vec![acquire], |tenure| tenure.acquires.clone())
    }

    /// The endings that gave up an acquire's key: those of its tenure that occurred at or after the
    /// tenure's end. Before that, the release of one grant leaves the key to the others.
    pub fn endings(&self, acquire: OpId) -> impl Iterator<Item = Ending> {
        let over = self.tenure(acquire).map_or(Moment::default(), |tenure| tenure.whole.end);
        let all = self.together(acquire).into_iter().flat_map(|id| hold::endings(self, id));
        all.filter(move |ending| ending.at >= over)
    }

    /// The releases among those.
    pub fn releases(&self, acquire: OpId) -> impl Iterator<Item = &'a Op> {
        self.endings(acquire).filter_map(|ending| match ending.ended {
            Ended::Released(id) => self.op(id),
            _ => None,
        })
    }

    /// When a node executed the commands of an operation that it did not reject.
    pub fn commands(&self, op: OpId, node: &str) -> impl Iterator<Item = Instant> {
        let own = self.history.requests.iter().filter(move |request| request.op == op);
        let own = own.filter(move |request| request.to == node && !request.declined);
        let legs = own.flat_map(|request| &request.legs);
        legs.filter(|(leg, _)| *leg == Leg::Applied).map(|(_, at)| *at)
    }

    /// Whether a node's process ended in between, killed or by its own exit.
    pub fn ended_within(&self, node: &str, from: Moment, to: Moment) -> bool {
        let mut sightings = self.history.sightings.iter();
        let exited = sightings.any(|seen| {
            let at = Moment::from(seen.at);
            seen.by == node && seen.what == Seen::Exited && from < at && at <= to
        });
        exited || self.death_after(node, from).is_some_and(|death| death.at <= to)
    }

    /// When a key expires, no matter when the node notices it: it is alive while its node's wall
    /// clock reads its last millisecond, and expired in the next. An expiry counts from the moment
    /// at which it was set: one that a restart restores was not there before.
    pub fn passes(&self, key: &Incarnation) -> Moment {
        let over = key.until_ms.and_then(|until| {
            let reading = until.saturating_add(1).saturating_mul(MILLISECOND);
            self.clocks.reaches(key.node, Clock::Wall, key.until_from, reading)
        });
        over.unwrap_or(Moment::NEVER)
    }

    /// The first death of the process after a moment.
    pub fn death_after(&self, process: &str, moment: Moment) -> Option<Death> {
        let deaths = self.deaths.get(process)?;
        deaths.get(deaths.partition_point(|death| death.at <= moment)).copied()
    }

    /// The intervals in which a process was halted, in order of their beginning. A death ends
    /// one: a restarted process runs.
    pub fn halts(&self, process: &str) -> impl Iterator<Item = Halt<'a>> {
        let conditions = self.history.conditions.iter();
        let own = conditions.filter(move |c| c.verb.halts() && c.strikes(process));
        own.map(|condition| {
            let (from, to) = self.lasts(condition);
            Halt { condition, from, to }
        })
    }

    /// The beginning and end of a fault interval.
    pub fn lasts(&self, condition: &Condition) -> (Moment, Moment) {
        let from = Moment::from(condition.from);
        let to = Moment::from(condition.until(self.history.end));
        let death = match &condition.target {
            Target::Host(host) if condition.verb.halts() => self.death_after(host, from),
            _ => None,
        };
        (from, death.map_or(to, |death| death.at.min(to)))
    }

    /// Whether an acquire was granted.
    pub fn is_granted(&self, id: OpId) -> bool {
        self.op(id).is_some_and(|op| matches!(op.outcome, Outcome::Granted { .. }))
    }
}

fn number_callers(history: &History) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let mut callers = vec![0; ids(history)];
    for op in &history.ops {
        let next = numbers.len();
        callers[op.id as usize] = *numbers.entry(op.caller.as_str()).or_insert(next);
    }
    callers
}

/// The size of the range of operation numbers: a history from which parts were removed keeps the
/// numbers of the others.
fn ids(history: &History) -> usize {
    history.ops.last().map_or(0, |last| last.id as usize + 1)
}

fn sort_by_grant(history: &History) -> Vec<Vec<OpId>> {
    let mut by_grant = vec![Vec::new(); ids(history)];
    for op in &history.ops {
        let (OpKind::Extend { grant, .. } | OpKind::Release { grant } | OpKind::Lost { grant }) =
            op.kind
        else {
            continue;
        };
        if let Some(ops) = by_grant.get_mut(grant as usize) {
            ops.push(op.id);
        }
    }
    by_grant
}

fn deaths(history: &History) -> BTreeMap<&str, Vec<Death>> {
    let mut deaths: BTreeMap<_, Vec<Death>> = BTreeMap::new();
    for (index, condition) in history.conditions.iter().enumerate() {
        if let (true, Target::Host(host)) = (condition.verb.kills(), &condition.target) {
            let death = Death { at: condition.from.into(), condition: Some(index) };
            deaths.entry(host.as_str()).or_default().push(death);
        }
    }
    for breach in history.breaches.iter().filter(|breach| breach.clause.is_fatal()) {
        let death = Death { at: breach.at.into(), condition: None };
        deaths.entry(breach.process.as_str()).or_default().push(death);
    }
    for deaths in deaths.values_mut() {
        deaths.sort();
    }
    deaths
}
