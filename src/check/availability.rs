//! Availability and fairness: how well callers were served until the faults were healed. Operations
//! of the probe do not count. These figures decide no verdict; a scenario may set limits on them.
//!
//! A caller *wants* the lock from the call of its first try until it is granted, its process dies,
//! or the faults are healed: that is one wait. A caller that acquires again while it holds the lock
//! does not want it. The lock is *unavailable* while a caller wants it, fewer callers than allowed
//! hold it, and none is granted it; a grant ends such a stretch, and another may begin in the same
//! instant.
//!
//! Every wait counts with its full length, even one that ended without a grant: leaving those out
//! would flatter a lock that serves no caller.

pub(crate) mod reason;
mod wait;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lockstorm_platform::time::{Instant, Nanos, SECOND};
use serde::{Deserialize, Serialize};

use crate::check::availability::reason::Share;
use crate::check::availability::wait::{Wait, clients_acquires, waits};
use crate::check::case::Case;
use crate::check::counts;
use crate::history::{History, Op, Outcome, PROBE, Request};
use crate::reading::moment::Moment;

/// How well callers were served. Fields in thousandths are marked as such.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// The key that the figures are about, if a run has several locks: the one that was unavailable
    /// for longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Grants per minute, rounded.
    pub grants_per_minute: u32,
    /// The grants per minute of the same plan without its faults, if that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants_per_minute_without_faults: Option<u32>,
    /// The longest stretch in which the lock was unavailable; the first of equals.
    pub unavailable: Option<Unavailable>,
    /// How long callers waited.
    pub waits: Waits,
    /// Refused acquires among those that returned, in thousandths.
    pub refused: u32,
    /// Acquires with an unknown outcome among those that returned, in thousandths.
    pub unknown: u32,
    /// Tries per grant, in thousandths, rounded; `None` without a grant.
    pub tries_per_grant: Option<u64>,
    /// Requests to nodes per grant, in thousandths, rounded; `None` without a grant.
    pub requests_per_grant: Option<u64>,
}

/// A stretch in which a caller wanted the lock, fewer callers than allowed held it, and none
/// acquired it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
    /// Why no caller acquired it; the reason that took most of the callers' time comes first.
    pub reasons: Vec<Share>,
}

impl Unavailable {
    /// How long it lasted, ns.
    pub fn length(&self) -> Nanos {
        self.to.at.saturating_sub(self.from.at)
    }
}

/// How long callers waited, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// The number of waits.
    pub count: u32,
    /// The waits that ended without a grant: with the heal or a death.
    pub ungranted: u32,
    /// The median.
    pub median: Nanos,
    /// The 99th percentile.
    pub percentile_99: Nanos,
    /// The maximum.
    pub longest: Nanos,
    /// The longest wait of each caller, the longest first.
    pub callers: Vec<CallerWaits>,
}

/// How one caller was served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerWaits {
    /// The caller.
    pub caller: String,
    /// Its longest wait, ns.
    pub longest: Nanos,
    /// When that wait began; the first of equals.
    pub from: Instant,
    /// How many of its waits ended with a grant.
    pub grants: u32,
}

/// How well the callers of a case were served.
pub fn measure(case: &Case) -> Availability {
    let until = Moment::from(case.history.healed.unwrap_or(case.history.end));
    let waits = waits(case, until);
    let grants = counts::granted_before_heal(case.history, case.terms);
    let each = |all: usize| {
        let rounded = all as u64 * 1_000 + u64::from(grants) / 2;
        (grants > 0).then(|| rounded / u64::from(grants))
    };
    let tries = clients_acquires(case).filter(|op| Moment::from(op.call) < until);
    let time = u128::from(until.at.max(1));
    let minutes = u128::from(grants) * u128::from(60 * SECOND);
    let per_minute = (minutes + time / 2) / time;
    Availability {
        key: None,
        grants_per_minute: u32::try_from(per_minute).unwrap_or(u32::MAX),
        grants_per_minute_without_faults: None,
        unavailable: unavailable(case, &waits, until),
        waits: summed_up(case, &waits),
        refused: share(case, until, |outcome| matches!(outcome, Outcome::Refused { .. })),
        unknown: share(case, until, |outcome| *outcome == Outcome::Unknown),
        tries_per_grant: each(tries.count()),
        requests_per_grant: each(requests(case, until)),
    }
}

/// The share of acquires with such an outcome among those that returned before `until`, in
/// thousandths, rounded.
fn share(case: &Case, until: Moment, is: fn(&Outcome) -> bool) -> u32 {
    let acquires = clients_acquires(case);
    let acquires = acquires.filter(|op| op.ret.is_some_and(|ret| Moment::from(ret) < until));
    let (all, found) =
        acquires.fold((0_u64, 0), |(all, found), op| (all + 1, found + u64::from(is(&op.outcome))));
    u32::try_from((found * 1_000 + all / 2) / all.max(1)).unwrap_or(1_000)
}

