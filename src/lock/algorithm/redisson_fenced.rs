//! Redisson's fenced lock: the same hash, and a number that the script of an acquire draws.
//!
//! Every entry draws one, a re-entry too, and the grant carries it. The counter has no time to
//! live, and no release deletes it (redisson #6510): a node that forgets it breaks the order for
//! ever. With the option `fence_from = "counter"` a caller takes the lock first and reads the
//! counter then, as `lock` and `getToken` do: what it reads may be the number of a later holder.

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::counted_hash::{Arg, DEFAULTS, Form, ScriptCall, ScriptKey};
use crate::lock::algorithm::redisson::{self, Redisson};
use crate::lock::client::scripts;

/// Its name.
pub const NAME: &str = "redisson-fenced";

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "redisson with a growing number for the resource to check",
    renews: true,
    fences: true,
    waits_for_turn: true,
    defaults: DEFAULTS,
    promise: redisson::promise,
    ..Algorithm::lease(NAME, |setting| Box::new(Redisson::new(setting, &FORM)))
};

const FORM: Form = Form {
    take: ScriptCall {
        script: scripts::COUNT_UP_AND_FENCE,
        keys: &[ScriptKey::Lock, ScriptKey::Fence],
        args: &[Arg::Owner, Arg::Ttl],
    },
    ..redisson::FORM
};
