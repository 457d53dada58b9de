"""redlock-py: a list of servers, and a tuple as the lock."""

from redlock import Redlock

from steps import LEASE, PORTS, drive

redlock = Redlock([{"host": "127.0.0.1", "port": port} for port in PORTS])


class Library:
    def make(self):
        return {}

    def acquire(self, lock):
        lock["held"] = redlock.lock("job", LEASE * 1000)
        return bool(lock["held"])

    def release(self, lock):
        redlock.unlock(lock["held"])


drive(Library())
