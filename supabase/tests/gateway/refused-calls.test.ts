import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { appTokenCall, bindKey, sessionCall } from "./call-fixtures.ts";
import { addKey, chatCall, createTenant, type Tenant } from "./fixtures.ts";

type Changes = { calls?: number; count?: number; model?: string; feature?: string; code?: string; ageMs?: number };

/** Returns a caller's refused calls of one second, as the gateway sends them. */
function refusedBy(call: object, changes: Changes = {}): object {
  const { calls = 1, count = calls, model = "m", feature = "chat", code = "rate_limit_exceeded", ageMs = 0 } = changes;
  const { credential, workspace } = call as { credential: object; workspace?: string };
  const refused = { request_id: "r-1", endpoint: "/v1/chat/completions", feature, model, status: 429, code };
  return {
    credential,
    workspace,
    age_ms: ageMs,
    calls: Array.from({ length: calls }, () => ({ ...refused, age_ms: ageMs })),
    counts: [{ model, feature, code, count }],
  };
}

/** Records refused calls, after any process that is recording. */
async function record(db: Database, ...callers: object[]): Promise<void> {
  await db.query("select pg_advisory_xact_lock(hashtextextended('ai.record_refused_calls', 0))");
  expect(await tryToRecord(db, ...callers)).toBe(true);
}

async function tryToRecord(db: Database, ...callers: object[]): Promise<boolean> {
  const sql = "select ai.record_refused_calls($1) as recorded";
  return (await one<{ recorded: boolean }>(db, { sql, values: [JSON.stringify({ callers })] })).recorded;
}

/** Returns the stored calls of a workspace and the sums of its days. */
async function storedOf(db: Database, { workspaceId }: { workspaceId: string }) {
  return {
    calls: await db.query("select * from ai.refused_calls where workspace_id = $1 order by created_at", [workspaceId]),
    sums: await db.query(
      `select model_id, feature, execution_mode, refused::int from ai.refused_daily
       where workspace_id = $1 order by refused, feature`,
      [workspaceId],
    ),
  };
}

