//! One reading of a history: who called, which operations belong to which grant, who died when,
//! what clocks read, all holds with what covers them, all lives of the lock's key. It is computed
//! once; checks judge by it, explanations tell it. It judges nothing itself.
//!
//! - [`moment`]: points in time that can be compared
//! - [`clocks`]: what a host's clock read when
//! - [`hold`]: from when to when a caller believes that it owns the lock
//! - [`incarnation`]: one life of the lock's key on one node

pub mod clocks;
pub mod hold;
pub mod incarnation;
pub mod moment;

use std::collections::BTreeMap;

use lockstorm_sim::fault::Target;

use crate::history::{History, Op, OpId, OpKind, Outcome};
use crate::reading::clocks::Clocks;
use crate::reading::hold::Hold;
use crate::reading::incarnation::Lives;
use crate::reading::moment::Moment;

/// A history, and what follows from it at once.
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
    /// The lives of the lock's key on every node.
    pub lives: Lives<'a>,
    callers: Vec<usize>,
    by_grant: Vec<Vec<OpId>>,
    deaths: BTreeMap<&'a str, Vec<Death>>,
}

/// When a process died, and of which of the history's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Death {
    /// When.
    pub at: Moment,
    /// Index of the condition.
    pub condition: usize,
}

impl<'a> Reading<'a> {
    /// Reads a history for the lock with that key.
    pub fn of(history: &'a History, lock_key: &'a str) -> Reading<'a> {
        let mut reading = Reading {
            history,
            lock_key,
            clocks: Clocks::of(history),
            holds: Vec::new(),
            lives: Lives::of(history, lock_key),
            callers: number_callers(history),
            by_grant: sort_by_grant(history),
            deaths: deaths(history),
        };
        let acquires = reading.acquires().map(|op| op.id).collect::<Vec<_>>();
        reading.holds = acquires.into_iter().filter_map(|id| hold::hold_of(&reading, id)).collect();
        reading.holds.sort_by_key(|hold| hold.start);
        reading
    }

    /// The operation with that number.
    pub fn op(&self, id: OpId) -> Option<&'a Op> {
        self.history.ops.get(id as usize)
    }

    /// The number of an operation's caller: two are equal if the callers are.
    pub fn caller(&self, id: OpId) -> usize {
        self.callers[id as usize]
    }

    /// Every acquire of the lock.
    pub fn acquires(&self) -> impl Iterator<Item = &'a Op> + '_ {
        let ops = self.history.ops.iter();
        ops.filter(|op| op.kind == OpKind::Acquire && op.object == self.lock_key)
    }

    /// The extends, releases and losses of an acquire's grant, by number.
    pub fn ops_of(&self, grant: OpId) -> impl Iterator<Item = &'a Op> {
        let ops = self.by_grant.get(grant as usize).map_or(&[][..], Vec::as_slice);
        ops.iter().map(|id| &self.history.ops[*id as usize])
    }

    /// The hold that an acquire began.
    pub fn hold(&self, grant: OpId) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.grant == grant)
    }

    /// When the process died for the first time after a moment.
    pub fn death_after(&self, process: &str, moment: Moment) -> Option<Death> {
        let deaths = self.deaths.get(process)?;
        deaths.get(deaths.partition_point(|death| death.at <= moment)).copied()
    }

    /// Whether an acquire was granted.
    pub fn is_granted(&self, id: OpId) -> bool {
        self.op(id).is_some_and(|op| matches!(op.outcome, Outcome::Granted { .. }))
    }
}

fn number_callers(history: &History) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let callers = history.ops.iter().map(|op| op.caller.as_str());
    let number = |caller| {
        let next = numbers.len();
        *numbers.entry(caller).or_insert(next)
    };
    callers.map(number).collect()
}

fn sort_by_grant(history: &History) -> Vec<Vec<OpId>> {
    let mut by_grant = vec![Vec::new(); history.ops.len()];
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
            let death = Death { at: condition.from.into(), condition: index };
            deaths.entry(host.as_str()).or_default().push(death);
        }
    }
    for deaths in deaths.values_mut() {
        deaths.sort();
    }
    deaths
}
