import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer, createApp, createPerson, handOver, type Person, send } from "../../../scripts/test/apps.ts";
import { join } from "../../../supabase/tests/database.ts";
import { type AppTenant, createAppTenant } from "../../../supabase/tests/gateway/app-tenant.ts";

let tenant: AppTenant;
let member: Person;
let stranger: Person;
beforeAll(async () => {
  [tenant, member, stranger] = await Promise.all([createAppTenant(), createPerson(), createPerson()]);
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: member.id, role: "member" });
});
afterAll(() => tenant.close());

type Body = Record<string, never> & {
  code: string;
  nextCursor: string | null;
  totals: Record<string, unknown>;
  records: Record<string, unknown>[];
  rows: Record<string, unknown>[];
};
async function read(path: string, token = member.accessToken, workspaceId = tenant.workspaceId) {
  const { status, body } = await send(`/api/v1/workspaces/${workspaceId}/ai${path}`, {
    method: "GET",
    headers: bearer(token),
  });
  return { status, body: body as Body };
}

const day = "2026-01-31";
const costOf = (changes: object) => ({
  provider: "openai",
  externalRunId: `run-${randomUUID()}`,
  accountId: "acct-1",
  amountUsd: 1,
  occurredAt: `${day}T10:00:00Z`,
  observedAt: "2026-02-02T00:00:00Z",
  ...changes,
});

async function importAll(records: object[]): Promise<void> {
  const { body } = await tenant.send("/provider-costs/batch", { body: { records } });
  const outcomes = (body.results as { outcome: string }[]).map(({ outcome }) => outcome);
  expect(outcomes).toEqual(records.map(() => "stored"));
}

