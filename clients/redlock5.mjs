// redlock 5: a quorum of three independent masters, EVALSHA and EVAL where a node does not know the script.

import Redlock from "redlock";

import { connect, end, order, refused, sleep, step } from "./serve.mjs";

const clients = [0, 1, 2].map((nth) => connect(nth, { commandTimeout: 500, maxRetriesPerRequest: 1 }));
const redlock = new Redlock(clients, { retryCount: 0 });
const patient = new Redlock(clients, { retryCount: 20, retryDelay: 100 });
redlock.on("error", () => {});
patient.on("error", () => {});
const name = ["lock:redlock"];

let lock = await redlock.acquire(name, 3000);
step("acquire", lock.expiration > Date.now(), "a quorum grants");
step("contend", await refused(redlock.acquire(name, 3000)), "a second caller is refused");
const before = lock.expiration;
lock = await lock.extend(5000);
step("extend", lock.expiration > before, "the expiration moves on");
await lock.release();
const again = await redlock.acquire(name, 300);
step("release", (await refused(lock.release())) || again.value !== lock.value, "the next one enters");
await sleep(350);
const next = await patient.acquire(name, 3000);
step("expire", next.value !== again.value, "the next one enters when the time is over");
await next.release();

await order("FAULT", "PAUSE", "n1", "10s");
const during = await patient.acquire(name, 3000);
const others = await refused(redlock.acquire(name, 3000));
step("fault", others && during.expiration > Date.now(), "one of three masters is paused: survived");
end();
process.exit(0);
