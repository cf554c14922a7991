import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { GatewayError } from "../http/errors.ts";
import { createBatchQueue, type StatementLimits } from "./batch-queue.ts";
import { isUnanswered } from "./connections.ts";

// All limits of a process share a timer, so the tests of this file share the clock.
beforeAll(() => void vi.useFakeTimers());
afterAll(async () => {
  // Lets all time limits expire, because the files of a worker share their timer.
  await vi.runAllTimersAsync();
  vi.useRealTimers();
});

function failure(code: string, severity = "ERROR"): GatewayError {
  const cause = Object.assign(new pg.DatabaseError("failed", 1, "error"), { code, severity });
  return new GatewayError("service_unavailable", { cause });
}
const contended = () => failure("55P03");
const rolledBack = () => failure("22P05");
const unanswered = () => new GatewayError("service_unavailable", { cause: new Error("Connection terminated") });

const waitMs = 20_000;
/** Longer than the queue's own limit, so a batch that runs for this time counts as late. */
const lateMs = 100;

type Statement = StatementLimits & { calls: readonly string[]; answer: (error?: Error) => Promise<void> };

/**
 * Returns a queue whose statements wait until the test answers them. A call is a text such as "a1": its lane is the
 * letter, and its answer the text in capitals.
 */
function open(options: Partial<Parameters<typeof createBatchQueue<string, string>>[0]> = {}) {
  const statements: Statement[] = [];
  const queue = createBatchQueue<string, string>({
    send: (calls, limits) =>
      new Promise((resolve, reject) => {
        async function answer(error?: Error): Promise<void> {
          statements.splice(statements.indexOf(statement), 1);
          if (error) reject(error);
          else resolve(calls.map((call) => call.toUpperCase()));
          await vi.advanceTimersByTimeAsync(0);
        }
        const statement = { ...limits, calls, answer };
        statements.push(statement);
      }),
    laneOf: (call) => call.slice(0, 1),
    maxBatch: 32,
    maxBatches: 4,
    waitMs,
    gather: (start) => void setTimeout(start, 0),
    ...options,
  });
  /** Sends calls within one turn of the event loop. */
  async function ask(...calls: string[]): Promise<Promise<string>[]> {
    const answers = calls.map((call) => queue.ask(call));
    // Prevents unhandled rejections; the tests check the rejections later.
    for (const answer of answers) answer.catch(() => {});
    await vi.advanceTimersByTimeAsync(0);
    return answers;
  }
  /** Lets the running batches become late, so that another one may start. */
  const wait = (ms = lateMs) => vi.advanceTimersByTimeAsync(ms);
  const running = () => statements.map(({ calls }) => calls.join(" "));
  /** Answers statements, oldest first, until none is running. */
  async function answerAll(
    fails: (calls: readonly string[]) => Error | undefined = () => undefined,
  ): Promise<string[]> {
    const sent: string[] = [];
    for (let next = statements[0]; next; next = statements[0]) {
      sent.push(next.calls.join(" "));
      await next.answer(fails(next.calls));
      await wait(0);
    }
    return sent;
  }
  return { queue, ask, wait, statements, running, answerAll };
}

const outcomes = async (answers: Promise<string>[]) =>
  (await Promise.allSettled(answers)).map((answer) => (answer.status === "fulfilled" ? answer.value : "refused"));
const calls = (lane: string, count: number) => Array.from({ length: count }, (_, place) => `${lane}${place}`);

