//! Owner values: they distinguish the key of one grant from all others.

use lockstorm_platform::host::Host;
use lockstorm_platform::rng::Purpose;

use crate::lock::Call;

/// A fresh token for the given try of an acquire: 16 hexadecimal digits.
pub fn fresh(host: &Host, call: Call, attempt: u32) -> String {
    format!("{:016x}", host.draw(Purpose::Token, ordinal(call, attempt)))
}

/// The ordinal of a draw that belongs to one try of an operation.
pub fn ordinal(call: Call, attempt: u32) -> u64 {
    (u64::from(call.nth) << 8) | u64::from(attempt.min(0xff))
}
