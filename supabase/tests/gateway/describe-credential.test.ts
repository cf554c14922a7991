import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { rollUp } from "../usage/usage-sums.ts";
import { appTokenCall, bindKey, sessionCall } from "./call-fixtures.ts";
import { addKey, begin, chatCall, createTenant, outcome, settle, type Tenant } from "./fixtures.ts";

/** Returns what `GET /v1/key` reports about a call's credential, with amounts and times as SQL formats them. */
async function describeCredential(db: Database, call: object) {
  const row = await one(db, { sql: "select ai.describe_credential($1) as answer", values: [JSON.stringify(call)] });
  return (row as { answer: Record<string, unknown> }).answer;
}

async function addBudget(db: Database, tenant: Tenant, { scope, subject, limit }: Record<string, string>) {
  await db.query("insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ($1, $2, $3, $4)", [
    scope,
    subject,
    tenant.workspaceId,
    limit,
  ]);
}

const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

describe("describing a call's credential", () => {
  test("describes a key with its limits, its budgets, what it has spent and what is left", async ({ db }) => {
    const tenant = await createTenant(db, {
      credits: "100",
      plan: { requestsPerMinute: 10, tokensPerMinute: 1000 },
      key: { requestsPerMinute: 3, monthlyBudgetUsd: "0.0005" },
    });
    await addBudget(db, tenant, { scope: "workspace", subject: tenant.workspaceId, limit: "0.001" });
    const [settled] = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    await settle(db, [outcome(settled)]);
    const answer = await describeCredential(db, chatCall(tenant));
    expect(answer).toEqual({
      source: "key",
      workspaceId: tenant.workspaceId,
      userId: null,
      key: {
        id: tenant.keyId,
        name: "test",
        prefix: expect.stringMatching(/^ttr_ai_[0-9a-f]{12}$/),
        environment: "production",
        createdAt: expect.stringMatching(moment),
        replaced: false,
        allowedModels: null,
        allowedAddresses: null,
        strict: false,
        entityId: null,
      },
      app: null,
      scopes: null,
      expiresAt: null,
      exempt: false,
      limits: [
        {
          scope: "key",
          requestsPerMinute: 3,
          remainingRequests: 1,
          tokensPerMinute: null,
          remainingTokens: null,
          resetSeconds: expect.any(Number),
        },
        {
          scope: "workspace",
          requestsPerMinute: 10,
          remainingRequests: 8,
          tokensPerMinute: 1000,
          remainingTokens: 780,
          resetSeconds: expect.any(Number),
        },
      ],
      budgets: [
        // The open call reserves 100 input tokens at 0.15 USD and 100 output tokens at 0.6 USD per million. The settled
        // call used 13 and 7.
        {
          scope: "key",
          limitUsd: 0.0005,
          spentUsd: 0.00000615,
          reservedUsd: 0.000075,
          remainingUsd: 0.00041885,
          window: "month",
          timeZone: "UTC",
          resetsAt: expect.stringMatching(/^\d{4}-\d\d-01T00:00:00\.000Z$/),
        },
        expect.objectContaining({ scope: "workspace", limitUsd: 0.001, remainingUsd: 0.00091885 }),
      ],
      modelLimits: [],
      concurrentCalls: [],
      envelope: null,
      spent: {
        since: expect.stringMatching(/^\d{4}-\d\d-01T00:00:00\.000Z$/),
        requests: 2,
        costUsd: 0.00000615,
        billedCredits: 0.0615,
        unmeteredCredits: 0,
      },
      credits: { payer: "workspace", remaining: 99.1885 },
    });
    expect(JSON.stringify(answer)).not.toContain(tenant.keyHash);
  });

  test("an exhausted key has nothing left until its rate limit resets in the next minute and its budget in the next month", async ({
    db,
  }) => {
    const tenant = await createTenant(db, {
      credits: "100",
      key: { requestsPerMinute: 1, monthlyBudgetUsd: "0.0001" },
    });
    await begin(db, chatCall(tenant));
    await db.query("update ai.budgets set spent_usd = 0.0002 where subject_id = $1", [tenant.keyId]);
    const left = async () => {
      const { limits, budgets } = await describeCredential(db, chatCall(tenant));
      return [limits, budgets];
    };
    expect(await left()).toMatchObject([[{ remainingRequests: 0 }], [{ spentUsd: 0.0002, remainingUsd: 0 }]]);
    await db.query(
      "update ai.budgets set starts_at = null, period_start = period_start - interval '1 month', reserved_usd = 0 where subject_id = $1",
      [tenant.keyId],
    );
    await db.query(
      "update ai.rate_windows set window_start = window_start - interval '1 minute' where subject_id = $1",
      [tenant.keyId],
    );
    expect(await left()).toMatchObject([[{ remainingRequests: 1 }], [{ spentUsd: 0, remainingUsd: 0.0001 }]]);
  });

  test("the description of a key bound to an app includes the app's budget, but not the workspace's balance", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const app = await bindKey(db, tenant);
    await addBudget(db, tenant, { scope: "app", subject: app.id, limit: "1" });
    await settle(db, [outcome(await begin(db, chatCall(tenant)))]);
    expect(await describeCredential(db, chatCall(tenant))).toMatchObject({
      source: "key",
      app: { id: app.id, name: app.name },
      exempt: true,
      budgets: [{ scope: "app", spentUsd: 0.00000615 }],
      spent: { requests: 1, costUsd: 0.00000615, billedCredits: 0, unmeteredCredits: 0.0615 },
      credits: null,
    });
  });

  test("the description of an app's token names the user, and counts only what that user spent through the app", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100", plan: { requestsPerMinute: 5 } });
    const [one, other] = [await appTokenCall(db, tenant), await appTokenCall(db, tenant)];
    await settle(db, [outcome(await begin(db, one.callOf())), outcome(await begin(db, other.callOf()))]);
    expect(await describeCredential(db, one.callOf())).toMatchObject({
      source: "app_token",
      userId: one.claims.sub,
      key: null,
      app: { id: one.app.id },
      scopes: ["ai:use", "tts:use", "workspace:session"],
      expiresAt: expect.stringMatching(moment),
      exempt: true,
      limits: [{ scope: "workspace", requestsPerMinute: 5, remainingRequests: 3 }],
      budgets: [],
      spent: { requests: 1 },
      credits: null,
    });
  });

  test("describes a person's session with the balance that they pay from", async ({ db }) => {
    const tenant = await createTenant(db, { payer: "member", credits: "1", initialCredits: "7" });
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    expect(await describeCredential(db, sessionCall(tenant, claims))).toMatchObject({
      source: "session",
      userId: claims.sub,
      key: null,
      app: null,
      scopes: null,
      exempt: false,
      limits: [],
      budgets: [],
      spent: { requests: 0, costUsd: 0 },
      credits: { payer: "member", remaining: 7 },
    });
    // Someone other than the owner may hold the owner's key, so the balance is hidden.
    expect(await describeCredential(db, chatCall(tenant))).toMatchObject({ credits: null });
  });

  test("describes a credential without provider cost if the workspace hides it", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { monthlyBudgetUsd: "1" } });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    await settle(db, [outcome(await begin(db, chatCall(tenant)))]);
    expect(await describeCredential(db, chatCall(tenant))).toMatchObject({
      budgets: [{ limitUsd: 1, spentUsd: null, reservedUsd: null, remainingUsd: null }],
      spent: { requests: 1, costUsd: null, billedCredits: 0.0615 },
    });
  });

  test("describes a credential without the spend of other keys, people or workspaces", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    const other = await addKey(db, tenant);
    await settle(db, [
      outcome(await begin(db, chatCall({ ...tenant, keyHash: other.hash }))),
      outcome(await begin(db, sessionCall(tenant, claims))),
    ]);
    expect(await describeCredential(db, chatCall(tenant))).toMatchObject({ spent: { requests: 0 } });
  });

  test("a credential's monthly spend consists of summarized days, days changed since then, and today", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const spent = async () => (await describeCredential(db, chatCall(tenant))).spent;
    const counted = async () =>
      one(db, {
        sql: `select count(*)::int as requests, trim_scale(sum(cost_usd))::float as "costUsd",
                trim_scale(sum(billed_credits))::float as "billedCredits"
              from ai.runs where workspace_id = $1 and created_at >= date_trunc('month', now(), 'UTC')`,
        values: [tenant.workspaceId],
      });
    const days = "generate_series(date_trunc('month', now(), 'UTC') - interval '1 day', now(), interval '1 day')";
    const begun = [];
    for (const { at } of await db.query<{ at: string }>(`select d::text as at from ${days} as d`)) {
      const run = await begin(db, chatCall(tenant));
      await db.query("update ai.runs set created_at = $1 where id = $2", [at, run.run_id]);
      begun.push({ ...run, created_at: at });
    }
    await settle(
      db,
      begun.slice(0, -1).map((run) => outcome(run)),
    );
    expect(await spent()).toMatchObject(await counted());
    await rollUp(db);
    expect(await spent()).toMatchObject(await counted());
    await settle(
      db,
      begun.slice(-1).map((run) => outcome(run)),
    );
    await db.query("update ai.runs set billed_credits = billed_credits + 1 where id = $1", [begun.at(-2)?.run_id]);
    expect(await spent()).toMatchObject(await counted());
  });

  test("a call that asks for its credential's description is refused with the same errors as any other call", async ({
    db,
  }) => {
    const [tenant, other] = [await createTenant(db), await createTenant(db)];
    const refusals: [object, string][] = [
      [{ credential: { source: "key", hash: "00".repeat(32) } }, "invalid_api_key"],
      [{ workspace: other.workspaceId }, "workspace_mismatch"],
    ];
    for (const [changes, refused] of refusals) {
      expect(await describeCredential(db, chatCall(tenant, changes))).toMatchObject({ refused });
    }
    const { callOf } = await appTokenCall(db, tenant);
    expect(await describeCredential(db, callOf({ workspace: undefined }))).toEqual({
      refused: "workspace_header_required",
    });
  });
});
