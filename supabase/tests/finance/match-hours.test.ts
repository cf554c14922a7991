import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import type { ComparedHours, HourLine } from "../../../remix-app/books/matching/hours.ts";
import { createAdmin } from "../console/fixtures.ts";
import { createUser, type Database, one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";

const day = "2012-03-05";
const at = (time: string) => `${day}T${time}Z`;

type Call = {
  at: string;
  model?: string;
  /** Input, cached, cache write and output tokens. */
  tokens?: [number, number, number, number];
  billedBy?: string | null;
  providerId?: string;
  attempts?: object[];
  usageSource?: string;
  swept?: boolean;
};
type Stated = { hour: string; model?: string; keyId?: string | null; requests?: number | null; tokens: Call["tokens"] };

/** Returns helpers for one provider's day: calls of the gateway, what the provider states, and their comparison. */
async function matchedDay(db: Database) {
  const provider = `p-${randomUUID().slice(0, 8)}`;
  const [{ id: actor }, { workspaceId }] = [await createAdmin(db), await createTenant(db)];
  const service = async <Answer extends object = object>(sql: string, values: unknown[]): Promise<Answer> =>
    (await db.asRole("service_role", () => one<{ answer: Answer }>(db, { sql, values }))).answer;
  const change = { actor, reason: "test", requestId: "request-1", ip: "192.0.2.1" };
  return {
    provider,
    actor,
    async call(call: Call): Promise<string> {
      const { model = "gpt-4o", providerId = `${provider}-id`, tokens = [0, 0, 0, 0] } = call;
      const id = randomUUID();
      await db.query(
        `insert into ai.runs (
           id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
           markup, status, usage_source, cost_usd, reserved_usd, reserved_credits, billing_name, swept, settled_at, attempts,
           input_tokens, cached_input_tokens, cache_write_tokens, output_tokens
         )
         values ($1, $2, $3, 'key', 'interactive', 'chat', $1::uuid::text, 'ours', $4, 2, 1, 'succeeded', $5, 0.5, 0, 0,
           $6, $7, now(), $8, $9, $10, $11, $12)`,
        [
          id,
          call.at,
          workspaceId,
          JSON.stringify([
            { position: 1, provider: "other-id", model: "other" },
            { position: 2, provider: providerId, model },
          ]),
          call.usageSource ?? "provider",
          call.billedBy === undefined ? provider : call.billedBy,
          call.swept ?? false,
          JSON.stringify(call.attempts ?? [{ provider: providerId, model, route: 2, status: 200 }]),
          ...tokens,
        ],
      );
      return id;
    },
    store: (stated: Stated[], { by = actor } = {}) =>
      service("select private.store_usage_hours($1, $2, $3, $4) as answer", [
        provider,
        day,
        JSON.stringify(
          stated.map(({ hour, model = "gpt-4o", keyId = "key_1", requests = 1, tokens = [0, 0, 0, 0] }) => ({
            ...{ hour: at(`${hour}:00:00`), model, keyId, requests },
            ...{
              inputTokens: tokens[0],
              cachedInputTokens: tokens[1],
              cacheWriteTokens: tokens[2],
              outputTokens: tokens[3],
            },
          })),
        ),
        JSON.stringify({ ...change, actor: by }),
      ]),
    mark: (keyId: string, { marked = true, by = actor } = {}) =>
      service("select private.mark_gateway_key($1, $2, $3, $4) as answer", [
        provider,
        keyId,
        marked,
        JSON.stringify({ ...change, actor: by }),
      ]),
    compare: (line: { hour?: string; model?: string; skip?: number; by?: string } = {}) =>
      service<ComparedHours>("select private.compare_usage_hours($1, $2, $3, $4, $5, $6, 2) as answer", [
        line.by ?? actor,
        provider,
        day,
        line.hour ? at(`${line.hour}:00:00`) : null,
        line.model ?? null,
        line.skip ?? 0,
      ]),
    audited: () =>
      db.query("select action, target from private.admin_audit_log where target like $1 order by action, target", [
        `%${provider}%`,
      ]),
  };
}

/** Returns lines as texts: the hour and model, the provider's counts, ours, and whether they differ. */
function shown(lines: readonly HourLine[]): string[] {
  const names = ["requests", "inputTokens", "cachedInputTokens", "cacheWriteTokens", "outputTokens"] as const;
  return lines.map((line) => {
    const [stated, metered] = [line.stated, line.metered].map((counts) =>
      names.map((name) => counts[name] ?? "-").join("/"),
    );
    const state = line.isKnown ? (line.differs ? "differs" : "agrees") : "unknown";
    return `${line.hour.slice(11, 13)} ${line.model} ${stated} ${metered} ${line.calls} ${state}`;
  });
}

type Case = [what: string, calls: Call[], stated: Stated[], lines: string[]];

describe("the comparison of a provider's hours with the calls", () => {
  test.for<Case>([
    [
      "puts a call into the hour in which it began, at both borders of an hour and of the day",
      [
        { at: "2012-03-04T23:59:59.999999Z", tokens: [1, 0, 0, 1] },
        { at: at("00:00:00"), tokens: [2, 0, 0, 1] },
        { at: at("13:59:59.999999"), tokens: [3, 0, 0, 1] },
        { at: at("14:00:00"), tokens: [4, 0, 0, 1] },
        { at: at("23:59:59.999999"), tokens: [5, 0, 0, 1] },
        { at: "2012-03-06T00:00:00Z", tokens: [6, 0, 0, 1] },
      ],
      [
        { hour: "00", tokens: [2, 0, 0, 1] },
        { hour: "13", tokens: [3, 0, 0, 1] },
        { hour: "14", tokens: [5, 0, 0, 1] },
        { hour: "23", tokens: [5, 0, 0, 1] },
      ],
      [
        "00 gpt-4o 1/2/0/0/1 1/2/0/0/1 1 agrees",
        "13 gpt-4o 1/3/0/0/1 1/3/0/0/1 1 agrees",
        "14 gpt-4o 1/5/0/0/1 1/4/0/0/1 1 differs",
        "23 gpt-4o 1/5/0/0/1 1/5/0/0/1 1 agrees",
      ],
    ],
    [
      "compares cached tokens and cache writes, also if the input agrees",
      [
        { at: at("01:00:00"), tokens: [100, 60, 10, 5] },
        { at: at("02:00:00"), tokens: [100, 60, 10, 5] },
      ],
      [
        { hour: "01", tokens: [100, 50, 10, 5] },
        { hour: "02", tokens: [100, 60, 11, 5] },
      ],
      ["01 gpt-4o 1/100/50/10/5 1/100/60/10/5 1 differs", "02 gpt-4o 1/100/60/11/5 1/100/60/10/5 1 differs"],
    ],
    [
      "adds up keys, and does not compare requests that the provider does not state",
      [
        { at: at("01:00:00"), tokens: [10, 0, 0, 5] },
        { at: at("01:30:00"), tokens: [20, 0, 0, 5] },
      ],
      [
        { hour: "01", keyId: "key_1", requests: null, tokens: [10, 0, 0, 5] },
        { hour: "01", keyId: null, requests: null, tokens: [20, 0, 0, 5] },
      ],
      ["01 gpt-4o -/30/0/0/10 2/30/0/0/10 2 agrees"],
    ],
    [
      "counts requests that the provider has and the gateway does not",
      [{ at: at("01:00:00"), tokens: [10, 0, 0, 5] }],
      [{ hour: "01", requests: 2, tokens: [10, 0, 0, 5] }],
      ["01 gpt-4o 2/10/0/0/5 1/10/0/0/5 1 differs"],
    ],
    [
      "matches dated names with the longest of our names, and lists others apart",
      [
        { at: at("01:00:00"), model: "gpt-4o", tokens: [1, 0, 0, 0] },
        { at: at("01:00:00"), model: "gpt-4o-mini", tokens: [2, 0, 0, 0] },
        { at: at("01:00:00"), model: "gpt-4o-2024-05-13", tokens: [3, 0, 0, 0] },
        { at: at("01:00:00"), model: "claude-sonnet-latest", tokens: [4, 0, 0, 0] },
      ],
      [
        { hour: "01", model: "gpt-4o-2024-08-06", tokens: [1, 0, 0, 0] },
        { hour: "01", model: "gpt-4o-mini-2024-07-18", tokens: [2, 0, 0, 0] },
        { hour: "01", model: "gpt-4o-2024-05-13", tokens: [3, 0, 0, 0] },
        { hour: "01", model: "claude-sonnet-20241022", tokens: [4, 0, 0, 0] },
        { hour: "01", model: "gpt-4o-audio-preview", tokens: [5, 0, 0, 0] },
        { hour: "01", model: "gpt-4", tokens: [6, 0, 0, 0] },
      ],
      [
        "01 claude-sonnet-latest 1/4/0/0/0 1/4/0/0/0 1 agrees",
        "01 gpt-4 1/6/0/0/0 0/0/0/0/0 0 unknown",
        "01 gpt-4o 1/1/0/0/0 1/1/0/0/0 1 agrees",
        "01 gpt-4o-2024-05-13 1/3/0/0/0 1/3/0/0/0 1 agrees",
        "01 gpt-4o-audio-preview 1/5/0/0/0 0/0/0/0/0 0 unknown",
        "01 gpt-4o-mini 1/2/0/0/0 1/2/0/0/0 1 agrees",
      ],
    ],
    [
      "prefers a name to the same one with -latest, and adds up names that the provider counts as one",
      [
        { at: at("01:00:00"), model: "gpt-4o-latest", tokens: [1, 0, 0, 0] },
        { at: at("01:00:00"), model: "gpt-4o", tokens: [2, 0, 0, 0] },
        { at: at("02:00:00"), model: "o3", tokens: [3, 0, 0, 0] },
        { at: at("02:00:00"), model: "o3-2025-04-16", tokens: [4, 0, 0, 0] },
      ],
      [
        { hour: "01", model: "gpt-4o-2024-08-06", requests: 2, tokens: [3, 0, 0, 0] },
        { hour: "02", model: "o3-2025-04-16", requests: 2, tokens: [7, 0, 0, 0] },
      ],
      ["01 gpt-4o 2/3/0/0/0 2/3/0/0/0 2 agrees", "02 o3-2025-04-16 2/7/0/0/0 2/7/0/0/0 2 agrees"],
    ],
    [
      "lists hours that only the gateway has, and leaves out other providers' calls",
      [
        { at: at("01:00:00"), tokens: [1, 0, 0, 0] },
        { at: at("02:00:00"), tokens: [9, 0, 0, 0], billedBy: "another", providerId: "another-id" },
        { at: at("03:00:00"), attempts: [{ provider: "x", status: 500, failure: "status" }] },
      ],
      [],
      ["01 gpt-4o -/0/0/0/0 1/1/0/0/0 1 differs"],
    ],
  ])("%s", async ([, calls, stated, lines], { db }) => {
    const matched = await matchedDay(db);
    for (const call of calls) await matched.call(call);
    await matched.store(stated);
    expect(shown((await matched.compare()).lines)).toEqual(lines);
  });

  test("splits a run into the requests that were charged, by provider and model", async ({ db }) => {
    const { provider, call, compare } = await matchedDay(db);
    const id = `${provider}-id`;
    const charged = (input_tokens: number) => ({ input_tokens, output_tokens: 1, cached_input_tokens: 2 });
    await call({
      at: at("01:00:00"),
      tokens: [60, 6, 0, 3],
      attempts: [
        { provider: id, model: "gpt-4o", charged: charged(10) },
        { provider: id, model: "gpt-4o", charged: charged(20) },
        { provider: id, model: "o3", failure: "timeout", may_have_charged: true },
        { provider: "other-id", model: "other", charged: charged(30) },
      ],
    });
    const { lines, calls } = await compare({ hour: "01", model: "o3" });
    expect(shown(lines)).toEqual(["01 gpt-4o -/0/0/0/0 2/30/4/0/2 1 differs", "01 o3 -/0/0/0/0 0/0/0/0/0 1 agrees"]);
    expect(calls?.records).toMatchObject([{ requests: 0, note: "uncounted" }]);
  });

  test("counts runs that the sweep closed for the provider of other runs", async ({ db }) => {
    const { call, compare } = await matchedDay(db);
    await call({ at: at("01:00:00"), tokens: [1, 0, 0, 0], billedBy: null, swept: true });
    expect((await compare()).lines).toEqual([]);
    await call({ at: at("05:00:00"), tokens: [1, 0, 0, 0] });
    const { lines, calls } = await compare({ hour: "01", model: "gpt-4o" });
    expect(lines).toHaveLength(2);
    expect(calls?.records).toMatchObject([{ note: "closed" }]);
  });

  test("lists the calls of the line with the largest difference, and of a chosen line page by page", async ({ db }) => {
    const { call, store, compare } = await matchedDay(db);
    const ids: string[] = [];
    for (const second of ["00", "10", "20"]) {
      ids.push(await call({ at: at(`14:00:${second}`), tokens: [10, 0, 0, 1], usageSource: "estimated_partial" }));
    }
    await call({ at: at("15:00:00"), tokens: [10, 0, 0, 1] });
    await store([
      { hour: "14", requests: 3, tokens: [30, 0, 0, 503] },
      { hour: "15", tokens: [10, 0, 0, 2] },
      { hour: "16", model: "unknown", tokens: [9_000, 0, 0, 0] },
    ]);
    const { calls } = await compare();
    expect(calls).toMatchObject({ hour: at("14:00:00.000"), model: "gpt-4o", total: 3 });
    expect(calls?.records.map(({ runId }) => runId)).toEqual(ids.slice(0, 2));
    expect(calls?.records[0]).toMatchObject({ inputTokens: 10, outputTokens: 1, costUsd: "0.5", note: "estimated" });
    const rest = await compare({ hour: "14", model: "gpt-4o", skip: 2 });
    expect(rest.calls?.records.map(({ runId }) => runId)).toEqual(ids.slice(2));
    expect((await compare({ hour: "17", model: "gpt-4o" })).calls).toBeNull();
  });
});

describe("the keys of a provider", () => {
  test("all keys count until one is marked, and a mark and its removal are audited once", async ({ db }) => {
    const { provider, call, store, mark, compare, audited } = await matchedDay(db);
    await call({ at: at("01:00:00"), tokens: [10, 0, 0, 5] });
    await store([
      { hour: "01", keyId: "key_1", tokens: [10, 0, 0, 5] },
      { hour: "01", keyId: "key_2", tokens: [90, 0, 0, 5] },
      { hour: "02", keyId: "key_2", tokens: [7, 0, 0, 5] },
    ]);
    expect(shown((await compare()).lines)).toEqual([
      "01 gpt-4o 2/100/0/0/10 1/10/0/0/5 1 differs",
      "02 gpt-4o 1/7/0/0/5 0/0/0/0/0 0 differs",
    ]);
    expect([await mark("key_1"), await mark("key_1")]).toEqual([{}, {}]);
    const { lines, keys } = await compare();
    expect(shown(lines)).toEqual([
      "01 gpt-4o 1/10/0/0/5 1/10/0/0/5 1 agrees",
      "02 gpt-4o -/0/0/0/0 0/0/0/0/0 0 agrees",
    ]);
    expect(keys).toEqual([
      { keyId: "key_1", isMarked: true, isCounted: true, inputTokens: 10, outputTokens: 5 },
      { keyId: "key_2", isMarked: false, isCounted: false, inputTokens: 97, outputTokens: 10 },
    ]);
    expect(lines[0]?.keys.map((key) => key.isCounted)).toEqual([false, true]);
    await mark("key_1", { marked: false });
    await mark("key_1", { marked: false });
    await mark("key_3");
    // A mark of a key that the day did not use can still be removed, and the other keys don't count.
    expect((await compare()).keys).toMatchObject([
      { keyId: "key_3", isMarked: true, isCounted: true, inputTokens: 0, outputTokens: 0 },
      { keyId: "key_2", isCounted: false },
      { keyId: "key_1", isCounted: false },
    ]);
    await mark("key_3", { marked: false });
    expect((await compare()).keys.filter((key) => key.isMarked)).toEqual([]);
    expect(await audited()).toEqual([
      { action: "costs.fetch_usage_hours", target: `usage ${provider} ${day}` },
      { action: "costs.mark_gateway_key", target: `provider key ${provider} key_1` },
      { action: "costs.mark_gateway_key", target: `provider key ${provider} key_3` },
      { action: "costs.unmark_gateway_key", target: `provider key ${provider} key_1` },
      { action: "costs.unmark_gateway_key", target: `provider key ${provider} key_3` },
    ]);
  });
});

test("a later answer replaces the day, and an empty one is known as such", async ({ db }) => {
  const { store, compare } = await matchedDay(db);
  expect((await compare()).observedAt).toBeNull();
  await store([
    { hour: "01", tokens: [10, 0, 0, 5] },
    { hour: "02", keyId: null, tokens: [10, 0, 0, 5] },
  ]);
  await store([
    { hour: "02", keyId: null, tokens: [1, 0, 0, 5] },
    { hour: "02", keyId: null, tokens: [2, 0, 0, 5] },
  ]);
  expect(shown((await compare()).lines)).toEqual(["02 gpt-4o 2/3/0/0/10 0/0/0/0/0 0 unknown"]);
  await store([]);
  const { observedAt, lines, keys, calls } = await compare();
  expect([observedAt === null, lines, keys, calls]).toEqual([false, [], [], null]);
});

test("only people with the platform's books read, store and mark", async ({ db }) => {
  const { store, mark, compare } = await matchedDay(db);
  const { id: by } = await createUser(db);
  const forbidden = { refused: "forbidden" };
  expect([await store([], { by }), await mark("key_1", { by }), await compare({ by })]).toEqual(
    Array(3).fill(forbidden),
  );
  await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [by]);
  expect([await store([], { by }), await mark("key_1", { by })]).toEqual([{}, {}]);
  expect(await compare({ by })).toMatchObject({ lines: [] });
});
