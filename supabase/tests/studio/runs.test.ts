import { describe, expect } from "vitest";
import { z } from "zod";
import { runRow } from "../../../remix-app/studio/runs/run-file.ts";
import { runSummary } from "../../../remix-app/studio/runs/run-schema.ts";
import { createActor, workspaceRoles } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";
import { rollUp } from "../usage/usage-sums.ts";

type Position = { createdAt: string; id: string };
type Answer = {
  outcome: string;
  runs?: Record<string, unknown>[];
  continueBefore?: Position | null;
  run?: Record<string, unknown>;
  steps?: unknown[];
};

const call = (db: Database, sql: string, values: unknown[]) =>
  db.asRole(
    "service_role",
    async () => (await one<{ answer: Answer }>(db, { sql: `select ${sql} as answer`, values })).answer,
  );

const list = (db: Database, tenant: Pick<Tenant, "ownerId" | "workspaceId">, filter: object = {}) =>
  call(db, "ai.list_runs($1, $2, $3, null, 50, null)", [tenant.ownerId, tenant.workspaceId, filter]);
const read = (db: Database, tenant: Pick<Tenant, "ownerId" | "workspaceId">, runId: unknown) =>
  call(db, "ai.read_run($1, $2, $3)", [tenant.ownerId, tenant.workspaceId, runId]);

async function settledRun(db: Database, tenant: Tenant, changes: object = {}) {
  const run = await begin(db, chatCall(tenant, changes));
  await settle(db, [outcome(run)]);
  return run;
}

