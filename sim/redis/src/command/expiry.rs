//! Expiry of keys: the EXPIRE family, TTL and its variants, PERSIST.
//!
//! Expiry times are Unix milliseconds of the node's wall clock. Replicas and file always receive
//! the absolute time.

use crate::call::{Call, Family, Outcome};
use crate::compat::Difference;
use crate::errors::{NOT_INTEGER, printed};
use crate::frame::Reply;
use crate::frame::{digits, word};
use crate::keyspace::Entry;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("expire", expire),
    ("expireat", expireat),
    ("expiretime", expiretime),
    ("persist", persist),
    ("pexpire", pexpire),
    ("pexpireat", pexpireat),
    ("pexpiretime", pexpiretime),
    ("pttl", pttl),
    ("ttl", ttl),
];

/// The unit of an EXPIRE's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
}

/// The origin of an EXPIRE's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// From now.
    In,
    /// From the Unix epoch.
    At,
}

impl Deadline {
    /// The expiry time in Unix milliseconds; `None` if it overflows.
    pub fn of(self, unit: Unit, number: i64, now_ms: u64) -> Option<i64> {
        let ms = match unit {
            Unit::S => number.checked_mul(1_000)?,
            Unit::Ms => number,
        };
        match self {
            Deadline::In => ms.checked_add(i64::try_from(now_ms).ok()?),
            Deadline::At => Some(ms),
        }
    }
}

/// The conditions of an EXPIRE: NX, XX, GT, LT.
#[derive(Clone, Copy, Default)]
struct Conditions {
    none: bool,
    some: bool,
    later: bool,
    sooner: bool,
}

/// EXPIRE key seconds [NX | XX | GT | LT]
pub fn expire(call: &mut Call) -> Outcome {
    expire_at(call, Unit::S, Deadline::In)
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT]
pub fn pexpire(call: &mut Call) -> Outcome {
    expire_at(call, Unit::Ms, Deadline::In)
}

/// EXPIREAT key seconds [NX | XX | GT | LT]
pub fn expireat(call: &mut Call) -> Outcome {
    expire_at(call, Unit::S, Deadline::At)
}

/// PEXPIREAT key milliseconds [NX | XX | GT | LT]
pub fn pexpireat(call: &mut Call) -> Outcome {
    expire_at(call, Unit::Ms, Deadline::At)
}

fn expire_at(call: &mut Call, unit: Unit, deadline: Deadline) -> Outcome {
    let conditions = conditions(call)?;
    let number = call.integer(2)?;
    let until = deadline.of(unit, number, call.time_ms()).ok_or_else(|| {
        let name = call.lower_name();
        Reply::Error(format!("ERR invalid expire time in '{name}' command").into())
    })?;
    let Some(current) = call.entry(&call.args[1]).map(Entry::until_ms) else {
        return Ok(Reply::Integer(0));
    };
    if !conditions.hold(until, current) {
        return Ok(Reply::Integer(0));
    }
    give_end(call, until);
    Ok(Reply::Integer(1))
}

/// Sets the expiry time of the command's key, or deletes the key at once if that time is not in the
/// future. A replica and a node that is loading its file accept any expiry time.
pub fn give_end(call: &mut Call, until_ms: i64) {
    let args = call.args;
    let end = u64::try_from(until_ms).unwrap_or_default();
    let trusting = call.node.startup.replays || call.node.peers.master.is_some();
    if end <= call.time_ms() && !trusting {
        return delete_ended(call);
    }
    call.set_end(&args[1], Some(end));
    call.event(b'g', "expire", &args[1]);
    let is_expire = call.command.name.contains("EXPIRE");
    let conditions = if is_expire { call.from(3) } else { &[] };
    call.propagate(|| {
        let mut command = vec![word("PEXPIREAT"), args[1].clone(), digits(until_ms)];
        command.extend_from_slice(conditions);
        command
    });
}

/// Deletes the command's key, because its new expiry time is in the past.
pub fn delete_ended(call: &mut Call) {
    let key = &call.args[1];
    call.remove(key);
    let name = call.node.settings.deletion("lazyfree-lazy-expire");
    call.propagate(|| vec![name, key.clone()]);
    if call.node.differs(Difference::PastEndIsExpiry) {
        call.event(b'x', "expired", key);
    } else {
        call.event(b'g', "del", key);
    }
}

fn conditions(call: &Call) -> Result<Conditions, Reply> {
    let mut conditions = Conditions::default();
    for option in call.from(3) {
        match &option.to_ascii_uppercase()[..] {
            b"NX" => conditions.none = true,
            b"XX" => conditions.some = true,
            b"GT" => conditions.later = true,
            b"LT" => conditions.sooner = true,
            _ => {
                let text = [b"ERR Unsupported option ", printed(option, usize::MAX)].concat();
                return Err(Reply::Error(text.into()));
            }
        }
    }
    if conditions.none && (conditions.some || conditions.later || conditions.sooner) {
        return Err(Reply::error(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if conditions.later && conditions.sooner {
        return Err(Reply::error("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(conditions)
}

impl Conditions {
    /// A missing expiry time counts as later than any other.
    fn hold(self, until: i64, current: Option<u64>) -> bool {
        let current = current.map(|end| i64::try_from(end).unwrap_or(i64::MAX));
        let refused = [
            self.none && current.is_some(),
            self.some && current.is_none(),
            self.later && current.is_none_or(|end| until <= end),
            self.sooner && current.is_some_and(|end| until >= end),
        ];
        !refused.contains(&true)
    }
}

/// PERSIST key
pub fn persist(call: &mut Call) -> Outcome {
    let args = call.args;
    if call.entry(&args[1]).is_none_or(|entry| entry.until_ms().is_none()) {
        return Ok(Reply::Integer(0));
    }
    call.set_end(&args[1], None);
    call.event(b'g', "persist", &args[1]);
    call.propagate(|| vec![word("PERSIST"), args[1].clone()]);
    Ok(Reply::Integer(1))
}

/// TTL key
pub fn ttl(call: &mut Call) -> Outcome {
    let now = call.time_ms();
    remaining(call, |end| (end.saturating_sub(now) + 500) / 1_000)
}

/// PTTL key
pub fn pttl(call: &mut Call) -> Outcome {
    let now = call.time_ms();
    remaining(call, |end| end.saturating_sub(now))
}

/// EXPIRETIME key
pub fn expiretime(call: &mut Call) -> Outcome {
    remaining(call, |end| (end + 500) / 1_000)
}

/// PEXPIRETIME key
pub fn pexpiretime(call: &mut Call) -> Outcome {
    remaining(call, |end| end)
}

fn remaining(call: &mut Call, of: impl FnOnce(u64) -> u64) -> Outcome {
    let end = call.glance(&call.args[1]).map(Entry::until_ms);
    Ok(Reply::Integer(match end {
        None => -2,
        Some(None) => -1,
        Some(Some(end)) => i64::try_from(of(end)).map_err(|_| Reply::error(NOT_INTEGER))?,
    }))
}
