//! Token-lua with an increasing number, drawn in the same script: INCR of `{<key>}:fence`, which a
//! cluster keeps in the slot of the key.
//!
//! The lock itself is no safer; a resource that rejects smaller numbers is. The counter has no time
//! to live, so a node that loses it breaks the order for ever.

use async_trait::async_trait;
use lockstorm_platform::fault::LONGEST;

use crate::lock::defaults::LEASE;
use crate::lock::promise::{self, Work, exclusive};
use crate::lock::token_lua::TokenLua;
use crate::lock::{Acquired, Bounded, Extended, Grant, Lock};
use crate::lock::{LockConfig, Model, Promise, Released, Setting};

/// The lock of one caller.
pub struct Fenced(TokenLua);

impl Fenced {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> Fenced {
        Fenced(TokenLua::new(setting))
    }
}

#[async_trait(?Send)]
impl Lock for Fenced {
    async fn acquire(&mut self) -> Acquired {
        self.0.take(true).await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.0.extend(grant).await
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.0.release(grant).await
    }
}

/// As token-lua. Pauses still make stale holders, which the resource rejects; a node that lost its
/// counter is never safe again.
pub fn promise(config: &LockConfig, work: Work) -> Promise {
    let mut assumes = promise::of_lease(config, &LEASE.settle(config), 0, work);
    for assumption in &mut assumes {
        if assumption.what == Bounded::AmnesiacRestart {
            assumption.bound = LONGEST;
        }
    }
    exclusive(Model::Lease, assumes)
}
