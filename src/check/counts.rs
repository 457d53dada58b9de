//! How much a run tested. The probe's operations do not count.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::check::case::Case;
use crate::check::idle::did_nothing;
use crate::check::terms::Terms;
use crate::history::{FaultInterval, History, Missed, Op, Outcome, PROBE};
use crate::reading::moment::Moment;

/// How much was tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Acquires that were granted, not counting the probe's.
    pub grants: u32,
    /// Acquires during which another caller held or wanted the lock.
    pub contended: u32,
    /// Acquires that were refused.
    pub refused: u32,
    /// Acquires whose outcome is unknown.
    pub unknown: u32,
    /// Faults that struck something.
    pub struck: u32,
    /// Those of them that began or lasted while a caller held the lock.
    pub struck_in_hold: u32,
    /// Accesses that reached the resource.
    pub accesses: u32,
    /// Messages between any hosts that were lost or cut off, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// Grants of the same plan without its faults, if that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants_without_faults: Option<u32>,
}

/// The counts of a case.
pub fn count(case: &Case) -> Counts {
    let acquires = case.acquires().filter(|op| op.process != PROBE).collect::<Vec<_>>();
    let count = |is: fn(&Outcome) -> bool| number(acquires.iter().filter(|op| is(&op.outcome)));
    let fault_intervals = case.history.fault_intervals.iter();
    let met = fault_intervals
        .filter(|interval| !did_nothing(case, &case.terms.site.nodes, interval))
        .collect::<Vec<_>>();
    let struck = met.iter().map(|interval| interval.fault).collect::<BTreeSet<_>>();
    let in_hold = met.iter().filter(|interval| somebody_held(case, interval));
    let in_hold = in_hold.map(|interval| interval.fault).collect::<BTreeSet<_>>();
    Counts {
        grants: count(|outcome| matches!(outcome, Outcome::Granted { .. })),
        contended: contended(case, &acquires),
        refused: count(|outcome| matches!(outcome, Outcome::Refused { .. })),
        unknown: count(|outcome| *outcome == Outcome::Unknown),
        struck: number(&struck),
        struck_in_hold: number(&in_hold),
        accesses: number(case.history.accesses.iter().filter(|access| access.caller != PROBE)),
        missed: case.history.missed,
        grants_without_faults: case.terms.grants_without_faults,
    }
}

/// How many grants clients received before the faults were healed.
pub fn granted_before_heal(history: &History, terms: &Terms) -> u32 {
    let healed = history.healed.unwrap_or(history.end);
    number(history.ops.iter().filter(|op| {
        let is_grant = matches!(op.outcome, Outcome::Granted { .. });
        let is_early = op.ret.is_some_and(|ret| ret.seq < healed.seq);
        op.is_on(&terms.lock_key) && op.process != PROBE && is_grant && is_early
    }))
}

fn number<T>(items: impl IntoIterator<Item = T>) -> u32 {
    u32::try_from(items.into_iter().count()).unwrap_or(u32::MAX)
}

/// Whether any caller held the lock during a fault; a hold of zero length counts.
fn somebody_held(case: &Case, interval: &FaultInterval) -> bool {
    let (from, to) = case.acts(interval);
    let mut holds = case.holds.iter().filter(|hold| !hold.by_probe);
    holds.any(|hold| hold.start <= to && from <= hold.end)
}

/// A stretch in which a caller wants the lock (an acquire) or has it (a hold).
struct CountedStretch {
    from: Moment,
    to: Moment,
    owner: usize,
    is_acquire: bool,
}

/// Acquires during which another caller wanted or held the lock.
fn contended(case: &Case, acquires: &[&Op]) -> u32 {
    let mut stretches = acquires.iter().map(|op| wanting(case, op)).collect::<Vec<_>>();
    stretches.extend(case.holds.iter().filter(|hold| !hold.by_probe && hold.start < hold.end).map(
        |hold| CountedStretch {
            from: hold.start,
            to: hold.end,
            owner: hold.owner,
            is_acquire: false,
        },
    ));
    stretches.sort_by_key(|stretch| stretch.from);
    let mut met = vec![false; stretches.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, stretch) in stretches.iter().enumerate() {
        open.retain(|earlier| stretches[*earlier].to > stretch.from);
        for earlier in open.iter().copied() {
            if stretches[earlier].owner != stretch.owner {
                met[earlier] = true;
                met[index] = true;
            }
        }
        open.push(index);
    }
    number(stretches.iter().zip(met).filter(|(stretch, met)| stretch.is_acquire && *met))
}

fn wanting(case: &Case, op: &Op) -> CountedStretch {
    let from = Moment::from(op.call);
    let to = op.ret.map(Moment::from);
    let to = to.or_else(|| case.death_after(&op.process, from).map(|death| death.at));
    let to = to.unwrap_or(Moment::from(case.history.end));
    CountedStretch { from, to, owner: case.caller(op.id), is_acquire: true }
}
