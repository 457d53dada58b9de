"""pottery's Redlock."""

import random

import redis
from pottery import Redlock

from steps import LEASE, PORTS, drive

# Its delays: the same at each recording.
random.seed(1)
masters = {redis.Redis(port=port) for port in PORTS}


class Library:
    def make(self):
        return Redlock(key="job", masters=masters, auto_release_time=LEASE)

    def acquire(self, lock):
        return lock.acquire(timeout=0.8)

    def extend(self, lock):
        lock.extend()

    def release(self, lock):
        lock.release()


drive(Library(), key="redlock:job")
