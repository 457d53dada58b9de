"""redis-py's Lock with the defaults of its client."""

import redis

from steps import LEASE, PORTS, drive

client = redis.Redis(port=PORTS[0])


class Library:
    def make(self):
        # The steps run in threads of their own.
        return client.lock("job", timeout=LEASE, blocking_timeout=0.35, thread_local=False)

    def acquire(self, lock):
        return lock.acquire()

    def extend(self, lock):
        lock.extend(LEASE)

    def release(self, lock):
        lock.release()


drive(Library())
