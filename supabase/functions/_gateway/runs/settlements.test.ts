import { describe, expect, test } from "vitest";
import { batchSize, createSettlements, maxUnderWay, type Outcome } from "./settlements.ts";

function outcome(id: string): Outcome {
  return {
    created_at: "2026-01-01T00:00:00Z",
    id,
    status: "succeeded",
    http_status: 200,
    usage_source: "provider",
    calls: [],
    latency_ms: 1,
    steps: [],
    key_unused: false,
  };
}

function collect(fail = 0) {
  const batches: string[][] = [];
  const kept: Promise<unknown>[] = [];
  let failures = fail;
  const settlements = createSettlements({
    async settle(outcomes) {
      if (failures-- > 0) throw new Error("down");
      batches.push(outcomes.map(({ id }) => id));
    },
    waitUntil: (work) => kept.push(work),
    report: (error) => {
      throw error;
    },
  });
  return { settlements, batches, kept };
}

describe("settlements", () => {
  test("are waited for by a flush while something else is written before them", async () => {
    const { settlements, batches } = collect();
    let written = () => {};
    settlements.awaitOutcome(
      new Promise<void>((resolve) => {
        written = resolve;
      }).then(() => settlements.add(outcome("late"))),
    );
    const flushed = settlements.flush();
    written();
    await flushed;
    expect(batches).toEqual([["late"]]);
  });

  test("travel together, ordered by id, and keep the isolate alive until they are written", async () => {
    const { settlements, batches, kept } = collect();
    for (const id of ["c", "a", "b"]) settlements.add(outcome(id));
    expect(batches).toEqual([]);
    expect(kept).toHaveLength(1);
    await Promise.all(kept);
    expect(batches).toEqual([["a", "b", "c"]]);
  });

  test(`go at once when ${batchSize} are there, and not with one fewer`, async () => {
    const { settlements, batches, kept } = collect();
    for (let n = 1; n < batchSize; n++) settlements.add(outcome(`id-${n}`));
    await Promise.resolve();
    expect(batches).toEqual([]);
    settlements.add(outcome("last"));
    await Promise.resolve();
    expect(batches.map((batch) => batch.length)).toEqual([batchSize]);
    await Promise.all(kept);
  });

  test(`are written by ${maxUnderWay} statements at once; what comes meanwhile waits, and goes together`, async () => {
    const batches: string[][] = [];
    const answers: (() => void)[] = [];
    const kept: Promise<unknown>[] = [];
    const settlements = createSettlements({
      settle(outcomes) {
        batches.push(outcomes.map(({ id }) => id));
        return new Promise<void>((resolve) => answers.push(resolve));
      },
      waitUntil: (work) => kept.push(work),
      report: (error) => {
        throw error;
      },
    });
    const addFull = () => {
      for (let n = 0; n < batchSize; n++) settlements.add(outcome(`${batches.length}-${n}`));
    };
    for (let n = 0; n < maxUnderWay; n++) addFull();
    settlements.add(outcome("due"));
    await new Promise((resolve) => setTimeout(resolve, 120));
    settlements.add(outcome("later"));
    expect(batches).toHaveLength(maxUnderWay);
    const flushed = settlements.flush();
    answers.shift()?.();
    await expect.poll(() => batches.at(maxUnderWay)).toEqual(["due", "later"]);
    for (const answer of answers) answer();
    await flushed;
    await Promise.all(kept);
    expect(batches).toHaveLength(maxUnderWay + 1);
  });

  test("a batch that waits to be tried again holds up no other", async () => {
    const batches: string[][] = [];
    const kept: Promise<unknown>[] = [];
    let refused = 0;
    const settlements = createSettlements({
      async settle(outcomes) {
        if (outcomes.some(({ id }) => id.startsWith("refused")) && refused++ < 2 * maxUnderWay) throw new Error("down");
        batches.push(outcomes.map(({ id }) => id));
      },
      waitUntil: (work) => kept.push(work),
      report: (error) => {
        throw error;
      },
    });
    for (let n = 0; n < maxUnderWay * batchSize; n++) settlements.add(outcome(`refused-${n}`));
    settlements.add(outcome("sound"));
    await Promise.all(kept);
    expect(batches.map(([first]) => first)).toEqual(["sound", expect.any(String), expect.any(String)]);
    expect(refused).toBe(3 * maxUnderWay);
  });

  test(`those that are tried again are written by ${maxUnderWay} statements at once, too, and by themselves`, async () => {
    const batches: string[][] = [];
    const kept: Promise<unknown>[] = [];
    let down = true;
    let underWay = 0;
    let most = 0;
    const settlements = createSettlements({
      async settle(outcomes) {
        if (down) throw new Error("down");
        most = Math.max(most, ++underWay);
        await new Promise((resolve) => setTimeout(resolve, 200));
        underWay -= 1;
        batches.push(outcomes.map(({ id }) => id));
      },
      waitUntil: (work) => kept.push(work),
      report: (error) => {
        throw error;
      },
    });
    for (let n = 0; n < 3 * maxUnderWay * batchSize; n++) settlements.add(outcome(`tried-${n}`));
    await new Promise((resolve) => setTimeout(resolve, 20));
    down = false;
    // By then those that were tried wait for their turn.
    await new Promise((resolve) => setTimeout(resolve, 150));
    settlements.add(outcome("new"));
    await settlements.flush();
    await Promise.all(kept);
    expect(most).toBe(maxUnderWay);
    expect(batches.flat()).toHaveLength(3 * maxUnderWay * batchSize + 1);
    expect(batches.filter((batch) => batch.includes("new"))).toEqual([["new"]]);
  });

  test("are tried again when the database is away", async () => {
    const { settlements, batches, kept } = collect(2);
    settlements.add(outcome("a"));
    await Promise.all(kept);
    expect(batches).toEqual([["a"]]);
  });

  test("flush leaves nothing behind", async () => {
    const { settlements, batches } = collect();
    settlements.add(outcome("a"));
    await settlements.flush();
    expect(batches).toEqual([["a"]]);
  });
});
