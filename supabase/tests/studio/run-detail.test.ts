import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { attemptFailures } from "../../functions/_shared/attempt.ts";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";

const rejected = {
  route: 1,
  provider: "demo",
  model: "upstream",
  status: 401,
  failure: "unauthorized",
  upstream_request_id: "req_first",
  latency_ms: 81,
};
const answered = {
  route: 1,
  provider: "second",
  model: "other",
  status: 200,
  upstream_request_id: "req_second",
  may_have_charged: true,
  latency_ms: 640,
};
const attempts = [rejected, answered];

async function answerOf<Answer>(db: Database, { sql, values }: { sql: string; values: unknown[] }): Promise<Answer> {
  return db.asRole(
    "service_role",
    async () => (await one<{ answer: Answer }>(db, { sql: `select ${sql} as answer`, values })).answer,
  );
}

type Detail = { run: Record<string, unknown>; attempts: unknown; answeredBy: unknown };

const asMember = (db: Database, { ownerId, workspaceId }: Tenant, runId: string) =>
  answerOf<Detail>(db, { sql: "ai.read_run($1, $2, $3)", values: [ownerId, workspaceId, runId] });
const inConsole = (db: Database, runId: string) =>
  answerOf<Detail>(db, { sql: "private.read_run($1)", values: [runId] });

async function settled(db: Database, tenant: Tenant, changes: object = {}) {
  const run = await begin(db, chatCall(tenant));
  await settle(db, [outcome(run, { attempts, served_tier: "priority", ...changes })]);
  return run;
}

const failedAttempts = (db: Database, runId: string) =>
  db.query("select provider_id, status, failure, upstream_request_id from ai.failed_attempts where run_id = $1", [
    runId,
  ]);

const shown = [
  {
    route: 1,
    provider: "demo",
    model: "upstream",
    status: 401,
    failure: "unauthorized",
    upstreamRequestId: "req_first",
    mayHaveCharged: false,
    latencyMs: 81,
  },
  {
    route: 1,
    provider: "second",
    model: "other",
    status: 200,
    failure: null,
    upstreamRequestId: "req_second",
    mayHaveCharged: true,
    latencyMs: 640,
  },
];
const answeredBy = { position: 1, provider: "demo", model: "upstream", prices: [{ input: "0.150000" }] };

describe("the attempts of a run", () => {
  test("members see a run's attempts in order if the workspace shows provider cost", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const run = await settled(db, tenant);
    expect(await asMember(db, tenant, run.run_id)).toMatchObject({
      run: { servedTier: "priority", keyName: "test" },
      attempts: shown,
      answeredBy,
    });
  });

  test("if the workspace hides provider cost, a run omits attempts, tier and prices, but includes the key's name", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const run = await settled(db, tenant);
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    const answer = await asMember(db, tenant, run.run_id);
    expect(answer).toMatchObject({
      run: { servedTier: null, costUsd: null, keyName: "test" },
      attempts: null,
      answeredBy: null,
    });
    expect(JSON.stringify(answer)).not.toMatch(/upstream|req_|priority|0\.15/);
    expect(await inConsole(db, run.run_id)).toMatchObject({
      run: { servedTier: "priority", keyName: "test" },
      attempts: shown,
      answeredBy,
      workspace: { id: tenant.workspaceId, name: "Test" },
    });
  });

  test("returns an empty list if a run has no recorded attempts", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const run = await settled(db, tenant, { attempts: undefined });
    expect(await asMember(db, tenant, run.run_id)).toMatchObject({ attempts: [] });
    expect(await inConsole(db, randomUUID())).toBeNull();
  });

  test("a late settlement of a swept run stores the run's attempts", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const run = await begin(db, chatCall(tenant));
    await db.query("update ai.runs set touched_at = now() - interval '1 minute' where id = $1", [run.run_id]);
    await db.query("select ai.settle_outcomes($1, now() - interval '1 second')", [
      JSON.stringify([outcome(run, { estimated: true, usage_source: "estimated_partial" })]),
    ]);
    await settle(db, [outcome(run, { attempts })]);
    expect(await asMember(db, tenant, run.run_id)).toMatchObject({ attempts: shown });
    expect(await failedAttempts(db, run.run_id)).toHaveLength(1);
  });
});

describe("failed attempts", () => {
  test("records each failed attempt of a run only once, and leaves out skipped routes and client disconnects", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const run = await begin(db, chatCall(tenant));
    const all = attemptFailures.map((failure) => ({ ...rejected, failure }));
    const settlement = outcome(run, { attempts: [...all, answered] });
    await settle(db, [settlement]);
    await settle(db, [settlement]);
    const kept = (await failedAttempts(db, run.run_id)).map(({ failure }) => failure);
    expect(kept).toEqual(attemptFailures.filter((failure) => failure !== "skipped" && failure !== "cancelled"));
    const success = await settled(db, tenant, { attempts: [answered] });
    expect(await failedAttempts(db, success.run_id)).toEqual([]);
  });

  test("malformed failed attempts don't prevent the batch's other runs from being settled", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const [good, bad] = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    await settle(db, [outcome(good, { attempts }), outcome(bad, { attempts: [{ ...rejected, route: "no number" }] })]);
    expect(await failedAttempts(db, good.run_id)).toHaveLength(1);
    expect(await asMember(db, tenant, good.run_id)).toMatchObject({ run: { status: "succeeded" } });
  });

  test("deletes failed attempts after seven days and not before", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const [old, young] = [await settled(db, tenant), await settled(db, tenant)];
    const age =
      "update ai.failed_attempts set at = now() - interval '7 days' + $2 * interval '1 second' where run_id = $1";
    await db.query(age, [old.run_id, -1]);
    await db.query(age, [young.run_id, 1]);
    await db.query("select ai.delete_expired()");
    expect([await failedAttempts(db, old.run_id), await failedAttempts(db, young.run_id)]).toMatchObject([[], [{}]]);
  });
});

