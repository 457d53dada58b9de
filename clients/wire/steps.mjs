// The steps that every npm library goes through: those of steps.py.
// A library is three functions and `make`.

import { connect } from "node:net";
import { createInterface } from "node:readline";

import Redis from "ioredis";

export const LEASE = 10000;
const PORTS = process.env.WIRE_NODES.split(",").map(Number);
const NODES = PORTS.map((_, nth) => `n${nth + 1}`);
const MAJORITY = Math.floor(NODES.length / 2) + 1;
// No step waits longer for a library.
const MAX_WAIT = 8000;

const socket = connect(Number(process.env.WIRE_CONTROL), "127.0.0.1");
const replies = createInterface({ input: socket })[Symbol.asyncIterator]();

async function order(...words) {
  socket.write(`${words.join(" ")}\n`);
  await replies.next();
}

// Clients with the defaults of ioredis.
export const clients = PORTS.map((port) => {
  const client = new Redis(port, "127.0.0.1");
  client.on("error", () => {});
  return client;
});

const within = (ms) => new Promise((resolve) => setTimeout(resolve, ms, "no result").unref());

async function outcome(call) {
  try {
    const returned = await call();
    return { true: "granted", false: "refused", undefined: "returned" }[returned] ?? "granted";
  } catch (error) {
    return `raised ${error.constructor.name}`;
  }
}

async function result(name, of) {
  await order("start");
  const call = outcome(of);
  const said = await Promise.race([call, within(MAX_WAIT)]);
  await order("result", `${name}: ${said}`);
  return said === "no result" ? { late: call } : {};
}

export async function drive(library, key = "job") {
  const step = async (what) => {
    await order("fresh");
    // ioredis connects again by itself after a node was dead.
    await Promise.all(clients.map((client) => client.ping()));
    await order("step", what);
    return library.make();
  };
  const acquire = (lock) => result("acquire", () => library.acquire(lock));
  const release = (lock) => result("release", () => library.release(lock));

  let lock = await step("acquire and release, twice by the same object");
  for (let round = 0; round < 2; round++) {
    await acquire(lock);
    await release(lock);
  }
  lock = await step("acquire while another client holds the lock");
  await order("other", key, ...NODES);
  await acquire(lock);

  if (library.extend) await extend(library, key, step, acquire);

  lock = await step("release after the lock expired and another client took it");
  await acquire(lock);
  await order("other", key, ...NODES);
  await release(lock);

  lock = await step("acquire, and a majority's replies are lost");
  await order("lose", ...NODES.slice(0, MAJORITY));
  await acquire(lock);
  await release(lock);

  lock = await step("release, and a majority's replies are lost");
  await acquire(lock);
  await order("lose", ...NODES.slice(0, MAJORITY));
  await release(lock);

  if (NODES.length > 1) {
    lock = await step("acquire while one node is dead");
    await order("dead", "n3");
    const { late } = await acquire(lock);
    if (!late) await release(lock);
    await order("alive", "n3");
    if (late) await order("late", `acquire: ${await Promise.race([late, within(0)])}`);

    lock = await step("acquire while another client holds a majority");
    await order("other", key, "n2", "n3");
    await acquire(lock);
  }
  lock = await step("acquire while one node never replies");
  await order("silent", NODES.at(-1));
  await acquire(lock);
  await order("fresh");
  process.exit(0);
}

async function extend(library, key, step, acquire) {
  const extended = (lock) => result("extend", () => library.extend(lock));
  let lock = await step("extend");
  await acquire(lock);
  await extended(lock);

  lock = await step("extend, and a majority's replies are lost");
  await acquire(lock);
  await order("lose", ...NODES.slice(0, MAJORITY));
  await extended(lock);

  if (NODES.length > 1) {
    lock = await step("extend after one node lost the key");
    await acquire(lock);
    await order("gone", key, "n3");
    await extended(lock);
  }

  lock = await step("extend after the lock expired");
  await acquire(lock);
  await order("gone", key, ...NODES);
  await extended(lock);

  lock = await step("extend after another client took a majority");
  await acquire(lock);
  await order("other", key, ...NODES.slice(-MAJORITY));
  await extended(lock);
}