describe("a workspace's view of its imports", () => {
  const range = "?from=2026-01-01&to=2026-03-01";

  test("an account's imported daily cost replaces all of that day's runs in the totals, and the runs remain stored", async () => {
    await importAll([
      costOf({ externalRunId: "before", occurredAt: "2026-01-30T23:59:59.999999Z", amountUsd: 0.1 }),
      costOf({ externalRunId: "first", occurredAt: "2026-01-31T00:00:00Z", amountUsd: 10 }),
      costOf({ externalRunId: "last", occurredAt: "2026-01-31T23:59:59.999999Z", amountUsd: 20 }),
      costOf({ externalRunId: "after", occurredAt: "2026-02-01T00:00:00Z", amountUsd: 0.2 }),
      costOf({ externalRunId: "other-account", accountId: "acct-2", amountUsd: 0.3 }),
      costOf({ externalRunId: "no-account", accountId: undefined, amountUsd: 0.4 }),
      costOf({ externalRunId: "other-provider", provider: "other", amountUsd: 0.5 }),
    ]);
    const { body: before } = await read(`/provider-costs${range}`);
    expect(before.totals).toMatchObject({ amountUsd: 31.5, records: 7, replacedRecords: 0 });
    await importAll([
      costOf({
        externalRunId: "acct-1:2026-01-31",
        granularity: "account_day",
        occurredAt: `${day}T00:00:00Z`,
        amountUsd: 29.123456789012,
      }),
    ]);
    const { status, body } = await read(`/provider-costs${range}`);
    expect(status).toBe(200);
    expect(body.totals).toEqual({ amountUsd: 30.623456789012, records: 8, replacedRecords: 2, replacedUsd: 30 });
    expect(body.records.filter(({ counted }) => !counted).map(({ externalRunId }) => externalRunId)).toEqual([
      "last",
      "first",
    ]);
    expect(body.records[0]).toMatchObject({
      externalRunId: "after",
      appId: tenant.appId,
      granularity: "run",
      revision: 1,
    });
    // An imported day replaces the runs of that day, even in a range that covers only part of the day.
    const parts = await Promise.all(
      ["?from=2026-01-01&to=2026-01-31T12:00:00Z", "?from=2026-01-31T12:00:00Z&to=2026-03-01"].map((part) =>
        read(`/provider-costs${part}`),
      ),
    );
    expect(parts.map(({ body: part }) => part.totals.amountUsd)).toEqual([30.423456789012, 0.2]);
  });

  test("pages of imports contain each record once, and each page has the totals of all records", async () => {
    const seen: unknown[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const { body } = await read(`/provider-costs${range}&limit=3${cursor && `&cursor=${cursor}`}`);
      expect(body.totals.records).toBe(8);
      expect(body.records.length).toBeLessThanOrEqual(3);
      seen.push(...body.records.map(({ id }) => id));
      cursor = body.nextCursor;
    }
    expect(new Set(seen).size).toBe(8);
    expect(seen).toHaveLength(8);
  });

  test("invoices that members enter for linked apps are stored once and paginated", async () => {
    const path = `/api/v1/workspaces/${tenant.workspaceId}/ai/provider-invoices`;
    const invoice = {
      appId: tenant.appId,
      provider: "openai",
      reference: "INV-7",
      issuedOn: "2026-02-03",
      reviewedAt: "2026-02-04T00:00:00Z",
      accountId: "acct-1",
      periodStart: "2026-01-01",
      amountUsd: 31.000000000001,
    };
    const post = async (body: unknown, token = member.accessToken) => {
      const answer = await send(path, { body, headers: bearer(token) });
      return { status: answer.status, body: answer.body as Body };
    };
    expect(await post(invoice)).toEqual({ status: 200, body: { accepted: true, reference: "INV-7" } });
    expect((await post(invoice)).status).toBe(200);
    expect(await post({ ...invoice, amountUsd: 31 })).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    for (const wrong of [
      { appId: randomUUID() },
      { note: "" },
      { amountUsd: "31" },
      { reviewedAt: "2126-01-01T00:00:00Z" },
    ]) {
      expect(await post({ ...invoice, reference: "INV-8", ...wrong })).toMatchObject({ status: 400 });
    }
    expect((await post(invoice, stranger.accessToken)).status).toBe(404);
    await tenant.send("/provider-invoices", {
      body: {
        ...invoice,
        appId: undefined,
        reference: "INV-9",
        issuedOn: "2026-02-04",
        reviewedAt: "2026-02-05T00:00:00Z",
      },
    });
    const first = await read("/provider-invoices?limit=1");
    expect(first.body).toMatchObject({
      records: [{ reference: "INV-9" }],
      totals: { records: 2, amountUsd: 62.000000000002 },
    });
    const second = await read(`/provider-invoices?limit=1&cursor=${first.body.nextCursor}`);
    expect(second.body).toMatchObject({ records: [{ reference: "INV-7" }], nextCursor: null });
  });

  test("reconciliation shows metered, imported and invoiced amounts by month, provider and account", async () => {
    const { status, body } = await read(`/reconciliation${range}`);
    expect(status).toBe(200);
    expect(body.records).toMatchObject([
      { month: "2026-02", provider: "openai", meteredUsd: 0, importedUsd: 0.2, invoicedUsd: 0 },
      {
        month: "2026-01",
        provider: "openai",
        meteredUsd: 0,
        importedUsd: 29.923456789012,
        invoicedUsd: 62.000000000002,
        invoicedDifferenceUsd: 32.07654321099,
        accounts: [
          { accountId: null, importedUsd: 0.4 },
          { accountId: "acct-1", importedUsd: 29.223456789012, invoicedUsd: 62.000000000002 },
          { accountId: "acct-2", importedUsd: 0.3 },
        ],
      },
      { month: "2026-01", provider: "other", importedUsd: 0.5 },
    ]);
    const first = await read(`/reconciliation${range}&limit=2`);
    const rest = await read(`/reconciliation${range}&limit=2&cursor=${first.body.nextCursor}`);
    expect([...first.body.records, ...rest.body.records]).toEqual(body.records);
  });

  test("the cost, reconciliation, usage and credits routes return 400 for invalid ranges, limits and cursors", async () => {
    for (const query of [
      "?from=x",
      "?from=2026-01-02&to=2026-01-01",
      "?from=2024-01-01&to=2026-01-01",
      "?limit=101",
      "?cursor=x",
    ]) {
      for (const path of ["/provider-costs", "/reconciliation", "/usage", "/credits"]) {
        const { status, body } = await read(`${path}${query}`);
        expect([path, query, status, body.code]).toEqual([path, query, 400, "INVALID_REQUEST"]);
      }
    }
  });
});

