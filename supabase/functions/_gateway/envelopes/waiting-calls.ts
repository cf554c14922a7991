import { startTimeLimit } from "../http/time-limit.ts";
import { type EnvelopeSnapshot, type EnvelopeWatch, getRoomCalls, getRoomUsd } from "./envelope-watch.ts";

/** How many waiting calls of an envelope are tried again at each reading. */
const maxTries = 4;
/** The maximum number of calls that wait for an envelope. */
const maxWaitingEach = 200;
/** The memory of a waiting call: its objects, and its body as bytes and as parsed values. */
const callBytes = 8_192;
const bodyFactor = 3;

/** Amounts that differ by less are equal, because those of snapshots are rounded to floats. */
const epsilonUsd = 1e-9;

/** A call that its envelope refuses for now. */
type WaitRequest = {
  envelopeId: string;
  /** What the call reserves. Undefined if its caller may not see cost. */
  needUsd: number | undefined;
  /** The room with which the call was refused before, if its need is unknown. */
  triedRoomUsd: number;
  bodyBytes: number;
  limitMs: number;
  signal: AbortSignal;
};

/**
 * Why a call no longer waits: the envelope may have room for it (`room`), no longer is open, the call has waited as long
 * as it may (`over`), or the process is stopping.
 */
export type WaitEnd = { state: "room"; roomUsd: number } | { state: "ended" | "expired" | "over" | "stopping" };

type Waiting = WaitRequest & { end: (end: WaitEnd) => void };

function mayFit({ needUsd, triedRoomUsd }: WaitRequest, roomUsd: number): boolean {
  return needUsd === undefined ? roomUsd > triedRoomUsd + epsilonUsd : roomUsd + epsilonUsd >= needUsd;
}

export type WaitingCalls = ReturnType<typeof createWaitingCalls>;

/**
 * Lets calls wait until their envelopes are raised, in the order in which they came. A few calls of an envelope are
 * tried again at each reading, and only as many as fit together.
 * @param options.maxBytes the memory that waiting calls may use
 * @param options.stopping aborts when the process stops, which no call may delay by waiting
 */
export function createWaitingCalls(options: {
  watch: EnvelopeWatch["watch"];
  maxBytes: number;
  stopping: AbortSignal;
}) {
  const queues = new Map<string, { calls: Set<Waiting>; unwatch: () => void }>();
  let usedBytes = 0;

  options.stopping.addEventListener("abort", () => {
    for (const { calls } of queues.values()) for (const call of calls) call.end({ state: "stopping" });
  });

  function serve(calls: Set<Waiting>, snapshot: EnvelopeSnapshot): void {
    const { state } = snapshot;
    let roomUsd = getRoomUsd(snapshot);
    const tries = state === "open" ? Math.min(maxTries, getRoomCalls(snapshot)) : Number.POSITIVE_INFINITY;
    let tried = 0;
    for (const call of [...calls]) {
      if (tried >= tries) return;
      if (state !== "open") call.end({ state });
      else if (mayFit(call, roomUsd)) {
        call.end({ state: "room", roomUsd });
        roomUsd -= call.needUsd ?? 0;
        tried += 1;
      }
    }
  }

  function openQueue(id: string) {
    let queue = queues.get(id);
    if (!queue) {
      const calls = new Set<Waiting>();
      queue = { calls, unwatch: options.watch(id, (snapshot) => serve(calls, snapshot)) };
      queues.set(id, queue);
    }
    return queue;
  }

  /** Waits until the call may be tried again. Doesn't wait if too many calls do, or if the client has left. */
  return (request: WaitRequest): Promise<WaitEnd> => {
    const { envelopeId, bodyBytes, limitMs, signal } = request;
    const bytes = callBytes + bodyFactor * bodyBytes;
    const isFull = usedBytes + bytes > options.maxBytes || (queues.get(envelopeId)?.calls.size ?? 0) >= maxWaitingEach;
    if (options.stopping.aborted) return Promise.resolve({ state: "stopping" });
    if (isFull || limitMs <= 0 || signal.aborted) return Promise.resolve({ state: "over" });
    return new Promise((resolve) => {
      const queue = openQueue(envelopeId);
      const leave = () => waiting.end({ state: "over" });
      const limit = startTimeLimit(limitMs, leave);
      const waiting: Waiting = {
        ...request,
        end(end) {
          limit.end();
          signal.removeEventListener("abort", leave);
          usedBytes -= bytes;
          queue.calls.delete(waiting);
          if (queue.calls.size === 0) {
            queue.unwatch();
            queues.delete(envelopeId);
          }
          resolve(end);
        },
      };
      usedBytes += bytes;
      queue.calls.add(waiting);
      signal.addEventListener("abort", leave, { once: true });
    });
  };
}
