// redlock 4: fewer retries than its default of ten, so that a step stays short.

import Redlock from "redlock4";

import { LEASE, clients, drive } from "./steps.mjs";

const redlock = new Redlock(clients, { retryCount: 2 });
redlock.on("clientError", () => {});

await drive({
  make: () => ({}),
  acquire: async (lock) => Boolean((lock.held = await redlock.lock("job", LEASE))),
  extend: async (lock) => void (lock.held = await lock.held.extend(LEASE)),
  release: async (lock) => void (await lock.held.unlock()),
});
