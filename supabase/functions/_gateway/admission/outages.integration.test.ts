import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { abandon } from "../../../tests/gateway/fixtures.ts";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { createMember } from "../../../tests/gateway/tenant-callers.ts";
import { providerCalls } from "../../../tests/gateway/truth.ts";

let tenant: GatewayTenant;
let gateway: InProcessGateway;
let client: OpenAI;
beforeAll(async () => {
  tenant = await createGatewayTenant();
  gateway = await openGateway();
  client = gateway.clientOf(tenant.key);
});
beforeEach(async () => {
  gateway.line.mend();
  await gateway.settled();
});
afterAll(async () => {
  await gateway.close();
  await expectBooksAgree();
  await tenant.close();
});

const chat = (content = "hello", more: object = {}): OpenAI.ChatCompletionCreateParamsNonStreaming => ({
  model: "demo-chat",
  messages: [{ role: "user", content }],
  ...more,
});

/** Expects that nothing is reserved and that all charges equal the cost of the runs. */
async function expectBooksAgree(): Promise<void> {
  const { balance, ledger, runs, granted, reserved } = await tenant.books();
  expect([reserved, balance]).toEqual(["0.00000000", ledger]);
  const [row] = await tenant.db.query<{ left: string }>("select ($1::numeric - $2::numeric)::text as left", [
    granted,
    runs,
  ]);
  expect(balance).toBe(row?.left);
}

/** Simulates 45 seconds without a heartbeat, and runs the sweeper. */
async function sweep(requestId: string): Promise<void> {
  const sql = `select created_at::text, id as run_id from ai.runs
    where workspace_id = $1 and request_id = $2 and status = 'running'`;
  await expect
    .poll(async () => {
      await abandon(tenant.db, await tenant.db.query(sql, [tenant.workspaceId, requestId]));
      await tenant.db.query("select ai.sweep_runs()");
      return tenant.db.query(sql, [tenant.workspaceId, requestId]);
    })
    .toEqual([]);
}

