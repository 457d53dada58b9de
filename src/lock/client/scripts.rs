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

/// Like [`COUNT_UP`], and draws the next fence in the same step: -1 and that number, or the
/// remaining time to live of the key and -1. KEYS: lock, fence counter. ARGV: owner, ms.
pub const COUNT_UP_AND_FENCE: &str = r#"
if redis.call("EXISTS", KEYS[1]) == 1 and redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
    return {redis.call("PTTL", KEYS[1]), -1}
end
local fence = redis.call("INCR", KEYS[2])
redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
redis.call("PEXPIRE", KEYS[1], ARGV[2])
return {-1, fence}"#;

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

/// The start of the scripts of a fair queue: the head is the first waiter whose deadline is later
/// than the caller's now. Waiters before it lose their places.
macro_rules! head_of_queue {
    () => {
        r#"
local head = redis.call("LINDEX", KEYS[2], 0)
while head do
    local due = redis.call("ZSCORE", KEYS[3], head)
    if not due or tonumber(due) > tonumber(ARGV[3]) then
        break
    end
    redis.call("LPOP", KEYS[2])
    redis.call("ZREM", KEYS[3], head)
    head = redis.call("LINDEX", KEYS[2], 0)
end"#
    };
}

/// Takes the lock if it is free and the caller is the first, or if it is the caller's already;
/// otherwise joins the queue behind the last, for the deadline of that one and a wait more, and
/// returns how long to wait, in ms. A grant moves all deadlines a wait nearer. KEYS: lock, queue,
/// deadlines. ARGV: owner, ms, now, wait.
pub const TAKE_TURN: &str = concat!(
    head_of_queue!(),
    r#"
if redis.call("EXISTS", KEYS[1]) == 0 and (not head or head == ARGV[1]) then
    redis.call("LPOP", KEYS[2])
    redis.call("ZREM", KEYS[3], ARGV[1])
    for _, waiter in ipairs(redis.call("ZRANGE", KEYS[3], 0, -1)) do
        redis.call("ZINCRBY", KEYS[3], -tonumber(ARGV[4]), waiter)
    end
    redis.call("HSET", KEYS[1], ARGV[1], 1)
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
    return nil
end
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 1 then
    redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
    return nil
end
local left = redis.call("PTTL", KEYS[1])
if redis.call("ZSCORE", KEYS[3], ARGV[1]) then
    return math.max(left, 0)
end
local last = redis.call("LINDEX", KEYS[2], -1)
local due = last and redis.call("ZSCORE", KEYS[3], last)
if due then
    left = tonumber(due) - tonumber(ARGV[3])
end
redis.call("ZADD", KEYS[3], left + tonumber(ARGV[3]) + tonumber(ARGV[4]), ARGV[1])
redis.call("RPUSH", KEYS[2], ARGV[1])
return left"#
);

/// Decrements the count like [`COUNT_DOWN`], and notifies the head of the queue only. A lock that
/// is gone counts as released. KEYS: lock, queue, deadlines, channels. ARGV: owner, ms, now.
pub const PASS_TURN: &str = concat!(
    head_of_queue!(),
    r#"
if redis.call("EXISTS", KEYS[1]) == 1 then
    if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
        return nil
    end
    if redis.call("HINCRBY", KEYS[1], ARGV[1], -1) > 0 then
        redis.call("PEXPIRE", KEYS[1], ARGV[2])
        return 0
    end
    redis.call("DEL", KEYS[1])
end
if head then
    redis.call("PUBLISH", KEYS[4] .. ":" .. head, "0")
end
return 1"#
);

/// Leaves the queue: who stands behind moves a wait nearer. KEYS: queue, deadlines. ARGV: owner,
/// wait.
pub const LEAVE_QUEUE: &str = r#"
local is_behind = false
for _, waiter in ipairs(redis.call("LRANGE", KEYS[1], 0, -1)) do
    if is_behind then
        redis.call("ZINCRBY", KEYS[2], -tonumber(ARGV[2]), waiter)
    end
    is_behind = is_behind or waiter == ARGV[1]
end
redis.call("ZREM", KEYS[2], ARGV[1])
return redis.call("LREM", KEYS[1], 0, ARGV[1])"#;

