import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { createAdmin } from "../console/fixtures.ts";
import { type Database, test } from "../database.ts";
import { openPool } from "../pools.ts";

type Limits = { requests?: number | undefined; tokens?: number | undefined };
type Call = { at: number; tokens?: number; waitMs?: number };
type Answer = { taken: boolean; wait_ms: number | null };

const providerId = () => `p${randomUUID().replaceAll("-", "").slice(0, 20)}`;
const startMs = Date.parse("2026-11-30T00:00:00Z");
const timeOf = (ms: number) => new Date(startMs + ms).toISOString();

async function limit(db: Database, { requests, tokens }: Limits): Promise<string> {
  const provider = providerId();
  await db.query(
    `insert into ai.provider_limits (provider_id, requests_per_minute, tokens_per_minute, requests_full_at, tokens_full_at)
     values ($1, $2, $3, $4, $4)`,
    [provider, requests, tokens, timeOf(0)],
  );
  return provider;
}

const callOf = (provider: string, { tokens = 1, waitMs = 0 }: Partial<Call> = {}) => ({
  provider,
  // Three bytes are one token.
  input_bytes: 3,
  output_tokens: tokens - 1,
  wait_ms: waitMs,
});

/** Takes calls in one statement, at the time of the first one. */
async function take(db: Database, { provider, calls }: { provider: string; calls: readonly Call[] }) {
  const [row] = await db.query<{ answers: Answer[] }>("select ai.take_calls($1, $2) as answers", [
    JSON.stringify(calls.map((call) => callOf(provider, call))),
    timeOf(calls[0]?.at ?? 0),
  ]);
  return row?.answers ?? [];
}

/** Creates repeatable random numbers from 0 to below 1 (mulberry32). */
function createRandom(seed: number) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns the largest sum of amounts within 60 seconds, the last instant included. */
function largestMinute(taken: readonly { at: number; amount: number }[]): number {
  const inOrder = taken.toSorted((one, other) => one.at - other.at);
  const sums = inOrder.map(({ at }) =>
    inOrder.reduce((sum, each) => (each.at >= at && each.at <= at + 60_000 ? sum + each.amount : sum), 0),
  );
  return Math.max(0, ...sums);
}

