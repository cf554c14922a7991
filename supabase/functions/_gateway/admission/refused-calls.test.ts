import pg from "pg";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { GatewayError } from "../http/errors.ts";
import { type CallFacts, createRefusedCalls } from "./refused-calls.ts";

type Batch = Parameters<Parameters<typeof createRefusedCalls>[0]["record"]>[0];

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 0, 1, 12, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const limited = new GatewayError("rate_limit_exceeded", { details: { limit: 3 } });

function factsOf(key: string, changes: Partial<CallFacts> = {}): CallFacts {
  return {
    caller: { credential: { source: "key", hash: key } },
    request_id: "r",
    endpoint: "/v1/chat/completions",
    feature: "chat",
    model: "m",
    state: "checked",
    ...changes,
  };
}

/** Collects the sent batches. `answers` are the database's first answers; later ones are `true`. */
function collect(answers: (boolean | Error)[] = []) {
  const batches: Batch[] = [];
  const errors: unknown[] = [];
  const waiting: Promise<unknown>[] = [];
  const refused = createRefusedCalls({
    async record(batch) {
      batches.push(batch);
      const answer = answers.shift() ?? true;
      if (answer instanceof Error) throw answer;
      return answer;
    },
    waitUntil: (work) => void waiting.push(work),
    report: (error) => void errors.push(error),
  });
  return { refused, batches, errors, waiting };
}

const countOf = (batches: Batch[]) =>
  batches
    .flat()
    .flatMap(({ counts }) => counts)
    .reduce((sum, { count }) => sum + count, 0);
const callsOf = (batches: Batch[]) => batches.flat().flatMap(({ calls }) => calls);

