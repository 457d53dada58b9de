//! Redisson's fair lock: its hash, with a queue beside it. Waiters stand in a list; a sorted set
//! has the deadline of each, and a release notifies the head only.
//!
//! A waiter keeps its place until its deadline, whether it is alive or not. Its *own* wall clock
//! sets that deadline, and the wall clock of *any* caller ends it. Whoever comes to the head
//! inherits the deadline of the head before it, since a grant moves all deadlines by one wait. So a
//! queue that is never empty skips a waiter now and then, however short that one has waited.
//! Redisson compares nothing else: it does not know who is alive.

use lockstorm_platform::time::{Nanos, SECOND};

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::counted_hash::{
    Arg, DEFAULTS, Form, ScriptCall, ScriptKey, queue_of, queue_wait,
};
use crate::lock::algorithm::redisson::{self, Redisson};
use crate::lock::client::scripts;
use crate::lock::config::LockConfig;
use crate::promise::{Bounded, Promise, Work, bound};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "redisson with a queue: waiters are granted the lock in the order of their coming",
    renews: true,
    waits_for_turn: true,
    defaults: DEFAULTS,
    promise,
    ..Algorithm::lease("redisson-fair", |setting| Box::new(Redisson::new(setting, &FORM)))
};

const FORM: Form = Form {
    take: ScriptCall {
        script: scripts::TAKE_TURN,
        keys: &[ScriptKey::Lock, ScriptKey::Queue, ScriptKey::Deadlines],
        args: &[Arg::Owner, Arg::Ttl, Arg::Now, Arg::QueueWait],
    },
    give_back: ScriptCall {
        script: scripts::PASS_TURN,
        keys: &[ScriptKey::Lock, ScriptKey::Queue, ScriptKey::Deadlines, ScriptKey::Channel],
        args: &[Arg::Owner, Arg::Ttl, Arg::Now],
    },
    extend: redisson::EXTEND,
    leave: Some(ScriptCall {
        script: scripts::LEAVE_QUEUE,
        keys: &[ScriptKey::Queue, ScriptKey::Deadlines],
        args: &[Arg::Owner, Arg::QueueWait],
    }),
    channel: "redisson_lock__channel",
    has_own_channel: true,
    suffix: ":1",
};

/// For how long more than a lease a caller may find the lock taken by nobody, ns.
const TOLERATED: Nanos = 5 * SECOND;

/// The promise of redisson, and the order of the queue.
///
/// Deadlines of one client are compared with the wall clock of another. How much a waiter has left
/// depends on who waited before it and may be next to nothing, so no difference of those clocks is
/// harmless, at the start or later. A waiter that dies keeps its place for the rest of the lease
/// and one wait; each further one for a wait more. One such place is bearable if the wait is short.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let mut promise = redisson::promise(config, work);
    promise.assumes.retain(|assumption| assumption.what != Bounded::ClientClockStep);
    let crashes = u64::from(queue_wait(config) <= TOLERATED);
    promise.assumes.extend([
        bound(Bounded::ClientCrash, crashes),
        bound(Bounded::ClientClockStep, 0),
        bound(Bounded::Skew, 0),
    ]);
    Promise { queue: Some(queue_of(config)), ..promise }
}
