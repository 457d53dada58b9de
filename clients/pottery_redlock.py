"""pottery's Redlock: a majority of three independent masters."""

import time

from pottery import Redlock
from pottery.exceptions import ReleaseUnlockedLock
from redis.backoff import NoBackoff
from redis.retry import Retry

from serve import connect, order, step, wait_for

# By default redis-py tries a dead master ten times; a refused acquire then outlasts the lease.
once = {"retry": Retry(NoBackoff(), 0), "socket_timeout": 1, "socket_connect_timeout": 1}
masters = {connect(nth, **once) for nth in range(3)}
name = "lock:pottery"


def lock(lease=5):
    return Redlock(key=name, masters=masters, auto_release_time=lease)


held, other = lock(), lock()
step("acquire", held.acquire(blocking=False), "a majority grants")
step("contend", not other.acquire(blocking=False), "a second caller is refused")
time.sleep(0.5)
before = held.locked()
held.extend()
step("extend", 0 < before < held.locked(), "the validity is longer than before")
held.release()
try:
    held.release()
    twice = False
except ReleaseUnlockedLock:
    twice = True
step("release", twice and other.acquire(blocking=False), "released once, then the next one enters")
other.release()
brief = lock(lease=0.3)
brief.acquire()
step("expire", wait_for(lambda: other.acquire(blocking=False), 3), "the next one enters when the time is over")
other.release()

order("FAULT", "CRASH", "n1")
granted = held.acquire(blocking=True, timeout=5)
refused = not other.acquire(blocking=False)
held.release()
step("fault", granted and refused, "one of three masters is down: survived")
