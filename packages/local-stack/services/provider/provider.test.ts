import { once } from "node:events";
import { createAdaptorServer, type ServerType } from "@hono/node-server";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { createProvider } from "./app.ts";
import type { Truth } from "./truth-log.ts";
import { countTokens } from "./usage.ts";

const apiKey = "provider-key";
const prompt = "Grüße an alle";
let server: ServerType;
let origin: string;
let client: OpenAI;

beforeAll(async () => {
  server = createAdaptorServer({ fetch: createProvider({ apiKey }).fetch, overrideGlobalObjects: false });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  origin = `http://127.0.0.1:${address.port}`;
  client = new OpenAI({ apiKey, baseURL: `${origin}/v1`, maxRetries: 0 });
});

afterAll(() => server.close());
afterEach(() => vi.restoreAllMocks());
beforeEach(() => fetch(`${origin}/truth`, { method: "DELETE" }));

async function truth(): Promise<Truth[]> {
  const answer = await fetch(`${origin}/truth`);
  return ((await answer.json()) as { calls: Truth[] }).calls;
}

const chat = (model: string, extra: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {}) =>
  client.chat.completions.create({ model, messages: [{ role: "user", content: prompt }], ...extra });

async function streamed(model: string, { signal, leaveAfter }: { signal?: AbortController; leaveAfter?: number } = {}) {
  const stream = await client.chat.completions.create(
    { model, messages: [{ role: "user", content: prompt }], stream: true, stream_options: { include_usage: true } },
    { signal: signal?.signal },
  );
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
    if (chunks.length === leaveAfter) signal?.abort();
  }
  const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
  return { chunks, text, usage: chunks.at(-1)?.usage };
}

test("the demo provider says once for each number that the context window is full", async () => {
  const full = { messages: [{ role: "user" as const, content: "hello [[full=1]]" }] };
  await expect(chat("demo-chat", full)).rejects.toMatchObject({ status: 400, code: "context_length_exceeded" });
  expect((await chat("demo-chat", full)).choices[0]?.message.content).toContain("hello");
  const stream = await client.responses.create({ model: "demo-chat", input: "hello [[full=2]]", stream: true });
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  expect(events.at(-1)).toMatchObject({
    type: "response.failed",
    response: { error: { code: "context_length_exceeded" } },
  });
});