describe("combining calls into batches", () => {
  test("a batch contains the calls of one event loop turn and returns each call its own answer", async () => {
    const { ask, running, answerAll } = open();
    const answers = await ask("a3", "b1", "a2");
    expect(running()).toEqual(["a3 a2 b1"]);
    await answerAll();
    expect(await outcomes(answers)).toEqual(["A3", "B1", "A2"]);
  });

  test("a batch contains the calls that arrived while another batch was running, in order", async () => {
    const { ask, answerAll } = open();
    const answers = [...(await ask("a1")), ...(await ask("a2")), ...(await ask("a3", "b1"))];
    expect(await answerAll()).toEqual(["a1", "a2 a3 b1"]);
    expect(await outcomes(answers)).toEqual(["A1", "A2", "A3", "B1"]);
  });

  test("a slow batch does not delay other lanes, but its own lane waits for it", async () => {
    const { ask, wait, running, statements, answerAll } = open();
    await ask("a1");
    await wait();
    await ask("b1", "a2");
    expect(running()).toEqual(["a1", "b1"]);
    await statements[1]?.answer();
    expect(running()).toEqual(["a1"]);
    expect(await answerAll()).toEqual(["a1", "a2"]);
  });

  test("as many batches run at the same time as allowed", async () => {
    const { ask, wait, running, answerAll } = open({ maxBatches: 2 });
    for (const call of ["a1", "b1", "c1"]) {
      await ask(call);
      await wait();
    }
    expect(running()).toEqual(["a1", "b1"]);
    expect(await answerAll()).toEqual(["a1", "b1", "c1"]);
  });

  test.for([
    [32, 1],
    [33, 2],
  ] as const)("a batch has at most 32 calls: %i calls make %i batches", async ([count, batches]) => {
    const { ask, answerAll } = open();
    await ask(...calls("a", count));
    expect(await answerAll()).toHaveLength(batches);
  });

  test.for([
    [7, 1],
    [8, 2],
  ] as const)(
    "a lane with 8 waiting calls gets a batch of its own: %i calls and another's make %i",
    async ([count, batches]) => {
      const { ask, answerAll } = open();
      await ask(...calls("a", count), "b1");
      expect(await answerAll()).toHaveLength(batches);
    },
  );

  test("lanes take turns, so that a lane with many calls does not hold up another", async () => {
    const { ask, answerAll } = open();
    await ask(...calls("a", 96), "b1");
    expect((await answerAll()).map((sent) => sent.slice(0, 2))).toEqual(["a0", "a3", "b1", "a6"]);
  });

  test("a flush sends the calls waiting for a batch", async () => {
    const { queue, ask, running, answerAll } = open({ gather: () => {} });
    const answers = await ask("a1", "a2");
    expect(running()).toEqual([]);
    queue.flush();
    expect(await answerAll()).toEqual(["a1 a2"]);
    expect(await outcomes(answers)).toEqual(["A1", "A2"]);
  });
});

describe("batches that fail", () => {
  test.each(["55P03", "57014", "40P01", "40001"])(
    "after %s each lane of a batch continues alone, and together with others once it has no more calls",
    async (code) => {
      const { ask, running, statements, answerAll } = open();
      const answers = await ask("a1", "b1", "a2");
      await statements[0]?.answer(failure(code));
      expect(running()).toEqual(["a1 a2"]);
      expect(await answerAll()).toEqual(["a1 a2", "b1"]);
      expect(await outcomes(answers)).toEqual(["A1", "B1", "A2"]);
      await ask("a3", "b2");
      expect(running()).toEqual(["a3 b2"]);
      await answerAll();
    },
  );

  test("a lane whose own batch waited too long for a lock waits as long as it may, without its calls being refused", async () => {
    const { ask, statements, answerAll } = open();
    const answers = await ask("a1", "a2");
    expect(statements[0]?.lockWaitMs).toBeDefined();
    for (let attempt = 0; attempt < 5; attempt += 1) await statements[0]?.answer(contended());
    expect(statements[0]).toMatchObject({ calls: ["a1", "a2"], lockWaitMs: undefined });
    await answerAll();
    expect(await outcomes(answers)).toEqual(["A1", "A2"]);
  });

  test("at most half of the batches wait patiently, so that other lanes are still served", async () => {
    const { ask, wait, running, statements, answerAll } = open();
    for (const lane of ["a", "b", "c"]) {
      await ask(`${lane}1`);
      await statements.at(-1)?.answer(contended());
      await wait();
    }
    await ask("d1");
    expect(running()).toEqual(["a1", "b1", "d1"]);
    expect(await answerAll()).toEqual(["a1", "b1", "d1", "c1"]);
  });

  test("a batch waits for locks four times as long as a recent fast batch took, but 100 ms at least", async () => {
    const { ask, wait, statements } = open();
    const waits: (number | undefined)[] = [];
    for (const durationMs of [1_000, 50, 400, 10, 1]) {
      await ask("a1");
      waits.push(statements[0]?.lockWaitMs);
      await wait(durationMs);
      await statements[0]?.answer();
    }
    expect(waits).toEqual([1_000, 1_000, 200, 200, 100]);
  });

  test("a batch that Postgres rolls back is retried in halves, so only the bad call fails", async () => {
    const { ask, answerAll } = open();
    const answers = await ask("a1", "a2", "a3", "a4");
    const sent = await answerAll((batch) => (batch.includes("a3") ? rolledBack() : undefined));
    expect(sent).toEqual(["a1 a2 a3 a4", "a1 a2", "a3 a4", "a3", "a4"]);
    expect(await outcomes(answers)).toEqual(["A1", "A2", "refused", "A4"]);
  });

  test("a single-call batch is retried once if Postgres rolls it back", async () => {
    const { ask, answerAll } = open();
    const answers = await ask("a1");
    expect(await answerAll(rolledBack)).toEqual(["a1", "a1"]);
    expect(await outcomes(answers)).toEqual(["refused"]);
  });

  // too_many_connections and cannot_connect_now (PostgreSQL, Appendix A).
  test.each(["53300", "57P03"])(
    "a batch whose connection is refused with %s is retried once as a whole",
    async (code) => {
      const { ask, answerAll } = open();
      const answers = await ask("a1", "a2", "a3", "a4");
      expect(await answerAll(() => failure(code, "FATAL"))).toEqual(["a1 a2 a3 a4", "a1 a2 a3 a4"]);
      expect(await outcomes(answers)).toEqual(Array(4).fill("refused"));
    },
  );

  test("a batch without an answer is not retried, and later batches run normally", async () => {
    const { ask, answerAll } = open();
    const answers = await ask("a1", "a2");
    expect(await answerAll(unanswered)).toEqual(["a1 a2"]);
    expect(await outcomes(answers)).toEqual(["refused", "refused"]);
    const later = await ask("a3");
    await answerAll();
    expect(await outcomes(later)).toEqual(["A3"]);
  });
});

