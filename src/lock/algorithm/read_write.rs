//! Redisson's lock of readers and a writer: one hash with the mode and a field for each holder. Any
//! number of readers hold it at a time, or one writer.
//!
//! Each entry of a reader has a key of its own that expires with its lease. They show how long the
//! hash has to live when a reader leaves, so that a dead one keeps a writer out no longer than its
//! own lease once the others have left. At the version that was read (4.7.1-SNAPSHOT, commit
//! 66863978b) a reader that comes or leaves never shortens what another has; in earlier ones a
//! shorter lease did (redisson/redisson#2144). A caller that writes may read as well, and then
//! keeps the lock as a reader.

use std::cell::OnceCell;
use std::rc::Rc;

use async_trait::async_trait;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::counted_hash::{Arg, DEFAULTS, Form, ScriptCall, ScriptKey};
use crate::lock::algorithm::redisson::{self, Redisson};
use crate::lock::client::scripts;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "redisson for readers and a writer: a hash with a mode and a field for each holder",
    renews: true,
    shares: true,
    waits_for_turn: true,
    defaults: DEFAULTS,
    promise: redisson::promise,
    ..Algorithm::lease("read-write", |setting| Box::new(ReadWrite::new(&setting)))
};

const READER: Form = Form {
    take: ScriptCall {
        script: scripts::READ,
        keys: &[ScriptKey::Lock, ScriptKey::Holds],
        args: &[Arg::Owner, Arg::Ttl, Arg::Writer],
    },
    give_back: ScriptCall {
        script: scripts::READ_OVER,
        keys: &[ScriptKey::Lock, ScriptKey::Channel, ScriptKey::Holds],
        args: &[Arg::Owner],
    },
    extend: ScriptCall {
        script: scripts::READ_ON,
        keys: &[ScriptKey::Lock, ScriptKey::Holds],
        args: &[Arg::Owner, Arg::Ttl],
    },
    leave: None,
    channel: CHANNEL,
    has_own_channel: false,
    suffix: ":1",
};

const WRITER: Form = Form {
    take: ScriptCall {
        script: scripts::WRITE,
        keys: &[ScriptKey::Lock],
        args: &[Arg::Owner, Arg::Ttl],
    },
    give_back: ScriptCall {
        script: scripts::WRITE_OVER,
        keys: &[ScriptKey::Lock, ScriptKey::Channel],
        args: &[Arg::Owner, Arg::Ttl],
    },
    extend: redisson::EXTEND,
    leave: None,
    channel: CHANNEL,
    has_own_channel: false,
    suffix: AS_WRITER,
};

const CHANNEL: &str = "redisson_rwlock";

/// What follows a writer's id in its field.
const AS_WRITER: &str = ":1:write";

/// The two locks of one caller, on one hash.
pub struct ReadWrite {
    reader: Redisson,
    writer: Redisson,
}

impl ReadWrite {
    /// The locks on the first node of `setting`.
    pub fn new(setting: &Setting) -> ReadWrite {
        let id: Rc<OnceCell<String>> = Rc::default();
        let of = |form| Redisson::of(setting.clone(), form, Rc::clone(&id));
        ReadWrite { reader: of(&READER), writer: of(&WRITER) }
    }

    /// The lock that gave a grant.
    fn of(&mut self, grant: &Grant) -> &mut Redisson {
        if grant.token.ends_with(AS_WRITER) { &mut self.writer } else { &mut self.reader }
    }
}

#[async_trait(?Send)]
impl Lock for ReadWrite {
    async fn acquire(&mut self) -> Acquired {
        self.writer.acquire().await
    }

    async fn acquire_shared(&mut self) -> Acquired {
        self.reader.acquire().await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.of(grant).extend(grant).await
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.of(grant).release(grant).await
    }
}
