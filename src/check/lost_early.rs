//! Lost early: the key of a covered hold was lost before its lease had expired, though no other
//! caller acquired the lock.
//!
//! The holder relies on its lease, by its grants' deadlines on its own clock; the keys expire by
//! the clocks of their nodes. Re-entries keep the same keys, so a tenure is judged as one. A loss
//! counts from the first moment, within the coverage and since each of its grants was called, at
//! which enough keys are gone for another caller to reach its quorum, and the holder's own is not
//! complete. A key that was gone before the grant returned is lost at that return. A breach in the
//! ledger that can end a key, or shift a deadline, excuses the loss: the environment exceeded what
//! the lock tolerates.
//!
//! A key that the owner ended with an acquire or an extend, or shortened with the last change of
//! its expiry, is not lost unless the same operation promised more. A release within the tenure
//! must not end a key that the tenure still covers. A key that another caller's command ended is
//! judged as foreign. If another caller did acquire the lock, that is the violation.
//!
//! A master and its replicas count once, by the key of the current master: a copy on a replica
//! keeps no caller out. Clocks excuse a loss only as far as their error explains it: corrected by
//! their error since the lease was requested, enough keys must have lived as long as the lease.

use std::collections::BTreeSet;

use lockstorm_platform::time::{Clock, Instant, MILLISECOND, Nanos};
use lockstorm_platform::trace::KeyChange;

use crate::check::case::Case;
use crate::check::linear::spec;
use crate::check::verdict::Kind;
use crate::check::verdict::Violation;
use crate::history::{FaultInterval, Key, OpId, OpKind, Outcome, Seen};
use crate::ledger::breach::Breach;
use crate::ledger::part::Part;
use crate::ledger::seen;
use crate::promise::Bounded;
use crate::reading::hold::Hold;
use crate::reading::key_life::KeyLife;
use crate::reading::leaders;
use crate::reading::leaders::Leaders;
use crate::reading::moment::Moment;
use crate::reading::tenure::Tenure;

/// One violation for each key that was lost early in a tenure, unless the ledger excuses it.
pub fn violations(case: &Case) -> Vec<Violation> {
    if case.can_overlap() {
        return Vec::new();
    }
    let leaders = &Leaders::of(case.history);
    let losses = |tenure| {
        let losses = violations_of(case, leaders, tenure).into_iter();
        losses.map(move |loss| (tenure, loss))
    };
    let mut found: Vec<(&Tenure, Violation)> = case.tenures.iter().flat_map(losses).collect();
    if !found.is_empty() {
        let breaches = seen::seen(case, &case.terms.site);
        found.retain(|(tenure, loss)| {
            let hosts = concerned(case, leaders, tenure);
            let by_clock = explained_by_clocks(case, leaders, tenure, loss);
            // A monotonic clock stands still while its machine is suspended, and so does a lease on
            // it; in a pause it keeps running.
            let stood = holder_behind(case, tenure, loss) > 0;
            let counts = |breach: &&Breach| match breach.what {
                Bounded::ClientPause | Bounded::HoldPause => by_clock && stood,
                what => by_clock || !is_of_clocks(what),
            };
            let mut breaches = breaches.iter().filter(counts);
            !breaches.any(|breach| excuses(case, breach, (tenure, loss), &hosts))
        });
    }
    found.into_iter().map(|(_, loss)| loss).collect()
}

/// Whether a breach can explain the loss of a key of a tenure: it had begun by then, on one of
/// these hosts. A breach that takes keys must not have ended before the holder requested them, and
/// must not be on a node that receives its keys from another.
fn excuses(
    case: &Case,
    breach: &Breach,
    (tenure, loss): (&Tenure, &Violation),
    hosts: &BTreeSet<&str>,
) -> bool {
    if breach.what == Bounded::Failover {
        return failed_over(case, (tenure, loss), hosts);
    }
    if !ends_keys(breach.what) {
        return false;
    }
    let faults: BTreeSet<u32> = breach.parts.iter().filter_map(|part| part.fault()).collect();
    let counts = |host: &str| !(takes_keys(breach.what) && case.follows(host, loss.from));
    let mut fault_intervals =
        case.history.fault_intervals.iter().filter(|c| faults.contains(&c.fault));
    let by_fault = fault_intervals.any(|c| {
        let began = case.acts(c).0;
        began.at <= loss.from.at
            && hosts.iter().any(|host| c.strikes(host) && counts(host))
            && !is_over(case, c, breach, loss)
    });
    let by_start = breach.parts.contains(&Part::Clocks);
    by_fault || by_start || breach.parts.is_empty() && was_taken(case, loss)
}

