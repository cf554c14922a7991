import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson, type Person } from "../../../scripts/test/apps.ts";
import { type AppTenant, createAppTenant } from "../../tests/gateway/app-tenant.ts";
import { createGatewayTenant } from "../../tests/gateway/tenant.ts";
import { createAiKey } from "../_shared/ai-key.ts";

let tenant: AppTenant;
let person: Person;
beforeAll(async () => {
  [tenant, person] = await Promise.all([createAppTenant(), createPerson()]);
});
afterAll(() => tenant.close());

const newId = () => `run-${randomUUID()}`;
const costOf = (changes: object = {}) => ({
  provider: "openai",
  externalRunId: newId(),
  amountUsd: 0.5,
  occurredAt: "2026-01-02T03:04:05Z",
  observedAt: "2026-01-02T03:04:06Z",
  ...changes,
});
const post = (body: unknown, headers: Record<string, string | undefined> = {}) =>
  tenant.send("/provider-costs", { body, headers });
const batch = (body: unknown) => tenant.send("/provider-costs/batch", { body });
/** Returns a cost as JSON with exactly these digits as its amount. */
const withAmount = (digits: string) => JSON.stringify(costOf({ amountUsd: 77 })).replace(":77,", `:${digits},`);

async function amountOf(externalRunId: string): Promise<string | undefined> {
  const [row] = await tenant.db.query<{ amount: string }>(
    "select trim_scale(amount_usd)::text as amount from ai.external_provider_costs where workspace_id = $1 and external_run_id = $2",
    [tenant.workspaceId, externalRunId],
  );
  return row?.amount;
}

/** Returns a valid cost as JSON of exactly this many bytes. */
function costOfBytes(bytes: number): string {
  const json = JSON.stringify(costOf());
  return json.replace(/}$/, `${" ".repeat(bytes - json.length)}}`);
}

