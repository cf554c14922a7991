import { randomUUID } from "node:crypto";
import { createServer } from "node:net";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

/** Returns an address that refuses connections. */
async function closedAddress(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}/v1`;
}

type Fault = { settings: Record<string, string>; model: string; code: string; status: number; tries: number };
const faults: [string, () => Promise<Fault>][] = [
  [
    "does not answer in time",
    async () => ({
      settings: { AI_TOTAL_LIMIT_SECONDS: "1" },
      model: "demo-hang",
      ...{ code: "provider_timeout", status: 504, tries: 1 },
    }),
  ],
  [
    "refuses the connection",
    async () => ({
      settings: { AI_PROVIDER_DEMO_BASE_URL: await closedAddress() },
      model: "demo-chat",
      ...{ code: "provider_error", status: 502, tries: 0 },
    }),
  ],
  ["fails", async () => ({ settings: {}, model: "demo-error-500", code: "provider_error", status: 502, tries: 1 })],
  [
    "refuses a call with 429",
    async () => ({ settings: {}, model: "demo-error-429", code: "rate_limit_exceeded", status: 429, tries: 1 }),
  ],
];

describe.for([false, true])("a provider called with stream: %s", (stream) => {
  test.for(faults)(
    "if a provider %s, the call's run fails, leaves nothing reserved and is never charged twice",
    async ([, faultOf]) => {
      const { settings, model, code, status, tries } = await faultOf();
      const gateway = await openGateway(settings);
      const client = gateway.clientOf(tenant.key);
      const headers = { "x-request-id": randomUUID(), "idempotency-key": randomUUID() };
      const call = () =>
        client.chat.completions.create({ model, stream, messages: [{ role: "user", content: "hello" }] }, { headers });
      const refusal = await call().then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(refusal).toBeInstanceOf(OpenAI.APIError);
      expect(refusal).toMatchObject({ status, code, requestID: headers["x-request-id"] });
      await gateway.settled();

      const { run, charged, truth } = await tenant.accountOf(headers["x-request-id"]);
      expect(run).toMatchObject({ status: "failed", http_status: status, error_code: code });
      expect([charged, truth.length]).toEqual([run.billed_credits, tries]);
      expect((await tenant.books()).reserved).toBe("0.00000000");
      // A retry with the same idempotency key calls the provider again only if the first call certainly cost nothing.
      const again = await call().catch((error) => error.code);
      const mayHaveCharged =
        (refusal as InstanceType<typeof OpenAI.APIError>).headers?.get("x-should-retry") === "false";
      expect(again).toBe(mayHaveCharged ? "idempotency_key_used" : code);
      await gateway.close();
    },
  );
});

test("the books balance after all provider faults", async () => {
  const { balance, ledger, runs, granted, reserved } = await tenant.books();
  const [row] = await tenant.db.query<{ left: string }>("select ($1::numeric - $2::numeric)::text as left", [
    granted,
    runs,
  ]);
  expect([reserved, balance, balance]).toEqual(["0.00000000", ledger, row?.left]);
});
