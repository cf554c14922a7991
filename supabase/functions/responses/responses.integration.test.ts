import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { expectTruth } from "../../tests/gateway/truth.ts";

type Platform = { steps: object[]; billed_credits: number; usage_source: string };
type WithPlatform = { platform?: Platform };

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const newId = () => `it-${randomUUID()}`;
const named = (requestId: string) => ({ headers: { "x-request-id": requestId } });

async function collect(requestId: string, model: string, input = "hello there") {
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  let failure: unknown;
  try {
    const stream = await tenant.client.responses.create({ model, input, stream: true }, named(requestId));
    for await (const event of stream) events.push(event);
  } catch (error) {
    failure = error;
  }
  return { events, types: events.map(({ type }) => type), failure };
}

describe("a non-streamed response", () => {
  test.for(["demo-chat", "demo-cached", "demo-reasoning", "demo-length"])(
    "meters a non-streamed response to the last digit: %s",
    async (model) => {
      const requestId = newId();
      const answer = await tenant.client.responses.create({ model, input: "hello there" }, named(requestId));
      expect([answer._request_id, answer.output_text]).toEqual([requestId, expect.stringContaining("demo")]);
      expect(answer.status).toBe(model === "demo-length" ? "incomplete" : "completed");
      const account = await tenant.accountOf(requestId);
      expect(account.run).toMatchObject({ status: "succeeded", usage_source: "provider", feature: "responses" });
      expectTruth(account);
      const { platform } = answer as WithPlatform;
      expect(platform?.billed_credits).toBe(Number(account.run.billed_credits));
      expect(platform?.steps).toMatchObject([{ step: 1, type: "model", name: model, status: "succeeded" }]);
    },
  );

  test("charges an estimate for a non-streamed response without usage", async () => {
    const requestId = newId();
    await tenant.client.responses.create({ model: "demo-no-usage", input: "hello there" }, named(requestId));
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider_partial" });
    expect(Number(charged)).toBeGreaterThan(0);
    expect(Number(charged)).toBeLessThanOrEqual(Number(run.reserved_credits));
  });

  test("OpenAI's client can use structured output, function calls and earlier items with the Responses API", async () => {
    const parsed = await tenant.client.responses.parse({
      model: "demo-chat",
      input: "hello",
      text: { format: zodTextFormat(z.object({ sum: z.number() }), "sum") },
    });
    expect(parsed.output_parsed).toEqual({ sum: expect.any(Number) });
    const tools: OpenAI.Responses.FunctionTool[] = [
      { type: "function", name: "weather", parameters: { type: "object", properties: {} }, strict: false },
    ];
    const called = await tenant.client.responses.create({ model: "demo-tools", input: "call weather", tools });
    const [item] = called.output;
    if (item?.type !== "function_call") throw new Error("no call");
    const result = { type: "function_call_output" as const, call_id: item.call_id, output: "sunny" };
    const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: "call weather" }, item, result];
    const after = await tenant.client.responses.create({ model: "demo-chat", tools, input });
    expect(after.output_text).toContain("sunny");
    const again = await tenant.client.responses.create({
      model: "demo-chat",
      input: [...input, ...after.output] as typeof input,
    });
    expect(again.status).toBe("completed");
  });

  test("the Responses API accepts images", async () => {
    const image_url = `data:image/png;base64,${Buffer.alloc(60_000).toString("base64")}`;
    const content = [
      { type: "input_text" as const, text: "what is this?" },
      { type: "input_image" as const, image_url, detail: "low" as const },
    ];
    const answer = await tenant.client.responses.create({ model: "demo-chat", input: [{ role: "user", content }] });
    expect(answer.usage?.input_tokens).toBeGreaterThan(85);
  });

  test("OpenAI's client throws the matching error class for a failed response", async () => {
    const ask = (model: string) => tenant.client.responses.create({ model, input: "hello" });
    await expect(ask("demo-error-500")).rejects.toBeInstanceOf(OpenAI.InternalServerError);
    await expect(ask("demo-error-400")).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    await expect(ask("no-such-model")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(
      tenant.client.responses.create({ model: "demo-chat", input: "x", previous_response_id: "r" }),
    ).rejects.toMatchObject({ status: 400, code: "unsupported_parameter", param: "previous_response_id" });
  });
});

describe("a streamed response", () => {
  test.for(["demo-chat", "demo-cached", "demo-reasoning", "demo-length"])(
    "a streamed response of %s has OpenAI's events with our metadata in the final one, and is metered exactly",
    async (model) => {
      const requestId = newId();
      const { events, types, failure } = await collect(requestId, model);
      expect(failure).toBeUndefined();
      expect([types[0], types.at(-1)]).toEqual([
        "response.created",
        model === "demo-length" ? "response.incomplete" : "response.completed",
      ]);
      const account = await tenant.accountOf(requestId);
      expect(account.run).toMatchObject({ status: "succeeded", usage_source: "provider", streamed: true });
      expectTruth(account);
      expect(account.truth).toMatchObject([{ aborted: false, status: 200 }]);
      const last = events.at(-1) as WithPlatform & { response: WithPlatform };
      expect(last.platform?.billed_credits).toBe(Number(account.run.billed_credits));
      expect(last.response.platform).toEqual(last.platform);
    },
  );

  test("a streamed response passes on the provider's events byte for byte and ends with [DONE]", async () => {
    const body = JSON.stringify({ model: "demo-chat", input: "hello there", stream: true });
    const headers = { authorization: `Bearer ${tenant.key}`, "content-type": "application/json" };
    const ours = await (await fetch(`${tenant.client.baseURL}/responses`, { method: "POST", headers, body })).text();
    expect(ours.endsWith("\n\ndata: [DONE]\n\n")).toBe(true);
    const events = ours.split("\n\n");
    expect(events.at(-3)).toMatch(/^event: response\.completed\ndata: /);
    for (const event of events.slice(0, -3)) expect(event).toMatch(/^event: response\.[a-z_.]+\ndata: \{"type":/);
  });

  test("the stream helper of the OpenAI client can read a streamed response", async () => {
    const stream = tenant.client.responses.stream({ model: "demo-chat", input: "hello" });
    expect((await stream.finalResponse()).output_text).toContain("demo");
  });

  test.for(["demo-cut", "demo-error-midway", "demo-garbage"])(
    "a streamed response of the model %s ends in an error, and its estimated usage is charged",
    async (model) => {
      const requestId = newId();
      const { failure, types } = await collect(requestId, model, "[[words=20 pace=5]]");
      expect(types).toContain("response.output_text.delta");
      expect(failure).toMatchObject({ code: "provider_error", error: { request_id: requestId } });
      const { run, charged, truth } = await tenant.accountOf(requestId);
      expect(run).toMatchObject({ status: "failed", usage_source: "estimated_partial", error_code: "provider_error" });
      if (model !== "demo-garbage") expect(run.output_tokens).toBe(truth[0]?.usage.output);
      expect(Number(charged)).toBeGreaterThan(0);
    },
  );

  test("when a client disconnects, its streamed response is cancelled at the provider and charged an estimate", async () => {
    const requestId = newId();
    const stream = await tenant.client.responses.create(
      { model: "demo-paced", input: "[[words=200 pace=20]]", stream: true },
      named(requestId),
    );
    let seen = 0;
    for await (const _ of stream) if (++seen === 10) break;
    const { run, truth } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "estimated_partial" });
    expect(truth).toMatchObject([{ aborted: true }]);
  });
});
