//! A lock with a queue that its release hands on: it takes a waiter out of the queue and sets the
//! key to the token of that waiter, which learns of it with its next request.

use lockstorm::own::Algorithm;

use crate::list_queue::{ListQueue, queueing, waiting};

/// Takes the lock if it was handed to the caller, who keeps the time to live that the release gave
/// or does `$prolongs`; otherwise joins the queue while the lock is taken, and does `$turn` if it
/// is free.
macro_rules! ask {
    ($prolongs:literal, $turn:literal) => {
        concat!(
            r#"
redis.call("SET", KEYS[2] .. ":" .. ARGV[1], 1, "PX", ARGV[3])
if redis.call("GET", KEYS[1]) == ARGV[1] then"#,
            $prolongs,
            r#"
    return 1
end
if not redis.call("LPOS", KEYS[2], ARGV[1]) then
    redis.call("RPUSH", KEYS[2], ARGV[1])
end
if redis.call("EXISTS", KEYS[1]) == 1 then
    return 0
end
local head = redis.call("LINDEX", KEYS[2], 0)
while redis.call("EXISTS", KEYS[2] .. ":" .. head) == 0 do
    redis.call("LPOP", KEYS[2])
    head = redis.call("LINDEX", KEYS[2], 0)
end"#,
            $turn
        )
    };
}

/// Gives the lock to the first that still gives a sign of life, if that is the caller.
macro_rules! own_turn {
    ($prolongs:literal) => {
        ask!(
            $prolongs,
            r#"
if head ~= ARGV[1] then
    return 0
end
redis.call("LPOP", KEYS[2])
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1"#
        )
    };
}

/// Takes the lock in its turn, and prolongs one that was handed to it.
const TURN: &str = own_turn!("\nredis.call('PEXPIRE', KEYS[1], ARGV[2])");

/// The same, but a caller that finds its token keeps the time to live that the release gave.
const LATE: &str = own_turn!("");

/// The same as the first, but whoever finds the lock free hands it to the first in the queue.
const USHER: &str = ask!(
    "\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
    r#"
redis.call("LPOP", KEYS[2])
redis.call("SET", KEYS[1], head, "PX", ARGV[2])
return head == ARGV[1] and 1 or 0"#
);

/// Leaves the queue, and does `$passes` with the lock if the caller has it.
macro_rules! leave {
    ($($passes:expr),*) => {
        concat!(
            r#"
redis.call("LREM", KEYS[2], 1, ARGV[1])
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
    return 0
end
"#,
            $($passes,)*
            "\nreturn 1"
        )
    };
}

/// Hands the lock on to the next that `$pop` takes out of the queue and that still gives a sign of
/// life.
macro_rules! hand_on {
    ($pop:literal, $lease:literal) => {
        leave!(
            "local next = redis.call('",
            $pop,
            r#"', KEYS[2])
while next and redis.call("EXISTS", KEYS[2] .. ":" .. next) == 0 do
    next = redis.call("LPOP", KEYS[2])
end
if next then
    redis.call("SET", KEYS[1], next"#,
            $lease,
            r#")
else
    redis.call("DEL", KEYS[1])
end"#
        )
    };
}

/// Hands the lock on to the first.
const HAND_ON: &str = hand_on!("LPOP", ", 'PX', ARGV[2]");

/// Hands it to the last, or to the first if that one is silent.
const TO_THE_LAST: &str = hand_on!("RPOP", ", 'PX', ARGV[2]");

/// Hands it to the first, for good.
const FOR_GOOD: &str = hand_on!("LPOP", "");

/// Empties the queue, and leaves the lock to the next that asks.
const DISPERSE: &str = leave!(r#"redis.call("DEL", KEYS[1], KEYS[2])"#);

/// Keeps its promise.
pub const BATON: Algorithm = queueing("baton", |setting| ListQueue::boxed(setting, TURN, HAND_ON));

/// The same, without the promise of an order.
pub const UNORDERED: Algorithm =
    waiting("baton-unordered", |setting| ListQueue::boxed(setting, TURN, HAND_ON));

/// Keeps its promise: those who wait hand the lock to their first, too.
pub const USHERED: Algorithm =
    queueing("baton-ushered", |setting| ListQueue::boxed(setting, USHER, HAND_ON));

/// Hands the lock to who came last.
pub const NEWEST: Algorithm =
    queueing("baton-newest", |setting| ListQueue::boxed(setting, TURN, TO_THE_LAST));

/// Forgets all who wait whenever the lock is released.
pub const DISPERSING: Algorithm =
    queueing("baton-dispersing", |setting| ListQueue::boxed(setting, TURN, DISPERSE));

/// Counts the lease from the request by which a waiter learns of it, not from the hand-over.
pub const LATE_LEASE: Algorithm =
    queueing("baton-late-lease", |setting| ListQueue::boxed(setting, LATE, HAND_ON));

/// Hands the lock on without a lease.
pub const ENDLESS: Algorithm =
    queueing("baton-endless", |setting| ListQueue::boxed(setting, TURN, FOR_GOOD));
