import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createBodyMemory, getBodyMemory, type MemoryGrant } from "./body-memory.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(async () => {
  // All time limits share one timer, which stops only once no limit is left.
  await vi.advanceTimersByTimeAsync(11_000);
  vi.useRealTimers();
});

const overload = { code: "service_unavailable", status: 503, headers: { "retry-after": "5" } };

/** Asks for memory. Records who got it, in order. */
function createAsker(totalBytes: number) {
  const memory = createBodyMemory(totalBytes);
  const granted: string[] = [];
  const refused: { name: string; error: unknown }[] = [];
  const grants = new Map<string, MemoryGrant>();
  async function ask(name: string, bytes: number, signal = new AbortController().signal): Promise<void> {
    const [workspace = ""] = name.split(" ");
    try {
      grants.set(name, await memory.grant(bytes, { workspace, signal }));
      granted.push(name);
    } catch (error) {
      refused.push({ name, error });
    }
  }
  const settle = () => vi.advanceTimersByTimeAsync(0);
  async function release(name: string): Promise<void> {
    grants.get(name)?.release();
    await settle();
  }
  return { ask, release, settle, granted, refused, grants };
}

describe("Memory for bodies", () => {
  test("grants memory up to the total and not one byte more", async () => {
    const { ask, release, settle, granted } = createAsker(100);
    for (const [name, bytes] of [
      ["a", 60],
      ["b", 40],
      ["c", 1],
    ] as const)
      void ask(name, bytes);
    await settle();
    expect(granted).toEqual(["a", "b"]);
    await release("b");
    expect(granted).toEqual(["a", "b", "c"]);
  });

  test("workspaces take turns, and the bodies of one workspace keep their order", async () => {
    const { ask, release, settle, granted } = createAsker(10);
    void ask("first", 10);
    for (const name of ["a 1", "a 2", "a 3", "b 1", "c 1", "b 2"]) void ask(name, 10);
    await settle();
    for (let turn = 0; turn < 6; turn++) await release(granted.at(-1) ?? "");
    expect(granted).toEqual(["first", "a 1", "b 1", "c 1", "a 2", "b 2", "a 3"]);
  });

  test("a workspace that has memory leaves a quarter of it to others", async () => {
    const { ask, settle, granted } = createAsker(100);
    for (const name of ["a 1", "a 2", "a 3", "a 4", "b 1"]) void ask(name, 25);
    await settle();
    expect(granted).toEqual(["a 1", "a 2", "a 3", "b 1"]);
  });

  test("a single body may have all the memory", async () => {
    const { ask, settle, granted } = createAsker(100);
    void ask("a", 100);
    await settle();
    expect(granted).toEqual(["a"]);
  });

  test("a small body overtakes one that doesn't fit, but only for five seconds", async () => {
    const { ask, release, settle, granted } = createAsker(100);
    for (const [name, bytes] of [
      ["a", 60],
      ["b", 60],
      ["c", 30],
    ] as const)
      void ask(name, bytes);
    await settle();
    expect(granted).toEqual(["a", "c"]);
    await vi.advanceTimersByTimeAsync(5_001);
    void ask("d", 10);
    await release("c");
    expect(granted).toEqual(["a", "c"]);
    await release("a");
    expect(granted).toEqual(["a", "c", "b", "d"]);
  });

  test("refuses a body with 503 and Retry-After after ten seconds, and not before", async () => {
    const { ask, settle, granted, refused, release } = createAsker(10);
    void ask("a", 10);
    void ask("b", 10);
    await vi.advanceTimersByTimeAsync(9_999);
    expect(refused).toEqual([]);
    await vi.advanceTimersByTimeAsync(30);
    expect(refused).toMatchObject([{ name: "b", error: overload }]);
    await release("a");
    await settle();
    expect(granted).toEqual(["a"]);
  });

  test("200 bodies of a workspace may wait and no more, and others still may", async () => {
    const { ask, settle, refused } = createAsker(10);
    for (let n = 0; n < 202; n++) void ask(`a ${n}`, 10);
    void ask("b", 10);
    await settle();
    expect(refused).toMatchObject([{ name: "a 201", error: overload }]);
  });

  test("1,000 bodies may wait in all and no more", async () => {
    const { ask, settle, refused } = createAsker(10);
    for (let n = 0; n < 1_002; n++) void ask(`w${n % 6} ${n}`, 10);
    await settle();
    expect(refused).toMatchObject([{ name: "w5 1001", error: overload }]);
  });

  test("a client that disconnects leaves the queue, and the body behind it gets memory", async () => {
    const { ask, settle, granted, refused, release } = createAsker(100);
    const leaving = new AbortController();
    void ask("a", 60);
    void ask("b", 60, leaving.signal);
    await vi.advanceTimersByTimeAsync(6_000);
    void ask("c", 40);
    await settle();
    expect(granted).toEqual(["a"]);
    leaving.abort();
    await settle();
    expect([granted, refused.map(({ name }) => name)]).toEqual([["a", "c"], ["b"]]);
    void ask("d", 60, leaving.signal);
    await settle();
    expect(refused.map(({ name }) => name)).toEqual(["b", "d"]);
    await release("a");
    void ask("e", 60);
    await settle();
    expect(granted).toEqual(["a", "c", "e"]);
  });

  test("counts a release once, and a shrunk body only with its new size", async () => {
    const { ask, settle, granted, grants, release } = createAsker(100);
    void ask("a", 100);
    void ask("b", 60);
    await settle();
    grants.get("a")?.shrink(40);
    await settle();
    expect(granted).toEqual(["a", "b"]);
    await release("a");
    await release("a");
    grants.get("a")?.shrink(0);
    for (const [name, bytes] of [
      ["c", 40],
      ["d", 1],
    ] as const)
      void ask(name, bytes);
    await settle();
    expect(granted).toEqual(["a", "b", "c"]);
  });
});

