import { describe, expect } from "vitest";
import { createActor, workspaceRoles } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, type Tenant } from "../gateway/fixtures.ts";

type Position = { createdAt: string; id: string; value?: string };
type Page = {
  outcome: string;
  runs: { id: string; createdAt: string }[];
  sort: string;
  sortValue: string | null;
};

const answerOf = <Answer>(db: Database, { sql, values }: { sql: string; values: unknown[] }) =>
  db.asRole(
    "service_role",
    async () => (await one<{ answer: Answer }>(db, { sql: `select ${sql} as answer`, values })).answer,
  );

interface Query {
  sort: string;
  filter?: object;
  before?: Position | null;
  pageSize?: number;
  most?: number;
}

const list = (
  db: Database,
  { ownerId, workspaceId }: Tenant,
  { sort, filter = {}, before = null, pageSize = 50, most = 10_000 }: Query,
) =>
  answerOf<Page>(db, {
    sql: "ai.list_runs($1, $2, $3, $4, $5, $6, $7)",
    values: [ownerId, workspaceId, filter, before, pageSize, most, sort],
  });

/** Creates runs with the given costs, tokens and latencies, oldest first. @returns their ids */
async function createRuns(
  db: Database,
  tenant: Tenant,
  runs: [cost: number, tokens: number, latency: number | null][],
) {
  const ids: string[] = [];
  for (const [index, [cost, tokens, latency]] of runs.entries()) {
    const { run_id } = await begin(db, chatCall(tenant));
    await db.query(
      `update ai.runs set cost_usd = $2::numeric, billed_credits = 1000 - $2::numeric, input_tokens = $3, latency_ms = $4,
         status = 'succeeded', settled_at = now(), usage_source = 'provider',
         created_at = created_at - ($5 || ' milliseconds')::interval
       where id = $1`,
      [run_id, cost, tokens, latency, 100 - index],
    );
    ids.push(String(run_id));
  }
  return ids;
}

