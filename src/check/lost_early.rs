//! Lost early: the key of a covered hold went before its lease had ended, though nobody got in.
//!
//! The lease is what the holder may count on, by its grants' deadlines on its own clock; the keys
//! live on their nodes, by theirs. What is taken again keeps the same keys, so a tenure is judged
//! as one. A loss counts from the moment at which so many of its keys are gone that another could
//! get its quorum: the first such moment in its coverage since each of its grants was asked for.
//! What was gone before the grant was told is lost when it is told. A breach in the ledger that can
//! end a key, or move a deadline, excuses it: then the environment did more than the lock
//! withstands. What the owner ended, or shortened with the last change of the end, is no loss
//! unless the same operation promised more; what another's command ended is foreign, and if another
//! did get in, that is the violation.

use std::collections::BTreeSet;

use lockstorm_sim::time::{Clock, Instant};
use lockstorm_sim::trace::KeyChange;

use crate::check::case::Case;
use crate::check::linear::spec;
use crate::check::{Kind, Violation};
use crate::history::{Condition, Key, OpId, Outcome, Seen};
use crate::ledger::part::Part;
use crate::ledger::{self, Breach};
use crate::lock::Bounded;
use crate::reading::hold::Hold;
use crate::reading::incarnation::Incarnation;
use crate::reading::leaders;
use crate::reading::moment::Moment;
use crate::reading::tenure::Tenure;

/// One violation for each key that went early in a tenure, unless the ledger excuses it.
pub fn violations(case: &Case) -> Vec<Violation> {
    if case.terms.holders != 1 {
        return Vec::new();
    }
    let mut found: Vec<Violation> =
        case.tenures.iter().flat_map(|tenure| violations_of(case, tenure)).collect();
    if !found.is_empty() {
        let breaches = ledger::seen(case, &case.terms.site);
        found.retain(|loss| !breaches.iter().any(|breach| excuses(case, breach, loss)));
    }
    found
}

/// Whether a breach can be why a key was lost: it had begun by then, on its holder's host or on a
/// node that counts for it; what takes keys was not over before the holder asked for them.
fn excuses(case: &Case, breach: &Breach, loss: &Violation) -> bool {
    if !ends_keys(breach.what) {
        return false;
    }
    let faults: BTreeSet<u32> = breach.parts.iter().filter_map(|part| part.fault()).collect();
    let hosts = concerned(case, loss);
    let mut conditions = case.history.conditions.iter().filter(|c| faults.contains(&c.fault));
    let by_fault = conditions.any(|c| {
        c.from.at <= loss.from.at
            && hosts.iter().any(|host| c.strikes(host))
            && !is_over(case, c, breach, loss)
    });
    let by_start = breach.parts.contains(&Part::Clocks) && drifts(case, &hosts, loss.from);
    by_fault || by_start || breach.parts.is_empty() && was_seen(case, breach.what, loss)
}

/// The hosts whose faults can be why a key was lost: its holder's, and the nodes. Where several are
/// asked, those that had a key of its tenure: what happens to another changes nothing.
fn concerned<'a>(case: &Case<'a>, loss: &Violation) -> BTreeSet<&'a str> {
    let lost = loss.ops[0];
    let theirs = case.lives.incarnations.iter().filter(|key| {
        let owner = key.by.and_then(|by| case.owner(by));
        owner.is_some_and(|owner| case.are_one(owner, lost))
    });
    let mut hosts: BTreeSet<&str> = match case.terms.asks_one_node() {
        true => case.terms.site.nodes.iter().map(String::as_str).collect(),
        false => theirs.map(|key| key.node).collect(),
    };
    hosts.extend(case.op(lost).map(|op| op.process.as_str()));
    hosts
}

/// Whether the clock of one of these hosts had run at a wrong rate by then.
fn drifts(case: &Case, hosts: &BTreeSet<&str>, by: Instant) -> bool {
    let mut pieces = hosts.iter().flat_map(|host| case.clocks.pieces(host, Clock::Boot));
    pieces.any(|piece| piece.line.rate_ppm != 0 && piece.from.at <= by.at)
}