describe("access to imports", () => {
  const paths = ["/provider-costs", "/provider-invoices", "/reconciliation"];
  const membersOnly = ["/usage", "/credits"];

  test("access to imports is granted to a member and refused to a stranger", async () => {
    for (const path of [...paths, ...membersOnly]) {
      expect((await read(path)).status).toBe(200);
      expect((await read(path, stranger.accessToken)).status).toBe(404);
      expect((await read(path, "none")).status).toBe(401);
    }
  });

  test("a satellite's session with studio:read can read imports, and gets 401 on routes that do not accept app sessions", async () => {
    const [reading, other] = await Promise.all([
      createApp({ scopes: ["studio:read"] }),
      createApp({ scopes: ["workspaces:read"] }),
    ]);
    const token = (await handOver(member, reading)).centralSession.token;
    const foreign = (await handOver(stranger, reading)).centralSession.token;
    const narrow = (await handOver(member, other)).centralSession.token;
    for (const path of paths) {
      const ranged = `${path}?from=2026-01-01&to=2026-03-01`;
      expect((await read(ranged, token)).body).toEqual((await read(ranged)).body);
      expect((await read(path, foreign)).status).toBe(404);
      expect((await read(path, narrow)).status).toBe(403);
      for (const id of [randomUUID(), "x"]) expect((await read(path, token, id)).status).toBe(404);
      expect((await read(path, narrow, "x")).status).toBe(403);
    }
    for (const path of membersOnly) expect((await read(path, token)).status).toBe(401);
    const posted = await send(`/api/v1/workspaces/${tenant.workspaceId}/ai/provider-invoices`, {
      body: {},
      headers: bearer(token),
    });
    expect(posted.status).toBe(401);
  });

  test("access to imports is refused for a member whose role lacks use_ai_studio", async () => {
    const { db, workspaceId } = tenant;
    const guest = await createPerson();
    await join(db, { workspaceId, userId: guest.id, role: "viewer" });
    for (const path of [...paths, ...membersOnly]) expect((await read(path, guest.accessToken)).status).toBe(403);
  });
});

describe("usage and credits", () => {
  test("usage and credits count each run and each refund exactly once", async () => {
    const own = await createAppTenant();
    const { db, workspaceId } = own;
    await db.query("update ai.keys set external_app_id = null where id = $1", [own.keyId]);
    await join(db, { workspaceId, userId: member.id, role: "member" });
    await own.client.chat.completions.create(
      { model: "demo-chat", messages: [{ role: "user", content: "hello" }] },
      { headers: { "x-request-id": "credits-1" } },
    );
    const { run } = await own.accountOf("credits-1");
    await db.query(
      `insert into ai.credit_ledger (account_id, kind, amount, balance_after)
       select id, 'refund', -2.5, balance - 2.5 from ai.credit_accounts where workspace_id = $1`,
      [workspaceId],
    );
    const billed = Number(run.billed_credits);
    const usage = await read("/usage", member.accessToken, workspaceId);
    expect(usage.body).toMatchObject({
      currency: "USD",
      totals: { requests: 1, billedCredits: billed, otherDeductions: 2.5, amountUsd: Number(run.cost_usd) },
      rows: [{ model: "demo-chat", feature: "chat", executionMode: "background", requests: 1, keyId: null }],
      nextCursor: null,
    });
    expect(usage.body.totals.usedCredits).toBeCloseTo(billed + 2.5, 8);
    const byKey = await read("/usage?groupBy=key,app,provider", member.accessToken, workspaceId);
    expect(byKey.body.rows).toMatchObject([
      { keyId: own.keyId, keyName: "test", appId: null, provider: "demo", day: null },
    ]);
    const credits = await read("/credits?limit=2", member.accessToken, workspaceId);
    expect(credits.body).toMatchObject({
      payer: "workspace",
      accounts: [{ payer: "workspace", reserved: 0 }],
      totals: { runCredits: billed, otherDeductions: 2.5, addedCredits: 1_000_000 },
      entries: [
        { kind: "refund", amount: -2.5 },
        { kind: "usage", amount: -billed },
      ],
    });
    const rest = await read(`/credits?limit=2&cursor=${credits.body.nextCursor}`, member.accessToken, workspaceId);
    expect(rest.body).toMatchObject({ entries: [{ kind: "grant", amount: 1_000_000 }], nextCursor: null });
    await own.close();
  });
});
