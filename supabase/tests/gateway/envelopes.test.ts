import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { appTokenCall } from "./call-fixtures.ts";
import { addKey, begin, chatCall, createTenant, type OpenedRun, outcome, settle, type Tenant } from "./fixtures.ts";

/** What a call reports of its envelope. */
type Envelope = {
  id: string;
  label: string;
  /** An exact decimal. */
  remaining_usd: string;
  calls: number;
  remaining_calls?: number;
};
type Answer = OpenedRun & { envelope: Envelope | null; limit?: Record<string, unknown>; param?: string };

/** A call costs at most 0.0002 USD: 100 input and 100 output tokens at 1 USD per million. */
const prices = { input: "1", output: "1" };
const header = { usd: "0.0005" };

const call = async (db: Database, tenant: Pick<Tenant, "keyHash" | "model">, changes: object = {}) =>
  (await begin(db, chatCall(tenant, changes))) as Answer;
const named = (changes: object = {}) => ({ envelope: header, ...changes });
const labelled = (label: string) => ({ entity_id: label });
const codeOf = ({ refused }: Answer) => refused ?? "admitted";
const newTenant = (db: Database) => createTenant(db, { credits: "1000", prices });

/** Opens an envelope as a person does, for all calls of the tenant's key. */
async function openForKey(db: Database, { workspaceId, keyId, ownerId }: Tenant, envelope: object = header) {
  const { answer } = await one<{ answer: { outcome: string; id: string } }>(db, {
    sql: "select ai.open_envelope($1, $2, '', $3, $4, $2, $4) as answer",
    values: [workspaceId, keyId, JSON.stringify(envelope), ownerId],
  });
  return answer;
}

/** Ends an envelope as its owner does. */
async function end(db: Database, id: string): Promise<void> {
  await db.query("update ai.envelopes set ended_at = now() where id = $1", [id]);
  await db.query("update ai.budgets set ends_at = now() where scope = 'envelope' and subject_id = $1", [id]);
}