/// Whether what no fault did was seen in time to be why a key was lost.
fn was_seen(case: &Case, what: Bounded, loss: &Violation) -> bool {
    if what == Bounded::Failover {
        let promoted = leaders::promoted(case);
        return promoted.first().is_none_or(|led| led.at.at <= loss.from.at);
    }
    let asked = asked_at(case, loss);
    let is_within = |at: Instant| asked <= at.into() && at.at <= loss.from.at;
    let taken = |key: &Key| match key.change {
        KeyChange::Evicted | KeyChange::LostAtRestart | KeyChange::LostAtFailover => true,
        KeyChange::Expired => false,
        _ => key.by.is_none(),
    };
    let mut exits = case.history.sightings.iter().filter(|seen| seen.what == Seen::Exited);
    case.history.keys.iter().any(|key| is_within(key.at) && taken(key))
        || exits.any(|exit| is_within(exit.at))
}

/// Whether a fault that takes keys was over before the holder asked for its own.
fn is_over(case: &Case, fault: &Condition, breach: &Breach, loss: &Violation) -> bool {
    takes_keys(breach.what) && Moment::from(fault.until(case.history.end)) < asked_at(case, loss)
}

/// Whether a breach of this takes the keys that are there, and none that are set later.
fn takes_keys(what: Bounded) -> bool {
    matches!(what, Bounded::AmnesiacRestart | Bounded::KeyRemoval)
}

/// When the tenure of a loss was asked for.
fn asked_at(case: &Case, loss: &Violation) -> Moment {
    let first = case.outermost(loss.ops[0]);
    case.op(first).map_or(loss.from.into(), |op| op.call.into())
}

/// Whether a breach of this can be why a key ends before a lease.
fn ends_keys(what: Bounded) -> bool {
    match what {
        Bounded::NodeClockStep
        | Bounded::ClientClockStep
        | Bounded::Drift
        | Bounded::AmnesiacRestart
        | Bounded::Failover
        | Bounded::KeyRemoval => true,
        Bounded::ClientPause
        | Bounded::ClientCrash
        | Bounded::Work
        | Bounded::Leaderless
        | Bounded::Unreplicated
        | Bounded::AccessDelay => false,
    }
}

fn violations_of(case: &Case, tenure: &Tenure) -> Vec<Violation> {
    let keys: Vec<usize> = (0..case.lives.incarnations.len())
        .filter(|index| is_of(case, case.lives.incarnations[*index].by, tenure))
        .collect();
    let grants = tenure.holds.iter().map(|hold| &case.holds[*hold]);
    let lost = grants.filter_map(|grant| lost_at(case, tenure, &keys, grant));
    let lost: BTreeSet<(Moment, usize)> = lost.collect();
    lost.into_iter().filter_map(|(from, key)| violation(case, tenure, key, from)).collect()
}

fn violation(case: &Case, tenure: &Tenure, lost: usize, from: Moment) -> Option<Violation> {
    let key = &case.lives.incarnations[lost];
    let until = tenure.covered_until(from)?;
    if is_taken(case, key, tenure, from)
        || is_shortened(case, key, tenure, from)
        || another_got_in(case, &tenure.whole, (from, until))
    {
        return None;
    }
    Some(Violation {
        ops: vec![covering(case, tenure, from)],
        keys: vec![key.ended?.key],
        ..Violation::new(Kind::LostEarly, from.instant(case.history), until.instant(case.history))
    })
}

/// Whether an operation belongs to a tenure: its acquires, and the extends of their grants.
fn is_of(case: &Case, by: Option<OpId>, tenure: &Tenure) -> bool {
    let owner = by.and_then(|by| case.owner(by));
    owner.is_some_and(|owner| tenure.acquires.contains(&owner))
}

/// The first grant of a tenure that covers it at that moment.
fn covering(case: &Case, tenure: &Tenure, moment: Moment) -> OpId {
    let covers =
        |hold: &&Hold| hold.covered.iter().any(|(from, to)| *from <= moment && moment < *to);
    let mut holds = tenure.holds.iter().map(|hold| &case.holds[*hold]);
    holds.find(covers).map_or(tenure.whole.grant, |hold| hold.grant)
}

