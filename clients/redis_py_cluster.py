"""redis-py's RedisCluster: finds the node of a key's slot, and the replica that takes over."""

import redis
from redis.cluster import RedisCluster

from serve import NODES, connect, order, step, wait_for

# Redis's own time-out is 15 s: nobody needs to wait so long here.
for nth in range(len(NODES)):
    connect(nth).config_set("cluster-node-timeout", 1000)

host, port = NODES[0]
cluster = RedisCluster(host=host, port=int(port))
step("acquire", cluster.set("lock", "a", nx=True, px=60000), "SET NX PX follows MOVED")
step("contend", cluster.set("lock", "b", nx=True, px=60000) is None, "the second is refused")
slots = [cluster.get(f"key{n}") for n in range(100) if cluster.set(f"key{n}", n)]
step("spread", slots == [b"%d" % n for n in range(100)], "keys of all masters are read back")

owner = cluster.get_node_from_key("lock").port
name = next(f"n{nth + 1}" for nth, (_, port) in enumerate(NODES) if int(port) == owner)
order("FAULT", "CRASH", name)


def is_kept():
    try:
        return cluster.get("lock") == b"a"
    except redis.exceptions.RedisError:
        return False


step("failover", wait_for(is_kept, 20), f"{name} died, its replica has the key")
heir = cluster.get_node_from_key("lock").port
step("moved", heir != owner, "the client asks another node now")
