"""redis-py's Sentinel: `master_for` finds the master, and the replica that takes over."""

import os

import redis
from redis.sentinel import Sentinel

from serve import order, step, wait_for

ADDRESSES = [address.rsplit(":", 1) for address in os.environ["LOCKSTORM_SENTINELS"].split(",")]

sentinels = Sentinel([(host, int(port)) for host, port in ADDRESSES])
# Redis's own time is 30 s: nobody needs to wait so long here.
for sentinel in sentinels.sentinels:
    sentinel.sentinel_set("mymaster", "down-after-milliseconds", 500)

first = sentinels.discover_master("mymaster")
master = sentinels.master_for("mymaster")
step("acquire", master.set("lock", "a", nx=True, px=60000), "SET NX PX at the master")
found = wait_for(lambda: len(sentinels.discover_slaves("mymaster")) == 1, 12)
step("replica", found, "the Sentinels know the replica")
copied = wait_for(lambda: sentinels.slave_for("mymaster").get("lock") == b"a")
step("copied", copied, "slave_for reads the lock there")
known = wait_for(lambda: len(sentinels.sentinels[0].sentinel_sentinels("mymaster")) == 2)
step("quorum", known, "the Sentinels know each other")
order("FAULT", "CRASH", "n1")


def is_kept():
    try:
        return master.set("lock", "b", nx=True, px=60000) is None
    except redis.exceptions.RedisError:
        return False


step("failover", wait_for(is_kept, 20), "n1 died; the new master refuses who comes second")
step("moved", sentinels.discover_master("mymaster") != first, "the Sentinels name another")