/// The hosts whose faults can explain the loss of a key of a tenure: its holder's, the nodes that
/// had a key, and their masters and replicas. Faults of other hosts change nothing.
fn concerned<'a>(case: &Case<'a>, leaders: &Leaders<'a>, tenure: &Tenure) -> BTreeSet<&'a str> {
    let keys = case.lives.lives.iter().filter(|key| is_of(case, key.by, tenure));
    let nodes: BTreeSet<&str> = keys.map(|key| key.node).collect();
    let kin = nodes.iter().flat_map(|node| leaders.members(leaders.group(node)));
    let mut hosts: BTreeSet<&str> = nodes.iter().copied().chain(kin).collect();
    hosts.extend(case.op(tenure.whole.grant).map(|op| op.process.as_str()));
    hosts
}

/// Whether a breach of this assumption affects only clocks.
fn is_of_clocks(what: Bounded) -> bool {
    matches!(
        what,
        Bounded::NodeClockStep | Bounded::ClientClockStep | Bounded::Skew | Bounded::Drift
    )
}

/// Whether enough keys to deny any other caller a quorum would have lived to the end of the lease,
/// had all clocks run true since the lease was requested.
fn explained_by_clocks(case: &Case, leaders: &Leaders, tenure: &Tenure, loss: &Violation) -> bool {
    let behind = holder_behind(case, tenure, loss);
    let moment = Moment::from(loss.from);
    let lives_on = |key: &&KeyLife| {
        let passes = case.passes(key);
        let by_time = passes <= key.to || moment < key.to;
        let in_time = || {
            let ahead = ahead(case, key.node, Clock::Wall, (key.until_from, passes));
            let true_end = i128::from(passes.at) + ahead + behind + i128::from(ROUNDING);
            true_end >= i128::from(loss.to.at)
        };
        by_time && key.from <= moment && (passes == Moment::NEVER || in_time())
    };
    let own = case.lives.lives.iter().filter(|key| is_of(case, key.by, tenure));
    let groups: BTreeSet<&str> = own.filter(lives_on).map(|key| leaders.group(key.node)).collect();
    groups.len() >= enough(case)
}

/// Expiry times of keys have a resolution of milliseconds.
const ROUNDING: Nanos = MILLISECOND;

/// By how much the clock of the lease fell behind during the lease, ns: the lease ends late by this
/// much. A lease without a deadline has no error.
fn holder_behind(case: &Case, tenure: &Tenure, loss: &Violation) -> i128 {
    let op = case.op(covering(case, tenure, loss.from.into()));
    let deadline = op.and_then(|op| match op.outcome {
        Outcome::Granted { deadline, .. } => Some((&op.process, deadline?.0)),
        _ => None,
    });
    let Some((process, clock)) = deadline else { return 0 };
    -ahead(case, process, clock, (requested_at(case, loss), loss.to.into()))
}

/// By how much a clock ran ahead of true time between two moments, ns; negative if it fell behind.
fn ahead(case: &Case, host: &str, clock: Clock, (from, to): (Moment, Moment)) -> i128 {
    let read = |moment| case.clocks.line(host, clock, moment).map(|line| line.at(moment.at));
    let (Some(began), Some(ended)) = (read(from), read(to)) else { return 0 };
    let passed = i128::from(to.at) - i128::from(from.at);
    i128::from(ended) - i128::from(began) - passed
}

/// Whether a failover can explain the loss of a key of a tenure: a node of the group had been
/// promoted by then. If all keys were set on the node that was promoted last, after its promotion,
/// they were lost to something else while it leads.
fn failed_over(case: &Case, (tenure, loss): (&Tenure, &Violation), hosts: &BTreeSet<&str>) -> bool {
    let promoted = leaders::promoted(case);
    let mut before = promoted.iter().filter(|led| led.at.at <= loss.from.at);
    let Some(last) = before.rfind(|led| hosts.contains(led.by.as_str())) else {
        return promoted.is_empty() && was_taken(case, loss);
    };
    let keys = case.lives.lives.iter().filter(|key| is_of(case, key.by, tenure));
    let mut set = keys.filter(|key| !case.follows(key.node, key.from.instant(case.history)));
    let is_new = |key: &KeyLife| key.node == last.by && key.from >= last.at.into();
    !set.all(is_new) || case.follows(&last.by, loss.from)
}

