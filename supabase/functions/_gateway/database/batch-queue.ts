import { overloadError } from "../http/errors.ts";
import { startTimeLimit, type TimeLimit } from "../http/time-limit.ts";
import { isConnectionLost, isContended, unansweredError, wasRolledBack } from "./connections.ts";

/**
 * Running one batch at a time makes batches largest. A batch that takes longer than this, for example because it waits
 * for a lock or the disk, lets the next batch start.
 */
const slowBatchMs = 10;
/** A lane with this many waiting calls fills a batch of its own, so that its locks delay no other lane. */
const ownBatchCalls = 8;
/** A batch waits for each lock for this many times the duration of a recent undisturbed batch, but for this minimum. */
const lockWaitFactor = 4;
const minLockWaitMs = 100;
/** The number of latest batches of which the fastest is taken as undisturbed, and its duration before the first one. */
const recentBatches = 8;
const firstBatchMs = 250;
/** The part of the memory that one lane may use. */
const lanePart = 3 / 4;

/** How long a statement may take, and how long it may wait for each lock; undefined for as long as its role may. */
export type StatementLimits = { waitMs: number; lockWaitMs: number | undefined };

type Waiting<Call, Answer> = {
  call: Call;
  lane: Lane<Call, Answer>;
  bytes: number;
  state: "waiting" | "sent" | "ended";
  /** Resolves when the call's latest batch has ended. */
  batchEnd?: Promise<void>;
  expiresAt: number;
  limit: TimeLimit;
  /** The size of the largest batch that the call may be in. Halved when Postgres rolls back a batch. */
  maxBatch: number;
  hasFailed: boolean;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
};

/**
 * The calls that change the same rows. At most one batch at a time has calls of a lane, because a second one would only
 * wait for the first one's locks.
 */
type Lane<Call, Answer> = {
  name: string;
  /**
   * `shared`: its batches may have calls of other lanes. `alone`: not, since such a batch waited too long for a lock.
   * `patient`: a batch of its own waited too long, so the next one waits as long as it may.
   */
  state: "shared" | "alone" | "patient";
  isRunning: boolean;
  bytes: number;
  waiting: Waiting<Call, Answer>[];
};

/** `prompt`: has run for less than `lateMs`, during which no other batch starts. `late`: has run for longer. */
type Batch<Call, Answer> = {
  calls: Waiting<Call, Answer>[];
  lanes: Lane<Call, Answer>[];
  isPatient: boolean;
  state: "prompt" | "late";
};

/**
 * Creates a queue that sends calls in batches. Calls that arrive while their lane's batch is running are sent together
 * in the next one. If a batch waits too long for a lock, each of its lanes continues alone. If Postgres rolls back a
 * batch for another reason, its halves are retried separately, so that only the bad call fails.
 * @param options.send returns the answers in the order of the calls
 * @param options.laneOf returns the name of a call's lane
 * @param options.maxBatches maximum number of concurrent batches; half of them may be patient
 * @param options.waitMs how long a call waits for its answer
 * @param options.gather waits for more calls while a batch is not full, then calls `start`
 * @param options.memory the memory that the calls may use together
 */
