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
const taskTimeoutMs = 60_000;
/** A task that needs more memory ends alone, without the server. */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 32 };

const taskTimeoutError = { error: "This file takes too long to read. Use a smaller one." };

/** The owners of the running tasks. */
const runningOwners = new Set<string>();
const waitingTasks: { owner: string; start: () => void }[] = [];

/**
 * Runs a task of `worker.ts` in a thread of its own, so that large input doesn't hold the event loop.
 * @param options.owner whose task it is; an owner's tasks run one after the other
 * @param options.transfer buffers in the input that move to the thread
 * @returns the task's result, or an error for a task that takes too much time or memory
 * @throws Response 429 while many tasks wait
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
  if (waitingTasks.length >= maxWaiting) {
    const detail = "Other files are being read. Wait a moment, then try again.";
    throw problem("RATE_LIMITED", { requestId, detail, headers: { "Retry-After": "5" } });
  }
  await new Promise<void>((start) => {
    waitingTasks.push({ owner, start });
    startWaiting();
  });
  try {
    return await runThread<Result>({ task, input }, transfer);
  } finally {
    runningOwners.delete(owner);
    startWaiting();
  }
}

/** Starts the waiting tasks for which a thread is free, and of whose owner no other task runs. */
function startWaiting(): void {
  while (runningOwners.size < maxRunning) {
    const next = waitingTasks.findIndex(({ owner }) => !runningOwners.has(owner));
    const [task] = next < 0 ? [] : waitingTasks.splice(next, 1);
    if (!task) return;
    runningOwners.add(task.owner);
    task.start();
  }
}

function runThread<Result>(
  workerData: { task: string; input: unknown },
  transferList: ArrayBuffer[],
): Promise<Result | { error: string }> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(path.resolve(entry), { workerData, transferList, resourceLimits, execArgv: [] });
    const timeout = setTimeout(() => void worker.terminate(), taskTimeoutMs);
    worker.once("message", resolve);
    worker.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ERR_WORKER_OUT_OF_MEMORY") resolve(taskTimeoutError);
      else reject(error);
    });
    worker.once("exit", () => {
      clearTimeout(timeout);
      // Has no effect after a message or an error, so that only the timeout leads here.
      resolve(taskTimeoutError);
    });
  });
}