describe("waiting calls", () => {
  test.for([
    [waitMs - 1, "A2"],
    [waitMs + 25, "refused"],
  ] as const)("a call waits for 20 s: after %i ms it is %s", async ([ms, expected]) => {
    const { ask, wait, statements, answerAll } = open();
    const [first, second] = [...(await ask("a1")), ...(await ask("a2"))] as [Promise<string>, Promise<string>];
    await wait(ms);
    await statements[0]?.answer(contended());
    await answerAll();
    expect(await outcomes([second])).toEqual([expected]);
    await first.catch(() => {});
  });

  test("a call that is refused before or after it was sent says when to retry, and only the latter may have begun", async () => {
    const { ask, wait, answerAll } = open();
    const answers = [...(await ask("a1")), ...(await ask("a2"))];
    await wait(waitMs + 25);
    const errors = await Promise.all(answers.map((answer) => answer.catch((error: GatewayError) => error)));
    const facts = errors.map((error) => [(error as GatewayError).headers["retry-after"], isUnanswered(error)]);
    expect(facts).toEqual([
      ["5", true],
      ["5", false],
    ]);
    expect(await answerAll()).toEqual(["a1"]);
  });

  test("a statement may take as long as its youngest call waits", async () => {
    const { ask, wait, statements, answerAll } = open();
    await ask("a1");
    await wait(3_000);
    await ask("a2");
    await wait(1_000);
    await ask("a3");
    await statements[0]?.answer();
    await wait(500);
    expect(statements[0]).toMatchObject({ calls: ["a2", "a3"], waitMs });
    await statements[0]?.answer(contended());
    expect(statements[0]).toMatchObject({ calls: ["a2", "a3"], waitMs: waitMs - 500 });
    await answerAll();
  });

  test.for([
    ["all", ["a1", "a2", "a3", "b1"], ["A1", "A2", "A3", "B1"]],
    ["too much memory for one lane", ["a1", "a2", "a3", "a4"], ["A1", "A2", "A3", "refused"]],
    ["too much memory for all", ["a1", "a2", "a3", "b1", "b2"], ["A1", "A2", "A3", "B1", "refused"]],
  ] as const)("calls wait within their memory: %s", async ([, asked, expected]) => {
    const { ask, answerAll } = open({ memory: { bytes: 400, bytesOf: () => 100 } });
    const answers = await ask(...asked);
    await answerAll();
    expect(await outcomes(answers)).toEqual(expected);
    const again = await ask("a1", "a2", "a3", "b1");
    await answerAll();
    expect(await outcomes(again)).toEqual(["A1", "A2", "A3", "B1"]);
  });
});
