import { setImmediate } from "node:timers";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { createBatchQueue } from "./batch-queue.ts";
import { GatewayError } from "./http/errors.ts";

const rolledBack = () =>
  new GatewayError("service_unavailable", { cause: new pg.DatabaseError("canceling statement", 1, "error") });
const unanswered = () => new GatewayError("service_unavailable", { cause: new Error("Connection terminated") });

/** Longer than the queue's own limit, so a batch that runs for this time counts as late. */
const lateMs = 100;

/**
 * Returns a queue whose statements wait until the test answers them. Each call is a number, and its answer is twice
 * that number. Negative numbers are never batched.
 */
function open(fails: (calls: readonly number[]) => Error | undefined = () => undefined) {
  const asked: (readonly number[])[] = [];
  const answering: (() => void)[] = [];
  const clock = { now: 0 };
  async function answer(calls: readonly number[]): Promise<number[]> {
    asked.push(calls);
    await new Promise<void>((resolve) => answering.push(resolve));
    const error = fails(calls);
    if (error) throw error;
    return calls.map((call) => call * 2);
  }
  const queue = createBatchQueue<number, number>({
    askMany: answer,
    askOne: async (call) => (await answer([call]))[0] ?? 0,
    isSingle: (call) => call < 0,
    maxBatch: 32,
    gather: setImmediate,
    maxWaiting: 500,
    maxWaitMs: 1_500,
    now: () => clock.now,
  });
  /** Answers the oldest running statements. */
  async function go(most = answering.length): Promise<void> {
    for (const each of answering.splice(0, most)) each();
    await sleep(0);
    await turn();
  }
  /** Answers the newest running statement. */
  async function goLast(): Promise<void> {
    answering.pop()?.();
    await sleep(0);
  }
  /** Sends calls within one turn of the event loop. */
  async function askTogether(calls: readonly number[]): Promise<Promise<number>[]> {
    const answers = calls.map(queue.ask);
    // Prevents unhandled rejections; the tests check the rejections later.
    for (const answer of answers) answer.catch(() => {});
    await turn();
    return answers;
  }
  /** Starts a slow batch, and then a second batch that runs at the same time. */
  async function occupy(): Promise<Promise<number>[]> {
    const late = await askTogether([1]);
    await sleep(lateMs);
    return [...late, ...(await askTogether([2]))];
  }
  return { askTogether, occupy, asked, go, goLast, clock };
}

const statuses = async (answers: Promise<number>[]) =>
  (await Promise.allSettled(answers)).map(({ status }) => status === "fulfilled");
const numbers = (count: number) => Array.from({ length: count }, (_, place) => 10 + place);

describe("combining calls into batches", () => {
  test("a batch contains the calls of one event loop turn and returns each call its own answer", async () => {
    const { askTogether, asked, go } = open();
    const answers = await askTogether([3, 1, 2]);
    expect(asked).toEqual([[3, 1, 2]]);
    await go();
    expect(await Promise.all(answers)).toEqual([6, 2, 4]);
  });

  test("a batch contains the calls that arrived while another batch was running, in order", async () => {
    const { askTogether, asked, go } = open();
    const answers = [...(await askTogether([1])), ...(await askTogether([3])), ...(await askTogether([5, 4]))];
    expect(asked).toEqual([[1]]);
    await go();
    expect(asked).toEqual([[1], [3, 5, 4]]);
    await go();
    expect(await Promise.all(answers)).toEqual([2, 6, 10, 8]);
  });

  test("a second batch starts if the first is slow, but a third batch waits", async () => {
    const { askTogether, occupy, asked, go } = open();
    const answers = await occupy();
    answers.push(...(await askTogether([3])));
    await sleep(lateMs);
    expect(asked).toEqual([[1], [2]]);
    await go();
    expect(asked).toEqual([[1], [2], [3]]);
    await go();
    expect(await Promise.all(answers)).toEqual([2, 4, 6]);
  });

  test("a batch that waits for a lock does not stop the batches after it", async () => {
    const { askTogether, asked, go, goLast } = open();
    const stuck = await askTogether([1]);
    await sleep(lateMs);
    for (const call of [2, 3]) {
      const answers = await askTogether([call]);
      await goLast();
      expect(await Promise.all(answers)).toEqual([2 * call]);
    }
    expect(asked).toEqual([[1], [2], [3]]);
    await go();
    expect(await Promise.all(stuck)).toEqual([2]);
  });

  test.for([
    [32, 1],
    [33, 2],
  ] as const)("a batch has at most 32 calls: %i calls make %i batches", async ([count, batches]) => {
    const { askTogether, asked, go } = open();
    const answers = await askTogether(numbers(count));
    await go();
    await go();
    await Promise.all(answers);
    expect(asked).toHaveLength(batches);
  });

  test("a batch that Postgres rolls back is retried call by call, so only the bad call fails", async () => {
    const { askTogether, asked, go } = open((calls) => (calls.includes(4) ? rolledBack() : undefined));
    const answers = await askTogether([2, 3, 4, 5]);
    await go();
    await go();
    expect(asked).toEqual([[2, 3, 4, 5], [2], [3], [4], [5]]);
    expect(await statuses(answers)).toEqual([true, true, false, true]);
  });

  test("a batch without an answer is not retried", async () => {
    const { askTogether, asked, go } = open(unanswered);
    const answers = await askTogether([2, 3, 4]);
    await go();
    expect(asked).toEqual([[2, 3, 4]]);
    expect(await statuses(answers)).toEqual([false, false, false]);
  });

  test("a single-call batch is retried once if Postgres rolls it back", async () => {
    const { askTogether, asked, go } = open(rolledBack);
    const answers = await askTogether([2]);
    await go();
    await go();
    expect(asked).toEqual([[2], [2]]);
    expect(await statuses(answers)).toEqual([false]);
  });

  test("a batch runs normally after earlier batches failed", async () => {
    let isDown = true;
    const { askTogether, go } = open(() => (isDown ? unanswered() : undefined));
    const failed = [...(await askTogether([1])), ...(await askTogether([2])), ...(await askTogether([3]))];
    await go();
    await go();
    expect(await statuses(failed)).toEqual([false, false, false]);
    isDown = false;
    const answers = await askTogether([4, 5]);
    await go();
    expect(await Promise.all(answers)).toEqual([8, 10]);
  });
});

