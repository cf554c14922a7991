import path from "node:path";
import { Worker } from "node:worker_threads";
import { problem } from "./problem.ts";

/**
 * Runs from its source, because the build has one file for the server. Relative to the directory of the checkout or
 * image, like the build itself.
 */
const entry = "remix-app/worker.ts";
const maxRunning = 2;
const maxWaiting = 8;
const timeoutMs = 60_000;
/** A task that needs more memory ends alone, without the server. */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 32 };

const tooLarge = { error: "This file takes too long to read. Use a smaller one." };

/** Two, so that a double click waits instead of being refused. */
const maxOfOwner = 2;

/** The number of running and waiting tasks of each owner. */
const owners = new Map<string, number>();
const waiting: (() => void)[] = [];
let running = 0;

/**
 * Runs a task of `worker.ts` in a thread of its own, so that large input doesn't hold the event loop.
 * @param options.owner whose task it is
 * @param options.transfer buffers in the input that move to the thread
 * @returns the task's result, or an error for a task that takes too much time or memory
 * @throws Response 429 while two tasks of the owner or many of others run or wait
 * @throws Error that the task threw
 */
export async function runInWorker<Result>(
  task: string,
  {
    input,
    owner,
    requestId,
    transfer = [],
  }: { input: unknown; owner: string; requestId: string; transfer?: ArrayBuffer[] },
): Promise<Result | { error: string }> {
  const own = owners.get(owner) ?? 0;
  if (own >= maxOfOwner || waiting.length >= maxWaiting) {
    const detail = "Other files are being read. Wait a moment, then try again.";
    throw problem("RATE_LIMITED", { requestId, detail, headers: { "Retry-After": "5" } });
  }
  owners.set(owner, own + 1);
  try {
    if (running >= maxRunning) await new Promise<void>((start) => waiting.push(start));
    else running += 1;
    try {
      return await runThread<Result>({ task, input }, transfer);
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  } finally {
    const left = (owners.get(owner) ?? 1) - 1;
    if (left > 0) owners.set(owner, left);
    else owners.delete(owner);
  }
}

function runThread<Result>(
  workerData: { task: string; input: unknown },
  transferList: ArrayBuffer[],
): Promise<Result | { error: string }> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(path.resolve(entry), { workerData, transferList, resourceLimits, execArgv: [] });
    const timeout = setTimeout(() => void worker.terminate(), timeoutMs);
    worker.once("message", resolve);
    worker.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ERR_WORKER_OUT_OF_MEMORY") resolve(tooLarge);
      else reject(error);
    });
    worker.once("exit", () => {
      clearTimeout(timeout);
      // Has no effect after a message or an error, so that only the timeout leads here.
      resolve(tooLarge);
    });
  });
}
