//! Owner values: they distinguish the key of one grant from all others, or fail to.

use lockstorm_platform::host::Host;
use lockstorm_platform::rng::Purpose;

use crate::lock::config::TokenScope;
use crate::lock::{Call, Setting};

/// The owner value of a lock that has the same for all callers.
pub const CONSTANT: &str = "1";

/// The ordinal of the draw of a process's own value: no operation has that number.
pub(crate) const OF_PROCESS: u64 = u64::MAX;

/// The owner values of one caller.
#[derive(Clone, Debug)]
pub struct OwnerValues {
    scope: TokenScope,
    /// The value of the acquire that is under way, or of the caller.
    own: Option<String>,
}

impl OwnerValues {
    /// Values that are the same for the acquires of `scope`.
    pub fn new(scope: TokenScope) -> OwnerValues {
        OwnerValues { scope, own: None }
    }

    /// The value for a try of the caller's current acquire; tries count from 0.
    pub fn next(&mut self, setting: &Setting, attempt: u32) -> String {
        let (host, call) = (&setting.host, setting.call.get());
        let fresh = || fresh(host, call, attempt);
        match self.scope {
            TokenScope::Try => fresh(),
            TokenScope::Acquisition if attempt == 0 => self.own.insert(fresh()).clone(),
            TokenScope::Acquisition | TokenScope::Thread => {
                self.own.get_or_insert_with(fresh).clone()
            }
            TokenScope::ThreadId => setting.thread.to_string(),
            TokenScope::Process => format!("{:016x}", host.draw(Purpose::Token, OF_PROCESS)),
            TokenScope::Constant => CONSTANT.to_owned(),
        }
    }
}

/// A fresh token for the given try of an acquire: 16 hexadecimal digits.
pub fn fresh(host: &Host, call: Call, attempt: u32) -> String {
    format!("{:016x}", host.draw(Purpose::Token, ordinal(call, attempt)))
}

/// The ordinal of a draw that belongs to one try of an operation.
pub fn ordinal(call: Call, attempt: u32) -> u64 {
    (u64::from(call.nth) << 8) | u64::from(attempt.min(0xff))
}
