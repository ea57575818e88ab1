#!/usr/bin/env node
// BullMQ on Node: the commands of bench/contender, with the same jobs, producers and clocks.

import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker } from "bullmq";

const CHUNK = 10_000;
const PATIENCE_MS = 300_000;
const NOOP = "x".repeat(95);

const [, , url, command, ...rest] = process.argv;
const numbers = rest.map(Number);

// What its client has for speed: commands of one tick leave together.
const connection = () => {
  const { hostname: host, port } = new URL(url);
  return { host, port: Number(port), maxRetriesPerRequest: null, enableAutoPipelining: true };
};

const nowUs = () => (performance.timeOrigin + performance.now()) * 1e3;

/** The handler, and what waits for it. */
const jobs = {
  seen: 0,
  wanted: 0,
  done: () => {},
  latest: 0,
  lateness: [],
  file: null,

  want(n) {
    this.seen = 0;
    this.wanted = n;
    const patience = new Promise((_, reject) => {
      this.timer = setTimeout(() => reject(new Error(`only ${this.seen} of ${n} jobs ran`)), PATIENCE_MS);
    });
    return Promise.race([new Promise((resolve) => (this.done = resolve)), patience]).finally(() => clearTimeout(this.timer));
  },

  mark(phase, number) {
    if (this.file) appendFileSync(this.file, `${phase} ${number} ${Math.round(nowUs())}\n`);
  },

  async run(payload) {
    const [kind, number] = [payload[0], payload.slice(1)];
    if (kind === "d") {
      this.lateness.push(nowUs() / 1e3 - Number(number));
    } else if (kind === "m") {
      this.mark("start", number);
      await sleep(10);
      this.mark("end", number);
    } else if (kind === "s") {
      this.latest = nowUs();
    }
    this.seen += 1;
    if (this.seen === this.wanted) this.done();
  },
};

const work = (concurrency) => {
  const worker = new Worker("bench", (job) => jobs.run(job.data), {
    connection: connection(),
    concurrency,
    removeOnComplete: { count: 0 },
  });
  worker.on("error", (error) => console.error(error));
  return worker;
};

const open = () => new Queue("bench", { connection: connection(), skipMetasUpdate: true });

const add = (queue, payload, dueMs) => queue.add("job", payload, dueMs ? { delay: Math.max(0, dueMs - Date.now()) } : undefined);

const percentile = (values, p) => {
  values.sort((a, b) => a - b);
  return values[Math.round(((values.length - 1) * p) / 100)];
};

async function fill(payloads) {
  const queue = open();
  await queue.waitUntilReady();
  const begun = nowUs();
  for (let first = 0; first < payloads.length; first += CHUNK) {
    await queue.addBulk(payloads.slice(first, first + CHUNK).map((data) => ({ name: "job", data })));
  }
  return { seconds: (nowUs() - begun) / 1e6 };
}

const commands = {
  about() {
    const version = createRequire(import.meta.url)("bullmq/package.json").version;
    const versions = `bullmq ${version}, node ${process.versions.node}`;
    return { versions, settings: "removeOnComplete count 0, enableAutoPipelining", bulk: true, delays: true, most_jobs: null };
  },

  fill: ([n]) => fill(Array(n).fill(NOOP)),

  mark: ([n]) => fill(Array.from({ length: n }, (_, i) => `m${i}`)),

  async enqueue([n, producers]) {
    const queue = open();
    await queue.waitUntilReady();
    const begun = nowUs();
    const produce = async () => {
      for (let i = 0; i < n / producers; i += 1) await add(queue, NOOP);
    };
    await Promise.all(Array.from({ length: producers }, produce));
    return { seconds: (nowUs() - begun) / 1e6 };
  },

  async drain([n, concurrency]) {
    const begun = nowUs();
    const all = jobs.want(n);
    work(concurrency);
    await all;
    const seconds = (nowUs() - begun) / 1e6;
    await sleep(300);
    return { seconds };
  },

  async latency([seconds]) {
    const queue = open();
    await work(10).waitUntilReady();
    const begun = nowUs();
    const [millis, until] = [[], begun + seconds * 1e6];
    let [pauseMs, warm] = [4, 0];
    while (millis.length < 1_000 && (millis.length < 5 || nowUs() < until)) {
      const one = jobs.want(1);
      const sent = nowUs();
      await add(queue, "s");
      await one;
      const ms = (jobs.latest - sent) / 1e3;
      if (warm < 100 && nowUs() < begun + seconds * 1e5) warm += 1;
      else millis.push(ms);
      pauseMs = Math.max(4, (pauseMs + 2 * ms) / 2);
      await sleep(Math.random() * pauseMs);
    }
    return { p50: percentile(millis, 50), p99: percentile(millis, 99) };
  },

  async lateness() {
    const queue = open();
    await work(64).waitUntilReady();
    const nowMs = Date.now();
    const all = jobs.want(10_000);
    const produce = async () => {
      for (let i = 0; i < 200; i += 1) {
        const dueMs = nowMs + 5_000 + Math.floor(Math.random() * 10_000);
        await add(queue, `d${dueMs}`, dueMs);
      }
    };
    await Promise.all(Array.from({ length: 50 }, produce));
    await all;
    const spread = jobs.lateness.splice(0);
    for (let delayMs = 20; delayMs < 500; delayMs += 16) {
      const one = jobs.want(1);
      const dueMs = Date.now() + delayMs;
      await add(queue, `d${dueMs}`, dueMs);
      await one;
    }
    const single = jobs.lateness.splice(0);
    return {
      early: [...spread, ...single].filter((ms) => ms < 0).length,
      p50: percentile(spread, 50),
      p99: percentile(spread, 99),
      single_p50: percentile(single, 50),
      single_p99: percentile(single, 99),
    };
  },

  async work([concurrency]) {
    jobs.file = rest[1];
    work(concurrency);
    await new Promise(() => {});
  },
};

try {
  const answer = await commands[command](numbers);
  process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exit(1);
}