describe("fixtures of the demo provider", () => {
  const send = (path: string, model: string) =>
    fetch(`${origin}/v1/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model }),
    });

  test("the demo provider replays a fixture by name, with its original status and number format", async () => {
    const whole = await send("chat/completions", "fixture/openrouter/reasoning");
    expect([whole.status, whole.headers.get("content-type")]).toEqual([200, "application/json"]);
    expect(await whole.text()).toContain('"cost":1.5e-5');
    const stream = await send("chat/completions", "fixture/groq/stream");
    expect(stream.headers.get("content-type")).toBe("text/event-stream");
    expect((await stream.text()).endsWith("data: [DONE]\n\n")).toBe(true);
    expect((await send("responses", "fixture/openai/responses")).status).toBe(200);
    expect((await send("chat/completions", "fixture/mistral/error")).status).toBe(422);
  });

  test("the demo provider refuses a fixture request that has no API key", async () => {
    const answer = await fetch(`${origin}/v1/chat/completions`, {
      method: "POST",
      body: '{"model":"fixture/xai/plain"}',
    });
    expect(answer.status).toBe(401);
  });
});

describe("Chat", () => {
  test("chat responses are marked as a demo and are deterministic, and their tokens are counted by the documented rule", async () => {
    const [first, second] = [await chat("demo-chat"), await chat("demo-chat")];
    const text = first.choices[0]?.message.content ?? "";
    expect(text).toContain("[demo]");
    expect(text).toContain(prompt);
    expect(second.choices).toEqual(first.choices);
    expect(first.usage).toMatchObject({
      prompt_tokens: countTokens(prompt) + 3,
      completion_tokens: countTokens(text),
      total_tokens: countTokens(prompt) + 3 + countTokens(text),
    });
  });

  test("a chat response has the same content and cost, streamed or not", async () => {
    const whole = await chat("demo-chat");
    const { chunks, text, usage } = await streamed("demo-chat");
    expect(text).toBe(whole.choices[0]?.message.content);
    expect(usage).toEqual(whole.usage);
    expect(chunks[0]?.choices[0]?.delta).toMatchObject({ role: "assistant", content: "" });
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe("stop");
    expect(chunks.at(-1)?.choices).toEqual([]);
  });

  test("a streamed chat reports no usage without include_usage", async () => {
    const stream = await client.chat.completions.create({
      model: "demo-chat",
      messages: [{ role: "user", content: prompt }],
      stream: true,
    });
    for await (const chunk of stream) expect(chunk).not.toHaveProperty("usage");
  });

  test("a chat has the finish reason `stop` if its response just fits the output limit, and `length` if the response is one token too long", async () => {
    const { usage } = await chat("demo-chat");
    const fits = usage?.completion_tokens ?? 0;
    expect((await chat("demo-chat", { max_completion_tokens: fits })).choices[0]?.finish_reason).toBe("stop");
    const short = await chat("demo-chat", { max_completion_tokens: fits - 1 });
    expect(short.choices[0]?.finish_reason).toBe("length");
    expect(short.usage?.completion_tokens).toBe(fits - 1);
  });

  test.for([
    [1_000, "tool_calls"],
    [20, "length"],
    [2, "length"],
  ] as const)(
    "a tool call counts toward an output limit of %i tokens, which ends it with %s",
    async ([limit, reason]) => {
      const tools: OpenAI.ChatCompletionTool[] = [{ type: "function", function: { name: "write", parameters: {} } }];
      const content = `call write with {"text":"${"x".repeat(400)}"}`;
      const request = { model: "demo-agent", messages: [{ role: "user" as const, content }], tools };
      const whole = await client.chat.completions.create({ ...request, max_completion_tokens: limit });
      const [choice] = whole.choices;
      expect(choice?.finish_reason).toBe(reason);
      expect(whole.usage?.completion_tokens).toBeLessThanOrEqual(limit);
      const call = choice?.message.tool_calls?.[0];
      const written = call?.type === "function" ? call.function.arguments : "";
      expect(content).toContain(written);
      const stream = client.chat.completions.stream({ ...request, max_completion_tokens: limit });
      let streamed = "";
      for await (const { choices } of stream) streamed += choices[0]?.delta.tool_calls?.[0]?.function?.arguments ?? "";
      expect(streamed).toBe(written);
      const response = await client.responses.create({
        model: "demo-agent",
        input: content,
        tools: [{ type: "function", name: "write", parameters: {}, strict: false }],
        max_output_tokens: limit,
      });
      expect(response.status).toBe(reason === "length" ? "incomplete" : "completed");
      expect(response.usage?.output_tokens).toBe(whole.usage?.completion_tokens);
      const message = await fetch(`${client.baseURL}/messages`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "anthropic-version": "2023-06-01",
          "x-api-key": apiKey,
        },
        body: JSON.stringify({
          model: "demo-agent",
          max_tokens: limit,
          messages: [{ role: "user", content }],
          tools: [{ name: "write", input_schema: { type: "object" } }],
        }),
      });
      expect((await message.json()).stop_reason).toBe(reason === "length" ? "max_tokens" : "tool_use");
    },
  );

  test("a chat calls tools if the prompt, the tool choice or the model requires it, but not after a tool result", async () => {
    const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const tools: OpenAI.ChatCompletionTool[] = [{ type: "function", function: { name: "weather", parameters } }];
    const idle = await chat("demo-chat", { tools });
    expect(idle.choices[0]?.finish_reason).toBe("stop");
    const called = await chat("demo-tools", { tools });
    const [call] = called.choices[0]?.message.tool_calls ?? [];
    expect(call).toMatchObject({ type: "function", function: { name: "weather", arguments: '{"city":"demo"}' } });
    expect((await chat("demo-chat", { tools, tool_choice: "required" })).choices[0]?.finish_reason).toBe("tool_calls");
    const after = await client.chat.completions.create({
      model: "demo-tools",
      tools,
      messages: [
        { role: "user", content: "call weather" },
        { role: "assistant", tool_calls: call ? [call] : [] },
        { role: "tool", tool_call_id: call?.id ?? "", content: "sunny" },
      ],
    });
    expect(after.choices[0]?.message.content).toContain("sunny");
    const stream = client.chat.completions.stream({
      model: "demo-tools",
      tools,
      messages: [{ role: "user", content: prompt }],
    });
    expect((await stream.finalMessage()).tool_calls).toMatchObject([{ function: { arguments: '{"city":"demo"}' } }]);
  });

  test("a chat follows the requested JSON schema, except with the model that deliberately breaks it", async () => {
    const schema = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] };
    const response_format = { type: "json_schema", json_schema: { name: "sum", schema } } as const;
    const kept = await chat("demo-chat", { response_format });
    expect(JSON.parse(kept.choices[0]?.message.content ?? "")).toEqual({ sum: 1 });
    const broken = await chat("demo-bad-schema", { response_format });
    expect(JSON.parse(broken.choices[0]?.message.content ?? "")).not.toHaveProperty("sum");
  });

  test("a reasoning model adds reasoning_content to its messages and a signature to its tool calls, streamed or not", async () => {
    // https://api-docs.deepseek.com/guides/thinking_mode and https://ai.google.dev/gemini-api/docs/thought-signatures
    const tools: OpenAI.ChatCompletionTool[] = [{ type: "function", function: { name: "weather" } }];
    const request = { model: "demo-reasoning", tools, tool_choice: "required" } as const;
    const thought = { reasoning_content: expect.any(String) };
    const signature = { extra_content: { google: { thought_signature: expect.any(String) } } };
    const message = (await chat("demo-reasoning", request)).choices[0]?.message;
    expect(message).toMatchObject({ ...thought, tool_calls: [signature] });
    const messages = [{ role: "user" as const, content: prompt }];
    const stream = await client.chat.completions.create({ ...request, messages, stream: true });
    const deltas: unknown[] = [];
    for await (const { choices } of stream) deltas.push(choices[0]?.delta);
    expect(deltas[0]).toMatchObject({ ...thought, tool_calls: [{ index: 0, ...signature }] });
  });

  test("reads a tool's result that is split into parts, and refuses an empty list of tool calls", async () => {
    const call = { id: "c", type: "function", function: { name: "weather", arguments: "{}" } } as const;
    const ask = (tool_calls: (typeof call)[], result: OpenAI.ChatCompletionMessageParam[]) =>
      chat("demo-chat", {
        messages: [{ role: "user", content: prompt }, { role: "assistant", tool_calls }, ...result],
      });
    const content = [{ type: "text" as const, text: "sunny" }];
    const answered = await ask([call], [{ role: "tool", tool_call_id: "c", content }]);
    expect(answered.choices[0]?.message.content).toContain("The tool answered: sunny");
    // OpenAI returns 400 `empty_array`: https://github.com/openai/openai-node/pull/1341
    await expect(ask([], [])).rejects.toMatchObject({ status: 400, param: "messages" });
  });

  test("cached and reasoning tokens are included in the total", async () => {
    expect((await chat("demo-cached")).usage).toMatchObject({
      prompt_tokens: countTokens(prompt) + 3,
      prompt_tokens_details: { cached_tokens: Math.floor((countTokens(prompt) + 3) / 2) },
    });
    const { usage } = await streamed("demo-reasoning");
    expect(usage?.completion_tokens_details?.reasoning_tokens).toBe(64);
    expect(usage?.completion_tokens).toBeGreaterThan(64);
  });
});

describe("the demo provider's Responses API", () => {
  const ask = (extra: Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming> = {}) =>
    client.responses.create({ model: "demo-chat", input: prompt, ...extra });

  test("the Responses API returns the same content and cost as a chat, streamed or not", async () => {
    const [whole, same] = [await ask(), await chat("demo-chat")];
    expect(whole.output_text).toBe(same.choices[0]?.message.content);
    expect(whole.usage).toMatchObject({
      input_tokens: same.usage?.prompt_tokens,
      output_tokens: same.usage?.completion_tokens,
      total_tokens: same.usage?.total_tokens,
    });
    const stream = client.responses.stream({ model: "demo-chat", input: prompt });
    const types: string[] = [];
    for await (const event of stream) types.push(event.type);
    const streamed = await stream.finalResponse();
    expect([streamed.output_text, streamed.usage]).toEqual([whole.output_text, whole.usage]);
    expect([types[0], types.at(-1)]).toEqual(["response.created", "response.completed"]);
  });

  test("a response is incomplete when its output reaches max_output_tokens", async () => {
    const { status, incomplete_details: details, usage } = await ask({ max_output_tokens: 16 });
    expect([status, details?.reason, usage?.output_tokens]).toEqual(["incomplete", "max_output_tokens", 16]);
  });

  test("the local provider's Responses API calls functions and uses their output in its answer", async () => {
    const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const tools = [{ type: "function", name: "weather", parameters, strict: false }] as OpenAI.Responses.FunctionTool[];
    const called = await ask({ tools, tool_choice: "required" });
    const [item] = called.output;
    expect(item).toMatchObject({ type: "function_call", name: "weather", arguments: '{"city":"demo"}' });
    if (item?.type !== "function_call") throw new Error("no call");
    const output = { type: "function_call_output", call_id: item.call_id, output: "sunny" } as const;
    const after = await ask({ tools, input: [{ role: "user", content: "call weather" }, item, output] });
    expect(after.output_text).toContain("sunny");
    const stream = client.responses.stream({ model: "demo-chat", input: prompt, tools, tool_choice: "required" });
    expect((await stream.finalResponse()).output[0]).toMatchObject({
      type: "function_call",
      arguments: '{"city":"demo"}',
    });
  });

  test("a response follows a JSON schema", async () => {
    const schema = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] };
    const { output_text: text } = await ask({ text: { format: { type: "json_schema", name: "sum", schema } } });
    expect(JSON.parse(text)).toEqual({ sum: 1 });
  });

  test("the simulated Responses API fails with the same errors as a chat, and logs its calls", async () => {
    await expect(ask({ model: "demo-error-500" })).rejects.toMatchObject({ status: 500 });
    await expect(ask({ input: "" })).rejects.toMatchObject({ status: 400, param: "input" });
    expect((await ask({ model: "demo-no-usage" })).usage).toBeNull();
    const calls = await truth();
    expect(calls.map(({ path, status }) => [path, status])).toEqual([
      ["/v1/responses", 500],
      ["/v1/responses", 200],
    ]);
  });
});

describe("Simulated failures", () => {
  test.each([400, 401, 429, 500, 503])(
    "the model demo-error-%i returns that status in OpenAI's format",
    async (status) => {
      await expect(chat(`demo-error-${status}`)).rejects.toMatchObject({
        status,
        error: { message: expect.any(String) },
      });
    },
  );

  test("an unknown model gets 404, a wrong key 401, and an invalid chat body 400", async () => {
    await expect(chat("gpt-unknown")).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    await expect(client.withOptions({ apiKey: "wrong" }).models.list()).rejects.toMatchObject({ status: 401 });
    await expect(chat("demo-chat", { messages: [] })).rejects.toMatchObject({ status: 400, param: "messages" });
  });

  test.each(["demo-cut", "demo-reset", "demo-error-midway", "demo-garbage"])(
    "the stream of the model %s fails",
    async (model) => {
      vi.spyOn(console, "error").mockReturnValue();
      await expect(streamed(model)).rejects.toThrow();
    },
  );

  test("the truth log contains the actual usage even if the client receives a usage of zero, two usage reports or no report", async () => {
    expect((await streamed("demo-no-usage")).usage).toBeUndefined();
    expect((await streamed("demo-zero-usage")).usage).toMatchObject({ total_tokens: 0 });
    expect((await streamed("demo-usage-twice")).chunks.filter(({ usage }) => usage)).toHaveLength(2);
    const calls = await truth();
    expect(calls.map(({ usageReported }) => usageReported)).toEqual([false, true, true]);
    expect(new Set(calls.map(({ usage }) => usage.output)).size).toBe(1);
    expect(calls[0]?.usage.output).toBeGreaterThan(0);
  });
});

describe("the simulated provider's log of actual usage", () => {
  test("the simulated provider's usage log marks a call whose client disconnected, and counts only the tokens produced until then", async () => {
    const signal = new AbortController();
    expect((await streamed("demo-paced", { signal, leaveAfter: 10 })).chunks).toHaveLength(10);
    await vi.waitFor(async () => expect((await truth())[0]?.endedAt).not.toBeNull());
    const [left] = await truth();
    expect(left).toMatchObject({ model: "demo-paced", stream: true, aborted: true, usageReported: false });
    const whole = await chat("demo-paced");
    expect(left?.usage.output).toBeGreaterThan(0);
    expect(left?.usage.output).toBeLessThan(whole.usage?.completion_tokens ?? 0);
  });

  test("the truth log does not record a client disconnect if the demo model cuts the connection", async () => {
    await expect(streamed("demo-cut")).rejects.toThrow();
    await vi.waitFor(async () => expect((await truth())[0]).toMatchObject({ aborted: false, status: 200 }));
  });

  test("the simulated provider's log of actual usage can be filtered by request id", async () => {
    await client.chat.completions.create(
      { model: "demo-chat", messages: [{ role: "user", content: prompt }] },
      { headers: { "x-request-id": "mine" } },
    );
    await chat("demo-chat");
    const answer = await fetch(`${origin}/truth?request_id=mine`);
    expect(await answer.json()).toMatchObject({ calls: [{ requestId: "mine", status: 200, aborted: false }] });
  });
});

describe("Embeddings and speech", () => {
  test("embeddings are unit vectors that depend only on the text, in both encodings", async () => {
    const ask = (encoding_format: "float" | "base64") =>
      client.embeddings.create({ model: "demo-embedding", input: ["a", "b"], dimensions: 12, encoding_format });
    const [a, b] = (await ask("float")).data.map(({ embedding }) => embedding);
    expect(a).toHaveLength(12);
    expect(Math.hypot(...(a ?? []))).toBeCloseTo(1);
    expect(a).not.toEqual(b);
    const encoded = (await ask("base64")).data[0]?.embedding as unknown as string;
    const decoded = new Float32Array(new Uint8Array(Buffer.from(encoded, "base64")).buffer);
    expect([...decoded]).toEqual(a);
  });

  test("speech is 24 kHz mono 16-bit, with a RIFF header or raw", async () => {
    const ask = async (response_format: "wav" | "pcm") => {
      const answer = await client.audio.speech.create({
        model: "demo-speech",
        voice: "alloy",
        input: "Hello",
        response_format,
      });
      return { type: answer.headers.get("content-type"), bytes: Buffer.from(await answer.arrayBuffer()) };
    };
    const [wav, pcm] = [await ask("wav"), await ask("pcm")];
    expect(wav.type).toBe("audio/wav");
    expect(pcm.type).toBe("audio/pcm;rate=24000");
    expect(wav.bytes.subarray(0, 4).toString()).toBe("RIFF");
    expect(wav.bytes.readUInt32LE(24)).toBe(24_000);
    expect(wav.bytes.subarray(44)).toEqual(pcm.bytes);
  });
});

describe("Simulated outages", () => {
  const outage = (init: RequestInit) => fetch(`${origin}/outage`, init);

  test.each([
    [{ failure: 500 }, { status: 500 }],
    [{ failure: "reset" }, { name: "Error" }],
  ])(
    "the simulated outage %j affects every call until the outage ends, and appears in the truth log",
    async (how, error) => {
      expect((await outage({ method: "PUT", body: JSON.stringify(how) })).status).toBe(204);
      await expect(chat("demo-chat")).rejects.toMatchObject(error);
      await outage({ method: "DELETE" });
      expect((await chat("demo-chat")).choices).toHaveLength(1);
      const [during, after] = await truth();
      expect([during?.usage.output, after?.status]).toEqual([0, 200]);
    },
  );

  test("a simulated outage can cut streams that have already begun", async () => {
    await outage({ method: "PUT", body: JSON.stringify({ midway: "cut" }) });
    await expect(streamed("demo-chat")).rejects.toThrow();
    await outage({ method: "DELETE" });
  });

  test("refuses a simulated outage of an unknown kind", async () => {
    expect((await outage({ method: "PUT", body: '{"failure":"fire"}' })).status).toBe(400);
  });
});

test("the truth log can be read starting after a given call", async () => {
  await chat("demo-chat");
  const [first] = await truth();
  await client.embeddings.create({ model: "demo-embedding", input: "hello" });
  const answer = await fetch(`${origin}/truth?after=${first?.call}`);
  expect(await answer.json()).toMatchObject({ calls: [{ call: (first?.call ?? 0) + 1, model: "demo-embedding" }] });
});
