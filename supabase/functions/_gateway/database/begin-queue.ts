import { setImmediate } from "node:timers";
import { overloadError } from "../http/errors.ts";
import { createBatchQueue } from "./batch-queue.ts";
import type { Connections } from "./connections.ts";
import type { Caller, Run, RunRequest } from "./database.ts";
import { isRefusal } from "./refusals.ts";

/** The database rolls back what takes longer than the gateway waits, this much earlier so that the answer arrives. */
const answerMarginMs = 300;
const maxBatchCalls = 128;
/** Half of the connections at most, so that others remain for settlements. */
const maxConcurrentBatches = 4;
/** The memory of a waiting call: its objects, and its body as bytes and as parsed values. */
const callBytes = 8_192;
const bodyFactor = 3;
/** The number of callers whose workspace is remembered. */
const maxKnownWorkspaces = 10_000;

/** Creates a function that begins a run in a batch with others, and returns the answer of `ai.begin_runs` for it. */
export function createBeginQueue(options: {
  call: Connections["call"];
  waitMs: number;
  waitingBytes: number;
}): (request: RunRequest) => Promise<unknown> {
  /**
   * The workspaces of callers, from the answers to their calls. Their calls lock the same rows, so they share a lane.
   * Others don't, even if they name the workspace. A missing or wrong entry only makes calls wait for each other in the
   * database.
   */
  const workspaces = new Map<string, string>();
  const queue = createBatchQueue<RunRequest, unknown>({
    async send(calls, { waitMs, lockWaitMs }) {
      const answerMs = Math.floor(waitMs - answerMarginMs);
      if (answerMs <= 0) throw overloadError();
      const limits = { wait_ms: answerMs, lock_wait_ms: lockWaitMs && Math.ceil(lockWaitMs) };
      return JSON.parse(await options.call("ai.begin_runs", { ...limits, calls }, waitMs));
    },
    laneOf: (request) => workspaces.get(callerOf(request)) ?? callerOf(request),
    maxBatch: maxBatchCalls,
    maxBatches: maxConcurrentBatches,
    waitMs: options.waitMs,
    // Requests that arrive in the same turn of the event loop join the batch.
    gather: setImmediate,
    memory: { bytes: options.waitingBytes, bytesOf: ({ input_bytes }) => callBytes + bodyFactor * input_bytes },
  });

  return async (request) => {
    const answer = await queue.ask(request);
    if (!isRefusal(answer)) {
      if (workspaces.size >= maxKnownWorkspaces) workspaces.clear();
      workspaces.set(callerOf(request), (answer as Run).workspace_id);
    }
    return answer;
  };
}

const callerOf = ({ credential, workspace = "" }: Caller) =>
  `${"hash" in credential ? credential.hash : credential.claims.sub} ${workspace}`;