describe("refused calls", () => {
  test("are sent together after a second, with what is known of them, and keep the isolate alive until then", async () => {
    const { refused, batches, waiting } = collect();
    refused.add(factsOf("a", { label: "customer", streamed: true }), limited);
    refused.add(factsOf("a"), new GatewayError("invalid_request", { param: "messages" }));
    refused.add(factsOf("b"), limited);
    await vi.advanceTimersByTimeAsync(999);
    expect(batches).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await Promise.all(waiting);
    expect(batches).toHaveLength(1);
    expect(batches[0]?.map(({ credential, calls }) => [credential, calls.length])).toEqual([
      [{ source: "key", hash: "a" }, 2],
      [{ source: "key", hash: "b" }, 1],
    ]);
    expect(callsOf(batches)[0]).toEqual({
      request_id: "r",
      endpoint: "/v1/chat/completions",
      feature: "chat",
      label: "customer",
      model: "m",
      streamed: true,
      status: 429,
      code: "rate_limit_exceeded",
      param: undefined,
      details: { limit: 3 },
      age_ms: 1_000,
    });
  });

  test.each([
    ["an unknown credential", factsOf("a"), new GatewayError("invalid_api_key")],
    ["an outage", factsOf("a"), new GatewayError("service_unavailable")],
    ["a defect", factsOf("a"), new GatewayError("internal_error")],
    ["an error of a call with a run", factsOf("a", { state: "open" }), limited],
  ])("leave out %s", async (_, facts, error) => {
    const { refused, batches, waiting } = collect();
    refused.add(facts, error);
    await refused.flush();
    expect([batches, waiting]).toEqual([[], []]);
  });

  test("of 100,000 in a minute are all counted, and 20 are sent in full", async () => {
    const { refused, batches } = collect();
    for (let second = 0; second < 50; second++) {
      for (let n = 0; n < 2_000; n++) refused.add(factsOf("a", { model: `m-${n}` }), limited);
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(batches).toHaveLength(50);
    expect(callsOf(batches)).toHaveLength(20);
    expect(countOf(batches)).toBe(100_000);
    expect(Math.max(...batches.map((batch) => JSON.stringify(batch).length))).toBeLessThan(10_000);
    await vi.advanceTimersByTimeAsync(60_000);
    refused.add(factsOf("a"), limited);
    await refused.flush();
    expect(callsOf(batches)).toHaveLength(21);
  });

  test("take a bounded memory for any number of callers, most of it for checked ones", async () => {
    const { refused, batches } = collect();
    for (let n = 0; n < 5_000; n++) refused.add(factsOf(`x-${n}`, { state: "unchecked" }), limited);
    for (let n = 0; n < 5_000; n++) for (let m = 0; m < 5; m++) refused.add(factsOf(`k-${n}`), limited);
    await refused.flush();
    expect(batches[0]).toHaveLength(1_000);
    expect(
      batches[0]?.filter(({ credential }) => "hash" in credential && credential.hash.startsWith("x-")),
    ).toHaveLength(100);
    expect(callsOf(batches)).toHaveLength(2_000);
    expect(countOf(batches)).toBe(100 + 900 * 5);
    // The next callers find room.
    refused.add(factsOf("late"), limited);
    await refused.flush();
    expect(callsOf(batches)).toHaveLength(2_001);
  });

  test("of unknown keys leave room for calls of known callers in full", async () => {
    const { refused, batches } = collect();
    for (let n = 0; n < 100; n++)
      for (let m = 0; m < 20; m++) refused.add(factsOf(`x-${n}`, { state: "unchecked" }), limited);
    for (let n = 0; n < 50; n++) for (let m = 0; m < 20; m++) refused.add(factsOf(`k-${n}`), limited);
    await refused.flush();
    expect(countOf(batches)).toBe(3_000);
    expect(callsOf(batches)).toHaveLength(200 + 1_000);
  });

  test("are sent again if another process was recording or Postgres gave up on a lock, with those that came since", async () => {
    const contended = new GatewayError("service_unavailable", {
      cause: Object.assign(new pg.DatabaseError("lock", 1, "error"), { code: "55P03", severity: "ERROR" }),
    });
    const { refused, batches, errors } = collect([false, contended]);
    refused.add(factsOf("a"), limited);
    await vi.advanceTimersByTimeAsync(1_000);
    refused.add(factsOf("a"), limited);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(batches.map((batch) => [callsOf([batch]).length, countOf([batch])])).toEqual([
      [1, 1],
      [2, 2],
      [2, 2],
    ]);
    expect(callsOf(batches).at(-2)).toMatchObject({ age_ms: 3_000 });
    await vi.advanceTimersByTimeAsync(5_000);
    expect([batches.length, errors]).toEqual([3, []]);
  });

  test("of many callers are kept while a batch is sent again, with those that came during its statement", async () => {
    const batches: Batch[] = [];
    const refused = createRefusedCalls({
      async record(batch) {
        batches.push(batch);
        if (batches.length > 1) return true;
        for (let n = 0; n < 500; n++) refused.add(factsOf(`k-${n}`), limited);
        return false;
      },
      waitUntil: () => {},
      report: () => {},
    });
    for (let n = 0; n < 500; n++) refused.add(factsOf(`k-${n}`), limited);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(batches.map((batch) => [batch.length, callsOf([batch]).length, countOf([batch])])).toEqual([
      [500, 500, 500],
      [500, 1_000, 1_000],
    ]);
  });

  test("are not sent twice if the database may have recorded them", async () => {
    const { refused, batches, errors } = collect([
      new GatewayError("service_unavailable", { cause: new Error("lost") }),
    ]);
    refused.add(factsOf("a"), limited);
    await vi.advanceTimersByTimeAsync(5_000);
    expect([batches.length, errors.length]).toEqual([1, 1]);
  });

  test("contain no text that Postgres can't store, and no long one", async () => {
    const { refused, batches } = collect();
    refused.add(factsOf("a", { model: "m".repeat(1_000) }), limited);
    refused.add(factsOf("a", { model: "m\u0000" }), new GatewayError("invalid_request", { param: "\ud800" }));
    refused.add(factsOf("a"), new GatewayError("invalid_request", { details: { long: "x".repeat(5_000) } }));
    await refused.flush();
    const [long, odd, detailed] = callsOf(batches);
    expect([long?.model?.length, odd?.model, odd?.param, detailed?.details]).toEqual([
      256,
      undefined,
      undefined,
      undefined,
    ]);
  });
});