type Route = Record<string, unknown>;
const routesOf = async (db: Database, model: string) => {
  const models = await answerOf<{ model: string; routes: Route[] }[]>(db, {
    sql: "private.list_provider_routes()",
    values: [],
  });
  return models.find((each) => each.model === model)?.routes;
};
const stateOf = async (db: Database, model: string) => {
  const models = await answerOf<{ id: string; hasRoute: boolean; hasPrice: boolean }[]>(db, {
    sql: "private.list_catalogue_models()",
    values: [],
  });
  const { hasRoute, hasPrice } = models.find(({ id }) => id === model) ?? {};
  return { hasRoute, hasPrice };
};

describe("routes, models and runs in the console", () => {
  test("the console lists routes in order with their price and their failures in the last hour", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    await db.query(
      "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 2, 'second', 'other')",
      [tenant.model],
    );
    const [old, recent] = [await settled(db, tenant), await settled(db, tenant)];
    await settled(db, tenant);
    const age =
      "update ai.failed_attempts set at = now() - interval '1 hour' + $2 * interval '1 second' where run_id = $1";
    await db.query(age, [old.run_id, 0]);
    await db.query(age, [recent.run_id, 1]);
    expect(await routesOf(db, tenant.model)).toMatchObject([
      {
        position: 1,
        provider: "demo",
        providerModel: "upstream",
        enabled: true,
        hasPrice: true,
        failedLastHour: 2,
        lastFailure: { failure: "unauthorized", status: 401, upstreamRequestId: "req_first" },
      },
      { position: 2, provider: "second", hasPrice: false, failedLastHour: 0, lastFailure: null },
    ]);
  });

  test("the console marks models without an open route or a current price", async ({ db }) => {
    const { model } = await createTenant(db, { credits: "1000" });
    expect(await stateOf(db, model)).toEqual({ hasRoute: true, hasPrice: true });
    await db.query("delete from ai.model_prices where model_id = $1", [model]);
    expect(await stateOf(db, model)).toEqual({ hasRoute: true, hasPrice: false });
    await db.query("update ai.model_routes set enabled = false where model_id = $1", [model]);
    expect(await stateOf(db, model)).toEqual({ hasRoute: false, hasPrice: false });
  });

  test("the console finds runs of any workspace by id and, for 31 days, by request id", async ({ db }) => {
    const [one, other] = [await createTenant(db, { credits: "1000" }), await createTenant(db, { credits: "1000" })];
    const request_id = `wanted-${randomUUID()}`;
    const runs = [await begin(db, chatCall(one, { request_id })), await begin(db, chatCall(other, { request_id }))];
    const find = async (term: string) =>
      (await answerOf<{ id: string }[]>(db, { sql: "private.find_runs($1)", values: [term] })).map(({ id }) => id);
    expect((await find(request_id)).sort()).toEqual(runs.map(({ run_id }) => run_id).sort());
    expect(await find(runs[0]?.run_id ?? "")).toEqual([runs[0]?.run_id]);
    expect(await find("nothing")).toEqual([]);
    const begun = async (days: string) => {
      const id = `old-${randomUUID()}`;
      await db.query(
        `insert into ai.runs (id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id,
           routes, markup, reserved_usd, reserved_credits)
         select ai.run_id(t), t, $1, 'key', 'background', 'chat', $2, 'm', '[]', 1, 0, 0
         from (values (now() - $3::interval)) as a (t)`,
        [one.workspaceId, id, days],
      );
      return (await find(id)).length;
    };
    expect([await begun("31 days"), await begun("30 days 23:59:59")]).toEqual([0, 1]);
  });
});

test("the gateway receives the key's name when it begins a run", async ({ db }) => {
  const tenant = await createTenant(db, { credits: "1000" });
  expect(await begin(db, chatCall(tenant))).toMatchObject({ key_name: "test" });
});

test("a run shows the budgets that count it with their current limits, and hides amounts with provider cost", async ({
  db,
}) => {
  const tenant = await createTenant(db, { credits: "1000", key: { monthlyBudgetUsd: "5" } });
  const { workspaceId, keyId } = tenant;
  await db.query(
    `select
       ai.set_budget('workspace', $1, $1, 10, null, 'day', 'Europe/Berlin'),
       ai.set_budget('workspace', $1, $1, null, null, 'concurrent', null, null, 4)`,
    [workspaceId],
  );
  const { run_id } = await settled(db, tenant);
  await db.query("select ai.set_budget('workspace', $1, $1, null, null, 'day')", [workspaceId]);
  const budgets = async () => {
    const { budgets, envelopeId } = (await asMember(db, tenant, run_id)) as unknown as {
      budgets: { scope: string; period: string }[];
      envelopeId: null;
    };
    return { envelopeId, budgets: budgets.toSorted((a, b) => (a.scope + a.period < b.scope + b.period ? -1 : 1)) };
  };
  const key = {
    scope: "key",
    period: "month",
    subjectId: keyId,
    name: "test",
    isSet: true,
    limitUsd: "5",
    maxCalls: null,
  };
  const workspace = { scope: "workspace", subjectId: workspaceId, name: "Test", limitUsd: null };
  const concurrent = { ...workspace, period: "concurrent", isSet: true, maxCalls: 4 };
  const day = { ...workspace, period: "day", isSet: false, maxCalls: null };
  expect(await budgets()).toEqual({ envelopeId: null, budgets: [key, concurrent, day] });
  await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
    workspaceId,
  ]);
  expect((await budgets()).budgets).toEqual([{ ...key, limitUsd: null }, concurrent, day]);
});
