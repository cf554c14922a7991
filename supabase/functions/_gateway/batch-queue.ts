import { wasUndone } from "./connections.ts";
import { GatewayError } from "./http/errors.ts";
import { startTimeLimit } from "./time-limit.ts";

/**
 * Running one batch at a time makes batches largest. A batch that takes longer than this, for example because it waits
 * for a lock or the disk, lets a second batch start.
 */
const lateMs = 10;
const maxBatchesUnderWay = 2;
/**
 * Maximum number of single calls that run at once. They may wait longer for locks than batches do, and must leave
 * connections for batches.
 */
const maxSinglesUnderWay = 4;

/** Groups concurrent calls into batches, with one statement for each batch. */
export type BatchQueue<Call, Answer> = {
  /**
   * Queues a call and returns its answer.
   * @throws GatewayError `service_unavailable` if too many calls are waiting or this call has waited too long
   */
  ask: (call: Call) => Promise<Answer>;
  /** Sends the waiting calls immediately. */
  flush: () => void;
};

type Waiting<Call, Answer> = {
  call: Call;
  since: number;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
};

/**
 * Creates a queue that sends calls in batches. Calls that arrive while a batch is running are sent together in the next
 * one. When Postgres rolls back a batch, its calls are retried one by one, so that only the bad call fails.
 * @param options.askMany returns the answers in the order of the calls
 * @param options.isSingle whether a call is never part of a batch
 * @param options.gather waits for more calls while a batch is not full, then calls `start`
 */
export function createBatchQueue<Call, Answer>(options: {
  askMany: (calls: readonly Call[]) => Promise<readonly Answer[]>;
  askOne: (call: Call) => Promise<Answer>;
  isSingle?: (call: Call) => boolean;
  maxBatch: number;
  gather: (start: () => void) => void;
  maxWaiting?: number;
  maxWaitMs?: number;
  now?: () => number;
}): BatchQueue<Call, Answer> {
  const { maxBatch, maxWaiting = Infinity, maxWaitMs = Infinity, now = () => performance.now() } = options;
  const batched: Waiting<Call, Answer>[] = [];
  const singles: Waiting<Call, Answer>[] = [];
  let batchesUnderWay = 0;
  /**
   * The latest batch, while it is unanswered and has run for less than `lateMs`. No other batch starts during this
   * time.
   */
  let promptBatch: object | undefined;
  let singlesUnderWay = 0;
  let isGathering = false;
  /** Whether the next batch starts without waiting for more calls, as soon as the running batches allow it. */
  let isDue = false;

  function take(queue: Waiting<Call, Answer>[], count: number): Waiting<Call, Answer>[] {
    while (queue[0] && now() - queue[0].since > maxWaitMs) {
      queue.shift()?.reject(new GatewayError("service_unavailable"));
    }
    return queue.splice(0, count);
  }

  const mayStart = () => promptBatch === undefined && batchesUnderWay < maxBatchesUnderWay && batched.length > 0;

  function schedule(): void {
    if (!mayStart()) return;
    if (isDue || batched.length >= maxBatch) startBatch();
    else if (!isGathering) {
      isGathering = true;
      options.gather(() => {
        isGathering = false;
        flush();
      });
    }
  }

  function flush(): void {
    isDue = batched.length > 0;
    schedule();
  }

  function startBatch(): void {
    const batch = take(batched, maxBatch);
    isDue &&= batched.length > 0;
    if (batch.length > 0) void answerBatch(batch);
  }

  async function answerBatch(batch: readonly Waiting<Call, Answer>[]): Promise<void> {
    batchesUnderWay += 1;
    promptBatch = batch;
    function endPrompt(): void {
      if (promptBatch === batch) promptBatch = undefined;
      schedule();
    }
    const late = startTimeLimit(lateMs, endPrompt);
    try {
      const answers = await options.askMany(batch.map(({ call }) => call));
      for (const [place, { resolve }] of batch.entries()) resolve(answers[place] as Answer);
    } catch (error) {
      if (wasUndone(error)) singles.push(...batch);
      else for (const { reject } of batch) reject(error);
      startSingles();
    }
    late.end();
    batchesUnderWay -= 1;
    endPrompt();
  }

  function startSingles(): void {
    while (singlesUnderWay < maxSinglesUnderWay) {
      const [single] = take(singles, 1);
      if (!single) return;
      singlesUnderWay += 1;
      void options
        .askOne(single.call)
        .then(single.resolve, single.reject)
        .then(() => {
          singlesUnderWay -= 1;
          startSingles();
        });
    }
  }

  return {
    ask(call) {
      const queue = options.isSingle?.(call) ? singles : batched;
      if (queue.length >= maxWaiting) return Promise.reject(new GatewayError("service_unavailable"));
      return new Promise((resolve, reject) => {
        queue.push({ call, since: now(), resolve, reject });
        if (queue === singles) startSingles();
        else schedule();
      });
    },
    flush,
  };
}
