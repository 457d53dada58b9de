"""What the Python clients share: where the nodes are, orders to the admin port, and how a step is told."""

import os
import sys
import time

import redis

NODES = [address.rsplit(":", 1) for address in os.environ["LOCKSTORM_NODES"].split(",")]
HOST, ADMIN = os.environ["LOCKSTORM_ADMIN"].rsplit(":", 1)


def connect(nth=0, **options):
    host, port = NODES[nth]
    return redis.Redis(host=host, port=int(port), **options)


def order(*words):
    """An order to the admin port; it refuses by an error. It does not know HELLO."""
    with redis.Redis(host=HOST, port=int(ADMIN), protocol=2) as admin:
        return admin.execute_command(*words)


def step(name, held, what):
    """Tells a step of the table, and ends where it is not as it has to be."""
    print(f"{name}\t{'ok' if held else 'WRONG'}\t{what}", flush=True)
    if not held:
        sys.exit(1)


def wait_for(condition, seconds=5.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False
