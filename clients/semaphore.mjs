// redis-semaphore: a Mutex on one node with a refresh timer, and a Semaphore on a sorted set.

import { Mutex, Semaphore } from "redis-semaphore";

import { connect, end, order, refused, sleep, step } from "./serve.mjs";

const client = connect();
const options = { acquireTimeout: 150, lockTimeout: 1000, retryInterval: 20, refreshInterval: 0 };
const mutex = (more = {}) => new Mutex(client, "redis-semaphore", { ...options, ...more });

const lock = mutex();
await lock.acquire();
step("acquire", lock.isAcquired, "SET NX PX is granted");
step("contend", await refused(mutex().acquire()), "a second caller is refused");
const renewed = mutex({ refreshInterval: 300 });
await lock.release();
await renewed.acquire();
await sleep(1600);
step("extend", (await refused(mutex().acquire())) && renewed.isAcquired, "the refresh timer keeps it beyond its time");
await renewed.release();
const next = mutex();
await next.acquire();
step("release", next.isAcquired, "the next one enters");
const patient = mutex({ acquireTimeout: 2000 });
await patient.acquire();
step("expire", patient.isAcquired, "the next one enters when the time is over");
await patient.release();

const permits = [1, 2].map(() => new Semaphore(client, "permits", 2, options));
await Promise.all(permits.map((permit) => permit.acquire()));
step("permits", await refused(new Semaphore(client, "permits", 2, options).acquire()), "two permits, and no third");
await Promise.all(permits.map((permit) => permit.release()));

// The grant was applied, its reply is lost, and the client's transport sends the command again.
await order("CUT", "REPLY", "n1", "NEXT", "SET");
const unlucky = mutex();
const turnedAway = await refused(unlucky.acquire());
const left = await connect().pttl("mutex:redis-semaphore");
step("fault", turnedAway && left > 0, "reply of SET cut: NOT survived, refused while its own key blocks everybody");
end();
process.exit(0);