describe("Single calls", () => {
  test("single calls are sent immediately, at most four at a time", async () => {
    const { askTogether, asked, go } = open();
    const answers = await askTogether([-1, -2, -3, -4, -5, 6]);
    expect(asked).toEqual([[-1], [-2], [-3], [-4], [6]]);
    await go(1);
    expect(asked.slice(5)).toEqual([[-5]]);
    await go();
    expect(await Promise.all(answers)).toEqual([-2, -4, -6, -8, -10, 12]);
  });

  test("retrying the calls of a rolled-back batch one by one does not block later batches", async () => {
    const { askTogether, asked, go } = open((calls) => (calls.length > 1 ? rolledBack() : undefined));
    const answers = await askTogether([1, 2, 3, 4, 5, 6]);
    await go();
    expect(asked.slice(1)).toEqual([[1], [2], [3], [4]]);
    answers.push(...(await askTogether([9])));
    expect(asked.slice(5)).toEqual([[9]]);
    await go();
    await go();
    expect(await Promise.all(answers)).toEqual([2, 4, 6, 8, 10, 12, 18]);
  });
});

describe("Waiting calls", () => {
  test.for([
    [500, 0],
    [501, 1],
  ] as const)("at most 500 calls wait: of %i calls, %i are rejected", async ([count, rejected]) => {
    const { askTogether, occupy, go } = open();
    await occupy();
    const answers = await askTogether(numbers(count));
    for (let round = 0; round < 20; round++) await go();
    expect((await statuses(answers)).filter((isAnswered) => !isAnswered)).toHaveLength(rejected);
  });

  test.for([
    [504, 0],
    [505, 1],
  ] as const)(
    "at most 500 single calls wait while four are running: of %i calls, %i are rejected",
    async ([count, rejected]) => {
      const { askTogether, go } = open();
      const answers = await askTogether(numbers(count).map((call) => -call));
      for (let round = 0; round < 130; round++) await go();
      expect((await statuses(answers)).filter((isAnswered) => !isAnswered)).toHaveLength(rejected);
    },
  );

  test.for([
    [3, 1_500, true],
    [3, 1_501, false],
    [-3, 1_500, true],
    [-3, 1_501, false],
  ] as const)(
    "sends a waiting call within 1,500 ms and rejects it after that: call %i after %i ms, sent: %s",
    async ([call, waitedMs, isAsked]) => {
      const { askTogether, occupy, asked, go, clock } = open();
      await occupy();
      await askTogether([-1, -1, -1, -1]);
      const answers = await askTogether([call]);
      clock.now = waitedMs;
      await go();
      await go();
      expect(await statuses(answers)).toEqual([isAsked]);
      expect(asked.some(([first]) => first === call)).toBe(isAsked);
    },
  );
});

test("a flush sends the calls waiting for a batch", async () => {
  const asked: (readonly number[])[] = [];
  const queue = createBatchQueue<number, number>({
    askMany: async (calls) => {
      asked.push(calls);
      return calls;
    },
    askOne: async (call) => call,
    maxBatch: 32,
    gather: () => {},
  });
  const answers = Promise.all([1, 2].map(queue.ask));
  expect(asked).toEqual([]);
  queue.flush();
  expect(await answers).toEqual([1, 2]);
  expect(asked).toEqual([[1, 2]]);
});