/// The number of requests for the lock that clients sent to nodes before `until`.
fn requests(case: &Case, until: Moment) -> usize {
    let sent = case.history.requests.iter().filter(|request| {
        let at = request.legs.first().map(|(_, at)| Moment::from(*at));
        request.from != PROBE && is_of_lock(case, request) && at.is_some_and(|at| at < until)
    });
    sent.filter(|request| case.terms.site.has_node(&request.to)).count()
}

/// Whether a request belongs to an acquire of the lock's key. One for a group of keys may be for
/// other keys of it.
fn is_of_lock(case: &Case, request: &Request) -> bool {
    let acquire = case.op(request.op).and_then(Op::grant).and_then(|grant| case.op(grant));
    acquire.is_none_or(|acquire| {
        let is_group = acquire.keys.len() > 1;
        acquire.is_on(&case.terms.lock_key) && !(is_group && request.other_keys)
    })
}

fn summed_up(case: &Case, waits: &[Wait]) -> Waits {
    let mut lengths: Vec<Nanos> = waits.iter().map(Wait::length).collect();
    lengths.sort_unstable();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Waits {
        count: number(waits.len()),
        ungranted: number(waits.iter().filter(|wait| !wait.granted).count()),
        median: no_longer(&lengths, 50),
        percentile_99: no_longer(&lengths, 99),
        longest: no_longer(&lengths, 100),
        callers: callers(waits, case.history),
    }
}

/// The percentile by nearest rank. 0 for an empty slice.
fn no_longer(sorted: &[Nanos], percent: usize) -> Nanos {
    let rank = (sorted.len() * percent).div_ceil(100);
    rank.checked_sub(1).map_or(0, |index| sorted[index])
}

fn callers(waits: &[Wait], history: &History) -> Vec<CallerWaits> {
    let mut callers: BTreeMap<&str, CallerWaits> = BTreeMap::new();
    for wait in waits {
        let (caller, from) = (&wait.tries[0].caller, wait.from.instant(history));
        let new = || CallerWaits { caller: caller.clone(), longest: 0, from, grants: 0 };
        let fared = callers.entry(caller).or_insert_with(new);
        if wait.length() > fared.longest {
            (fared.longest, fared.from) = (wait.length(), from);
        }
        fared.grants += u32::from(wait.granted);
    }
    let mut callers: Vec<CallerWaits> = callers.into_values().collect();
    callers.sort_by_key(|caller| Reverse(caller.longest));
    callers
}

/// The changes in one instant.
#[derive(Default)]
struct DemandChange {
    wanting: i64,
    holding: i64,
    granted: bool,
}

fn unavailable(case: &Case, waits: &[Wait], until: Moment) -> Option<Unavailable> {
    // `max_by_key` returns the last of equals; reversed, that is the first.
    let stretches = stretches(case, waits, until).into_iter().rev();
    let longest = stretches.max_by_key(|(from, to)| to.at - from.at);
    let (from, to) = longest.filter(|(from, to)| from.at < to.at)?;
    let reasons = reason::reasons(case, waits, from, to);
    let (from, to) = (from.instant(case.history), to.instant(case.history));
    Some(Unavailable { from, to, reasons })
}

/// Every stretch in which the lock was unavailable, in order.
fn stretches(case: &Case, waits: &[Wait], until: Moment) -> Vec<(Moment, Moment)> {
    let mut changes: BTreeMap<Moment, DemandChange> = BTreeMap::new();
    for wait in waits {
        changes.entry(wait.from).or_default().wanting += 1;
        changes.entry(wait.to).or_default().wanting -= 1;
    }
    for tenure in case.tenures.iter().map(|tenure| &tenure.whole).filter(|whole| !whole.by_probe) {
        changes.entry(tenure.start).or_default().holding += 1;
        changes.entry(tenure.end).or_default().holding -= 1;
    }
    for hold in case.holds.iter().filter(|hold| !hold.by_probe) {
        changes.entry(hold.start).or_default().granted = true;
    }
    let (mut wanting, mut holding, mut open) = (0, 0, None);
    let mut stretches = Vec::new();
    for (at, change) in changes.range(..until) {
        wanting += change.wanting;
        holding += change.holding;
        let is_out = wanting > 0 && holding < i64::from(case.terms.holders);
        if !is_out || change.granted {
            stretches.extend(open.take().map(|from| (from, *at)));
        }
        if is_out {
            open = open.or(Some(*at));
        }
    }
    stretches.extend(open.map(|from| (from, until)));
    stretches
}