describe("an outage of Postgres", () => {
  test("an outage of Postgres before a call begins is answered with 503 in OpenAI's format, without a run", async () => {
    const requestId = randomUUID();
    gateway.line.cut();
    for (const stream of [false, true]) {
      const call = client.chat.completions.create({ ...chat(), stream }, { headers: { "x-request-id": requestId } });
      await expect(call).rejects.toBeInstanceOf(OpenAI.InternalServerError);
      await expect(call).rejects.toMatchObject({ status: 503, code: "service_unavailable", requestID: requestId });
    }
    gateway.line.mend();
    expect((await client.chat.completions.create(chat())).choices).toHaveLength(1);
    expect(await tenant.db.query("select id from ai.runs where request_id = $1", [requestId])).toEqual([]);
  });

  test("an outage while a call is being admitted causes a 503, and the reservation and idempotency key are released afterwards", async () => {
    const headers = { "x-request-id": randomUUID(), "idempotency-key": randomUUID() };
    gateway.line.cutAt("begin_runs", "before its answer");
    await expect(client.chat.completions.create(chat(), { headers })).rejects.toMatchObject({ status: 503 });
    expect((await tenant.books()).reserved).not.toBe("0.00000000");
    gateway.line.mend();
    await gateway.settled();
    expect((await tenant.books()).reserved).toBe("0.00000000");
    const { run, charged } = await tenant.accountOf(headers["x-request-id"]);
    expect(run).toMatchObject({ status: "failed", usage_source: "unavailable", error_code: "service_unavailable" });
    expect([charged, await providerCalls(tenant, headers["x-request-id"])]).toEqual(["0.00000000", 0]);
    const again = { ...headers, "x-request-id": randomUUID() };
    expect((await client.chat.completions.create(chat(), { headers: again })).choices).toHaveLength(1);
    expect(await providerCalls(tenant, again["x-request-id"])).toBe(1);
  });

  test("a call whose rows are locked is served once they are free, and begins one run", async () => {
    const headers = { "x-request-id": randomUUID(), "idempotency-key": randomUUID() };
    await client.chat.completions.create(chat());
    await gateway.settled();
    await tenant.db.query("update ai.keys set last_used_at = null where workspace_id = $1", [tenant.workspaceId]);
    const hold = (table: string, seconds: number) =>
      tenant.db.query(
        `do $$ begin
           perform from ai.${table} where workspace_id = '${tenant.workspaceId}' for update;
           perform pg_sleep(${seconds});
         end $$`,
      );
    const holders = [hold("keys", 0.4), hold("credit_accounts", 0.8)];
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await client.chat.completions.create(chat(), { headers })).choices).toHaveLength(1);
    await Promise.all(holders);
    await gateway.settled();
    expect((await tenant.books()).reserved).toBe("0.00000000");
    const sql = "select status from ai.runs where request_id = $1";
    expect(await tenant.db.query(sql, [headers["x-request-id"]])).toEqual([{ status: "succeeded" }]);
  });

  test.for([false, true])(
    "an outage between a run's start and its settlement doesn't affect the answer, and the run is settled later (streamed: %s)",
    async (streamed) => {
      const requestId = randomUUID();
      const headers = { "x-request-id": requestId };
      const content = "[[words=6]]";
      gateway.line.cutAt("begin_runs", "after its answer");
      let words = 0;
      if (streamed) {
        const stream = await client.chat.completions.create({ ...chat(content), stream: true }, { headers });
        for await (const chunk of stream) words += chunk.choices[0]?.delta.content ? 1 : 0;
      } else {
        const whole = await client.chat.completions.create(chat(content), { headers });
        words = whole.choices[0]?.message.content?.split(" ").length ?? 0;
      }
      expect(words).toBe(6);
      gateway.line.mend();
      await gateway.settled();
      const { run, charged, truth } = await tenant.accountOf(requestId);
      expect(run).toMatchObject({ status: "succeeded", usage_source: "provider", swept: false });
      expect([charged, truth.length]).toEqual([run.billed_credits, 1]);
    },
  );

  test("after an outage that lasts until the sweeper has closed the run, the real charge is made only once", async () => {
    const requestId = randomUUID();
    gateway.line.cutAt("begin_runs", "after its answer");
    await client.chat.completions.create(chat("[[words=3]]"), { headers: { "x-request-id": requestId } });
    await sweep(requestId);
    expect((await tenant.accountOf(requestId)).run).toMatchObject({ swept: true, usage_source: "unavailable" });
    gateway.line.mend();
    await gateway.settled();
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider", swept: false });
    expect(charged).toBe(run.billed_credits);
    expect(Number(charged)).toBeGreaterThan(0);
  });

  test("an outage before a settlement is confirmed causes one retry and only one charge", async () => {
    const requestId = randomUUID();
    gateway.line.cutAt("settle_runs", "before its answer");
    await client.chat.completions.create(chat("[[words=3]]"), { headers: { "x-request-id": requestId } });
    const { run } = await tenant.accountOf(requestId);
    gateway.line.mend();
    await gateway.settled();
    expect(gateway.line.calls().slice(-2)).toEqual(["settle_runs", "settle_runs"]);
    const entries = await tenant.db.query(
      "select l.amount from ai.credit_ledger l join ai.runs r on r.id = l.run_id where r.request_id = $1",
      [requestId],
    );
    expect(entries).toEqual([{ amount: `-${run.billed_credits}` }]);
  });
});

test("while the identity backend is unavailable, sessions get 503 and keys keep working", async () => {
  const { accessToken } = await createMember(tenant);
  const alone = await openGateway({ SUPABASE_URL: "http://127.0.0.1:9" });
  const workspace = { "X-Platform-Workspace-Id": tenant.workspaceId };
  const session = alone.clientOf(accessToken, workspace);
  await expect(session.chat.completions.create(chat())).rejects.toMatchObject({ status: 401 });
  const issued = JSON.parse(Buffer.from(accessToken.split(".")[1] ?? "", "base64url").toString());
  const claims = Buffer.from(JSON.stringify({ ...issued, iss: "http://127.0.0.1:9/auth/v1" })).toString("base64url");
  const asThere = accessToken.replace(/\.[^.]+\./, `.${claims}.`);
  await expect(alone.clientOf(asThere, workspace).chat.completions.create(chat())).rejects.toMatchObject({
    status: 503,
    code: "AUTH_UNAVAILABLE",
  });
  expect((await alone.clientOf(tenant.key).chat.completions.create(chat())).choices).toHaveLength(1);
  await alone.close();
});