/// The key with whose end another could have got its quorum for the first time since a grant was
/// asked for, and when. An end while nothing covers the tenure, as when a try that came to nothing
/// is cleaned up, loses nothing that is there again when the grant is told.
fn lost_at(case: &Case, tenure: &Tenure, keys: &[usize], hold: &Hold) -> Option<(Moment, usize)> {
    let since = case.op(hold.grant)?.call.into();
    let spare = case.terms.asked.saturating_sub(case.terms.quorum) as usize;
    let gone = |key: &Incarnation| case.passes(key).min(key.to);
    let to = |index: &usize| gone(&case.lives.incarnations[*index]);
    let mut ends: Vec<usize> = keys.iter().copied().filter(|index| to(index) >= since).collect();
    ends.sort_by_key(to);
    let is_before = |end: Moment| end < hold.start && !tenure.covers(end);
    let before = ends.iter().copied().rfind(|index| is_before(to(index)));
    let before = before.map(|index| (hold.start, index));
    let after = ends.into_iter().map(|index| (to(&index), index));
    let moments = before.into_iter().chain(after).filter(|(at, _)| tenure.covers(*at));
    let mut moments: Vec<(Moment, usize)> = moments.collect();
    moments.sort_by_key(|(at, _)| *at);
    moments.into_iter().find(|(at, _)| {
        let alive = keys.iter().map(|index| &case.lives.incarnations[*index]);
        // What one command removes and sets again was never gone.
        let alive = alive.filter(|key| key.from.at <= at.at && *at < gone(key));
        let alive: BTreeSet<&str> = alive.map(|key| key.node).collect();
        alive.len() <= spare
    })
}

/// Whether an operation ended the key: one of its tenure, unless that promised a lease which still
/// ran, or another caller's, which is foreign.
fn is_taken(case: &Case, key: &Incarnation, tenure: &Tenure, at: Moment) -> bool {
    let by = key.ended.filter(|end| end.change != KeyChange::Expired).and_then(|end| end.by);
    let Some(op) = by.and_then(|by| case.op(by)) else { return false };
    let is_own = tenure.acquires.contains(&spec::item_block(op)) && !promises(case, by, at);
    case.caller(op.id) != tenure.whole.owner || is_own
}

/// Whether the last change of the key's end was one of the owner's own to an earlier one, which
/// promised no more than that by the moment at which the key went.
fn is_shortened(case: &Case, key: &Incarnation, tenure: &Tenure, gone: Moment) -> bool {
    let changes = case.history.keys[key.born..].iter();
    let life = changes.take_while(|change| Moment::from(change.at) < key.to);
    let own = life.filter(|change| change.node == key.node && change.key == case.terms.lock_key);
    let ends = own.filter_map(|change| Some((change.until_ms?, change.by)));
    let mut ends: Vec<(u64, Option<OpId>)> = ends.collect();
    ends.dedup_by_key(|(until, _)| *until);
    let [.., (before, _), (last, by)] = ends[..] else { return false };
    last < before && is_of(case, by, tenure) && !promises(case, by, gone)
}

/// Whether an operation was answered with a lease that still ran at that moment.
fn promises(case: &Case, by: Option<OpId>, at: Moment) -> bool {
    let Some(op) = by.and_then(|by| case.op(by)) else { return false };
    let (Outcome::Granted { deadline, .. } | Outcome::Kept { deadline }) = op.outcome else {
        return false;
    };
    deadline.is_none_or(|(clock, until)| {
        let line = case.clocks.line(&op.process, clock, at);
        line.is_some_and(|line| line.at(at.at) < until)
    })
}

/// Whether another held the lock from the loss on, before the lease had ended.
fn another_got_in(case: &Case, hold: &Hold, (from, until): (Moment, Moment)) -> bool {
    let mut others = case.holds.iter().filter(|other| other.owner != hold.owner);
    others.any(|other| other.start.max(from) < other.end.min(until))
}