describe("a call that names an envelope", () => {
  test("opens it with the first call, and the next call joins it", async ({ db }) => {
    const tenant = await newTenant(db);
    const first = await call(db, tenant, named(labelled("task-1")));
    expect(first.envelope).toMatchObject({ label: "task-1", limit_usd: 0.0005, remaining_usd: "0.0003", calls: 1 });
    const second = await call(db, tenant, named(labelled("task-1")));
    expect(second.envelope).toMatchObject({ id: first.envelope?.id, remaining_usd: "0.0001", calls: 2 });
    const third = await call(db, tenant, named(labelled("task-1")));
    expect(third).toMatchObject({
      refused: "envelope_exhausted",
      frees: true,
      need: { usd: 0.0002 },
      limit: {
        kind: "envelope",
        id: first.envelope?.id,
        state: "open",
        workspace_id: tenant.workspaceId,
        limit_usd: 0.0005,
        spent_usd: 0,
        reserved_usd: 0.0004,
        remaining_usd: 0.0001,
      },
    });
    await settle(db, [outcome(first), outcome(second)]);
    expect((await call(db, tenant, named(labelled("task-1")))).envelope).toMatchObject({
      spent_usd: 0.00004,
      calls: 3,
    });
  });

  test.for([
    ["the same amount in other digits", { usd: "0.000500" }, "admitted"],
    ["a higher amount", { usd: "0.0006" }, "invalid_request"],
    ["a lower amount", { usd: "0.0004" }, "invalid_request"],
    ["a number of calls", { ...header, calls: 5 }, "invalid_request"],
    ["an end time", { ...header, ttl_seconds: 5 }, "invalid_request"],
  ] as const)("is %s that the opening call did not name: %s → %s", async ([, envelope, code], { db }) => {
    const tenant = await newTenant(db);
    const opened = await call(db, tenant, named(labelled("task")));
    const answer = await call(db, tenant, { ...labelled("task"), envelope });
    expect(codeOf(answer)).toBe(code);
    if (code !== "admitted") {
      expect(answer).toMatchObject({
        param: "X-Platform-Envelope",
        envelope: { id: opened.envelope?.id, usd: 0.0005 },
      });
    }
  });

  test("counts its calls, and admits no more than it allows", async ({ db }) => {
    const tenant = await newTenant(db);
    const envelope = { usd: "1", calls: 2 };
    const first = await call(db, tenant, { envelope });
    await settle(db, [outcome(first)]);
    expect((await call(db, tenant, { envelope })).envelope).toMatchObject({ calls: 2, remaining_calls: 0 });
    const third = await call(db, tenant, { envelope });
    expect(third).toMatchObject({ refused: "envelope_exhausted", limit: { remaining_calls: 0 } });
    expect(third).not.toHaveProperty("frees");
  });

  test("opens no envelope beyond 1,000 open ones of a key", async ({ db }) => {
    const tenant = await newTenant(db);
    await db.query(
      `with opened as (
         insert into ai.envelopes (workspace_id, principal_id, label, opened_usd)
         select $1, $2, 'old-' || n, 1 from generate_series(1, 1000) as n returning id
       )
       insert into ai.budgets (scope, subject_id, workspace_id, period, limit_usd, starts_at, ends_at)
       select 'envelope', id, $1, 'total', 1, now(), now() + interval '1 day' from opened`,
      [tenant.workspaceId, tenant.keyId],
    );
    expect(await call(db, tenant, named(labelled("task")))).toMatchObject({
      refused: "invalid_request",
      param: "X-Platform-Envelope",
      envelope: { open: 1000 },
    });
    expect(codeOf(await call(db, tenant, named(labelled("old-1"))))).toBe("invalid_request");
    expect(codeOf(await call(db, tenant, labelled("task")))).toBe("admitted");
  });

  test("20 concurrent first calls open one envelope, which admits what fits", async () => {
    const { db, close } = openPool(8);
    try {
      const tenant = await newTenant(db);
      const answers = await Promise.all(Array.from({ length: 20 }, () => call(db, tenant, named())));
      expect(answers.filter(({ refused }) => !refused)).toHaveLength(2);
      const count = await one(db, {
        sql: "select count(*)::int as count from ai.envelopes where workspace_id = $1",
        values: [tenant.workspaceId],
      });
      expect(count).toEqual({ count: 1 });
    } finally {
      await close();
    }
  });
});

describe("the calls that an envelope holds", () => {
  const full = { usd: "0.0002" };
  test.for([
    ["with its label, without the header", labelled("task"), labelled("task"), "envelope_exhausted"],
    ["with another label", labelled("task"), labelled("other"), "admitted"],
    ["without a label", labelled("task"), {}, "admitted"],
    ["with its label as a session", labelled("task"), { session_label: "task" }, "envelope_exhausted"],
    ["without a label and header, of one without a label", {}, {}, "admitted"],
    ["with a label, of one without a label", {}, labelled("task"), "admitted"],
    ["with the header, of one without a label", {}, { envelope: full }, "envelope_exhausted"],
    ["that is free", labelled("task"), { ...labelled("task"), is_free: true }, "admitted"],
  ] as const)("a call %s", async ([, opening, next, code], { db }) => {
    const tenant = await newTenant(db);
    expect(codeOf(await call(db, tenant, { ...opening, envelope: full }))).toBe("admitted");
    expect(codeOf(await call(db, tenant, next))).toBe(code);
  });

  test("are not those of another key", async ({ db }) => {
    const tenant = await newTenant(db);
    await call(db, tenant, { ...labelled("task"), envelope: full });
    const other = { ...tenant, keyHash: (await addKey(db, tenant)).hash };
    expect(codeOf(await call(db, other, labelled("task")))).toBe("admitted");
  });

  test("are not those of a person's session or another app, if one app opened it", async ({ db }) => {
    const tenant = await newTenant(db);
    const first = await appTokenCall(db, tenant);
    const second = await appTokenCall(db, tenant, { claims: first.claims });
    const changes = { ...labelled("task"), envelope: full };
    expect(codeOf((await begin(db, first.callOf(changes))) as Answer)).toBe("admitted");
    expect(codeOf((await begin(db, first.callOf(labelled("task")))) as Answer)).toBe("envelope_exhausted");
    expect(codeOf((await begin(db, second.callOf(labelled("task")))) as Answer)).toBe("admitted");
  });

  test("are all calls of a key, if a person opened it without a label", async ({ db }) => {
    const tenant = await newTenant(db);
    const opened = await openForKey(db, tenant);
    for (const changes of [{}, labelled("task"), named(), named(labelled("task"))].slice(0, 2)) {
      expect((await call(db, tenant, changes)).envelope?.id).toBe(opened.id);
    }
    for (const changes of [{}, labelled("other"), named()]) {
      expect(codeOf(await call(db, tenant, changes))).toBe("envelope_exhausted");
    }
    expect(codeOf(await call(db, tenant, { envelope: { usd: "9" } }))).toBe("invalid_request");
    const second = await openForKey(db, tenant, { usd: "5" });
    expect(second).toEqual({ outcome: "exists", id: opened.id });
  });
});