/// Enters as a reader unless another writes: nil, or the time to live of the hash, in ms. Each
/// entry of a reader has a key of its own that expires with its lease; the hash lives for the
/// longest.
/// KEYS: lock, prefix of the readers' keys. ARGV: owner, ms, the owner as a writer.
pub const READ: &str = r#"
local mode = redis.call("HGET", KEYS[1], "mode")
if mode == "write" and redis.call("HEXISTS", KEYS[1], ARGV[3]) == 0 then
    return redis.call("PTTL", KEYS[1])
end
if not mode then
    redis.call("HSET", KEYS[1], "mode", "read")
end
local nth = redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
redis.call("SET", KEYS[2] .. ":" .. ARGV[1] .. ":rwlock_timeout:" .. nth, 1, "PX", ARGV[2])
redis.call("PEXPIRE", KEYS[1], math.max(redis.call("PTTL", KEYS[1]), tonumber(ARGV[2])))
return nil"#;

/// Leaves as a reader: 1 if it was the owner's last entry, 0 if it has more, nil if it has none.
/// The hash lives for the longest of the entries that are left; if none is, it is removed, and
/// waiters are notified. KEYS: lock, channel, prefix of the readers' keys. ARGV: owner.
pub const READ_OVER: &str = r#"
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
    return nil
end
local count = redis.call("HINCRBY", KEYS[1], ARGV[1], -1)
redis.call("DEL", KEYS[3] .. ":" .. ARGV[1] .. ":rwlock_timeout:" .. count + 1)
if count == 0 then
    redis.call("HDEL", KEYS[1], ARGV[1])
end
local fields, longest = redis.call("HGETALL", KEYS[1]), 0
for place = 1, #fields, 2 do
    for nth = tonumber(fields[place + 1]) or 0, 1, -1 do
        local entry = KEYS[3] .. ":" .. fields[place] .. ":rwlock_timeout:" .. nth
        longest = math.max(longest, redis.call("PTTL", entry))
    end
end
if longest > 0 then
    redis.call("PEXPIRE", KEYS[1], longest)
elseif redis.call("HGET", KEYS[1], "mode") == "read" or #fields == 2 then
    redis.call("DEL", KEYS[1])
    redis.call("PUBLISH", KEYS[2], "0")
end
return count > 0 and 0 or 1"#;

/// Extends a reader's entries and the hash. KEYS: lock, prefix of the readers' keys. ARGV: owner,
/// ms.
pub const READ_ON: &str = r#"
local count = redis.call("HGET", KEYS[1], ARGV[1])
if not count then
    return 0
end
for nth = tonumber(count), 1, -1 do
    redis.call("PEXPIRE", KEYS[2] .. ":" .. ARGV[1] .. ":rwlock_timeout:" .. nth, ARGV[2])
end
return redis.call("PEXPIRE", KEYS[1], ARGV[2])"#;

/// Enters as the writer if nobody has the lock, or once more: nil, or the time to live of the hash,
/// in ms. A further entry adds its lease to what is left. KEYS: lock. ARGV: owner, ms.
pub const WRITE: &str = r#"
local mode = redis.call("HGET", KEYS[1], "mode")
if not mode then
    redis.call("HSET", KEYS[1], "mode", "write", ARGV[1], 1)
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
    return nil
end
local left = redis.call("PTTL", KEYS[1])
if mode == "write" and redis.call("HEXISTS", KEYS[1], ARGV[1]) == 1 then
    redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
    redis.call("PEXPIRE", KEYS[1], left + tonumber(ARGV[2]))
    return nil
end
return left"#;

/// Leaves as the writer: 1 if it was the last entry, 0 if there are more, nil if there is none.
/// What the owner still reads keeps the lock. KEYS: lock, channel. ARGV: owner, ms.
pub const WRITE_OVER: &str = r#"
if redis.call("HGET", KEYS[1], "mode") ~= "write"
    or redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
    return nil
end
if redis.call("HINCRBY", KEYS[1], ARGV[1], -1) > 0 then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
    return 0
end
redis.call("HDEL", KEYS[1], ARGV[1])
if redis.call("HLEN", KEYS[1]) > 1 then
    redis.call("HSET", KEYS[1], "mode", "read")
else
    redis.call("DEL", KEYS[1])
    redis.call("PUBLISH", KEYS[2], "0")
end
return 1"#;