describe("sorted runs", () => {
  test.for([
    ["time", [4, 3, 2, 1, 0]],
    ["cost", [4, 1, 3, 0, 2]],
    ["tokens", [3, 4, 2, 1, 0]],
    ["latency", [0, 4, 2, 1, 3]],
  ] as const)(
    "runs are sorted by %s, equal ones newest first, and pages neither repeat nor omit one",
    async ([sort, order], { db }) => {
      const tenant = await createTenant(db, { credits: "1000000" });
      const ids = await createRuns(db, tenant, [
        [0.2, 10, 900],
        [0.9, 20, 100],
        [0.1, 30, 200],
        [0.2, 40, null],
        [0.9, 30, 200],
      ]);
      const listed = await list(db, tenant, { sort });
      expect(listed.sort).toBe(sort);
      expect(listed.runs.map(({ id }) => id)).toEqual(order.map((index) => ids[index]));
      const paged: string[] = [];
      for (let before: Position | null = null; ; ) {
        const page: Page = await list(db, tenant, { sort, before, pageSize: 3 });
        const shown = page.runs.slice(0, 2);
        paged.push(...shown.map(({ id }) => id));
        const last = shown.at(-1);
        if (page.runs.length < 3 || !last) break;
        before = { createdAt: last.createdAt, id: last.id, ...(page.sortValue ? { value: page.sortValue } : {}) };
      }
      expect(paged).toEqual(listed.runs.map(({ id }) => id));
    },
  );

  test("sorts by credits if the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const ids = await createRuns(db, tenant, [
      [1, 0, 1],
      [2, 0, 1],
    ]);
    const sorted = async () => (await list(db, tenant, { sort: "cost" })).runs.map(({ id }) => id);
    expect(await sorted()).toEqual([ids[1], ids[0]]);
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    expect(await sorted()).toEqual(ids);
  });

  test("sorts a range of as many runs as it may read, and lists one with more by time from its beginning", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const ids = await createRuns(db, tenant, [
      [3, 0, 1],
      [2, 0, 1],
      [1, 0, 1],
    ]);
    const sorted = await list(db, tenant, { sort: "cost", most: 3 });
    expect([sorted.sort, sorted.runs.map(({ id }) => id)]).toEqual(["cost", ids]);
    const before = { createdAt: new Date().toISOString(), id: ids[0] ?? "", value: "2" };
    const byTime = await list(db, tenant, { sort: "cost", most: 2, before });
    expect([byTime.sort, byTime.runs.map(({ id }) => id)]).toEqual(["time", ids.toReversed()]);
  });

  test.for(["time", "cost"])(
    "the neighbours of a run sorted by %s are those of the filtered list",
    async (sort, { db }) => {
      const tenant = await createTenant(db, { credits: "1000000" });
      await createRuns(db, tenant, [
        [0.2, 10, 900],
        [0.9, 20, 100],
        [0.1, 30, 200],
        [0.2, 40, 300],
      ]);
      const [, skipped] = (await list(db, tenant, { sort })).runs;
      await db.query("update ai.runs set feature = 'other' where id = $1", [skipped?.id]);
      const filter = { feature: "chat" };
      const { runs } = await list(db, tenant, { sort, filter });
      expect(runs).toHaveLength(3);
      for (const [index, { id }] of runs.entries()) {
        const { run } = await answerOf<{ run: { adjacent: object } }>(db, {
          sql: "ai.read_run_page($1, $2, $3, $4, $5, 10000)",
          values: [tenant.ownerId, tenant.workspaceId, id, filter, sort],
        });
        expect(run.adjacent).toEqual({ previous: runs[index - 1]?.id ?? null, next: runs[index + 1]?.id ?? null });
      }
    },
  );

  test("neighbours don't tell a run's provider if the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const [first, second] = await createRuns(db, tenant, [
      [1, 0, 1],
      [1, 0, 1],
    ]);
    await db.query("update ai.runs set route = 1 where workspace_id = $1", [tenant.workspaceId]);
    const adjacent = async () =>
      (
        await answerOf<{ run: { adjacent?: object } }>(db, {
          sql: "ai.read_run_page($1, $2, $3, $4)",
          values: [tenant.ownerId, tenant.workspaceId, second, { provider: "demo" }],
        })
      ).run.adjacent;
    expect(await adjacent()).toEqual({ previous: null, next: first });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    expect(await adjacent()).toBeUndefined();
  });
});

