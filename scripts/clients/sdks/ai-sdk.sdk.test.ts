import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateObject, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

/** The provider as users configure it, with a base URL and a key. */
const gatehouse = () =>
  createOpenAICompatible({
    name: "gatehouse",
    baseURL: tenant.client.baseURL,
    apiKey: tenant.key,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
const chat = (model = "demo-chat") => gatehouse().chatModel(model);
const sum = z.object({ sum: z.number(), parts: z.array(z.number()) });
const weather = tool({
  description: "Tells the weather",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

describe("the AI SDK", () => {
  test("the AI SDK generates text and receives its usage", async () => {
    const { text, finishReason, usage } = await generateText({ model: chat(), prompt: "hello there" });
    expect([text, finishReason]).toEqual([expect.stringContaining("hello there"), "stop"]);
    expect(usage.inputTokens).toBeGreaterThan(0);
    expect(usage.outputTokens).toBeGreaterThan(0);
  });

  test("the AI SDK streams text and accepts the gateway's last event, which contains usage and platform data", async () => {
    const { textStream, text, usage, finishReason } = streamText({ model: chat(), prompt: "hello there" });
    let streamed = "";
    let pieces = 0;
    for await (const piece of textStream) {
      streamed += piece;
      pieces += 1;
    }
    expect(streamed).toContain("hello there");
    expect([await text, await finishReason]).toEqual([streamed, "stop"]);
    expect(pieces).toBeGreaterThan(3);
    expect((await usage).outputTokens).toBeGreaterThan(0);
  });

  test("the AI SDK generates objects with generateObject and with generateText", async () => {
    const { object } = await generateObject({ model: chat(), schema: sum, prompt: "add" });
    expect(object).toEqual({ sum: expect.any(Number), parts: expect.any(Array) });
    const { output } = await generateText({ model: chat(), output: Output.object({ schema: sum }), prompt: "add" });
    expect(output).toEqual(object);
  });

  test("the AI SDK calls tools and continues with their results, streamed or not", async () => {
    const ask = {
      model: chat(),
      tools: { weather },
      stopWhen: stepCountIs(3),
      prompt: 'call weather with {"city":"Rome"}',
    };
    const { text, steps, response } = await generateText(ask);
    expect(text).toContain("sunny in Rome");
    expect(steps).toHaveLength(2);
    expect(await streamText(ask).text).toContain("sunny in Rome");
    const { prompt, ...settings } = ask;
    const next = { role: "user" as const, content: "and again" };
    const messages = [{ role: "user" as const, content: prompt }, ...response.messages, next];
    expect((await generateText({ ...settings, messages })).text).toContain("and again");
  });

  test("the AI SDK sends images and enables our server tools through body fields", async () => {
    const image = { type: "file" as const, mediaType: "image/png", data: Buffer.alloc(600) };
    const seen = await generateText({
      model: chat(),
      messages: [{ role: "user", content: [{ type: "text", text: "what is this?" }, image] }],
    });
    expect(seen.usage.inputTokens).toBeGreaterThan(85);
    const { text } = await generateText({
      model: chat(),
      prompt: 'call calculator with {"expression":"6*7"}',
      providerOptions: { gatehouse: { platform: { tools: ["calculator"] } } },
    });
    expect(text).toContain("42");
  });

  test("the AI SDK creates embeddings", async () => {
    const { embeddings } = await embedMany({
      model: gatehouse().embeddingModel("demo-embedding"),
      values: ["one", "two"],
    });
    expect(embeddings).toHaveLength(2);
  });

  test("the AI SDK reports our errors like those of other providers, and retries nothing that may have been charged", async () => {
    const failure = (model: string) =>
      generateText({ model: chat(model), prompt: "x", maxRetries: 0 }).catch((error: unknown) => error);
    const notFound = await failure("no-such-model");
    expect(notFound).toBeInstanceOf(APICallError);
    expect(notFound).toMatchObject({ statusCode: 404, isRetryable: false });
    expect(JSON.parse((notFound as APICallError).responseBody ?? "").error.code).toBe("model_not_found");
    expect(await failure("demo-error-500")).toMatchObject({ statusCode: 502 });
  });

  test("the AI SDK reports a stream that breaks off", async () => {
    const { fullStream } = streamText({ model: chat("demo-cut"), prompt: "[[words=20 pace=2]]", onError: () => {} });
    const types: string[] = [];
    for await (const { type } of fullStream) types.push(type);
    expect(types).toContain("text-delta");
    expect(types).toContain("error");
  });

  test("aborting an AI SDK call ends the provider's call", async () => {
    const requestId = `it-${crypto.randomUUID()}`;
    const leaving = new AbortController();
    const { textStream } = streamText({
      model: chat("demo-paced"),
      prompt: "[[words=200 pace=20]]",
      headers: { "x-request-id": requestId },
      abortSignal: leaving.signal,
    });
    for await (const _ of textStream) leaving.abort();
    const { run, truth } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "cancelled", http_status: 499 });
    expect(truth).toMatchObject([{ aborted: true }]);
  });
});