describe("the limits of a provider", () => {
  test.for<Limits>([
    { requests: 1 },
    { requests: 2 },
    { requests: 7 },
    { requests: 9 },
    { requests: 10 },
    { requests: 19 },
    { requests: 60 },
    { requests: 500 },
    { tokens: 1 },
    { tokens: 7 },
    { tokens: 30_000 },
    { tokens: 2_000_003 },
    { requests: 13, tokens: 9_973 },
  ])("no 60 seconds of a random schedule have more than %j", async (limits, { db }) => {
    const provider = await limit(db, limits);
    const random = createRandom((limits.requests ?? 0) * 31 + (limits.tokens ?? 0));
    const largest = limits.tokens ?? 1;
    const taken: Required<Call>[] = [];
    let now = 0;
    for (let statement = 0; statement < 250; statement += 1) {
      // Pauses from none to two minutes, mostly short.
      now += Math.floor(random() ** 6 * 120_000);
      const calls = Array.from({ length: 1 + Math.floor(random() * 12) }, () => ({
        at: now,
        tokens: Math.max(1, Math.ceil(random() ** 4 * largest)),
        waitMs: random() < 0.3 ? 5_000 : 0,
      }));
      const answers = await take(db, { provider, calls });
      for (const [place, { taken: isTaken, wait_ms }] of answers.entries()) {
        const call = calls[place];
        if (call && isTaken) taken.push({ ...call, at: now + (wait_ms ?? Number.NaN) });
      }
    }
    expect(taken.length).toBeGreaterThan(5);
    expect(largestMinute(taken.map(({ at }) => ({ at, amount: 1 })))).toBeLessThanOrEqual(limits.requests ?? Infinity);
    expect(largestMinute(taken.map(({ at, tokens }) => ({ at, amount: tokens })))).toBeLessThanOrEqual(
      limits.tokens ?? Infinity,
    );
  });

  test.for([1, 2, 7, 60, 600])(
    "a busy provider gets most of a limit of %i calls a minute",
    async (requests, { db }) => {
      const provider = await limit(db, { requests });
      const steps = 610;
      let taken = 0;
      for (let step = 0; step < steps; step += 1) {
        const calls = Array.from({ length: Math.ceil(requests / 60) + 1 }, () => ({ at: step * 1_000 }));
        taken += (await take(db, { provider, calls })).filter((answer) => answer.taken).length;
      }
      // Ten periods of 61 seconds, and what was in the bucket before.
      const size = Math.max(1, Math.floor(requests / 10));
      const ideal = 10 * (requests + 1 - size) + size;
      expect(taken).toBeGreaterThanOrEqual(0.85 * ideal);
      expect(taken).toBeLessThanOrEqual(ideal);
    },
  );

  test("a call with as many tokens as the limit fits once the bucket was full for long enough, and one with more never", async ({
    db,
  }) => {
    const provider = await limit(db, { tokens: 1_000 });
    expect(await take(db, { provider, calls: [{ at: 0, tokens: 1_001 }] })).toEqual([{ taken: false, wait_ms: null }]);
    const [early] = await take(db, { provider, calls: [{ at: 0, tokens: 1_000 }] });
    // (1000 - 100) / (901 / 61 s)
    expect(early).toEqual({ taken: false, wait_ms: 60_932 });
    expect(await take(db, { provider, calls: [{ at: 60_931, tokens: 1_000 }] })).toMatchObject([{ taken: false }]);
    expect(await take(db, { provider, calls: [{ at: 60_932, tokens: 1_000 }] })).toEqual([{ taken: true, wait_ms: 0 }]);
    expect(await take(db, { provider, calls: [{ at: 60_932, tokens: 1 }] })).toMatchObject([{ taken: false }]);
  });

  test("calls that accept a wait queue in their order, and a later call doesn't overtake them", async ({ db }) => {
    const provider = await limit(db, { requests: 60 });
    const calls = Array.from({ length: 10 }, () => ({ at: 0, waitMs: 3_000 }));
    const answers = await take(db, { provider, calls });
    // Six at once, then one each 61 / 55 s.
    expect(answers.map(({ wait_ms }) => wait_ms)).toEqual([0, 0, 0, 0, 0, 0, 1_109, 2_218, 3_327, 3_327]);
    expect(answers.filter(({ taken }) => taken)).toHaveLength(8);
    expect(await take(db, { provider, calls: [{ at: 1_500 }] })).toEqual([{ taken: false, wait_ms: 1_827 }]);
  });

  test("tokens are the maximum input, up to the context window, plus the output limit", async ({ db }) => {
    const provider = await limit(db, { tokens: 100_000 });
    const call = { ...callOf(provider), input_bytes: 3_000_000, images: 2, audio_seconds: 10, context_window: 2_000 };
    const full = { ...call, output_tokens: 4_500 };
    const [row] = await db.query<{ answers: Answer[] }>("select ai.take_calls($1, $2) as answers", [
      JSON.stringify([full, { ...callOf(provider), output_tokens: 99 }]),
      timeOf(0),
    ]);
    // 2000 + 2 * 1500 + 10 * 50 + 4500 is the whole bucket.
    expect(row?.answers).toMatchObject([{ taken: true }, { taken: false }]);
  });

  test("a provider without a limit always has room, and each provider has a bucket of its own", async ({ db }) => {
    const [one, other] = [await limit(db, { requests: 1 }), await limit(db, { requests: 1 })];
    const calls = [one, providerId(), other, one, other].map((provider) => callOf(provider));
    const [row] = await db.query<{ answers: Answer[] }>("select ai.take_calls($1, $2) as answers", [
      JSON.stringify(calls),
      timeOf(0),
    ]);
    expect(row?.answers.map(({ taken }) => taken)).toEqual([true, true, true, false, false]);
  });

  test.for<[string, number]>([
    ["a year ago", 100],
    ["3.05 seconds from now", 50],
    ["a minute from now", 0],
  ])("a bucket that is full %s has %i of 100 left", async ([time, left], { db }) => {
    const offset = time.replace(" from now", "").replace("a year ago", "-1 year").replace("a minute", "1 minute");
    for (const size of [100, 10_000_000_000]) {
      const [row] = await db.query<{ left: string }>("select ai.bucket_level(now() + $1::interval, $2) as left", [
        offset,
        size * 10,
      ]);
      // A full bucket of a tenth of the limit refills in 6.8 seconds.
      expect(Math.abs(Number(row?.left) - (left * size) / 100)).toBeLessThan(size / 10);
    }
  });

  test("a clock that was set back blocks a provider for at most two minutes", async ({ db }) => {
    const provider = await limit(db, { requests: 60 });
    await db.query("update ai.provider_limits set requests_full_at = $2 where provider_id = $1", [
      provider,
      timeOf(3_600_000),
    ]);
    const [answer] = await take(db, { provider, calls: [{ at: 0 }] });
    expect(answer?.wait_ms).toBeLessThanOrEqual(120_000);
  });

  test("only limited providers' routes are marked", async ({ db }) => {
    const marks = async () => {
      const rows = await db.query<{ limited: boolean | null }>(
        "select (r -> 'limited')::boolean as limited from ai.priced_routes('demo-chat', array(select provider_id from ai.model_routes), null) p, jsonb_array_elements(p.routes) r",
      );
      return rows.map(({ limited }) => limited);
    };
    expect(new Set(await marks())).toEqual(new Set([null]));
    await db.query(
      "insert into ai.provider_limits (provider_id, tokens_per_minute) select distinct provider_id, 1 from ai.model_routes where model_id = 'demo-chat'",
    );
    expect(new Set(await marks())).toEqual(new Set([true]));
  });

  test("role gateway takes calls, and reads no limits", async ({ db }) => {
    const provider = await limit(db, { requests: 10 });
    await db.asRole("gateway", async () => {
      const [row] = await db.query<{ answers: Answer[] }>("select ai.take_provider_calls($1) as answers", [
        JSON.stringify([callOf(provider)]),
      ]);
      expect(row?.answers).toEqual([{ taken: true, wait_ms: 0 }]);
    });
    const read = db.asRole("gateway", () => db.query("select from ai.provider_limits"));
    await expect(read).rejects.toThrow("permission denied");
  });
});

