//! Waits and the time in which no caller acquired the lock, point by point, from the definition.

use std::collections::BTreeSet;

use lockstorm::history::{Op, OpKind, Outcome};

use crate::brute::table::{Point, Table, point, stamp};

/// The end of the measurement.
fn heal(table: &Table) -> Point {
    point(table.history.healed.unwrap_or(table.history.end))
}

fn is_granted(op: &Op) -> bool {
    matches!(op.outcome, Outcome::Granted { .. })
}

/// Acquires of clients, called by a caller that does not hold.
fn tries<'a>(table: &Table<'a>) -> Vec<&'a Op> {
    let ops = table.history.ops.iter().filter(|op| op.kind == OpKind::Acquire);
    let ops = ops.filter(|op| op.process != "probe");
    let holds = |caller: &str, at: Point| {
        table.grants().iter().any(|grant| grant.caller == caller && table.holds(grant, at))
    };
    ops.filter(|op| !holds(&op.caller, stamp(op.call))).collect()
}

/// Whether a caller has called an acquire, has not been granted the lock since, and is alive.
fn wants(table: &Table, tries: &[&Op], caller: &str, at: Point) -> bool {
    let own = || tries.iter().filter(|op| op.caller == caller);
    at < heal(table)
        && own().any(|op| {
            let called = stamp(op.call);
            let served = own().any(|other| {
                let granted = other.ret.map(stamp).filter(|_| is_granted(other));
                granted.is_some_and(|granted| called < granted && granted <= at)
            });
            called <= at && !served && !table.dies(&op.process, called, at)
        })
}

/// The length of each wait, the shortest first.
pub fn waits(table: &Table) -> Vec<u64> {
    let tries = tries(table);
    let callers: BTreeSet<&str> = tries.iter().map(|op| op.caller.as_str()).collect();
    let mut waits = Vec::new();
    for caller in callers {
        let mut since = None;
        for at in table.points.iter().copied().chain([heal(table)]) {
            match (since, wants(table, &tries, caller, at)) {
                (None, true) => since = Some(at.0),
                (Some(from), false) => {
                    waits.push(at.0 - from);
                    since = None;
                }
                _ => {}
            }
        }
    }
    waits.sort_unstable();
    waits
}

/// The smallest length that this percentage of the lengths does not exceed.
pub fn not_exceeded(lengths: &[u64], percent: usize) -> u64 {
    let within = |limit: &&u64| {
        let within = lengths.iter().filter(|length| length <= limit).count();
        within * 100 >= lengths.len() * percent
    };
    lengths.iter().filter(within).min().copied().unwrap_or(0)
}

/// The first of the longest runs of points at which a caller wants the lock, it could be granted,
/// and no caller is granted it.
pub fn unavailable(table: &Table) -> Option<(u64, u64)> {
    let tries = tries(table);
    let callers: BTreeSet<&str> = tries.iter().map(|op| op.caller.as_str()).collect();
    let clients = table.grants().into_iter().filter(|op| op.process != "probe");
    let clients = clients.collect::<Vec<_>>();
    let is_out = |at: Point| {
        let holding = clients.iter().filter(|op| table.holds(op, at));
        let holding = holding.map(|op| table.began(op.id)).collect::<BTreeSet<_>>();
        let wanted = callers.iter().any(|caller| wants(table, &tries, caller, at));
        wanted && holding.len() < table.terms.holders as usize
    };
    let is_grant = |at: Point| clients.iter().any(|op| op.ret.map(stamp) == Some(at));
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut open = false;
    for at in table.points.iter().copied().filter(|at| *at <= heal(table)) {
        let (out, granted) = (is_out(at), is_grant(at));
        if let Some(last) = runs.last_mut().filter(|_| open) {
            last.1 = at.0;
        }
        if out && (!open || granted) {
            runs.push((at.0, at.0));
        }
        open = out;
    }
    let longest = runs.iter().map(|(from, to)| to - from).max().filter(|length| *length > 0)?;
    runs.into_iter().find(|(from, to)| to - from == longest)
}
