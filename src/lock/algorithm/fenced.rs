//! Token-lua with an increasing number, drawn in the same script: INCR of `{<key>}:fence`, which a
//! cluster keeps in the slot of the key.
//!
//! The lock itself is no safer than token-lua; a resource that rejects smaller numbers is. The
//! counter has no time to live, so a node that loses it breaks the order for ever.

use async_trait::async_trait;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::token_lua::TokenLua;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "token-lua with a growing number for the resource to check",
    fences: true,
    ..Algorithm::lease("fenced", |setting| Box::new(Fenced::new(setting)))
};

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
