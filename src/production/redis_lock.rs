//! A lock of one caller on real nodes, in real time.
//!
//! It calls the lock as the callers of a run do: it releases what an acquire without a reply may
//! have left, and keeps no grant that is over when it arrives.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockstorm_platform::host::{Host, Platform};

use crate::lock::algorithm::Algorithm;
use crate::lock::config::LockConfig;
use crate::lock::{Acquired, Extended, Lock, Released, Setting};
use crate::production::held::HeldLock;
use crate::production::notices::Notices;
use crate::production::system_host::SystemHost;

/// The number of the last caller of this process.
static CALLERS: AtomicU32 = AtomicU32::new(0);

/// A lock of one caller. A process with several callers opens one for each.
pub struct RedisLock {
    algorithm: Algorithm,
    setting: Setting,
    lock: Box<dyn Lock>,
    host: Rc<SystemHost>,
    notices: Rc<Notices>,
    /// Whether a grant was dropped that the lock still counts on.
    has_dropped: Rc<Cell<bool>>,
}

/// Why an acquire gave no grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAcquired {
    /// The caller does not have the lock, and nothing is left of its tries: another one has it, or
    /// no node received the request. Says which node could not be connected to, and why.
    Refused(String),
    /// No reply came in time. The lock has sent a release; if that was lost too, the key stays
    /// until its time to live is over.
    Unknown,
}

impl RedisLock {
    /// The lock on the nodes with these names.
    pub(crate) fn new(
        algorithm: Algorithm,
        config: LockConfig,
        nodes: Vec<String>,
        host: SystemHost,
    ) -> RedisLock {
        let (host, notices) = (Rc::new(host), Rc::new(Notices::default()));
        let heard = Rc::clone(&notices);
        let setting = Setting {
            host: Host::new(Rc::<SystemHost>::clone(&host)),
            nodes,
            thread: CALLERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            call: Rc::clone(&notices.call),
            notify: Rc::new(move |notice| heard.hear(notice)),
            mutex: host.mutex(&config.key),
            config: algorithm.filled(&config),
        };
        let lock = (algorithm.build)(setting.clone());
        RedisLock { algorithm, setting, lock, host, notices, has_dropped: Rc::default() }
    }

    /// Acquires the lock, with the tries of its configuration. If this future is dropped before it
    /// is ready, a key may be left until its time to live is over.
    ///
    /// # Errors
    /// If there is no grant: see [`NotAcquired`].
    pub async fn acquire(&mut self) -> Result<HeldLock, NotAcquired> {
        self.take(false).await
    }

    /// Acquires the lock in shared mode: holders in this mode may overlap each other.
    ///
    /// # Errors
    /// As [`RedisLock::acquire`]. A lock without a shared mode refuses.
    pub async fn acquire_shared(&mut self) -> Result<HeldLock, NotAcquired> {
        if !self.algorithm.shares {
            let what = format!("{} has no shared mode", self.algorithm.name);
            return Err(NotAcquired::Refused(what));
        }
        self.take(true).await
    }

    async fn take(&mut self, shared: bool) -> Result<HeldLock, NotAcquired> {
        self.begin_anew();
        self.notices.begin_acquire();
        let tasks = self.host.gather();
        let acquired = match shared {
            true => self.lock.acquire_shared().await,
            false => self.lock.acquire().await,
        };
        let grant = match acquired {
            Acquired::Granted(grant) => grant,
            Acquired::Refused(why) => return Err(NotAcquired::Refused(self.host.refusal(why))),
            Acquired::Unknown(grant) => {
                self.notices.begin();
                self.lock.release(&grant).await;
                return Err(NotAcquired::Unknown);
            }
        };
        let status = self.notices.give(&grant);
        let held = HeldLock::new(grant, status, tasks.end(), Rc::clone(&self.has_dropped));
        if held.is_lost() {
            self.release(held).await;
            let what = "the lease was over before the caller had it";
            return Err(NotAcquired::Refused(what.to_owned()));
        }
        Ok(held)
    }

    /// A lock whose caller has dropped a grant may still count on it, as a re-entrant lock does. It
    /// starts anew, as after the death of its process.
    fn begin_anew(&mut self) {
        if !self.notices.has_grants() && self.has_dropped.replace(false) {
            self.lock = (self.algorithm.build)(self.setting.clone());
        }
    }

    /// Extends a grant by the lock's time to live. A grant that is [`Extended::Lost`] needs no
    /// release.
    pub async fn extend(&mut self, held: &mut HeldLock) -> Extended {
        self.notices.begin();
        let extended = self.lock.extend(&held.grant).await;
        match &extended {
            Extended::Kept(deadline) => held.prolong(*deadline),
            Extended::Lost => held.lose(),
            Extended::Unknown => {}
        }
        extended
    }

    /// Releases a grant.
    pub async fn release(&mut self, held: HeldLock) -> Released {
        self.notices.begin();
        let released = self.lock.release(&held.grant).await;
        held.end();
        released
    }
}

impl fmt::Display for NotAcquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAcquired::Refused(why) => write!(f, "refused: {why}"),
            NotAcquired::Unknown => write!(f, "no reply came in time"),
        }
    }
}

impl Error for NotAcquired {}
