import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openGateway } from "../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { expectTruth, leaveOnceAsked } from "../../tests/gateway/truth.ts";
import { add, formatDecimal, parseDecimal } from "../_shared/decimal.ts";

type Platform = {
  run_id: string;
  steps: { step: number; type: string; name: string; status: string; latency_ms: number }[];
  billed_credits: number;
  provider_cost_usd: number;
  usage_source: string;
};
type Streamed = OpenAI.ChatCompletionChunk & { platform?: Platform };

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const newId = () => `it-${randomUUID()}`;
const chatOf = (model: string, prompt = "hello there"): OpenAI.ChatCompletionCreateParamsNonStreaming => ({
  model,
  messages: [{ role: "user", content: prompt }],
});

async function collect(requestId: string, body: OpenAI.ChatCompletionCreateParamsNonStreaming, includeUsage = false) {
  const stream = await tenant.client.chat.completions.create(
    { ...body, stream: true, ...(includeUsage ? { stream_options: { include_usage: true } } : {}) },
    { headers: { "x-request-id": requestId } },
  );
  const chunks: Streamed[] = [];
  let failure: unknown;
  try {
    for await (const chunk of stream) chunks.push(chunk);
  } catch (error) {
    failure = error;
  }
  const text = chunks.map(({ choices }) => choices[0]?.delta?.content ?? "").join("");
  return { chunks, failure, text, platform: chunks.at(-1)?.platform };
}

describe("a non-streamed chat", () => {
  test.for(["demo-chat", "demo-cached", "demo-reasoning", "demo-length"])(
    "charges a non-streamed chat exactly, to the last digit: %s",
    async (model) => {
      const requestId = newId();
      const answer = await tenant.client.chat.completions.create(chatOf(model), {
        headers: { "x-request-id": requestId },
      });
      expect(answer._request_id).toBe(requestId);
      expect(answer.choices[0]?.message.content).toContain("demo");
      const account = await tenant.accountOf(requestId);
      expect(account.run).toMatchObject({
        status: "succeeded",
        usage_source: "provider",
        http_status: 200,
        streamed: false,
      });
      expectTruth(account);
      const { platform } = answer as unknown as { platform: Platform };
      expect(platform.steps).toEqual([
        { step: 1, type: "model", name: model, status: "succeeded", latency_ms: expect.any(Number) },
      ]);
      expect(platform.billed_credits).toBe(Number(account.run.billed_credits));
      expect(platform.provider_cost_usd).toBe(Number(account.run.cost_usd));
      expect(account.steps).toEqual([{ step: 1, type: "model", name: model, status: "succeeded" }]);
    },
  );

  test("if a provider states no usage for a non-streamed chat, charges more than zero and at most the reservation", async () => {
    const requestId = newId();
    await tenant.client.chat.completions.create(chatOf("demo-no-usage"), { headers: { "x-request-id": requestId } });
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider_partial" });
    expect(Number(charged)).toBeGreaterThan(0);
    expect(Number(charged)).toBeLessThanOrEqual(Number(run.reserved_credits));
  });

  test("a non-streamed chat falls back to the next route and lists the failed attempt among its steps", async () => {
    const requestId = newId();
    // Uses its own gateway. In the shared gateway, other tests may have put the first route into a cooldown.
    const gateway = await openGateway();
    const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
    const answer = await client.chat.completions.create(chatOf("demo-fallback"));
    await gateway.close();
    const steps = [
      { step: 1, type: "retry", name: "demo-fallback", status: "failed" },
      { step: 2, type: "model", name: "demo-fallback", status: "succeeded" },
    ];
    expect((answer as unknown as { platform: Platform }).platform.steps).toMatchObject(steps);
    const account = await tenant.accountOf(requestId);
    expect(account.steps).toEqual(steps);
    expect(account.truth.map(({ model }) => model)).toEqual(["demo-error-500", "demo-chat"]);
    expectTruth(account);
  });

  test("labels a run with the values of the request's headers", async () => {
    const requestId = newId();
    await tenant.client.chat.completions.create(chatOf("demo-chat"), {
      headers: { "x-request-id": requestId, "X-Platform-Operation": "notes.summary", "X-Platform-Entity-Id": "note:7" },
    });
    expect((await tenant.accountOf(requestId)).run).toMatchObject({ feature: "notes.summary", entity_id: "note:7" });
  });

  test("gives a run the label of its key, and refuses a request with another label", async () => {
    const labelled = await createGatewayTenant();
    await labelled.db.query("update ai.keys set entity_id = 'customer:7' where id = $1", [labelled.keyId]);
    const call = (requestId: string, headers: Record<string, string>) =>
      labelled.client.chat.completions.create(chatOf("demo-chat"), {
        headers: { "x-request-id": requestId, ...headers },
      });
    const same: Record<string, string>[] = [{}, { "X-Platform-Entity-Id": "customer:7" }];
    for (const headers of same) {
      const requestId = newId();
      await call(requestId, headers);
      expect((await labelled.accountOf(requestId)).run).toMatchObject({ entity_id: "customer:7" });
    }
    await expect(call(newId(), { "X-Platform-Entity-Id": "customer:8" })).rejects.toMatchObject({
      status: 400,
      code: "invalid_request",
      param: "X-Platform-Entity-Id",
      message: expect.stringContaining("The key has an entity label of its own."),
    });
    await labelled.close();
  });
});

