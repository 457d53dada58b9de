// @sesamecare-oss/redlock, a fork of redlock 5: fewer retries than its default of ten.

import { Redlock } from "@sesamecare-oss/redlock";

import { LEASE, clients, drive } from "./steps.mjs";

const redlock = new Redlock(clients, { retryCount: 2 });

await drive({
  make: () => ({}),
  acquire: async (lock) => Boolean((lock.held = await redlock.acquire(["job"], LEASE))),
  extend: async (lock) => void (lock.held = await lock.held.extend(LEASE)),
  release: async (lock) => void (await lock.held.release()),
});