describe("recording refused calls", () => {
  test("stores a call of a key, an app's key, an app's token and a session with its caller", async ({ db }) => {
    const tenant = await createTenant(db, { key: { entityId: "customer-1" } });
    const bound = await createTenant(db);
    const app = await bindKey(db, bound);
    const token = await appTokenCall(db, tenant);
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    await db.asRole("gateway", () =>
      record(
        db,
        refusedBy(chatCall(tenant)),
        refusedBy(chatCall(bound)),
        refusedBy(token.callOf()),
        refusedBy(sessionCall(tenant, claims)),
      ),
    );
    const { calls } = await storedOf(db, tenant);
    expect(calls).toHaveLength(3);
    const callOf = (source: string) => calls.find(({ credential_source }) => credential_source === source);
    expect(callOf("key")).toMatchObject({
      key_id: tenant.keyId,
      key_lineage_id: tenant.keyId,
      app_id: null,
      entity_id: "customer-1",
      request_id: "r-1",
      model_id: "m",
      feature: "chat",
      http_status: 429,
      error_code: "rate_limit_exceeded",
    });
    expect(callOf("app_token")).toMatchObject({ actor_id: token.claims.sub, app_id: token.app.id, key_id: null });
    expect(callOf("session")).toMatchObject({ actor_id: claims.sub, app_id: null, key_id: null });
    expect((await storedOf(db, bound)).calls).toMatchObject([{ app_id: app.id, key_id: bound.keyId }]);
  });

  test("records nothing for unknown, revoked and expired credentials, and for people outside the workspace", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    const revoked = await addKey(db, tenant);
    const expired = await addKey(db, tenant);
    await db.query("update ai.keys set revoked_at = now() where id = $1", [revoked.id]);
    await db.query("update ai.keys set created_at = now() - interval '1 day', expires_at = now() where id = $1", [
      expired.id,
    ]);
    const outsider = await createActor(db, {});
    const withKey = (keyHash: string) => refusedBy(chatCall({ ...tenant, keyHash }));
    await record(
      db,
      withKey("00".repeat(32)),
      withKey(revoked.hash),
      withKey(expired.hash),
      refusedBy(sessionCall(tenant, outsider)),
      refusedBy(sessionCall(tenant, outsider, { workspace: undefined })),
    );
    expect(await storedOf(db, tenant)).toEqual({ calls: [], sums: [] });
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [tenant.workspaceId]);
    await record(db, refusedBy(chatCall(tenant)));
    expect(await storedOf(db, tenant)).toEqual({ calls: [], sums: [] });
  });

  test("stores 20 calls a caller and minute, and counts all of them", async ({ db }) => {
    const tenant = await createTenant(db);
    const other = { ...tenant, keyHash: (await addKey(db, tenant)).hash };
    // 100,000 calls in a minute, as ten processes would report them.
    for (let process = 0; process < 10; process++) {
      await record(db, refusedBy(chatCall(tenant), { calls: 20, count: 10_000 }));
    }
    await record(
      db,
      refusedBy(chatCall(other), { calls: 20 }),
      refusedBy(chatCall(tenant), { calls: 20, ageMs: 120_000 }),
    );
    const { calls } = await storedOf(db, tenant);
    const counts = Object.groupBy(
      calls,
      ({ key_id, created_at }) => `${key_id} ${created_at.toISOString().slice(0, 16)}`,
    );
    expect(Object.values(counts).map((group) => group?.length)).toEqual([20, 20, 20]);
    const row = await one(db, {
      sql: "select sum(refused)::int as refused from ai.refused_daily where workspace_id = $1",
      values: [tenant.workspaceId],
    });
    expect(row).toEqual({ refused: 100_040 });
  });

  test("the bound and the sums hold for concurrent processes, of which one records at a time", async () => {
    const { db, close } = openPool(8);
    try {
      const tenant = await createTenant(db);
      const report = async () => {
        while (!(await tryToRecord(db, refusedBy(chatCall(tenant), { calls: 15, count: 100 }))));
      };
      await Promise.all(Array.from({ length: 8 }, report));
      const { calls, sums } = await storedOf(db, tenant);
      const minutes = new Set(calls.map(({ created_at }) => created_at.toISOString().slice(0, 16))).size;
      // A new minute may begin during the test.
      expect(calls.length).toBeGreaterThanOrEqual(20);
      expect(calls.length).toBeLessThanOrEqual(20 * minutes);
      expect(sums.reduce((sum, { refused }) => sum + refused, 0)).toBe(800);
    } finally {
      await close();
    }
  });

  test("sums unknown models together, and limits the combinations of a caller and day", async ({ db }) => {
    const tenant = await createTenant(db);
    await record(db, refusedBy(chatCall(tenant), { model: tenant.model }));
    for (const model of ["no-such-model", "nor-this"]) await record(db, refusedBy(chatCall(tenant), { model }));
    expect((await storedOf(db, tenant)).sums).toEqual([
      { model_id: tenant.model, feature: "chat", execution_mode: "background", refused: 1 },
      { model_id: null, feature: "chat", execution_mode: "background", refused: 2 },
    ]);
    for (let n = 0; n < 40; n++)
      await record(db, refusedBy(chatCall(tenant), { feature: `f-${n}`, calls: 0, count: 2 }));
    const { sums } = await storedOf(db, tenant);
    expect(sums).toHaveLength(21);
    expect(sums.find(({ feature }) => feature === null)).toMatchObject({ refused: 44 });
    expect(sums.reduce((sum, { refused }) => sum + refused, 0)).toBe(83);
  });

  test("dates a call by its age, at most an hour, and counts the deployment's refusals by code", async ({ db }) => {
    const tenant = await createTenant(db);
    const code = `c-${randomUUID()}`;
    await record(
      db,
      refusedBy(chatCall(tenant), { ageMs: 1e12, code }),
      refusedBy(chatCall(tenant), { ageMs: -5, code }),
    );
    const rows = await db.query<{ age: number; id_age: number }>(
      `select extract(epoch from now() - created_at)::int as age,
         (extract(epoch from now()) - ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)::int as id_age
       from ai.refused_calls where workspace_id = $1 order by 1`,
      [tenant.workspaceId],
    );
    expect(rows).toEqual([
      { age: 0, id_age: 0 },
      { age: 3_600, id_age: 3_600 },
    ]);
    const total = {
      sql: "select total::int from ai.totals where figure = 'refused_calls' and label = $1",
      values: [code],
    };
    expect(await one(db, total)).toEqual({ total: 2 });
  });
});

/** Returns the rows of the report of the tenant's app. */
async function reportOf(db: Database, tenant: Tenant) {
  const call = { credential: { source: "key", hash: tenant.keyHash }, workspace: tenant.workspaceId };
  const sql = "select ai.report_usage($1) as report";
  return (await one<{ report: { rows: object[] } }>(db, { sql, values: [JSON.stringify(call)] })).report.rows;
}

