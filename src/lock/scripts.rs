//! The Lua texts that locks run on a node: a compare and its effect in one atomic step.

/// Deletes the key if it holds the token. KEYS: lock. ARGV: token.
pub const COMPARE_AND_DELETE: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
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

/// As [`COMPARE_AND_PEXPIRE`], and sets the key anew if it is gone: a lock that was lost, and
/// perhaps was another's in between, comes back to life. KEYS: lock. ARGV: token, ms.
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
