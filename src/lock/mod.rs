//! Locks: one file per algorithm, on one small RESP client.
//!
//! [`Lock`] is the trait that a user implements for a lock of their own. A lock knows its host and
//! its nodes; it knows nothing of histories, workloads, plans or runs.

use std::cell::Cell;
use std::rc::Rc;

use async_trait::async_trait;
use lockstorm_platform::host::{Host, HostMutex};
pub use lockstorm_platform::time::Clock;
use lockstorm_platform::time::Nanos;

use crate::lock::config::LockConfig;

pub mod algorithm;
pub mod assumptions;
pub mod background;
pub mod catalogue;
pub mod client;
pub mod config;
pub mod defaults;
pub mod lease;
pub mod library;
pub mod options;
pub mod token;
pub mod tries;

/// A distributed lock as its caller sees it. One value serves one caller.
///
/// A timeout is *unknown*, never refused: the server may have executed the request.
///
/// The contract is listed here and continued at [`Notice`]. A lock that breaks a line of it is
/// detected (`broken-contract`), and the line is reported:
///
/// 1. Lock: no call of a lock panics, and no task that it has spawned
/// 2. Lock: time passes: a process takes at most 100000 steps in one second
/// 5. Lock: chance, time and state come from the setting: one plan is one run
///
/// Everything else is up to the lock: two grants may have the same token, a deadline may be on any
/// clock at any reading, and a future of the lock may be dropped half-way.
#[async_trait(?Send)]
pub trait Lock {
    /// Acquires the lock once, with the algorithm's own number of tries.
    async fn acquire(&mut self) -> Acquired;
    /// Acquires the lock in shared mode: holders in this mode may overlap each other, but no
    /// exclusive one. A lock that [shares](algorithm::Algorithm::shares) has to implement it; for
    /// others it is never called.
    async fn acquire_shared(&mut self) -> Acquired {
        panic!("its Algorithm sets `shares: true`, and it does not implement `acquire_shared`")
    }
    /// Acquires several keys at once: all of them, or none. Their order is the caller's. A lock
    /// that takes [groups](algorithm::Algorithm::groups) has to implement it, and it is then called
    /// instead of the others; for other locks it is never called.
    async fn acquire_all(&mut self, _keys: &[String]) -> Acquired {
        panic!("its Algorithm sets `groups: true`, and it does not implement `acquire_all`")
    }
    /// Extends a grant by the lock's time to live.
    async fn extend(&mut self, grant: &Grant) -> Extended;
    /// Releases a grant, which may be one that an unknown acquire left.
    async fn release(&mut self, grant: &Grant) -> Released;
}

/// The result of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The caller owns the lock.
    Granted(Grant),
    /// The caller does not own it; nothing is left to be released.
    Refused(String),
    /// The outcome is unknown. The grant can be released.
    Unknown(Grant),
}

/// The result of an extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The grant is still the caller's; the new deadline.
    Kept(Option<Deadline>),
    /// The grant is no longer the caller's.
    Lost,
    /// The outcome is unknown.
    Unknown,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The caller's key was removed.
    Released,
    /// The caller had no key.
    NotMine,
    /// The outcome is unknown.
    Unknown,
}

/// A clock of the caller's host and the reading until which a grant is valid.
pub type Deadline = (Clock, Nanos);

/// A successful acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The owner value. In a semaphore whose key is a collection it is the grant's member: that
    /// tells its permits apart.
    pub token: String,
    /// The increasing number, if the lock gives one.
    pub fence: Option<u64>,
    /// Until when it is valid; `None` if it never expires.
    pub deadline: Option<Deadline>,
    /// How often its owner currently holds it, with this grant; 1 for a lock that is not
    /// re-entrant. A caller that takes a re-entrant lock twice releases each grant once, the inner
    /// one first. Only the lock reads it.
    pub depth: u32,
    /// The keys that it covers, if the lock takes groups: its caller fills them in, so that an
    /// extend and a release find them here.
    pub keys: Vec<String>,
}

impl Grant {
    /// A grant that its owner holds once, without a fence.
    pub fn new(token: String, deadline: Option<Deadline>) -> Grant {
        Grant { token, deadline, depth: 1, ..Grant::default() }
    }
}

/// The environment of a lock.
#[derive(Clone)]
pub struct Setting {
    /// The machine that it runs on.
    pub host: Host,
    /// The names of the nodes to query; resolved at each connect, since a failover moves a name.
    pub nodes: Vec<String>,
    /// The configuration.
    pub config: LockConfig,
    /// The caller's number among those of its process, counted from 1.
    pub thread: u32,
    /// The caller's current operation.
    pub call: Rc<Cell<Call>>,
    /// Receives notices of what a lock does on its own, in background tasks.
    pub notify: Notify,
    /// The mutex that all callers on its host share.
    pub mutex: HostMutex,
}

impl Setting {
    /// Extends a grant in the background and records that as an operation. The extend may be
    /// dropped before its reply, as by a timeout or by
    /// [`run_until_cancelled`](background::Cancellation::run_until_cancelled): its outcome is then
    /// unknown.
    pub async fn extending(
        &self,
        token: &str,
        extend: impl AsyncFnOnce(Call) -> Extended,
    ) -> Extended {
        let call = (self.notify)(Notice::Extending { token: token.to_owned() });
        let mut renewal = Renewal { notify: &self.notify, op: call.op, open: true };
        let result = extend(call).await;
        renewal.open = false;
        (self.notify)(Notice::Extended { op: call.op, result: result.clone() });
        result
    }
}

/// A pending renewal. A renewal that is dropped before its reply, as by a timeout around it, has no
/// outcome.
struct Renewal<'a> {
    notify: &'a Notify,
    op: u32,
    open: bool,
}

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        if self.open {
            (self.notify)(Notice::Abandoned { op: self.op });
        }
    }
}

/// An operation of a caller, as identified by its requests and draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its id in the run. Requests carry it as their provenance.
    pub op: u32,
    /// Its number among the operations of its process, counted from 1. It is the address of draws
    /// and messages, so that other processes cannot move them.
    pub nth: u32,
}

impl Call {
    /// Its id in the run; `None` before the caller's first operation.
    pub fn operation(self) -> Option<u32> {
        (self.nth > 0).then_some(self.op)
    }
}

/// See [`Setting::notify`]. [`Notice::Extending`] returns the new operation; for the other notices
/// the returned value is meaningless.
pub type Notify = Rc<dyn Fn(Notice) -> Call>;

/// An action of a lock on its own.
///
/// The rest of the contract (see [`Lock`]):
///
/// 3. Notice: Extending and Lost name the token of a grant that the caller was given
/// 4. Notice: Extended and Abandoned end, once, a renewal that Extending has begun
///
/// A grant that an acquire is about to return counts as given, and so does the last grant with that
/// token even after the caller released it. If several grants have one token, the notice means the
/// oldest that is held; a loss applies to all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A renewal of the grant with this token is about to be sent.
    Extending {
        /// The grant's token.
        token: String,
    },
    /// The renewal with this number (see [`Call::op`]) ended.
    Extended {
        /// The number that [`Notice::Extending`] returned.
        op: u32,
        /// Its result.
        result: Extended,
    },
    /// The renewal with this number was dropped before it had a reply: its outcome is unknown.
    /// [`Setting::extending`] sends this notice.
    Abandoned {
        /// The number that [`Notice::Extending`] returned.
        op: u32,
    },
    /// Notifies the caller that the grant with this token is lost.
    Lost {
        /// The grant's token.
        token: String,
    },
}
