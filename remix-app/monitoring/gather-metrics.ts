import cluster, { type Worker } from "node:cluster";
import type { ProcessMetrics } from "#shared/metrics-text.ts";

// A scrape reaches one of the processes that share the port. That process asks the first process for the metrics of
// all, and the first process asks each of them.

type Message =
  | { type: "gather-metrics"; id: number }
  | { type: "read-metrics"; id: number }
  | { type: "metrics"; id: number; metrics: ProcessMetrics }
  | { type: "gathered-metrics"; id: number; metrics: [process: string, metrics: ProcessMetrics][] };

/** How long a process may take to answer. Scrapes usually time out after ten seconds. */
const answerLimitMs = 2_000;

/** Returns the metrics of all processes of this server, by their place. A process that does not answer is left out. */
export type GatherMetrics = () => Promise<ReadonlyMap<string, ProcessMetrics>>;

/** Creates the gathering in a process that serves. `read` returns the process's own metrics. */
export function createGathering(read: () => Promise<ProcessMetrics>): GatherMetrics {
  if (!cluster.isWorker) return async () => new Map([["0", await read()]]);
  const waiting = new Map<number, (metrics: ReadonlyMap<string, ProcessMetrics>) => void>();
  let lastId = 0;
  process.on("message", async (message: Message) => {
    if (message.type === "read-metrics") send({ type: "metrics", id: message.id, metrics: await read() });
    if (message.type === "gathered-metrics") waiting.get(message.id)?.(new Map(message.metrics));
  });
  return () => {
    lastId += 1;
    const id = lastId;
    send({ type: "gather-metrics", id });
    return new Promise((resolve) => {
      waiting.set(id, (metrics) => {
        waiting.delete(id);
        resolve(metrics);
      });
    });
  };
}

function send(message: Message): void {
  // Fails if the first process has just ended. This one then ends, too.
  process.send?.(message, undefined, undefined, () => {});
}

/**
 * Creates the gathering in the first process, which serves nothing.
 * @param listWorkers returns the processes that serve, by their place
 * @returns a handler of messages from these processes
 */
export function createGatherer(listWorkers: () => ReadonlyMap<string, Worker>) {
  const gatherings = new Map<number, (from: Worker, metrics: ProcessMetrics) => void>();
  let lastId = 0;

  function gather(requester: Worker, requestId: number): void {
    lastId += 1;
    const id = lastId;
    const places = new Map([...listWorkers()].map(([place, worker]) => [worker, place]));
    const metrics: [string, ProcessMetrics][] = [];
    const timer = setTimeout(finish, answerLimitMs);
    function finish(): void {
      clearTimeout(timer);
      if (!gatherings.delete(id)) return;
      post(requester, { type: "gathered-metrics", id: requestId, metrics });
    }
    gatherings.set(id, (from, answer) => {
      const place = places.get(from);
      if (place !== undefined && places.delete(from)) metrics.push([place, answer]);
      if (places.size === 0) finish();
    });
    for (const worker of places.keys()) post(worker, { type: "read-metrics", id });
  }

  return (worker: Worker, message: unknown): void => {
    const { type, id, ...rest } = message as Message;
    if (type === "gather-metrics") gather(worker, id);
    if (type === "metrics" && "metrics" in rest) gatherings.get(id)?.(worker, rest.metrics as ProcessMetrics);
  };
}

function post(worker: Worker, message: Message): void {
  // Fails if the process has just ended. Its metrics are then left out.
  worker.send(message, () => {});
}
