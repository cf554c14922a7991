import cluster, { type Worker } from "node:cluster";
import { logError, logInfo } from "#shared/log.ts";
import { createGatherer } from "./monitoring/gather-metrics.ts";

/** How long to wait before replacing a process that ended before it served. */
const retryMs = 1_000;

/**
 * Runs the web server in several processes that share its port, and replaces each that ends. One of them runs the
 * scheduled tasks; when it ends or drains, another one takes over. SIGTERM and SIGINT drain all of them.
 *
 * If the first process ends before it serves, the settings or the port are wrong, so this process ends with its code.
 */
export function supervise(count: number): void {
  const states = new Map<Worker, "starting" | "serving" | "draining">();
  /** The place of each process, from 0 on. A new process takes the first free place. */
  const places = new Map<Worker, number>();
  let scheduler: Worker | undefined;
  let hasServed = false;
  let stopping = false;

  function start(): void {
    if (stopping) return;
    const worker = cluster.fork();
    const taken = new Set(places.values());
    places.set(worker, [...Array(taken.size + 1).keys()].find((place) => !taken.has(place)) ?? 0);
    states.set(worker, "starting");
  }

  function assignSchedule(): void {
    const [next] = [...states].find(([, state]) => state === "serving") ?? [];
    if (scheduler || !next || stopping) return;
    scheduler = next;
    // Fails if the process has just ended. Its exit follows.
    next.send("schedule", () => {});
    logInfo(`process ${next.process.pid} runs the scheduled tasks`);
  }

  function replace(worker: Worker, delayMs: number): void {
    if (scheduler === worker) scheduler = undefined;
    assignSchedule();
    setTimeout(start, delayMs);
  }

  const handleMetrics = createGatherer(() => {
    const serving = [...places].filter(([worker]) => states.get(worker) !== "starting");
    return new Map(serving.map(([worker, place]) => [String(place), worker]));
  });

  cluster.on("listening", (worker) => {
    states.set(worker, "serving");
    assignSchedule();
    if (!hasServed) for (let index = 1; index < count; index += 1) start();
    hasServed = true;
  });
  cluster.on("message", (worker, message) => {
    if (message !== "draining") return handleMetrics(worker, message);
    states.set(worker, "draining");
    replace(worker, 0);
  });
  cluster.on("exit", (worker, code, signal) => {
    const state = states.get(worker);
    states.delete(worker);
    places.delete(worker);
    if (stopping) {
      if (states.size === 0) process.exit(0);
      return;
    }
    if (!hasServed) process.exit(code || 1);
    if (state === "draining") return;
    logError(`process ${worker.process.pid} ended with ${signal ?? code}`);
    replace(worker, state === "serving" ? 0 : retryMs);
  });
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.on(name, () => {
      stopping = true;
      for (const worker of states.keys()) worker.process.kill("SIGTERM");
      if (states.size === 0) process.exit(0);
    });
  }
  start();
}
