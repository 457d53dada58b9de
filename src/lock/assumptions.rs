//! The assumptions of the locks, composed from a few lists. Each lock's own file selects them.
//!
//! [`lease`] and [`mutex`] are complete promises for users' own locks. Others are composed:
//! `exclusive(Model::Lease, of_lease(config, &choices, 500, work))` allows for 500 ppm of drift.

use lockstorm_platform::fault::MAX_LENGTH;
use lockstorm_platform::time::{Clock, Nanos};

use crate::lock::config::{DeadlineFrom, LockConfig};
use crate::lock::defaults::{Choices, LEASE};
use crate::promise::{Assumption, Bounded, Model, Promise, Work, bound, exclusive};

/// The promise of a lock on one node whose key has the time to live of the configuration, or that
/// of [`LEASE`]: one holder, while the work fits into the lease.
pub fn lease(config: &LockConfig, work: Work) -> Promise {
    let choices = LEASE.settle(config);
    exclusive(Model::Lease, of_lease(config, &choices, choices.drift_ppm(), work))
}

/// The promise of a lock on one node whose key exists until it is deleted: one holder, while every
/// holder returns to release it.
pub fn mutex(_config: &LockConfig, work: Work) -> Promise {
    exclusive(Model::Mutex, of_mutex(work))
}

/// The assumptions of a lock without a time to live: its holder returns to release it, and its key
/// persists. After a node forgets the key, the lock is safe again only when no holder can be left.
pub fn of_mutex(work: Work) -> Vec<Assumption> {
    let mut assumes = vec![bound(Bounded::ClientCrash, 0)];
    assumes.extend(of_key(MAX_LENGTH));
    assumes.push(bound(Bounded::AccessDelay, work.patience));
    assumes
}

/// The assumptions of a lock with a time to live, with an allowance of `drift_ppm` for the relative
/// rate error: the work and a pause of what remains fit into the lease, and the node measures the
/// lease as its holder does. A caller that extends its grants works from one extend to the next.
///
/// The lease runs from before the send, and a reply may take up to its timeout, so that much of the
/// lease is not available. If a reply may take longer than its timeout even without faults, no work
/// fits.
pub fn of_lease(
    config: &LockConfig,
    choices: &Choices,
    drift_ppm: u64,
    work: Work,
) -> Vec<Assumption> {
    let allowance = choices.drift.max(choices.ttl / 1_000_000 * drift_ppm);
    let requests = choices.patience().saturating_mul(1 + work.calls);
    let usable = choices.ttl.saturating_sub(allowance.saturating_add(requests));
    let spare = usable.saturating_sub(work.lasts);
    let mut assumes =
        vec![bound(pause(choices), spare), bound(Bounded::AccessDelay, spare.min(work.patience))];
    // A lock whose deadlines count from the reply promises the whole lease from the reply on.
    let promised = match config.deadline_from {
        DeadlineFrom::Send => usable,
        DeadlineFrom::Reply => choices.ttl.saturating_sub(allowance),
    };
    assumes.insert(0, bound(Bounded::Work, work_within(promised, choices, work)));
    assumes.extend(of_clocks(config, drift_ppm));
    assumes.extend(of_key(choices.ttl));
    assumes
}

/// Which pauses a lease bounds. A lock that refuses a grant which is over before its caller has it
/// has to be right about every pause; of one that does not, a pause before the grant shows what the
/// check is for.
fn pause(choices: &Choices) -> Bounded {
    if choices.validity { Bounded::ClientPause } else { Bounded::HoldPause }
}

/// How long a caller's own work may take of what a grant promises, ns; 0 if requests are not
/// answered in time.
pub(crate) fn work_within(promised: Nanos, choices: &Choices, work: Work) -> Nanos {
    let messages = work.lasts.saturating_sub(work.works);
    if choices.timeout >= work.reply { promised.saturating_sub(messages) } else { 0 }
}

/// How a lease is extended in the background, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The interval.
    pub every: Nanos,
    /// The new time to live.
    pub ttl: Nanos,
}

impl Renewed {
    /// The configured values; by default the interval `usually`, and the lease's own time to live.
    pub fn of(config: &LockConfig, choices: &Choices, usually: Nanos) -> Renewed {
        let every = config.renew_every.unwrap_or(usually);
        Renewed { every, ttl: config.renew_ttl.unwrap_or(choices.ttl) }
    }
}

/// The assumptions of a lease that a running process extends. It tolerates work of any length. It
/// also tolerates a pause or a late access of what remains beside work that needs no renewal. After
/// each renewal a pause of what remains before the next would do no harm. But if no renewal
/// arrives, the holder is notified of its loss as its lease ends, with nothing left.
pub fn of_renewed(
    config: &LockConfig,
    choices: &Choices,
    renewed: Renewed,
    work: Work,
) -> Vec<Assumption> {
    let requests = choices.patience().saturating_mul(1 + work.calls);
    let spent = requests.saturating_add(work.lasts).saturating_add(choices.drift);
    let without_renewal = choices.ttl.saturating_sub(spent);
    let mut assumes = vec![
        bound(pause(choices), without_renewal),
        bound(Bounded::AccessDelay, without_renewal.min(work.patience)),
    ];
    assumes.extend(of_clocks(config, choices.drift_ppm()));
    assumes.extend(of_key(choices.ttl.max(renewed.ttl)));
    assumes
}

/// The assumptions that two machines measure a lease alike.
pub fn of_clocks(config: &LockConfig, drift_ppm: u64) -> Vec<Assumption> {
    let mut assumes = vec![bound(Bounded::NodeClockStep, 0), bound(Bounded::Drift, drift_ppm)];
    if config.clock == Some(Clock::Wall) {
        assumes.push(bound(Bounded::ClientClockStep, 0));
    }
    assumes
}

/// The assumptions of a key that must persist. A node that lost it is safe after `outlived` ns.
pub fn of_key(outlived: Nanos) -> Vec<Assumption> {
    vec![
        bound(Bounded::AmnesiacRestart, outlived),
        bound(Bounded::Failover, 0),
        bound(Bounded::KeyRemoval, 0),
    ]
}
