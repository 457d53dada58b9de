"""redis-py's Lock: SET NX PX, a token, Lua for release, extend and reacquire."""

from redis.exceptions import LockError, LockNotOwnedError

from serve import connect, order, step, wait_for

first, second = connect(), connect()
name = "lock:redis-py"

lock = first.lock(name, timeout=2)
step("acquire", lock.acquire(blocking=False), "SET NX PX is granted")
other = second.lock(name, timeout=2)
step("contend", not other.acquire(blocking=False), "a second caller is refused")
lock.extend(3, replace_ttl=True)
step("extend", 2000 < first.pttl(name) <= 3000, "the time to live is replaced")
try:
    second.lock(name).release()
    foreign = False
except LockError:
    foreign = True
lock.release()
step("release", foreign and other.acquire(blocking=False), "only the owner releases, then the next one enters")
other.release()
brief = first.lock(name, timeout=0.2)
brief.acquire()
step("expire", wait_for(lambda: other.acquire(blocking=False), 1), "the next one enters when the time is over")
other.release()

# A clock that steps forward ends the lease early: the lock cannot know.
lock.acquire()
order("CLOCK", "STEP", "n1", "+10s")
entered = wait_for(lambda: other.acquire(blocking=False), 1)
try:
    lock.release()
    noticed = False
except LockNotOwnedError:
    noticed = True
step("fault", entered and noticed, "node clock +10 s: NOT survived, two holders; release tells the first one too late")