test("usage, the overview and an app's report show refused calls apart from requests", async ({ db }) => {
  const tenant = await createTenant(db);
  const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
  await bindKey(db, tenant);
  await record(
    db,
    refusedBy(chatCall(tenant), { model: tenant.model, count: 3 }),
    refusedBy(chatCall(tenant), { model: "no-such-model", count: 4 }),
  );
  expect(await reportOf(db, tenant)).toMatchObject([
    {
      model: tenant.model,
      feature: "chat",
      executionMode: "background",
      amountUsd: 0,
      requests: 0,
      failed: 0,
      refused: 3,
    },
    { model: "unknown", requests: 0, refused: 4 },
  ]);
  const read = async (name: string, args: string) => {
    const sql = `select ai.${name}($1, $2, ${args}) as answer`;
    return (await one<{ answer: { rows: object[] } }>(db, { sql, values: [claims.sub, tenant.workspaceId] })).answer;
  };
  const usage = (by: string) => read("read_usage", `group_by => '{${by}}'`);
  expect(await usage("model")).toMatchObject({
    totals: { requests: 0, failed: 0, refused: 7 },
    rows: [
      { model: null, requests: 0, refused: 4 },
      { model: tenant.model, requests: 0, refused: 3 },
    ],
  });
  expect(await usage("key,member")).toMatchObject({ rows: [{ keyId: tenant.keyId, refused: 7 }] });
  expect(await usage("label")).toMatchObject({ totals: { refused: 7 }, rows: [] });
  const today = "date_trunc('day', now(), 'UTC')";
  const range = `${today}, ${today} + interval '1 day', ${today} - interval '1 day', ${today}`;
  const overview = (by: string) => read("read_overview", `${range}, '${by}'`);
  for (const by of ["day", "feature", "key", "app", "member"]) {
    expect(await overview(by), by).toMatchObject({
      totals: { requests: 0, refused: 7 },
      previous: { refused: 0 },
      rows: [{ now: { requests: 0, refused: 7 } }],
    });
  }
  expect((await overview("model")).rows).toHaveLength(2);
  expect(await overview("label")).toMatchObject({ totals: { refused: 7 }, rows: [] });
});

describe("partitions of ai.refused_calls", () => {
  const partitions = async (db: Database) =>
    db.query<{ name: string; secured: boolean; policies: string[]; writes: boolean }>(
      `select c.relname as name, c.relrowsecurity as secured,
         array(select polname::text from pg_policy where polrelid = c.oid) as policies,
         has_table_privilege('service_role', c.oid, 'insert, update, delete') as writes
       from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = 'ai.refused_calls'::regclass order by 1`,
    );
  const nameOf = (days: number) =>
    `refused_calls_${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10).replaceAll("-", "_")}`;

  test("are created for today and two more days, protected, and dropped after seven whole days", async ({ db }) => {
    await db.query("set local timezone = 'UTC'");
    await db.query("delete from ai.refused_calls_default");
    for (const days of [-7, -8]) {
      await db.query(
        `create table ai.${nameOf(days)} partition of ai.refused_calls
         for values from (current_date + ${days}) to (current_date + ${days + 1})`,
      );
      await db.query(`select ai.protect_partition('ai.${nameOf(days)}')`);
    }
    await db.query("select ai.delete_expired()");
    const found = await partitions(db);
    const names = found.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining([nameOf(-7), nameOf(0), nameOf(1), nameOf(2), "refused_calls_default"]),
    );
    expect(names).not.toContain(nameOf(-8));
    for (const one of found) {
      expect(one).toMatchObject({ secured: true, policies: ["account_required_mfa"], writes: false });
    }
    expect(await one(db, { sql: "select ai.rotate_refused_call_partitions() as changed" })).toEqual({ changed: 0 });
  });

  test("the default partition holds calls of days without one for seven days", async ({ db }) => {
    for (const age of ["7 days -1 minute", "7 days 1 minute"]) {
      await db.query(
        `insert into ai.refused_calls_default
           (id, created_at, workspace_id, credential_source, request_id, endpoint, http_status, error_code)
         values (gen_random_uuid(), now() - $1::text::interval, gen_random_uuid(), 'key', $1::text, '/', 400, 'invalid_request')`,
        [age],
      );
    }
    await db.query("select ai.delete_expired()");
    expect(await db.query("select request_id from ai.refused_calls_default where endpoint = '/'")).toEqual([
      { request_id: "7 days -1 minute" },
    ]);
  });

  test("a reader delays their rotation and is not disturbed by it", async () => {
    const { db, close } = openPool(2);
    const { db: reader, close: end } = openPool(1);
    try {
      await db.query("select ai.delete_expired()");
      const old = nameOf(-20);
      await db.query(`create table ai.${old} partition of ai.refused_calls
        for values from (timestamptz '${old.slice(-10).replaceAll("_", "-")} 00:00:00+00') to (timestamptz '${nameOf(-19).slice(-10).replaceAll("_", "-")} 00:00:00+00')`);
      await db.query(`select ai.protect_partition('ai.${old}')`);
      await reader.query("begin");
      await reader.query("select from ai.refused_calls limit 1");
      expect(await one(db, { sql: "select ai.rotate_refused_call_partitions() as changed" })).toEqual({ changed: 0 });
      expect((await partitions(db)).map(({ name }) => name)).toContain(old);
      await reader.query("commit");
      await db.query("select ai.rotate_refused_call_partitions()");
      expect((await partitions(db)).map(({ name }) => name)).not.toContain(old);
    } finally {
      await end();
      await close();
    }
  });
});
