import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createEnvelopeWatch, type EnvelopeSnapshot } from "./envelope-watch.ts";
import { createWaitingCalls, type WaitEnd } from "./waiting-calls.ts";

let clients = new AbortController();
beforeEach(() => {
  vi.useFakeTimers();
  clients = new AbortController();
});
afterEach(() => {
  clients.abort();
  // All time limits share one timer, which would otherwise be lost.
  vi.runOnlyPendingTimers();
  vi.useRealTimers();
});

const usedUp = {
  id: "e",
  state: "open",
  limit_usd: 5,
  spent_usd: 5,
  reserved_usd: 0,
  max_calls: null,
  calls: 9,
  ends_at: "2026-12-30T00:00:00Z",
} satisfies EnvelopeSnapshot;

function open({ maxBytes = 1_000_000 } = {}) {
  let current: EnvelopeSnapshot[] = [usedUp];
  const reads: string[][] = [];
  const { watch } = createEnvelopeWatch({
    read: async (ids) => {
      reads.push([...ids]);
      return current;
    },
    waitUntil: () => {},
  });
  const stopping = new AbortController();
  const wait = createWaitingCalls({ watch, maxBytes, stopping: stopping.signal });
  const ends: [name: string, end: WaitEnd][] = [];
  return {
    reads,
    ends,
    watch,
    stop: () => stopping.abort(),
    change(...changes: Partial<EnvelopeSnapshot>[]) {
      current = changes.map((change) => ({ ...usedUp, ...change }));
    },
    add(name: string, options: Partial<Parameters<typeof wait>[0]> = {}) {
      const request = {
        envelopeId: "e",
        needUsd: 0.4,
        triedRoomUsd: 0,
        bodyBytes: 100,
        limitMs: 600_000,
        signal: clients.signal,
        ...options,
      };
      void wait(request).then((end) => ends.push([name, end]));
    },
    /** Returns the names of the calls that have ended in a state, in order. */
    named: (state: WaitEnd["state"]) => ends.flatMap(([name, end]) => (end.state === state ? [name] : [])),
  };
}

const second = () => vi.advanceTimersByTimeAsync(1_000);

describe("Calls that wait for an envelope", () => {
  test("are read in one statement a second, until none waits", async () => {
    const { reads, add } = open();
    const leaving = new AbortController();
    for (let n = 0; n < 40; n++) add(`${n}`, { envelopeId: n % 2 ? "e" : "f", signal: leaving.signal });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(reads).toEqual(Array(5).fill(["f", "e"]));
    leaving.abort();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(reads).toHaveLength(5);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("are tried again in their order once there is room for them, and only as many as fit together", async () => {
    const { add, change, named } = open();
    for (const name of ["a", "b", "c"]) add(name);
    add("small", { needUsd: 0.1 });
    await second();
    expect(named("room")).toEqual([]);
    change({ limit_usd: 5.9 });
    await second();
    expect(named("room")).toEqual(["a", "b", "small"]);
    change({ limit_usd: 6.8, reserved_usd: 0.9 });
    await second();
    expect(named("room")).toEqual(["a", "b", "small", "c"]);
  });

  test.for([
    [0.4, 5.4, true],
    [0.4, 5.39, false],
    [0.1, 5.1, true],
  ] as const)("with a need of %d and a limit of %d, a call is tried again: %s", async ([needUsd, limit_usd, tried]) => {
    const { add, change, named } = open();
    add("a", { needUsd });
    change({ limit_usd });
    await second();
    expect(named("room")).toEqual(tried ? ["a"] : []);
  });

  test("are tried four at a time, so that a raise causes no storm", async () => {
    const { add, change, named } = open();
    for (let n = 0; n < 10; n++) add(`${n}`);
    change({ limit_usd: 500 });
    await second();
    expect(named("room")).toEqual(["0", "1", "2", "3"]);
    await second();
    expect(named("room")).toHaveLength(8);
  });

  test("are not tried while no calls are left", async () => {
    const { add, change, named } = open();
    add("a");
    add("b");
    change({ limit_usd: 500, max_calls: 9 });
    await second();
    expect(named("room")).toEqual([]);
    change({ limit_usd: 500, max_calls: 10 });
    await second();
    expect(named("room")).toEqual(["a"]);
  });

  test("are tried whenever the room grows if their need is unknown", async () => {
    const { ends, add, change, named } = open();
    add("a", { needUsd: undefined });
    await second();
    change({ limit_usd: 6 });
    await second();
    expect(named("room")).toEqual(["a"]);
    expect(ends).toEqual([["a", { state: "room", roomUsd: 1 }]]);
    add("again", { needUsd: undefined, triedRoomUsd: 1 });
    await second();
    expect(named("room")).toEqual(["a"]);
    change({ limit_usd: 6.1 });
    await second();
    expect(named("room")).toEqual(["a", "again"]);
  });

  test.for(["ended", "expired"] as const)("all end when the envelope has %s", async (state) => {
    const { add, change, named } = open();
    for (let n = 0; n < 10; n++) add(`${n}`);
    change({ state });
    await second();
    expect(named(state)).toHaveLength(10);
  });

  test("wait as long as they may, and no longer than their client", async () => {
    const { add, named } = open();
    const leaving = new AbortController();
    add("short", { limitMs: 2_000 });
    add("none", { limitMs: 0 });
    add("left", { signal: AbortSignal.abort() });
    add("leaving", { signal: leaving.signal });
    await second();
    expect(named("over")).toEqual(["none", "left"]);
    leaving.abort();
    await vi.advanceTimersByTimeAsync(1_100);
    expect(named("over")).toEqual(["none", "left", "leaving", "short"]);
  });

  test("end when the process stops, and none waits after that", async () => {
    const { add, named, stop } = open();
    for (const [name, envelopeId] of [
      ["a", "e"],
      ["b", "e"],
      ["c", "f"],
    ] as const)
      add(name, { envelopeId });
    stop();
    add("late");
    await second();
    expect(named("stopping")).toEqual(["a", "b", "c", "late"]);
  });

  test("don't wait if that takes too much memory, or if too many do", async () => {
    const { add, named } = open({ maxBytes: 8_192 + 300 });
    add("first");
    add("second");
    await second();
    expect(named("over")).toEqual(["second"]);
    const many = open({ maxBytes: Number.POSITIVE_INFINITY });
    for (let n = 0; n < 201; n++) many.add(`${n}`);
    await second();
    expect(many.named("over")).toEqual(["200"]);
  });
});

test("a failed reading is repeated, and a slow one is not overtaken", async () => {
  const answers = [
    () => Promise.reject(new Error("no database")),
    () => new Promise<EnvelopeSnapshot[]>((resolve) => setTimeout(() => resolve([usedUp]), 2_500)),
  ];
  let reads = 0;
  const { watch } = createEnvelopeWatch({
    read: () => answers[reads++]?.() ?? Promise.resolve([usedUp]),
    waitUntil: () => {},
  });
  const heard: EnvelopeSnapshot[] = [];
  const end = watch("e", (snapshot) => heard.push(snapshot));
  await vi.advanceTimersByTimeAsync(4_400);
  expect([reads, heard.length]).toEqual([2, 0]);
  await vi.advanceTimersByTimeAsync(600);
  expect([reads, heard.length]).toEqual([3, 2]);
  end();
});
