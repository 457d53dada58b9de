// What the Node clients share: where the nodes are, orders to the admin port, and how a step is told.

import Redis from "ioredis";

const address = (text) => {
  const at = text.lastIndexOf(":");
  return { host: text.slice(0, at), port: Number(text.slice(at + 1)) };
};

const nodes = process.env.LOCKSTORM_NODES.split(",").map(address);
const admin = new Redis({ ...address(process.env.LOCKSTORM_ADMIN), enableReadyCheck: false, lazyConnect: true });
const open = [];

export function connect(nth = 0, options = {}) {
  const client = new Redis({ ...nodes[nth], ...options });
  client.on("error", () => {});
  open.push(client);
  return client;
}

export const order = (...words) => admin.call(...words);
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function step(name, held, what) {
  console.log(`${name}\t${held ? "ok" : "WRONG"}\t${what}`);
  if (!held) process.exit(1);
}

export const refused = (promise) => promise.then(() => false, () => true);

export function end() {
  admin.disconnect();
  open.forEach((client) => client.disconnect());
}
