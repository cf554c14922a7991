import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";
import { type AppTenant, createAppTenant } from "../../../tests/gateway/app-tenant.ts";
import { createHandler as createCosts } from "../../provider-costs/handler.ts";
import { createHandler as createInvoices } from "../../provider-invoices/handler.ts";
import { createHandler as createUsage } from "../../usage/handler.ts";
import { assembleGateway } from "../assemble-gateway.ts";
import type { Gateway } from "../calls/gateway.ts";
import { readEnvironment } from "../environment.ts";

let tenant: AppTenant;
let before: Gateway;
let after: Gateway;
beforeAll(async () => {
  tenant = await createAppTenant();
  // A database without any migrations and a database with all of them, in the same cluster.
  const empty = new URL(readStack().gatewayDbUrl);
  empty.pathname = "/template1";
  [before, after] = [gatewayOn(empty.href), gatewayOn(readStack().gatewayDbUrl)];
});
afterAll(() => Promise.all([before.database.close(), after.database.close(), tenant.close()]));

function gatewayOn(databaseUrl: string): Gateway {
  const { provider, providerKey, supabase } = readStack();
  const environment = readEnvironment({
    GATEWAY_DB_URL: databaseUrl,
    SUPABASE_URL: supabase.url,
    SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
    AI_PROVIDER_DEMO_KIND: "openai",
    AI_PROVIDER_DEMO_BASE_URL: `${provider}/v1`,
    AI_PROVIDER_DEMO_API_KEY: providerKey,
  });
  return assembleGateway(environment, { waitUntil() {}, report() {}, write() {} });
}

async function answerOf(create: (gateway: Gateway) => (request: Request) => Promise<Response>, asked: Asked) {
  const request = (gateway: Gateway) =>
    create(gateway)(
      new Request(`http://gateway.test${asked.path}`, {
        method: asked.body ? "POST" : "GET",
        headers: {
          authorization: `Bearer ${tenant.key}`,
          "x-platform-workspace-id": tenant.workspaceId,
          "x-request-id": "rollout-1",
          ...(asked.body ? { "content-type": "application/json" } : {}),
        },
        ...(asked.body ? { body: JSON.stringify(asked.body) } : {}),
      }),
    );
  const [early, late] = [await request(before), await request(after)];
  return {
    early: { status: early.status, body: await early.json() },
    late: { status: late.status, body: await late.json() },
  };
}
type Asked = { path: string; body?: object };

const cost = () => ({
  provider: "openai",
  externalRunId: `run-${randomUUID()}`,
  amountUsd: 0.5,
  occurredAt: "2026-01-02T03:04:05Z",
  observedAt: "2026-01-02T03:04:06Z",
});
const unavailable = {
  status: 503,
  // The body contains only the error, without a partial result or total.
  body: { error: expect.objectContaining({ code: "service_unavailable", request_id: "rollout-1" }) },
};

describe("Before the migrations are applied", () => {
  test("refuses a cost with 503 before the migrations, and stores the cost when the client retries after the migrations", async () => {
    const { early, late } = await answerOf(createCosts, { path: "/provider-costs", body: cost() });
    expect(early).toEqual(unavailable);
    expect(late).toMatchObject({ status: 200, body: { accepted: true, outcome: "stored" } });
  });

  test("refuses a batch of costs with 503 before the migrations, and stores all its records after them", async () => {
    const body = { records: [cost(), cost()] };
    const { early, late } = await answerOf(createCosts, { path: "/provider-costs/batch", body });
    expect(early).toEqual(unavailable);
    expect(late).toMatchObject({ status: 200, body: { results: [{ outcome: "stored" }, { outcome: "stored" }] } });
  });

  test("refuses an invoice with 503 before the migrations, and stores it after them", async () => {
    const body = {
      provider: "openai",
      reference: `INV-${randomUUID()}`,
      issuedOn: "2026-01-31",
      reviewedAt: "2026-02-01T09:00:00Z",
      amountUsd: 12.5,
    };
    const { early, late } = await answerOf(createInvoices, { path: "/provider-invoices", body });
    expect(early).toEqual(unavailable);
    expect(late).toEqual({ status: 200, body: { accepted: true, reference: body.reference } });
  });

  test("refuses the usage report with 503 before the migrations, and never returns a partial total", async () => {
    const { early, late } = await answerOf(createUsage, { path: "/usage" });
    expect(early).toEqual(unavailable);
    expect(late).toMatchObject({ status: 200, body: { currency: "USD", rows: [] } });
  });

  test("refuses even an invalid body with 503 before the migrations, because the caller can't be checked", async () => {
    const { early, late } = await answerOf(createCosts, { path: "/provider-costs", body: { records: [] } });
    expect(early).toEqual(unavailable);
    expect(late.status).toBe(400);
  });
});
