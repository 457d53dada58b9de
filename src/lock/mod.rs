//! Locks: what one is to its caller, and what it is given.
//!
//! [`Lock`] is what a user implements for a lock of their own, mostly on [`client`]. A lock knows
//! its host and its nodes; it knows nothing of histories, workloads, plans or runs.

use std::cell::Cell;
use std::rc::Rc;

use async_trait::async_trait;
use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, Nanos};

use crate::lock::config::LockConfig;

pub mod algorithm;
pub mod assumptions;
pub mod catalogue;
pub mod client;
pub mod config;
pub mod defaults;
pub mod lease;
pub mod options;
pub mod token;

/// A distributed lock as its caller sees it. One value serves one caller.
///
/// A time-out is *unknown*, never refused: the server may have done what was asked.
///
/// The contract, of which [`Notice`] has the rest. A lock that breaks a line of it is found out
/// (`broken-contract`), and the line is reported:
///
/// 1. Lock: no call of a lock panics, and no task that it has spawned
/// 2. Lock: time passes: a process takes at most 100000 steps in one second
/// 3. Lock::acquire: a permit is below the number of holders
/// 6. Lock: chance, time and state come from the setting: one plan is one run
///
/// Anything else is the lock's own business: two grants may have the same token, a deadline may
/// lie on any clock at any reading, and a future of the lock may be dropped half-way.
#[async_trait(?Send)]
pub trait Lock {
    /// Asks for the lock once, with the algorithm's own number of tries.
    async fn acquire(&mut self) -> Acquired;
    /// Prolongs a grant by the lock's time to live.
    async fn extend(&mut self, grant: &Grant) -> Extended;
    /// Gives a grant back; also one that an unknown acquire may have left.
    async fn release(&mut self, grant: &Grant) -> Released;
}

/// What an acquire came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The caller owns the lock.
    Granted(Grant),
    /// It does not; nothing is left to be released.
    Refused(String),
    /// Nobody knows. The grant can be released.
    Unknown(Grant),
}

/// What an extend came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extended {
    /// Still the caller's; the new deadline.
    Kept(Option<Deadline>),
    /// No longer the caller's.
    Lost,
    /// Nobody knows.
    Unknown,
}

/// What a release came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The caller's key was removed.
    Released,
    /// There was no key of the caller's.
    NotMine,
    /// Nobody knows.
    Unknown,
}

/// A clock of the caller's host and the reading until which a grant may be counted on.
pub type Deadline = (Clock, Nanos);

/// One success of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The owner value.
    pub token: String,
    /// The increasing number, if the lock gives one.
    pub fence: Option<u64>,
    /// Which permit, for a lock with several.
    pub permit: Option<u32>,
    /// Until when it may be counted on; `None` if it never ends by itself.
    pub deadline: Option<Deadline>,
    /// How often its owner holds it now; 1 for a lock that is not re-entrant.
    pub depth: u32,
}

/// What a lock is given to work with.
#[derive(Clone)]
pub struct Setting {
    /// The machine that it runs on.
    pub host: Host,
    /// The names of the nodes to ask; resolved at each connect, since a failover moves a name.
    pub nodes: Vec<String>,
    /// How it is set up.
    pub config: LockConfig,
    /// The operation that the caller is in now.
    pub call: Rc<Cell<Call>>,
    /// Where a lock tells of what it does by itself, in background tasks.
    pub tell: Tell,
}

impl Setting {
    /// Prolongs a grant in the background, and has that written down.
    pub async fn extending(
        &self,
        token: &str,
        extend: impl AsyncFnOnce(Call) -> Extended,
    ) -> Extended {
        let call = (self.tell)(Notice::Extending { token: token.to_owned() });
        let mut renewal = Renewal { tell: &self.tell, op: call.op, open: true };
        let result = extend(call).await;
        renewal.open = false;
        (self.tell)(Notice::Extended { op: call.op, result: result.clone() });
        result
    }
}

/// A renewal under way. One that is dropped half-way, as by a time-out around it, has no answer.
struct Renewal<'a> {
    tell: &'a Tell,
    op: u32,
    open: bool,
}

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        if self.open {
            (self.tell)(Notice::Abandoned { op: self.op });
        }
    }
}

/// An operation of a caller, as its requests and draws know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its number in the run. Requests carry it as their provenance.
    pub op: u32,
    /// Its number among the operations of its process, counted from 1. Draws and messages are
    /// addressed by it, so that nothing that other processes do moves them.
    pub nth: u32,
}

impl Call {
    /// Its number in the run; none before the caller's first.
    pub fn operation(self) -> Option<u32> {
        (self.nth > 0).then_some(self.op)
    }
}

/// See [`Setting::tell`]. [`Notice::Extending`] is answered with the new operation; what the others
/// are answered with means nothing.
pub type Tell = Rc<dyn Fn(Notice) -> Call>;

/// What a lock does by itself.
///
/// The rest of the contract (see [`Lock`]):
///
/// 4. Notice: Extending and Lost name the token of a grant that the caller was given
/// 5. Notice: Extended and Abandoned end, once, a renewal that Extending has begun
///
/// A grant that an acquire is about to give counts, and so does the last one with that token,
/// though the caller has given it back. Of several grants with one token the oldest that is held
/// is meant; a loss is that of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A renewal of the grant with this token is about to be sent.
    Extending {
        /// The grant's token.
        token: String,
    },
    /// The renewal with this number (see [`Call::op`]) came to an end.
    Extended {
        /// The number that [`Notice::Extending`] was answered with.
        op: u32,
        /// What it came to.
        result: Extended,
    },
    /// The renewal with this number was dropped before it had an answer: nobody knows.
    /// [`Setting::extending`] sends it.
    Abandoned {
        /// The number that [`Notice::Extending`] was answered with.
        op: u32,
    },
    /// The caller is told that the grant with this token is lost.
    Lost {
        /// The grant's token.
        token: String,
    },
}