/// Whether keys were removed without an operation, or a node exited on its own, in time to explain
/// the loss of a key.
fn was_taken(case: &Case, loss: &Violation) -> bool {
    let requested = requested_at(case, loss);
    let is_within = |at: Instant| requested <= at.into() && at.at <= loss.from.at;
    let taken = |key: &Key| match key.change {
        KeyChange::Evicted | KeyChange::LostAtRestart | KeyChange::LostAtFailover => true,
        KeyChange::Expired => false,
        _ => key.by.is_none(),
    };
    let mut exits = case.history.sightings.iter().filter(|seen| seen.what == Seen::Exited);
    case.history.keys.iter().any(|key| is_within(key.at) && taken(key))
        || exits.any(|exit| is_within(exit.at))
}

/// Whether a fault that removes keys had ended before the holder requested its own.
fn is_over(case: &Case, fault: &FaultInterval, breach: &Breach, loss: &Violation) -> bool {
    takes_keys(breach.what) && case.acts(fault).1 < requested_at(case, loss)
}

/// Whether a breach of this assumption removes existing keys, and none that are set later.
fn takes_keys(what: Bounded) -> bool {
    matches!(what, Bounded::AmnesiacRestart | Bounded::KeyRemoval)
}

/// When the tenure of a loss was requested.
fn requested_at(case: &Case, loss: &Violation) -> Moment {
    let first = case.outermost(loss.ops[0]);
    case.op(first).map_or(loss.from.into(), |op| op.call.into())
}

/// Whether a breach of this assumption can end a key before its lease.
fn ends_keys(what: Bounded) -> bool {
    match what {
        Bounded::NodeClockStep
        | Bounded::ClientClockStep
        | Bounded::Skew
        | Bounded::Drift
        | Bounded::AmnesiacRestart
        | Bounded::Failover
        | Bounded::KeyRemoval
        | Bounded::ClientPause
        | Bounded::HoldPause => true,
        Bounded::ClientCrash
        | Bounded::Work
        | Bounded::Leaderless
        | Bounded::Unreplicated
        | Bounded::Misuse
        | Bounded::AccessDelay => false,
    }
}

fn violations_of(case: &Case, leaders: &Leaders, tenure: &Tenure) -> Vec<Violation> {
    // A key of an earlier acquire of the same caller that arrives late keeps others out as well,
    // and so does a key of which a release of that caller leaves a part.
    let keeps = |key: &KeyLife| {
        let in_place = case.history.keys[key.born].change == KeyChange::Changed;
        let left = key.by.filter(|_| in_place);
        let owner = key.by.and_then(|by| case.owner(by)).or(left);
        owner.is_some_and(|owner| case.caller(owner) == tenure.whole.owner)
    };
    let keys: Vec<usize> =
        (0..case.lives.lives.len()).filter(|index| keeps(&case.lives.lives[*index])).collect();
    let grants = tenure.holds.iter().map(|hold| &case.holds[*hold]);
    let lost = grants.filter_map(|grant| lost_at(case, leaders, tenure, (&keys, grant)));
    let lost: BTreeSet<(Moment, usize)> = lost.collect();
    lost.into_iter().filter_map(|(from, key)| violation(case, tenure, key, from)).collect()
}