describe("a streamed chat", () => {
  test.for(["demo-chat", "demo-cached", "demo-reasoning", "demo-length", "demo-usage-twice", "demo-usage-cumulative"])(
    "charges a streamed chat exactly, to the last digit: %s",
    async (model) => {
      const requestId = newId();
      const { chunks, text, platform, failure } = await collect(requestId, chatOf(model));
      expect(failure).toBeUndefined();
      expect(text).toContain("demo");
      const account = await tenant.accountOf(requestId);
      expect(account.run).toMatchObject({ status: "succeeded", usage_source: "provider", streamed: true });
      expectTruth(account);
      expect(platform?.billed_credits).toBe(Number(account.run.billed_credits));
      expect(platform?.steps).toMatchObject([{ step: 1, type: "model", name: model, status: "succeeded" }]);
      // The provider's answer was read to its end.
      expect(account.truth).toMatchObject([{ aborted: false, status: 200 }]);
      // The examples in OpenAI's documentation read the first choice of every chunk, so every chunk must have one.
      expect(chunks.every(({ choices }) => choices[0]?.delta)).toBe(true);
    },
  );

  test.for([
    [false, [{ index: 0, delta: {}, finish_reason: null }]],
    [true, []],
  ] as const)(
    "a streamed chat states its usage only in the last chunk, whether or not the client requested it: %s",
    async ([wantsUsage, choices]) => {
      const { chunks } = await collect(newId(), chatOf("demo-usage-cumulative"), wantsUsage);
      expect(chunks.filter(({ usage }) => usage)).toEqual([chunks.at(-1)]);
      expect(chunks.at(-1)).toMatchObject({
        object: "chat.completion.chunk",
        choices,
        usage: { total_tokens: expect.any(Number) },
        platform: { usage_source: "provider" },
      });
    },
  );

  test("a streamed chat works with the OpenAI client's stream helper", async () => {
    const { model, messages } = chatOf("demo-chat");
    const stream = tenant.client.chat.completions.stream({ model, messages });
    const answer = await stream.finalChatCompletion();
    expect(answer.choices[0]?.message.content).toContain("demo");
  });

  test("a streamed chat without reported usage is charged an estimate that does not exceed its reservation", async () => {
    const requestId = newId();
    const { failure } = await collect(requestId, chatOf("demo-no-usage"));
    expect(failure).toBeUndefined();
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider_partial" });
    expect(Number(charged)).toBeGreaterThan(0);
    expect(Number(charged)).toBeLessThanOrEqual(Number(run.reserved_credits));
  });

  test.for(["demo-cut", "demo-error-midway"])(
    "a stream of %s ends in one error and is charged an estimate of the tokens it used",
    async (model) => {
      const requestId = newId();
      const { failure, text, platform } = await collect(requestId, chatOf(model, "[[words=20 pace=5]]"));
      expect(text.length).toBeGreaterThan(0);
      expect(platform).toBeUndefined();
      expect(failure).toBeInstanceOf(OpenAI.APIError);
      expect(failure).toMatchObject({ code: "provider_error", error: { request_id: requestId } });
      const { run, charged } = await tenant.accountOf(requestId);
      expect(run).toMatchObject({ status: "failed", usage_source: "estimated_partial", error_code: "provider_error" });
      expect(Number(charged)).toBeGreaterThan(0);
      expect(Number(charged)).toBeLessThanOrEqual(Number(run.reserved_credits));
    },
  );

  test("cancels a streamed chat at the provider when the client leaves, and charges an estimate", async () => {
    const requestId = newId();
    const stream = await tenant.client.chat.completions.create(
      { ...chatOf("demo-paced", "[[words=200 pace=20]]"), stream: true },
      { headers: { "x-request-id": requestId } },
    );
    let seen = 0;
    for await (const _ of stream) if (++seen === 5) break;
    const { run, charged, steps, truth } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "estimated_partial" });
    expect(steps).toEqual([{ step: 1, type: "model", name: "demo-paced", status: "aborted" }]);
    expect(truth).toMatchObject([{ aborted: true }]);
    expect(Number(charged)).toBeGreaterThan(0);
    expect(Number(charged)).toBeLessThanOrEqual(Number(run.reserved_credits));
  });

  test("cancels and charges the streams of 50 clients that leave", async () => {
    const leave = async () => {
      const requestId = newId();
      const stream = await tenant.client.chat.completions.create(
        { ...chatOf("demo-paced", "[[words=400 pace=30]]"), stream: true },
        { headers: { "x-request-id": requestId } },
      );
      for await (const _ of stream) break;
      return tenant.accountOf(requestId);
    };
    const accounts = await Promise.all(Array.from({ length: 50 }, leave));
    for (const { run, truth } of accounts) {
      expect(run).toMatchObject({ status: "cancelled", usage_source: "estimated_partial" });
      expect(truth).toMatchObject([{ aborted: true }]);
    }
  });

  test.for([
    { stream: true, size: 0 },
    { stream: false, size: 0 },
    { stream: true, size: 100_000 },
    { stream: false, size: 100_000 },
  ])(
    "cancels the provider's call if the client leaves before the first byte: %j",
    { tags: "needs-stack-server" },
    async ({ stream, size }) => {
      const requestId = newId();
      const leaving = new AbortController();
      const call = tenant.client.chat.completions.create(
        { ...chatOf("demo-slow", `[[first=5000]]${"x".repeat(size)}`), stream },
        { headers: { "x-request-id": requestId }, signal: leaving.signal },
      );
      void leaveOnceAsked(tenant, { requestId, leaving });
      await expect(call).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
      const { run, truth } = await tenant.accountOf(requestId);
      expect(run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "estimated_partial" });
      expect(truth).toMatchObject([{ aborted: true }]);
    },
  );
});

describe("the credit ledger after all chat tests", () => {
  test("after all tests in this file, the balance matches the ledger and the charged runs exactly", async () => {
    const running = "select count(*)::int as n from ai.runs where workspace_id = $1 and status = 'running'";
    await expect.poll(async () => (await tenant.db.query(running, [tenant.workspaceId]))[0]?.n).toBe(0);
    const { granted, balance, ledger, runs, reserved } = await tenant.books();
    expect(balance).toBe(ledger);
    expect(reserved).toBe("0.00000000");
    expect(formatDecimal(add(parseDecimal(balance), parseDecimal(runs)))).toBe(formatDecimal(parseDecimal(granted)));
  });
});