describe("Memory for another request with the same body", () => {
  const signal = new AbortController().signal;

  test("bodies that need more memory never wait for each other", async () => {
    const { ask, settle, grants } = createAsker(100);
    const names = ["a", "b", "c", "d", "e"];
    for (const name of names) void ask(name, 20);
    await settle();
    const grown: string[] = [];
    for (const name of names)
      void grants
        .get(name)
        ?.grow(60, signal)
        .then(() => grown.push(name));
    await settle();
    expect(grown).toEqual(["a"]);
    for (const name of names) {
      grants.get(name)?.release();
      await settle();
    }
    expect(grown).toEqual(names);
  });

  test("a body that needs more memory gets it before new bodies", async () => {
    const { ask, settle, granted, grants, release } = createAsker(100);
    for (const name of ["a", "b"]) void ask(name, 50);
    await settle();
    for (const name of ["a", "b"]) grants.get(name)?.shrink(20);
    let grown = 0;
    for (const name of ["a", "b"])
      void grants
        .get(name)
        ?.grow(60, signal)
        .then(() => (grown += 1));
    void ask("c", 10);
    await settle();
    expect([grown, granted]).toEqual([1, ["a", "b"]]);
    await release("a");
    expect([grown, granted]).toEqual([2, ["a", "b", "c"]]);
  });

  test("may wait however many new bodies and other grants wait", async () => {
    const { ask, settle, grants } = createAsker(500);
    const names = Array.from({ length: 250 }, (_, n) => `w${n % 6} ${n}`);
    for (const name of names) void ask(name, 2);
    await settle();
    for (const name of names) grants.get(name)?.shrink(1);
    for (let n = 0; n < 1_000; n++) void ask(`w${n % 6} new ${n}`, 400);
    const refused: unknown[] = [];
    for (const name of names)
      grants
        .get(name)
        ?.grow(400, signal)
        .catch((error) => refused.push(error));
    await settle();
    expect(refused).toEqual([]);
    for (const name of names) grants.get(name)?.release();
  });

  test("the wait for more memory ends after ten seconds, with the client, and when the body is released", async () => {
    const { ask, settle, grants, refused } = createAsker(100);
    for (const name of ["a", "b", "c"]) void ask(name, 30);
    await settle();
    const leaving = new AbortController();
    await grants.get("a")?.grow(80, signal);
    const late = expect(grants.get("b")?.grow(80, signal)).rejects.toMatchObject(overload);
    const left = expect(grants.get("c")?.grow(80, leaving.signal)).rejects.toThrow();
    leaving.abort();
    await left;
    await vi.advanceTimersByTimeAsync(10_030);
    await late;
    for (const name of ["a", "b", "c"]) grants.get(name)?.release();
    void ask("d", 100);
    await settle();
    expect([grants.has("d"), refused]).toEqual([true, []]);
  });
});

test.for([
  [256, 64_000_000],
  [1_024, 448_000_000],
] as const)("of %i MB for a process, all its bodies together may have %i bytes", ([megabytes, bytes]) => {
  const memory = getBodyMemory(megabytes * 1_000_000);
  expect(memory.totalBytes).toBe(bytes);
  expect(getBodyMemory(megabytes * 1_000_000)).toBe(memory);
});
