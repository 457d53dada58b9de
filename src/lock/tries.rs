//! The pause between two tries of one acquire.

use lockstorm_platform::rng::{Purpose, below};

use crate::lock::defaults::Choices;
use crate::lock::{Setting, token};

/// Sleeps before a try; tries count from 0. The length is drawn if the configuration leaves room
/// for that, so that callers which collided once do not collide again.
pub async fn back_off(setting: &Setting, choices: &Choices, attempt: u32) {
    let Setting { host, call, .. } = setting;
    let draw = host.draw(Purpose::Backoff, token::ordinal(call.get(), attempt));
    let drawn = below(draw, (choices.retry - choices.retry_from).saturating_add(1));
    host.sleep(choices.retry_from.saturating_add(drawn)).await;
}