describe("POST /v1/provider-costs", () => {
  test("stores a provider cost under the credential's workspace and app, without a run or a charge", async () => {
    const before = await tenant.books();
    const cost = costOf({ service: "chat", accountId: "acct-1", currency: "USD" });
    const { status, headers, body } = await post(cost, { "x-request-id": "cost-1" });
    expect([status, headers.get("x-request-id"), headers.get("cache-control")]).toEqual([
      200,
      "cost-1",
      "private, no-store",
    ]);
    expect(body).toEqual({ accepted: true, externalRunId: cost.externalRunId, outcome: "stored" });
    const rows = await tenant.db.query("select * from ai.external_provider_costs where external_run_id = $1", [
      cost.externalRunId,
    ]);
    expect(rows).toMatchObject([
      {
        workspace_id: tenant.workspaceId,
        app_id: tenant.appId,
        account_id: "acct-1",
        service: "chat",
        granularity: "run",
      },
    ]);
    expect(await tenant.books()).toEqual(before);
    const [runs] = await tenant.db.query("select count(*)::int from ai.runs where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    expect(runs).toEqual({ count: 0 });
  });

  test("applies newer cost observations, reports older ones as stale, ignores repeats, and refuses conflicting amounts", async () => {
    const cost = costOf();
    const outcome = async (changes: object) => {
      const { status, body } = await post({ ...cost, ...changes });
      return status === 200 ? body.outcome : [status, body.error.code];
    };
    expect(await outcome({})).toBe("stored");
    expect(await outcome({})).toBe("unchanged");
    expect(await outcome({ amountUsd: 0.50000000001 })).toEqual([409, "cost_conflict"]);
    expect(await outcome({ amountUsd: 0.7, observedAt: "2026-01-02T03:04:06.000001Z" })).toBe("corrected");
    expect(await outcome({ amountUsd: 0.9 })).toBe("stale");
    expect(await outcome({})).toBe("stale");
    expect(await amountOf(cost.externalRunId)).toBe("0.7");
  });

  test("a bound key imports and reads usage with workspace:session alone, but lists no models", async () => {
    const scoped = (scopes: string) =>
      tenant.db.query("update private.apps set scopes = $2 where id = $1", [tenant.appId, scopes]);
    const imports = async () => [
      await post(costOf()),
      await batch({ records: [costOf()] }),
      await tenant.send("/provider-invoices", { body: { ...invoice, reference: `INV-${randomUUID()}` } }),
      await tenant.send("/usage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z"),
    ];
    const reads = async () => [await tenant.send("/models"), await tenant.send("/key")];
    const invoice = {
      provider: "openai",
      issuedOn: "2026-01-31",
      reviewedAt: "2026-02-01T09:00:00Z",
      amountUsd: 1,
    };
    try {
      await scoped("{workspace:session}");
      expect((await imports()).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      for (const { status, body } of await reads()) {
        expect([status, body.error.code]).toEqual([403, "insufficient_scope"]);
      }
      await scoped("{ai:use,tts:use}");
      for (const { status, body } of [...(await imports()), ...(await reads())]) {
        expect([status, body.error.code]).toEqual([403, "insufficient_scope"]);
      }
    } finally {
      await scoped("{workspace:session,ai:use}");
    }
  });

  test.for([
    ["0.000000000001", "0.000000000001"],
    ["1e-12", "0.000000000001"],
    ["123.456789012345", "123.456789012345"],
    ["999999999999", "999999999999"],
    ["12.50", "12.5"],
    ["-0", "0"],
    ["0", "0"],
  ] as const)("stores the amount %s exactly", async ([digits, kept]) => {
    const json = withAmount(digits);
    const { externalRunId } = JSON.parse(json);
    expect(await post(json)).toMatchObject({ status: 200, body: { accepted: true, externalRunId, outcome: "stored" } });
    expect(await amountOf(externalRunId)).toBe(kept);
  });

  test.for([
    ["0.0000000000005", "0"],
    ["0.0000000000015", "0.000000000002"],
    ["0.0000000000025", "0.000000000002"],
    ["1e-300", "0"],
    ["0.30000000000000004", "0.3"],
    ["1234.5678901234567", "1234.567890123457"],
    ["999999999999.9999999999994", "999999999999.999999999999"],
  ] as const)("rounds the amount %s to %s and states it in the receipt", async ([digits, kept]) => {
    const json = withAmount(digits);
    const { externalRunId } = JSON.parse(json);
    const { text } = await post(json);
    expect(text).toBe(
      `{"accepted":true,"externalRunId":"${externalRunId}","outcome":"stored","roundedAmountUsd":${kept}}`,
    );
    expect(await amountOf(externalRunId)).toBe(kept);
    const again = await batch(`{"records":[${json}]}`);
    expect(again.text).toContain(`"outcome":"unchanged","roundedAmountUsd":${kept}}`);
  });

  test.for(["1e12", "999999999999.9999999999995", "-0.000000000001", "1e999999999", "1e99999999999"])(
    "refuses the amount %s",
    async (digits) => {
      const { status, body } = await post(withAmount(digits));
      expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_request", "amountUsd"]);
    },
  );

  const now = Date.now();
  const at = (seconds: number) => new Date(now + seconds * 1_000).toISOString();
  test.for([
    ["externalRunId", { externalRunId: "x".repeat(256) }, { externalRunId: "x".repeat(257) }],
    ["externalRunId", { externalRunId: "arn:aws:bedrock:eu-west-1:1234:job/ä 東京" }, { externalRunId: "a\nb" }],
    ["provider", { provider: "A-z.0_9:" }, { provider: "a/b" }],
    ["provider", { provider: "x".repeat(128) }, { provider: "x".repeat(129) }],
    ["accountId", { accountId: "a" }, { accountId: "" }],
    ["accountId", { accountId: "/subscriptions/1/resourceGroups/a b" }, { accountId: "a " }],
    ["service", { service: "a" }, { service: null }],
    ["service", { service: "Claude Sonnet (EU)" }, { service: "\u00a0a" }],
    ["amountUsd", { amountUsd: 0 }, { amountUsd: "0" }],
    ["currency", { currency: "USD" }, { currency: "EUR" }],
    ["granularity", { granularity: "run" }, { granularity: "day" }],
    ["occurredAt", { occurredAt: "2026-01-02T03:04:06Z" }, { occurredAt: "2026-01-02T03:04:06.000001Z" }],
    ["occurredAt", { occurredAt: "2024-02-29T00:00:00Z" }, { occurredAt: "2025-02-29T00:00:00Z" }],
    ["occurredAt", { occurredAt: "0001-01-01T00:00:00Z" }, { occurredAt: "0000-01-01T00:00:00Z" }],
    ["observedAt", { observedAt: at(240) }, { observedAt: at(600) }],
    ["observedAt", { observedAt: "2026-01-02T03:04:06Z" }, { observedAt: "2026-01-02T04:04:06+01:00" }],
    ["observedAt", { observedAt: "2026-01-02T03:04:06.123456Z" }, { observedAt: "2026-01-02T03:04:06.1234567Z" }],
    [
      "occurredAt",
      { granularity: "account_day", accountId: "a", occurredAt: "2026-01-02T00:00:00.000Z" },
      { granularity: "account_day", accountId: "a", occurredAt: "2026-01-02T00:00:00.000001Z" },
    ],
    [
      "occurredAt",
      { granularity: "account_day", accountId: "a", occurredAt: "2026-01-02T00:00:00Z" },
      { granularity: "account_day", accountId: "a", occurredAt: "2026-01-01T23:59:59.999999Z" },
    ],
    [
      "accountId",
      { granularity: "account_day", accountId: "a", occurredAt: "2026-01-02T00:00:00Z" },
      { granularity: "account_day", occurredAt: "2026-01-02T00:00:00Z" },
    ],
    ["workspaceId", {}, { workspaceId: randomUUID() }],
    ["appId", {}, { appId: randomUUID() }],
  ] as [string, object, object][])("cost field %s: accepts %j and refuses %j", async ([param, inside, outside]) => {
    expect((await post(costOf(inside))).status).toBe(200);
    const { status, body } = await post(costOf(outside));
    expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_request", param]);
  });

  test("accepts a cost record of 8,192 bytes and refuses one of 8,193 bytes, even if the request states no length", async () => {
    expect((await post(costOfBytes(8_192))).status).toBe(200);
    const tooLarge = await post(costOfBytes(8_193));
    expect([tooLarge.status, tooLarge.body.error.code]).toEqual([413, "payload_too_large"]);
    const undeclared = await fetch(`${tenant.client.baseURL}/provider-costs`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${tenant.key}`,
        "x-platform-workspace-id": tenant.workspaceId,
        "content-type": "application/json",
      },
      body: new Blob([costOfBytes(8_193)]).stream(),
      duplex: "half",
    } as RequestInit);
    expect(undeclared.status).toBe(413);
  });

  test("checks route, method, syntax, size, credential, binding, type, JSON and schema in this order", {
    tags: "needs-stack-server",
  }, async () => {
    const unknown = (await createAiKey()).text;
    const unbound = await createGatewayTenant();
    const bad = "x".repeat(9_000);
    const answer = async (path: string, sent: Parameters<AppTenant["send"]>[1]) => {
      const { status, body } = await tenant.send(path, sent);
      return [status, body.error.code];
    };
    expect(await answer("/provider-costs/none", { body: bad, key: "none" })).toEqual([404, "not_found"]);
    expect(await answer("/provider-costs", { method: "DELETE", key: "none" })).toEqual([405, "invalid_request"]);
    expect(await answer("/provider-costs", { body: bad, key: "none" })).toEqual([401, "invalid_api_key"]);
    expect(await answer("/provider-costs", { body: bad, key: unknown })).toEqual([413, "payload_too_large"]);
    const text = { "content-type": "text/plain" };
    expect(await answer("/provider-costs", { body: "{", key: unknown, headers: text })).toEqual([
      401,
      "invalid_api_key",
    ]);
    const nameless = { ...text, "x-platform-workspace-id": undefined };
    for (const key of [unbound.key, person.accessToken]) {
      expect(await answer("/provider-costs", { body: "{", key, headers: nameless })).toEqual([
        403,
        "credential_not_bound",
      ]);
    }
    const mismatch = { ...text, "x-platform-workspace-id": unbound.workspaceId };
    expect(await answer("/provider-costs", { body: "{", headers: mismatch })).toEqual([403, "workspace_mismatch"]);
    const nobodys = { ...text, "x-platform-workspace-id": "x" };
    expect(await answer("/provider-costs", { body: "{", headers: nobodys })).toEqual([403, "workspace_mismatch"]);
    expect(await answer("/provider-costs", { body: "{", headers: nameless })).toEqual([
      400,
      "workspace_header_required",
    ]);
    expect(await answer("/provider-costs", { body: "{", headers: text })).toEqual([415, "invalid_request"]);
    expect(await answer("/provider-costs", { body: "{" })).toEqual([400, "invalid_json"]);
    expect(await answer("/provider-costs", { body: "[]" })).toEqual([400, "invalid_request"]);
    await unbound.close();
  });

  test("refuses a key bound to an app that is no longer linked, and a revoked key", async () => {
    const own = await createAppTenant();
    await own.db.query("delete from private.app_workspaces where app_id = $1", [own.appId]);
    const unlinked = await own.send("/provider-costs", { body: costOf() });
    expect([unlinked.status, unlinked.body.error.code]).toEqual([403, "app_not_allowed"]);
    await own.db.query("update ai.keys set revoked_at = now() where id = $1", [own.keyId]);
    const revoked = await own.send("/provider-costs", { body: costOf() });
    expect([revoked.status, revoked.body.error.code]).toEqual([401, "invalid_api_key"]);
    await own.close();
  });
});

describe("POST /v1/provider-costs/batch", () => {
  test("answers each cost record of a batch independently", async () => {
    const cost = costOf();
    const records = [
      cost,
      costOf({ amountUsd: -1 }),
      { ...cost, amountUsd: 0.6 },
      { ...cost, observedAt: "2026-01-02T03:04:07Z", amountUsd: 0.6 },
      "nonsense",
    ];
    const { status, body } = await batch({ records });
    expect(status).toBe(200);
    expect(body.results).toMatchObject([
      { accepted: true, externalRunId: cost.externalRunId, outcome: "stored" },
      { accepted: false, error: { code: "invalid_request", param: "amountUsd" } },
      { accepted: false, externalRunId: cost.externalRunId, error: { code: "cost_conflict" } },
      { accepted: true, externalRunId: cost.externalRunId, outcome: "corrected" },
      { accepted: false, error: { code: "invalid_request" } },
    ]);
    expect(await amountOf(cost.externalRunId)).toBe("0.6");
  });

  test("accepts a batch of 100 cost records and refuses 101 and an empty batch", async () => {
    const records = Array.from({ length: 100 }, () => costOf());
    const full = await batch({ records });
    expect(full.status).toBe(200);
    expect(full.body.results).toHaveLength(100);
    for (const wrong of [{ records: [...records, costOf()] }, { records: [] }, { records, dry: true }, records]) {
      expect((await batch(wrong)).status).toBe(400);
    }
  });

  test("accepts a batch of 65,536 bytes and refuses 65,537", { tags: "needs-stack-server" }, async () => {
    const json = JSON.stringify({ records: [costOf()] });
    const of = (bytes: number) => json.replace(/}$/, `${" ".repeat(bytes - json.length)}}`);
    expect((await batch(of(65_536))).status).toBe(200);
    expect((await batch(of(65_537))).status).toBe(413);
  });
});
