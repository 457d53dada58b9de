//! The Lua scripts that locks run on a node: a comparison and its effect in one atomic step.

/// Deletes the key if it holds the token. KEYS: lock. ARGV: token.
pub const COMPARE_AND_DELETE: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
else
    return 0
end"#;

/// Sets the key with a fresh time to live if it is absent or holds the token: 1 if it did.
/// KEYS: lock. ARGV: token, ms.
pub const SET_IF_ABSENT_OR_OWN: &str = r#"
local owner = redis.call("GET", KEYS[1])
if not owner or owner == ARGV[1] then
    redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
    return 1
else
    return 0
end"#;

/// Sets the time to live if the key holds the token. KEYS: lock. ARGV: token, ms.
pub const COMPARE_AND_PEXPIRE: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
    return 0
end"#;

/// Like [`COMPARE_AND_PEXPIRE`], and sets the key again if it is gone: this revives a lock that was
/// lost, and that another caller may have held meanwhile. KEYS: lock. ARGV: token, ms.
pub const PEXPIRE_OR_REVIVE: &str = r#"
local owner = redis.call("GET", KEYS[1])
if owner == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
elseif not owner then
    redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
    return 1
else
    return 0
end"#;

/// Takes the lock if it is free and draws the next fence in the same step; nil if it is not
/// free. KEYS: lock, fence counter. ARGV: token, ms.
pub const SET_AND_FENCE: &str = r#"
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
    return redis.call("INCR", KEYS[2])
else
    return false
end"#;

/// Takes the lock if it is free or already the owner's, and increments the count; otherwise returns
/// the remaining time to live of its key, in ms. KEYS: lock. ARGV: owner, ms.
pub const COUNT_UP: &str = r#"
if redis.call("EXISTS", KEYS[1]) == 1 and redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
    return redis.call("PTTL", KEYS[1])
end
redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
redis.call("PEXPIRE", KEYS[1], ARGV[2])
return nil"#;

/// Decrements the count: 1 if it was the last, and waiters are notified; 0 if the owner has more;
/// nil if the lock is not the owner's. KEYS: lock, channel. ARGV: owner, ms.
pub const COUNT_DOWN: &str = r#"
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
    return nil
end
if redis.call("HINCRBY", KEYS[1], ARGV[1], -1) > 0 then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
    return 0
end
redis.call("DEL", KEYS[1])
redis.call("PUBLISH", KEYS[2], "0")
return 1"#;

/// Sets the time to live if the lock is the owner's. KEYS: lock. ARGV: owner, ms.
pub const COUNTED_PEXPIRE: &str = r#"
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 1 then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
    return 0
end"#;

/// Removes the permits whose deadlines have passed, and adds one if there is room: 1, or 0 if all
/// are taken. KEYS: semaphore. ARGV: permit, ms, number of permits, and the time of the client in
/// ms; without it, the node's own time counts.
pub const TAKE_PERMIT: &str = r#"
local now = tonumber(ARGV[4])
if not now then
    local time = redis.call("TIME")
    now = time[1] * 1000 + math.floor(time[2] / 1000)
end
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[3]) then
    return 0
end
redis.call("ZADD", KEYS[1], now + ARGV[2] + 1, ARGV[1])
return 1"#;

/// Moves the deadline of a permit that nobody has reclaimed. KEYS: semaphore. ARGV: permit, ms, and
/// the time of the client in ms; without it, the node's own time counts.
pub const KEEP_PERMIT: &str = r#"
if not redis.call("ZSCORE", KEYS[1], ARGV[1]) then
    return 0
end
local now = tonumber(ARGV[3])
if not now then
    local time = redis.call("TIME")
    now = time[1] * 1000 + math.floor(time[2] / 1000)
end
redis.call("ZADD", KEYS[1], now + ARGV[2] + 1, ARGV[1])
return 1"#;

/// Increments the number of permits that are taken, if there is room. KEYS: semaphore. ARGV: number
/// of permits.
pub const COUNT_PERMIT: &str = r#"
if tonumber(redis.call("GET", KEYS[1]) or "0") >= tonumber(ARGV[1]) then
    return 0
end
redis.call("INCR", KEYS[1])
return 1"#;

/// Decrements the number of permits that are taken, if any is. KEYS: semaphore.
pub const UNCOUNT_PERMIT: &str = r#"
if tonumber(redis.call("GET", KEYS[1]) or "0") <= 0 then
    return 0
end
redis.call("DECR", KEYS[1])
return 1"#;

/// Adds the name of a party and returns how many are left; publishes when none is left. KEYS:
/// names, channel. ARGV: name, number of parties.
pub const COUNT_NAME: &str = r#"
local added = redis.call("SADD", KEYS[1], ARGV[1])
local left = ARGV[2] - redis.call("SCARD", KEYS[1])
if left == 0 and added == 1 then
    redis.call("PUBLISH", KEYS[2], "0")
end
return math.max(left, 0)"#;

/// Sets the count once, decrements it and returns how many are left; deletes it and publishes when
/// none is left. KEYS: count, whether it was set, channel. ARGV: number of parties.
pub const COUNT_DECR: &str = r#"
if redis.call("SETNX", KEYS[2], "1") == 1 then
    redis.call("SET", KEYS[1], ARGV[1])
end
if redis.call("EXISTS", KEYS[1]) == 0 then
    return 0
end
local left = redis.call("DECR", KEYS[1])
if left == 0 then
    redis.call("DEL", KEYS[1])
    redis.call("PUBLISH", KEYS[3], "0")
end
return left"#;

/// How many are left. KEYS: count.
pub const COUNT_LEFT: &str = r#"
return tonumber(redis.call("GET", KEYS[1]) or "0")"#;