fn violation(case: &Case, tenure: &Tenure, lost: usize, from: Moment) -> Option<Violation> {
    let key = &case.lives.lives[lost];
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

/// The first key, since the call of a grant, whose end would have given another caller its quorum,
/// and when. A key that ended while nothing covered the tenure, as in the clean-up of a failed try,
/// is not lost if it exists again when the grant returns.
fn lost_at(
    case: &Case,
    leaders: &Leaders,
    tenure: &Tenure,
    (keys, hold): (&[usize], &Hold),
) -> Option<(Moment, usize)> {
    let since = case.op(hold.grant)?.call.into();
    // Most keys of the caller ended long before; only the rest is looked at closely.
    let lasts = |index: &usize| case.lives.lives[*index].to >= since;
    let keys: Vec<usize> = keys.iter().copied().filter(lasts).collect();
    let gone = |key: &KeyLife| case.passes(key).min(key.to);
    let ends: Vec<Moment> = keys.iter().map(|index| gone(&case.lives.lives[*index])).collect();
    let ended = ends.iter().copied().zip(keys.iter().copied());
    let mut after: Vec<(Moment, usize)> = ended.filter(|(end, _)| *end >= since).collect();
    after.sort_by_key(|(end, _)| *end);
    let is_before = |end: Moment| end < hold.start && !tenure.covers(end);
    let before = after.iter().rfind(|(end, _)| is_before(*end));
    let before = before.map(|(_, index)| (hold.start, *index));
    let moments = before.into_iter().chain(after).filter(|(at, _)| tenure.covers(*at));
    let mut moments: Vec<(Moment, usize)> = moments.collect();
    moments.sort_by_key(|(at, _)| *at);
    moments.into_iter().find(|(at, _)| {
        let lives = keys.iter().map(|index| &case.lives.lives[*index]).zip(&ends);
        // A key that one command removes and sets again was never gone.
        let alive = lives.filter(|(key, end)| key.from.at <= at.at && at < *end);
        let alive: BTreeSet<&str> = alive.map(|(key, _)| key.node).collect();
        kept(leaders, &alive, *at) < enough(case)
    })
}

/// How many groups keep others out by a key on one of these nodes: the key of the current master
/// counts, or any key while there is no master.
fn kept(leaders: &Leaders, alive: &BTreeSet<&str>, at: Moment) -> usize {
    let groups: BTreeSet<&str> = alive.iter().map(|node| leaders.group(node)).collect();
    let keeps = |group: &&&str| {
        let leading = leaders.leading(group, at);
        leading.is_empty() || !leading.is_disjoint(alive)
    };
    groups.iter().filter(keeps).count()
}

/// On how many nodes a holder needs its key: on so many that the others are no quorum. Where two
/// quorums need no node in common, it never denied another caller one, and has lost nothing while
/// its own is complete.
fn enough(case: &Case) -> usize {
    let (queried, quorum) = (case.terms.site.queried, case.terms.site.quorum);
    (queried.saturating_sub(quorum) + 1).min(quorum) as usize
}

/// Whether an operation whose effect is no loss ended the key: one of its tenure that is no release
/// and promised no lease that was still running, or another caller's, which is foreign.
fn is_taken(case: &Case, key: &KeyLife, tenure: &Tenure, at: Moment) -> bool {
    let by = key.ended.filter(|end| end.change != KeyChange::Expired).and_then(|end| end.by);
    let Some(op) = by.and_then(|by| case.op(by)) else { return false };
    let is_own = tenure.acquires.contains(&spec::item_block(op))
        && !matches!(op.kind, OpKind::Release { .. })
        && !promises(case, by, at);
    case.caller(op.id) != tenure.whole.owner || is_own
}

/// Whether the last change of the key's expiry was an operation of the owner that shortened it, and
/// that operation promised no lease that was still running at the moment of the loss.
fn is_shortened(case: &Case, key: &KeyLife, tenure: &Tenure, gone: Moment) -> bool {
    let changes = case.history.keys[key.born..].iter();
    let life = changes.take_while(|change| Moment::from(change.at) < key.to);
    let own = life.filter(|change| change.node == key.node && change.key == case.terms.lock_key);
    let ends = own.filter_map(|change| Some((change.until_ms?, change.by)));
    let mut ends: Vec<(u64, Option<OpId>)> = ends.collect();
    ends.dedup_by_key(|(until, _)| *until);
    let [.., (before, _), (last, by)] = ends[..] else { return false };
    last < before && is_of(case, by, tenure) && !promises(case, by, gone)
}

/// Whether an operation returned a lease that was still running at that moment.
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

/// Whether another caller held the lock after the loss, before the lease had expired.
fn another_got_in(case: &Case, hold: &Hold, (from, until): (Moment, Moment)) -> bool {
    let mut others = case.holds.iter().filter(|other| other.owner != hold.owner);
    others.any(|other| other.start.max(from) < other.end.min(until))
}