export function createBatchQueue<Call, Answer>(options: {
  send: (calls: readonly Call[], limits: StatementLimits) => Promise<readonly Answer[]>;
  laneOf: (call: Call) => string;
  maxBatch: number;
  maxBatches: number;
  waitMs: number;
  gather?: (start: () => void) => void;
  memory?: { bytes: number; bytesOf: (call: Call) => number };
}) {
  const { maxBatch, maxBatches, waitMs, memory } = options;
  const gather = options.gather ?? ((start) => start());
  /** The lanes with calls, the least recently served first. */
  const lanes = new Map<string, Lane<Call, Answer>>();
  const running = new Set<Batch<Call, Answer>>();
  let waitingCalls = 0;
  let usedBytes = 0;
  /** `gathering`: waits for more calls. `due`: sends the waiting calls without waiting for more. */
  let pace: "idle" | "gathering" | "due" = "idle";
  const recentMs = [firstBatchMs];

  const mayStart = () => running.size < maxBatches && ![...running].some(({ state }) => state === "prompt");

  function schedule(): void {
    while (waitingCalls > 0 && mayStart()) {
      if (pace !== "due" && waitingCalls < maxBatch) {
        if (pace === "idle") {
          pace = "gathering";
          gather(endGathering);
        }
        return;
      }
      const batch = takeBatch();
      if (!batch) return;
      const batchEnd = run(batch);
      for (const call of batch.calls) call.batchEnd = batchEnd;
    }
  }

  function endGathering(): void {
    if (pace === "gathering") flush();
  }

  function flush(): void {
    pace = waitingCalls > 0 ? "due" : "idle";
    schedule();
  }

  function isReady(lane: Lane<Call, Answer>): boolean {
    if (lane.isRunning || lane.waiting.length === 0) return false;
    const patientBatches = [...running].filter(({ isPatient }) => isPatient).length;
    return lane.state !== "patient" || patientBatches < Math.ceil(maxBatches / 2);
  }

  const isShared = (lane: Lane<Call, Answer>) => lane.state === "shared" && lane.waiting.length < ownBatchCalls;

  /** Takes the calls of the lane that was served least recently, and of other lanes if all of them may share a batch. */
  function takeBatch(): Batch<Call, Answer> | undefined {
    const batch: Batch<Call, Answer> = { calls: [], lanes: [], isPatient: false, state: "prompt" };
    let size = maxBatch;
    for (const lane of [...lanes.values()]) {
      if (!isReady(lane) || (batch.calls.length > 0 && !isShared(lane))) continue;
      const isAlone = !isShared(lane);
      for (let next = lane.waiting[0]; next; next = lane.waiting[0]) {
        if (batch.calls.length >= Math.min(size, next.maxBatch)) break;
        size = Math.min(size, next.maxBatch);
        batch.calls.push(next);
        lane.waiting.shift();
        next.state = "sent";
        lane.isRunning = true;
      }
      if (!lane.isRunning) continue;
      batch.lanes.push(lane);
      lanes.delete(lane.name);
      lanes.set(lane.name, lane);
      batch.isPatient = lane.state === "patient";
      if (isAlone || batch.calls.length >= size) break;
    }
    waitingCalls -= batch.calls.length;
    if (waitingCalls === 0 && pace === "due") pace = "idle";
    return batch.calls.length > 0 ? batch : undefined;
  }

  async function run(batch: Batch<Call, Answer>): Promise<void> {
    running.add(batch);
    const promptness = startTimeLimit(slowBatchMs, () => {
      batch.state = "late";
      schedule();
    });
    const startedAt = performance.now();
    const limits: StatementLimits = {
      waitMs: Math.max(...batch.calls.map(({ expiresAt }) => expiresAt)) - startedAt,
      lockWaitMs: batch.isPatient ? undefined : Math.max(minLockWaitMs, lockWaitFactor * Math.min(...recentMs)),
    };
    try {
      const answers = await options.send(
        batch.calls.map(({ call }) => call),
        limits,
      );
      recentMs.push(performance.now() - startedAt);
      if (recentMs.length > recentBatches) recentMs.shift();
      for (const [place, call] of batch.calls.entries()) {
        if (end(call)) call.resolve(answers[place] as Answer);
      }
    } catch (error) {
      fail(batch, error);
    }
    promptness.end();
    running.delete(batch);
    for (const lane of batch.lanes) {
      lane.isRunning = false;
      forgetEmpty(lane);
    }
    schedule();
  }

  /** Sends the calls of a failed batch again if Postgres rolled it back. */
  function fail({ calls, lanes: failedLanes }: Batch<Call, Answer>, error: unknown): void {
    const isContention = isContended(error);
    if (isContention) for (const lane of failedLanes) lane.state = failedLanes.length > 1 ? "alone" : "patient";
    // Smaller batches find the bad call, but don't help if the connection is lost.
    const isLost = isConnectionLost(error);
    const retrySize = isLost ? calls.length : Math.ceil(calls.length / 2);
    // Puts the calls back in their order.
    for (const call of calls.toReversed()) {
      if (call.state === "ended") continue;
      const isHopeless = !wasRolledBack(error) || (call.hasFailed && (isLost || calls.length === 1));
      if (isHopeless && !isContention) {
        end(call);
        call.reject(error);
        continue;
      }
      if (!isContention) {
        call.maxBatch = retrySize;
        call.hasFailed = true;
      }
      call.state = "waiting";
      call.lane.waiting.unshift(call);
      waitingCalls += 1;
      pace = "due";
    }
  }

  /** Ends a call unless it has ended. Returns whether it had not. */
  function end(call: Waiting<Call, Answer>): boolean {
    if (call.state === "ended") return false;
    call.state = "ended";
    call.limit.end();
    usedBytes -= call.bytes;
    call.lane.bytes -= call.bytes;
    return true;
  }

  function expire(call: Waiting<Call, Answer>): void {
    const { lane, state } = call;
    if (!end(call)) return;
    if (state === "waiting") {
      lane.waiting.splice(lane.waiting.indexOf(call), 1);
      waitingCalls -= 1;
      forgetEmpty(lane);
    }
    call.reject(state === "waiting" ? overloadError() : unansweredError(call.batchEnd));
  }

  function forgetEmpty(lane: Lane<Call, Answer>): void {
    if (!lane.isRunning && lane.waiting.length === 0) lanes.delete(lane.name);
  }

  function openLane(name: string): Lane<Call, Answer> {
    let lane = lanes.get(name);
    if (!lane) {
      lane = { name, state: "shared", isRunning: false, bytes: 0, waiting: [] };
      lanes.set(name, lane);
    }
    return lane;
  }

  return {
    /**
     * Queues a call and returns its answer.
     * @throws GatewayError `service_unavailable` if the waiting calls take too much memory, or this call has waited too long
     */
    ask(call: Call): Promise<Answer> {
      const lane = openLane(options.laneOf(call));
      const bytes = memory?.bytesOf(call) ?? 0;
      if (memory && (usedBytes + bytes > memory.bytes || lane.bytes + bytes > memory.bytes * lanePart)) {
        forgetEmpty(lane);
        return Promise.reject(overloadError());
      }
      usedBytes += bytes;
      lane.bytes += bytes;
      waitingCalls += 1;
      return new Promise((resolve, reject) => {
        const waiting: Waiting<Call, Answer> = {
          call,
          lane,
          bytes,
          state: "waiting",
          expiresAt: performance.now() + waitMs,
          limit: startTimeLimit(waitMs, () => expire(waiting)),
          maxBatch,
          hasFailed: false,
          resolve,
          reject,
        };
        lane.waiting.push(waiting);
        schedule();
      });
    },
    /** Sends the waiting calls immediately. */
    flush,
  };
}