describe("refused calls", () => {
  type Refused = { outcome: string; calls: Record<string, unknown>[]; continueBefore: Position | null };
  const listRefused = (
    db: Database,
    { ownerId, workspaceId }: Pick<Tenant, "ownerId" | "workspaceId">,
    { filter = {}, before = null as Position | null, pageSize = 50, most = 10_000 } = {},
  ) =>
    answerOf<Refused>(db, {
      sql: "ai.list_refused_calls($1, $2, $3, $4, $5, $6)",
      values: [ownerId, workspaceId, filter, before, pageSize, most],
    });

  /** Records refused calls, one a second, oldest first. @returns their ids */
  async function refuse(db: Database, tenant: Tenant, calls: { request: string; model: string }[]) {
    const ids: string[] = [];
    for (const [index, { request, model }] of calls.entries()) {
      const { id } = await one<{ id: string }>(db, {
        sql: `insert into ai.refused_calls (
                id, created_at, workspace_id, actor_id, key_id, credential_source, feature, request_id, model_id,
                endpoint, http_status, error_code, details
              )
              select ai.run_id(at), at, $1, $2, $3, 'key', 'chat', $4, $5, '/v1/chat/completions', 402,
                'budget_exceeded', '{"scope": "member", "need_usd": "0.98", "limit": {"left_usd": "0.5", "kind": "month"}}'
              from (select now() - ($6 || ' seconds')::interval as at) t
              returning id`,
        values: [tenant.workspaceId, tenant.ownerId, tenant.keyId, request, model, 100 - index],
      });
      ids.push(id);
    }
    return ids;
  }

  test("reading refused calls requires use_ai_studio", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const [id] = await refuse(db, tenant, [{ request: "r", model: "m" }]);
    for (const { role, permissions } of workspaceRoles) {
      const { sub } = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const allowed = (permissions as readonly string[]).includes("use_ai_studio");
      const { outcome } = await listRefused(db, { ownerId: sub, workspaceId: tenant.workspaceId });
      expect(outcome, role).toBe(allowed ? "listed" : "not_allowed");
      const sql = "ai.read_refused_call($1, $2, $3)";
      const found = await answerOf(db, { sql, values: [sub, tenant.workspaceId, id] });
      expect(found !== null, role).toBe(allowed);
    }
    const other = await createTenant(db);
    expect((await listRefused(db, other)).calls).toEqual([]);
    const values = [other.ownerId, other.workspaceId, id];
    expect(await answerOf(db, { sql: "ai.read_refused_call($1, $2, $3)", values })).toBeNull();
  });

  test("refused calls are listed newest first, filtered and paged, and a search continues", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const ids = await refuse(db, tenant, [
      { request: "one", model: "a" },
      { request: "two", model: "b" },
      { request: "three", model: "a" },
    ]);
    const found = async (filter: object) => (await listRefused(db, tenant, { filter })).calls.map(({ id }) => id);
    expect(await found({})).toEqual(ids.toReversed());
    expect(await found({ model: "a" })).toEqual([ids[2], ids[0]]);
    expect(await found({ requestId: "two" })).toEqual([ids[1]]);
    expect(await found({ keyId: tenant.keyId, status: "refused" })).toHaveLength(3);
    expect(await found({ memberId: tenant.workspaceId })).toEqual([]);
    expect(await found({ provider: "demo" })).toEqual([]);
    const first = await listRefused(db, tenant, { filter: { requestId: "absent" }, most: 3 });
    expect(first).toMatchObject({ calls: [], continueBefore: null });
    const scan = await listRefused(db, tenant, { filter: { model: "b" }, most: 1 });
    expect(scan).toMatchObject({ calls: [], continueBefore: { id: ids[2] } });
    const next = await listRefused(db, tenant, { filter: { model: "b" }, most: 1, before: scan.continueBefore });
    expect(next.calls).toMatchObject([{ id: ids[1], keyName: "test" }]);
  });

  test("a request id finds runs and refused calls, and the status refused only refused calls", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await begin(db, chatCall(tenant, { request_id: "wanted" }));
    const [call] = await refuse(db, tenant, [{ request: "wanted", model: "m" }]);
    const page = (filter: object) =>
      answerOf<{ page: Page; refused: Refused | null }>(db, {
        sql: "ai.read_runs_page($1, $2, $3, null, 50, 10000)",
        values: [tenant.ownerId, tenant.workspaceId, filter],
      });
    const ofRequest = await page({ requestId: "wanted" });
    expect(ofRequest).toMatchObject({ page: { runs: [{ id: run.run_id }] }, refused: { calls: [{ id: call }] } });
    const ofRefused = await page({ status: "refused" });
    expect(ofRefused).toMatchObject({ page: { runs: [] }, refused: { calls: [{ id: call }] } });
    expect((await page({ requestId: "wanted", status: "running" })).refused).toBeNull();
    expect((await page({})).refused).toBeNull();
    const shown = await answerOf(db, {
      sql: "ai.read_run_page($1, $2, $3)",
      values: [tenant.ownerId, tenant.workspaceId, call],
    });
    expect(shown).toMatchObject({ run: { outcome: "not_found" }, refused: { id: call, requestId: "wanted" } });
  });

  test("shows the amounts of a refused call unless the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const [id] = await refuse(db, tenant, [{ request: "r", model: "m" }]);
    const details = async () =>
      (
        await answerOf<{ details: object }>(db, {
          sql: "ai.read_refused_call($1, $2, $3)",
          values: [tenant.ownerId, tenant.workspaceId, id],
        })
      ).details;
    const whole = { scope: "member", need_usd: "0.98", limit: { left_usd: "0.5", kind: "month" } };
    expect(await details()).toEqual(whole);
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    expect(await details()).toEqual({ scope: "member", limit: { kind: "month" } });
  });
});
