"""aioredlock, on an event loop that runs in a thread of its own."""

import asyncio
import threading

from aioredlock import Aioredlock

from steps import LEASE, PORTS, drive

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def wait(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


async def manager():
    return Aioredlock([("127.0.0.1", port) for port in PORTS])


redlock = wait(manager())


class Library:
    def make(self):
        return {}

    def acquire(self, lock):
        lock["held"] = wait(redlock.lock("job", lock_timeout=LEASE))
        return True

    def extend(self, lock):
        wait(redlock.extend(lock["held"]))

    def release(self, lock):
        wait(redlock.unlock(lock["held"]))


drive(Library())
