//! Commands that wait for a list or a sorted set, and what all of them share.
//!
//! Each tries once at its call. What finds nothing waits with a [`Pop`], which tries again whenever
//! one of its keys is created; inside a transaction or a script nobody waits.

use bytes::Bytes;

use crate::redis::command::{Call, Family, Outcome};
use crate::redis::frame::Reply;
use crate::redis::keyspace::Key;
use crate::redis::session::{Block, Pop};

/// What is here, by name.
pub const FAMILY: Family = &[];

/// Tries again for one key when a waiting client may be served; `None` if it finds nothing there.
pub type Serve = fn(&mut Call, &Key) -> Option<Reply>;

/// Until when the word at a place (seconds, with fractions) lets a command wait, in Unix
/// milliseconds; `None` is for ever.
pub fn until(call: &Call, nth: usize) -> Result<Option<u64>, Reply> {
    let wrong = || Reply::error("ERR timeout is not a float or out of range");
    let text = std::str::from_utf8(&call.args[nth]).map_err(|_| wrong())?;
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if seconds.is_nan() {
        return Err(wrong());
    }
    let ms = (seconds * 1_000.0).ceil();
    if !(0.0..9_223_372_036_854_775_808.0).contains(&ms) {
        return Err(Reply::error("ERR timeout is negative"));
    }
    Ok((ms > 0.0).then(|| call.node.now_ms.saturating_add(ms as u64)))
}

/// Lets the session wait for one of the keys. Where nobody may wait, `at_once` is the answer.
/// The answer when the time is over is an empty array, whatever the command.
pub fn wait(
    call: &mut Call,
    keys: &[Bytes],
    until_ms: Option<u64>,
    at_once: Reply,
    serve: Serve,
) -> Outcome {
    if call.session.in_exec || call.session.script.is_some() {
        return Ok(at_once);
    }
    call.session.blocked = Some(Block::Keys(Pop {
        args: call.args.iter().map(|arg| Bytes::copy_from_slice(arg)).collect(),
        command: call.command,
        db: call.session.db,
        keys: keys.iter().map(|key| Key::from(&key[..])).collect(),
        until_ms,
        serve,
        late: Reply::NilArray,
    }));
    Ok(Reply::SILENCE)
}