describe("an envelope that has ended", () => {
  test.for(["ended", "expired"] as const)("refuses every call and every step: %s", async (state, { db }) => {
    const tenant = await newTenant(db);
    const run = await call(db, tenant, { envelope: { usd: "1" } });
    const id = run.envelope?.id ?? "";
    if (state === "ended") await end(db, id);
    else await db.query("update ai.budgets set ends_at = now() where subject_id = $1", [id]);
    const refused = await call(db, tenant, { envelope: { usd: "1" } });
    expect(refused).toMatchObject({ refused: "envelope_exhausted", limit: { id, state } });
    expect(refused).not.toHaveProperty("frees");
    const step = { created_at: run.created_at, id: run.run_id, input_bytes: 300, output_limit: 100 };
    const row = await one(db, { sql: "select ai.extend_run($1) as answer", values: [JSON.stringify(step)] });
    expect(row.answer).toMatchObject({ refused: "envelope_exhausted" });
    await settle(db, [outcome(run)]);
    const { answer } = await one<{ answer: object[] }>(db, {
      sql: "select ai.read_envelopes($1) as answer",
      values: [JSON.stringify([id, randomUUID()])],
    });
    expect(answer).toMatchObject([{ id, state, spent_usd: 0.00002, reserved_usd: 0, calls: 1 }]);
  });

  test("can be followed by one that a person opens, never by one that a call opens", async ({ db }) => {
    const tenant = await newTenant(db);
    const opened = await openForKey(db, tenant);
    await end(db, opened.id);
    expect(codeOf(await call(db, tenant, { envelope: { usd: "9" } }))).toBe("invalid_request");
    expect(codeOf(await call(db, tenant, named()))).toBe("envelope_exhausted");
    const next = await openForKey(db, tenant, { usd: "5" });
    expect(next).toMatchObject({ outcome: "opened" });
    expect((await call(db, tenant)).envelope).toMatchObject({ id: next.id, limit_usd: 5 });
  });

  test("is deleted 90 days later", async ({ db }) => {
    const tenant = await newTenant(db);
    const { envelope } = await call(db, tenant, named());
    const { envelope: kept } = await call(db, tenant, named(labelled("kept")));
    await db.query("update ai.envelopes set opened_at = now() - interval '100 days' where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    await db.query("update ai.budgets set ends_at = now() - interval '91 days' where subject_id = $1", [envelope?.id]);
    await db.query("select ai.delete_expired()");
    const rows = await db.query("select id from ai.envelopes where workspace_id = $1", [tenant.workspaceId]);
    expect(rows).toEqual([{ id: kept?.id }]);
  });
});

test("GET /v1/envelopes/{id} is for the envelope's own principal only", async ({ db }) => {
  const tenant = await newTenant(db);
  const { envelope } = await call(db, tenant, named());
  const other = { ...tenant, keyHash: (await addKey(db, tenant)).hash };
  const read = async (caller: Tenant, id: string | undefined) =>
    (
      await one<{ answer: object }>(db, {
        sql: "select ai.read_own_envelope($1) as answer",
        values: [JSON.stringify(chatCall(caller, { envelope_id: id }))],
      })
    ).answer;
  expect(await read(tenant, envelope?.id)).toMatchObject({ id: envelope?.id, state: "open", spent_usd: 0 });
  expect(await read(other, envelope?.id)).toEqual({ refused: "envelope_not_found" });
  expect(await read(tenant, randomUUID())).toEqual({ refused: "envelope_not_found" });
});

describe("limits of concurrent calls", () => {
  test.for(["key", "member", "workspace"] as const)(
    "of a %s admit a call when another has ended",
    async (scope, { db }) => {
      const tenant = await newTenant(db);
      const subject = { key: tenant.keyId, member: tenant.ownerId, workspace: tenant.workspaceId }[scope];
      await db.query(
        `insert into ai.budgets (scope, subject_id, workspace_id, period, max_calls) values ($1, $2, $3, 'concurrent', 2)`,
        [scope, subject, tenant.workspaceId],
      );
      const runs = [await call(db, tenant), await call(db, tenant)];
      expect(runs.map(codeOf)).toEqual(["admitted", "admitted"]);
      expect(await call(db, tenant)).toMatchObject({
        refused: "rate_limit_exceeded",
        frees: true,
        limit: { kind: "concurrent", scope, limit: 2, used: 2, reset_seconds: 1 },
      });
      const [first] = runs as [Answer, Answer];
      // Reporting a run again releases nothing.
      await settle(db, [outcome(first)]);
      await settle(db, [outcome(first)]);
      expect(codeOf(await call(db, tenant))).toBe("admitted");
      expect(codeOf(await call(db, tenant))).toBe("rate_limit_exceeded");
    },
  );
});

describe("limits of a model", () => {
  const limit = (db: Database, tenant: Tenant, limits: object) =>
    db.query("insert into ai.workspace_policies (workspace_id, model_limits) values ($1, $2)", [
      tenant.workspaceId,
      JSON.stringify({ [tenant.model]: limits }),
    ]);

  test("count the requests of all keys for the model", async ({ db }) => {
    const tenant = await newTenant(db);
    await limit(db, tenant, { requests: 2 });
    const other = { ...tenant, keyHash: (await addKey(db, tenant)).hash };
    expect(codeOf(await call(db, tenant))).toBe("admitted");
    expect((await call(db, other)).limits).toMatchObject({ model: [2, 2, null, 0] });
    expect(await call(db, tenant)).toMatchObject({
      refused: "rate_limit_exceeded",
      limit: { kind: "rate", scope: "model", name: tenant.model, unit: "requests", limit: 2, used: 2 },
    });
  });

  test("count tokens until the run is settled at what it used", async ({ db }) => {
    const tenant = await newTenant(db);
    await limit(db, tenant, { tokens: 350 });
    const run = await call(db, tenant);
    expect(await call(db, tenant)).toMatchObject({
      limit: { scope: "model", unit: "tokens", used: 200, remaining: 150 },
    });
    await settle(db, [outcome(run)]);
    expect((await call(db, tenant)).limits).toMatchObject({ model: [null, 2, 350, 220] });
    expect(await call(db, tenant, { output_limit: 300 })).toMatchObject({
      refused: "invalid_request",
      limit: { scope: "model", name: tenant.model, limit: 350 },
    });
  });
});
