//! A history made ready to be judged: who called, which operations belong to which grant, who
//! died when, all holds. Every check reads from here; none changes it.

use std::collections::BTreeMap;

use crate::check::Terms;
use crate::check::clocks::Clocks;
use crate::check::hold::{self, Hold};
use crate::check::moment::Moment;
use crate::history::{Condition, History, Op, OpId, OpKind, Outcome};

/// The process that tries to acquire once all is healed.
pub const PROBE: &str = "probe";

/// A history with its terms and what follows from them at once.
pub struct Case<'a> {
    /// What happened.
    pub history: &'a History,
    /// What it is judged by.
    pub terms: &'a Terms,
    /// Every host's clocks.
    pub clocks: Clocks<'a>,
    /// The holds of the lock, in order of their start.
    pub holds: Vec<Hold>,
    callers: Vec<usize>,
    by_grant: Vec<Vec<OpId>>,
    deaths: BTreeMap<&'a str, Vec<Moment>>,
}

impl<'a> Case<'a> {
    /// Makes a history ready.
    pub fn new(history: &'a History, terms: &'a Terms) -> Case<'a> {
        let mut case = Case {
            history,
            terms,
            clocks: Clocks::of(history),
            holds: Vec::new(),
            callers: number_callers(history),
            by_grant: sort_by_grant(history),
            deaths: deaths(history),
        };
        let acquires = case.acquires().map(|op| op.id).collect::<Vec<_>>();
        case.holds = acquires.into_iter().filter_map(|id| hold::hold_of(&case, id)).collect();
        case.holds.sort_by_key(|hold| hold.start);
        case
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
    pub fn acquires(&self) -> impl Iterator<Item = &'a Op> {
        let key = self.terms.lock_key.as_str();
        let ops = self.history.ops.iter();
        ops.filter(move |op| op.kind == OpKind::Acquire && op.object == key)
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
    pub fn death_after(&self, process: &str, moment: Moment) -> Option<Moment> {
        let deaths = self.deaths.get(process)?;
        deaths.get(deaths.partition_point(|death| *death <= moment)).copied()
    }

    /// Whether an acquire was granted.
    pub fn is_granted(&self, id: OpId) -> bool {
        self.op(id).is_some_and(|op| matches!(op.outcome, Outcome::Granted { .. }))
    }
}

/// Whether what was done to a host ended its process.
pub fn is_death(condition: &Condition) -> bool {
    matches!(condition.what.as_str(), "crash" | "power-loss" | "restart")
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

fn deaths(history: &History) -> BTreeMap<&str, Vec<Moment>> {
    let mut deaths: BTreeMap<_, Vec<Moment>> = BTreeMap::new();
    for condition in history.conditions.iter().filter(|condition| is_death(condition)) {
        deaths.entry(condition.who.as_str()).or_default().push(condition.from.into());
    }
    // A process whose lock panics goes no further either.
    for breach in history.breaches.iter().filter(|breach| breach.clause.is_fatal()) {
        deaths.entry(breach.process.as_str()).or_default().push(breach.at.into());
    }
    for moments in deaths.values_mut() {
        moments.sort();
    }
    deaths
}
