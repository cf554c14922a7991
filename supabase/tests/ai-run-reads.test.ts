import { describe, expect } from "vitest";
import { createActor, workspaceRoles } from "./actors.ts";
import { begin, chatCall, createTenant, outcome, settle, type Tenant } from "./ai-fixtures.ts";
import { type Database, one, test } from "./database.ts";

type Answer = { outcome: string; runs?: Record<string, unknown>[]; run?: Record<string, unknown>; steps?: unknown[] };

const call = (db: Database, sql: string, values: unknown[]) =>
  db.asRole(
    "service_role",
    async () => (await one<{ answer: Answer }>(db, { sql: `select ${sql} as answer`, values })).answer,
  );

const list = (db: Database, tenant: Pick<Tenant, "ownerId" | "workspaceId">, filter: object = {}) =>
  call(db, "ai.list_runs($1, $2, $3)", [tenant.ownerId, tenant.workspaceId, filter]);
const read = (db: Database, tenant: Pick<Tenant, "ownerId" | "workspaceId">, runId: unknown) =>
  call(db, "ai.read_run($1, $2, $3)", [tenant.ownerId, tenant.workspaceId, runId]);

async function settledRun(db: Database, tenant: Tenant, changes: object = {}) {
  const run = await begin(db, chatCall(tenant, changes));
  await settle(db, [outcome(run)]);
  return run;
}

describe("runs", () => {
  test("are read with use_ai_studio and not without", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await settledRun(db, tenant);
    for (const { role, permissions } of workspaceRoles) {
      const member = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const reader = { workspaceId: tenant.workspaceId, ownerId: member.sub };
      const allowed = (permissions as readonly string[]).includes("use_ai_studio");
      expect((await list(db, reader)).outcome, role).toBe(allowed ? "listed" : "not_allowed");
      expect((await read(db, reader, run.run_id)).outcome, role).toBe(allowed ? "read" : "not_allowed");
    }
  });

  test("of another workspace do not exist", async ({ db }) => {
    const [mine, other] = [
      await createTenant(db, { credits: "1000000" }),
      await createTenant(db, { credits: "1000000" }),
    ];
    const run = await settledRun(db, other);
    expect((await read(db, mine, run.run_id)).outcome).toBe("not_found");
    expect((await list(db, mine)).runs).toEqual([]);
  });

  test("show their amounts exactly, and hide the provider's cost where the workspace does", async ({ db }) => {
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

  test("are found by what the filter names, half-open in time", async ({ db }) => {
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

  test("hold no prompt, answer or provider's text", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await settledRun(db, tenant);
    const answer = await read(db, tenant, run.run_id);
    expect(Object.keys(answer.run ?? {})).not.toEqual(expect.arrayContaining(["routes"]));
    expect(JSON.stringify(answer)).not.toMatch(/prompt|content|payload|message/i);
  });
});
