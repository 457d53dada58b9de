// redis-semaphore's Mutex. Its refresh is a timer: here it is stopped, and called as the timer
// calls it.

import { Mutex } from "redis-semaphore";

import { LEASE, clients, drive } from "./steps.mjs";

const options = { acquireAttemptsLimit: 3, lockTimeout: LEASE, refreshInterval: 0 };

await drive(
  {
    make: () => new Mutex(clients[0], "job", options),
    acquire: (lock) => lock.tryAcquire(),
    extend: (lock) => lock._refresh(),
    release: (lock) => lock.release(),
  },
  "mutex:job",
);