describe("concurrent callers of a limited provider", () => {
  let pool: ReturnType<typeof openPool>;
  beforeAll(() => {
    pool = openPool(8);
  });
  afterAll(() => pool.close());

  test("eight connections together take the bucket and what it refills, and no more", async () => {
    const { db } = pool;
    const provider = await limit(db, { requests: 600 });
    const startedAt = performance.now();
    const callers = Array.from({ length: 8 }, async () => {
      let taken = 0;
      for (let statement = 0; statement < 40; statement += 1) {
        const calls = JSON.stringify(Array.from({ length: 5 }, () => callOf(provider)));
        const [row] = await db.query<{ answers: Answer[] }>("select ai.take_provider_calls($1) as answers", [calls]);
        taken += row?.answers.filter((answer) => answer.taken).length ?? 0;
      }
      return taken;
    });
    const taken = (await Promise.all(callers)).reduce((sum, each) => sum + each, 0);
    const seconds = (performance.now() - startedAt) / 1_000;
    await db.query("delete from ai.provider_limits where provider_id = $1", [provider]);
    expect(taken).toBeGreaterThanOrEqual(60);
    expect(taken).toBeLessThanOrEqual(60 + Math.ceil((seconds * 541) / 61));
  });
});

test("of concurrent changes of a provider's limits, one succeeds", async () => {
  const { db, close } = openPool(8);
  const { ask } = await createAdmin(db, { pooled: true });
  const provider = await limit(db, { requests: 10 });
  const [row] = await db.query<{ version: string }>(
    "select private.list_provider_limits($1) -> 0 ->> 'version' as version",
    [provider],
  );
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      ask("save_provider_limit", { provider, seen: row?.version, requestsPerMinute: 20 + n }),
    ),
  );
  await db.query("delete from ai.provider_limits where provider_id = $1", [provider]);
  await close();
  expect(answers.map(({ refused }) => refused ?? "changed").toSorted()).toEqual([
    "changed",
    ...Array.from({ length: 7 }, () => "conflict"),
  ]);
});
