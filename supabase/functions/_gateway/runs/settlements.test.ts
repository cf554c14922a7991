import pg from "pg";
import { describe, expect, test, vi } from "vitest";
import { GatewayError } from "../http/errors.ts";
import { batchSize, createSettlements, type Outcome } from "./settlements.ts";

const ended = { workspaceId: "one", promptly: false };

function outcome(id: string): Outcome {
  return {
    created_at: "2026-01-01T00:00:00Z",
    id,
    status: "succeeded",
    http_status: 200,
    usage_source: "provider",
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

describe("Settlements", () => {
  test("a flush also waits for registered work that has not added its settlement yet", async () => {
    const { settlements, batches } = collect();
    let written = () => {};
    settlements.awaitOutcome(
      new Promise<void>((resolve) => {
        written = resolve;
      }).then(() => settlements.add(outcome("late"), ended)),
    );
    const flushed = settlements.flush();
    written();
    await flushed;
    expect(batches).toEqual([["late"]]);
  });

  test("settlements are sent together, ordered by id, and keep the isolate alive until they are written", async () => {
    const { settlements, batches, kept } = collect();
    for (const id of ["c", "a", "b"]) settlements.add(outcome(id), ended);
    expect(batches).toEqual([]);
    expect(kept).toHaveLength(3);
    await Promise.all(kept);
    expect(batches).toEqual([["a", "b", "c"]]);
  });

  test(`sends settlements immediately when ${batchSize} are waiting, but not when there is one fewer`, async () => {
    const { settlements, batches, kept } = collect();
    for (let n = 1; n < batchSize; n++) settlements.add(outcome(`id-${n}`), ended);
    await Promise.resolve();
    expect(batches).toEqual([]);
    settlements.add(outcome("last"), ended);
    await Promise.resolve();
    expect(batches.map((batch) => batch.length)).toEqual([batchSize]);
    await Promise.all(kept);
  });

  test("sends all waiting settlements immediately when one of them must be written promptly", async () => {
    const { settlements, batches, kept } = collect();
    settlements.add(outcome("waits"), ended);
    settlements.add(outcome("prompt"), { ...ended, promptly: true });
    await Promise.resolve();
    expect(batches).toEqual([["prompt", "waits"]]);
    await Promise.all(kept);
  });

  test("settlements that arrive while two batches are running are sent together", async () => {
    const batches: string[][] = [];
    const answers: (() => void)[] = [];
    const settlements = createSettlements({
      settle(outcomes) {
        batches.push(outcomes.map(({ id }) => id));
        return new Promise<void>((resolve) => answers.push(resolve));
      },
      waitUntil: () => {},
      report: (error) => {
        throw error;
      },
    });
    for (const workspaceId of ["one", "other"]) {
      for (let n = 0; n < batchSize; n++) settlements.add(outcome(`${workspaceId} ${n}`), { ...ended, workspaceId });
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    settlements.add(outcome("due"), ended);
    await new Promise((resolve) => setTimeout(resolve, 120));
    settlements.add(outcome("later"), ended);
    expect(batches).toHaveLength(2);
    const flushed = settlements.flush();
    for (const answer of answers.splice(0)) answer();
    await expect.poll(() => batches.at(2)).toEqual(["due", "later"]);
    for (const answer of answers) answer();
    await flushed;
    expect(batches).toHaveLength(3);
  });

  test("settlements that wait for a retry do not block others", async () => {
    const batches: string[][] = [];
    const kept: Promise<unknown>[] = [];
    let failures = 0;
    const settlements = createSettlements({
      async settle(outcomes) {
        if (outcomes.some(({ id }) => id.startsWith("retried")) && failures++ < 4) throw new Error("down");
        batches.push(outcomes.map(({ id }) => id));
      },
      waitUntil: (work) => kept.push(work),
      report: (error) => {
        throw error;
      },
    });
    for (let n = 0; n < 2 * batchSize; n++) settlements.add(outcome(`retried-${n}`), ended);
    settlements.add(outcome("sound"), ended);
    await Promise.all(kept);
    expect(batches[0]).toEqual(["sound"]);
    expect(batches.flat()).toHaveLength(2 * batchSize + 1);
  });

  test("settlements are retried at intervals of up to ten seconds until the database is back, and the outage is reported only once", async () => {
    vi.useFakeTimers();
    try {
      const times: number[] = [];
      const reported: unknown[] = [];
      const startedAt = Date.now();
      const settlements = createSettlements({
        async settle() {
          times.push(Date.now() - startedAt);
          if (times.length < 9) throw new GatewayError("service_unavailable", { cause: new Error("gone") });
        },
        waitUntil: () => {},
        report: (error) => reported.push(error),
      });
      settlements.add(outcome("a"), ended);
      const flushed = settlements.flush();
      await vi.advanceTimersByTimeAsync(120_000);
      await flushed;
      const retries = times.slice(1).map((time, place) => Math.floor((time - (times[place] ?? 0)) / 100) * 100);
      expect(retries).toEqual([100, 300, 1_000, 3_000, 10_000, 10_000, 10_000, 10_000]);
      expect(reported).toHaveLength(1);
    } finally {
      vi.useRealTimers();
    }
  });

  test("settlements that Postgres can't parse are reported and dropped, and the rest of their batch is written", async () => {
    const written: string[] = [];
    const reported: unknown[] = [];
    const settlements = createSettlements({
      async settle(outcomes) {
        const cause = Object.assign(new pg.DatabaseError("unsupported Unicode escape sequence", 1, "error"), {
          code: "22P05",
        });
        if (outcomes.some(({ id }) => id === "bad")) throw new GatewayError("service_unavailable", { cause });
        written.push(...outcomes.map(({ id }) => id));
      },
      waitUntil: () => {},
      report: (error) => reported.push(error),
    });
    for (const id of ["a", "bad", "c"]) settlements.add(outcome(id), ended);
    await settlements.flush();
    expect(written).toEqual(["a", "c"]);
    expect(reported).toHaveLength(1);
  });

  test("settlements are retried while the database is unavailable", async () => {
    const { settlements, batches, kept } = collect(2);
    settlements.add(outcome("a"), ended);
    await Promise.all(kept);
    expect(batches).toEqual([["a"]]);
  });

  test("a flush writes all settlements", async () => {
    const { settlements, batches } = collect();
    settlements.add(outcome("a"), ended);
    await settlements.flush();
    expect(batches).toEqual([["a"]]);
  });
});