describe("reading and searching runs", () => {
  test("reading runs requires use_ai_studio", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await settledRun(db, tenant);
    for (const { role, permissions } of workspaceRoles) {
      const member = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const reader = { workspaceId: tenant.workspaceId, ownerId: member.sub };
      const allowed = (permissions as readonly string[]).includes("use_ai_studio");
      expect((await list(db, reader)).outcome, role).toBe(allowed ? "listed" : "not_allowed");
      const file = "ai.list_run_rows($1, $2, '{}', null, 10, null)";
      const { outcome: ofFile } = await call(db, file, [reader.ownerId, reader.workspaceId]);
      expect(ofFile, role).toBe(allowed ? "listed" : "not_allowed");
      expect((await read(db, reader, run.run_id)).outcome, role).toBe(allowed ? "read" : "not_allowed");
    }
  });

  test.for([true, false])(
    "a file has the values of the list, with provider cost visible: %s",
    async (visible, { db }) => {
      const tenant = await createTenant(db, { credits: "1000000" });
      await db.query("update public.profiles set display_name = 'Ann' where id = $1", [tenant.ownerId]);
      const run = await settledRun(db, tenant);
      await settledRun(db, tenant);
      await begin(db, chatCall(tenant));
      // Gives each column its own value, so that none can stand for another.
      await db.query(
        `update ai.runs set input_tokens = 1, cached_input_tokens = 2, output_tokens = 3, reasoning_tokens = 4,
         audio_input_tokens = 5, audio_output_tokens = 6, cache_write_tokens = 7, cache_write_1h_tokens = 8,
         image_input_tokens = 9, fee_requests = 10, http_status = 211, error_code = 'a_code', served_tier = 'flex',
         marks = '{implausible,unpriced_tier}', cost_usd = 1.5, billed_credits = 2.5, unmetered_credits = 3.5,
         first_byte_ms = 12, latency_ms = 13, entity_id = 'order-7', exempt = true, swept = true,
         steps = '[{"type": "retry"}]',
         attempts = '[{"route": 1, "failure": "timeout", "may_have_charged": true, "charged": {"input_tokens": 4}}]'
       where id = $1`,
        [run.run_id],
      );
      if (!visible) {
        await db.query(
          `insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)
         on conflict (workspace_id) do update set provider_cost_visible = false`,
          [tenant.workspaceId],
        );
      }
      const member = [tenant.ownerId, tenant.workspaceId];
      const rows = await call(db, "ai.list_run_rows($1, $2, '{}', null, 10, 10000)", member);
      const listed = z.array(runSummary).parse((await list(db, tenant)).runs);
      expect(listed).toHaveLength(3);
      for (const { priced } of listed) {
        // No column of the file is computed from the rate.
        delete priced.creditsPerUsd;
        priced.route ??= null;
      }
      expect(z.array(runRow).parse(rows.runs)).toEqual(listed);
    },
  );

  test("does not find runs of another workspace", async ({ db }) => {
    const [mine, other] = [
      await createTenant(db, { credits: "1000000" }),
      await createTenant(db, { credits: "1000000" }),
    ];
    const run = await settledRun(db, other);
    expect((await read(db, mine, run.run_id)).outcome).toBe("not_found");
    expect((await list(db, mine)).runs).toEqual([]);
  });

  test("shows a run's exact cost and credits, or only the credits if the workspace hides provider cost", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await settledRun(db, tenant);
    const exact = await one<{ cost: string; credits: string }>(db, {
      sql: "select trim_scale(cost_usd)::text as cost, trim_scale(billed_credits)::text as credits from ai.runs where id = $1",
      values: [run.run_id],
    });
    expect((await read(db, tenant, run.run_id)).run).toMatchObject({
      costUsd: exact.cost,
      billedCredits: exact.credits,
    });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    expect((await read(db, tenant, run.run_id)).run).toMatchObject({ costUsd: null, billedCredits: exact.credits });
  });

  test("finds runs by each filter field, in a time range that excludes its end", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await settledRun(db, tenant, { request_id: "wanted-1" });
    const { at } = await one<{ at: string }>(db, {
      sql: "select created_at::text as at from ai.runs where id = $1",
      values: [run.run_id],
    });
    const found = async (filter: object) => (await list(db, tenant, filter)).runs?.length;
    expect(await found({ requestId: "wanted-1" })).toBe(1);
    expect(await found({ requestId: "other" })).toBe(0);
    expect(await found({ model: tenant.model, status: "succeeded", keyId: tenant.keyId })).toBe(1);
    expect(await found({ status: "failed" })).toBe(0);
    expect(await found({ from: at })).toBe(1);
    expect(await found({ to: at })).toBe(0);
  });

  describe("searching runs without an index", () => {
    const scan = (
      db: Database,
      {
        tenant,
        filter,
        scanLimit,
        before = null,
      }: { tenant: Tenant; filter: object; scanLimit: number; before?: unknown },
    ) =>
      call(db, "ai.list_runs($1, $2, $3, $4, 50, $5)", [tenant.ownerId, tenant.workspaceId, filter, before, scanLimit]);

    test("a search without an index reads a limited number of runs per page, and continues on the next page", async ({
      db,
    }) => {
      const tenant = await createTenant(db, { credits: "1000000" });
      const ids: unknown[] = [];
      // All runs have the transaction's timestamp, so their ids determine their order.
      for (const feature of ["one", "two", "three"]) ids.push((await settledRun(db, tenant, { feature })).run_id);
      const newestFirst = [...ids].sort().reverse();
      const filter = { feature: (await read(db, tenant, newestFirst[2])).run?.feature };
      expect(await scan(db, { tenant, filter, scanLimit: 3 })).toMatchObject({ runs: [{ id: newestFirst[2] }] });
      const first = await scan(db, { tenant, filter, scanLimit: 2 });
      expect(first).toMatchObject({ runs: [], continueBefore: { id: newestFirst[1] } });
      const second = await scan(db, { tenant, filter, scanLimit: 2, before: first.continueBefore });
      expect(second.runs).toMatchObject([{ id: newestFirst[2] }]);
      expect(second.continueBefore ?? null).toBeNull();
      // The previous release of the server sends no limit, and treats a short page as the last page.
      expect((await list(db, tenant, filter)).runs).toMatchObject([{ id: newestFirst[2] }]);
    });

    test("a run search skips days whose daily sums rule out a match, unless the day's runs have changed", async ({
      db,
    }) => {
      const tenant = await createTenant(db, { credits: "1000000" });
      await settledRun(db, tenant, { feature: "one" });
      await settledRun(db, tenant, { feature: "two" });
      const next = async (filter: object) => {
        const { runs, continueBefore } = await scan(db, { tenant, filter, scanLimit: 1 });
        expect(runs).toEqual([]);
        return continueBefore ?? null;
      };
      const absent = { feature: "absent" };
      expect(await next(absent)).not.toBeNull();
      await db.query("update ai.runs set created_at = created_at - interval '3 days' where workspace_id = $1", [
        tenant.workspaceId,
      ]);
      expect(await next(absent)).not.toBeNull();
      await rollUp(db);
      expect(await next(absent)).toBeNull();
      expect(await next({ status: "running" })).not.toBeNull();
      const day = "2001-02-03";
      await db.query(
        `insert into ai.usage_changes
         select $1, $2, null, null, null, 'm', 'f', 'background', 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, null, null, null, 0, 0,
           $2::date + interval '1 hour', null`,
        [tenant.workspaceId, day],
      );
      const midnight = Date.parse("2001-02-04T00:00:00Z");
      expect(Date.parse((await next(absent))?.createdAt ?? "")).toBe(midnight);
      expect(await next({ ...absent, from: "2001-02-04T00:00:00Z" })).toBeNull();
      expect(await next({ ...absent, from: "2001-02-03T23:59:59Z" })).not.toBeNull();
      await db.query("delete from ai.usage_changes where workspace_id = $1", [tenant.workspaceId]);
      await db.query(
        `insert into ai.usage_daily
         select $1, $2, null, $3, 'demo', 'summed', 'summed', 'background', 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, null, null`,
        [tenant.workspaceId, day, tenant.keyId],
      );
      const position = async (filter: object) => Date.parse((await next(filter))?.createdAt ?? "");
      expect(await position({ feature: "summed" })).toBe(midnight);
      expect(await position({ model: "summed" })).toBe(midnight);
      expect(await position({ status: "failed" })).toBe(midnight);
      expect(await position({ feature: "summed", status: "cancelled" })).toBe(midnight);
      expect(await next({ feature: "summed", appId: tenant.keyId })).toBeNull();
    });
  });

  test("listed runs contain no prompt, answer or provider message", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await settledRun(db, tenant);
    const answer = await read(db, tenant, run.run_id);
    expect(Object.keys(answer.run ?? {})).not.toEqual(expect.arrayContaining(["routes"]));
    expect(JSON.stringify(answer)).not.toMatch(/prompt|content|payload|message/i);
  });
});
