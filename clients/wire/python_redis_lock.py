"""python-redis-lock: SET NX EX, and a list by which a release wakes a waiter."""

import redis
from redis_lock import Lock

from steps import LEASE, PORTS, drive

client = redis.Redis(port=PORTS[0])


class Library:
    def make(self):
        return Lock(client, "job", expire=LEASE)

    def acquire(self, lock):
        return lock.acquire(timeout=1)

    def extend(self, lock):
        lock.extend()

    def release(self, lock):
        lock.release()


drive(Library(), key="lock:job")
