import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";
import { type StartedStack, startStack } from "../../../../scripts/test/start-stack.ts";
import { abandon } from "../../../tests/gateway/fixtures.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let stack: StartedStack;
let tenant: GatewayTenant;
beforeAll(async () => {
  stack = await startStack({}, { durable: true });
  process.env.GATEHOUSE_STACK = stack.file;
  tenant = await createGatewayTenant();
});
afterAll(async () => {
  await tenant?.close();
  await stack?.stop();
});

const newId = () => `fault-${randomUUID()}`;
const recovery = { timeout: 40_000, interval: 250 };

/** Kills a service of the stack to simulate a crash. The stack restarts it. */
function crash(name: string): void {
  const service = readStack().services.find((each) => each.name === name);
  if (!service) throw new Error(`no service ${name}`);
  process.kill(service.pid, "SIGKILL");
}

/** Starts a stream with the given number of words, 50 ms apart, and reads its first events. */
async function startStream(requestId: string, words: number, headers: Record<string, string> = {}) {
  const stream = await tenant.client.chat.completions.create(
    { model: "demo-chat", stream: true, messages: [{ role: "user", content: `[[words=${words} pace=50]]` }] },
    { headers: { ...headers, "x-request-id": requestId } },
  );
  const events = stream[Symbol.asyncIterator]();
  for (let n = 0; n < 3; n++) await events.next();
  return {
    async rest(): Promise<number> {
      let count = 0;
      while (!(await events.next()).done) count += 1;
      return count;
    },
  };
}

const hello = { model: "demo-chat", messages: [{ role: "user" as const, content: "hello" }] };
const statusOfCall = () =>
  tenant.client.chat.completions.create(hello).then(
    () => 200,
    (error: unknown) => (error instanceof OpenAI.APIError ? error.status : error),
  );

async function expectBooksAgree(): Promise<void> {
  await expect.poll(async () => (await tenant.books()).reserved, recovery).toBe("0.00000000");
  const { balance, ledger } = await tenant.books();
  expect(balance).toBe(ledger);
}

describe("crashes while a call is streamed", () => {
  test("if the functions crash, a running stream breaks off, and the web server's sweep closes the stream's run only once", async () => {
    const requestId = newId();
    const key = { "idempotency-key": newId() };
    const stream = await startStream(requestId, 400, key);
    crash("functions");
    await expect(stream.rest()).rejects.toThrow();

    // Simulates 45 seconds without a heartbeat. The web server then ends the run, even if nothing calls the gateway.
    const ofRequest = "select created_at::text, id as run_id from ai.runs where workspace_id = $1 and request_id = $2";
    await abandon(tenant.db, await tenant.db.query(ofRequest, [tenant.workspaceId, requestId]));
    const ended = "select id from ai.runs where request_id = $1 and status <> 'running'";
    await expect.poll(() => tenant.db.query(ended, [requestId]), recovery).toHaveLength(1);
    const { run, charged, truth } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "failed", usage_source: "unavailable", error_code: "abandoned", swept: true });
    expect([charged, truth.length, truth[0]?.aborted]).toEqual(["0.00000000", 1, true]);
    await expectBooksAgree();

    // A retry with the same idempotency key is refused, so it costs nothing.
    await expect.poll(statusOfCall, recovery).toBe(200);
    await expect(startStream(requestId, 400, key)).rejects.toMatchObject({ status: 409, code: "idempotency_key_used" });
    expect((await tenant.accountOf(requestId)).truth).toHaveLength(1);
  });

  test("a running stream completes despite a crash of Postgres, and its run is settled when Postgres is back", async () => {
    // The functions may still be restarting after the crash in the test above.
    await expect.poll(statusOfCall, recovery).toBe(200);
    const requestId = newId();
    const stream = await startStream(requestId, 40);
    crash("postgres");
    const statuses = [await statusOfCall(), await stream.rest()];
    expect([200, 503]).toContain(statuses[0]);
    expect(statuses[1]).toBeGreaterThan(30);

    await expect.poll(statusOfCall, recovery).toBe(200);
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider" });
    expect(charged).toBe(run.billed_credits);
    await expectBooksAgree();
  });
});
