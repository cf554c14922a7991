import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const sum = z.object({ sum: z.number(), parts: z.array(z.number()) });
const newId = () => `it-${randomUUID()}`;
const chat = (content: OpenAI.ChatCompletionUserMessageParam["content"], model = "demo-chat") => ({
  model,
  messages: [{ role: "user" as const, content }],
});

describe("the standard client", () => {
  test("the standard client gets the request id that it sent, or a new one", async () => {
    const requestId = newId();
    const { data, request_id, response } = await tenant.client.chat.completions
      .create(chat("hello"), { headers: { "x-request-id": requestId } })
      .withResponse();
    expect([data.object, request_id, response.status]).toEqual(["chat.completion", requestId, 200]);
    const { _request_id } = await tenant.client.chat.completions.create(chat("hello"));
    expect(_request_id).toMatch(/^req_[0-9a-f]{32}$/);
  });

  test("the standard client sends images by URL and as data, and is charged for both", async () => {
    const url = `data:image/png;base64,${Buffer.alloc(30_000).toString("base64")}`;
    const requestId = newId();
    const answer = await tenant.client.chat.completions.create(
      chat([
        { type: "text", text: "what are these?" },
        { type: "image_url", image_url: { url, detail: "low" } },
        { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      ]),
      { headers: { "x-request-id": requestId } },
    );
    expect(answer.usage?.prompt_tokens).toBeGreaterThan(2 * 85);
    const { run, truth } = await tenant.accountOf(requestId);
    expect(run.input_tokens).toBe(truth[0]?.usage.input);
  });

  test("OpenAI's client can run local functions with its runTools helper", async () => {
    const cities: string[] = [];
    const runner = tenant.client.chat.completions.runTools({
      ...chat('call weather with {"city":"Rome"}'),
      tools: [
        {
          type: "function",
          function: {
            name: "weather",
            description: "Tells the weather",
            parameters: { type: "object", properties: { city: { type: "string" } } },
            parse: JSON.parse,
            function: ({ city }: { city: string }) => {
              cities.push(city);
              return `sunny in ${city}`;
            },
          },
        },
      ],
    });
    expect(await runner.finalContent()).toContain("sunny in Rome");
    expect(cities).toEqual(["Rome"]);
    const messages = [...runner.messages, { role: "user" as const, content: "and again" }];
    const next = await tenant.client.chat.completions.create({ model: "demo-chat", messages });
    expect(next.choices[0]?.message.content).toContain("and again");
  });

  test("the standard client reads chat and response streams to their end", async () => {
    const completion = await tenant.client.chat.completions.stream(chat("hello there")).finalChatCompletion();
    expect(completion.choices[0]?.message.content).toContain("hello there");
    const response = await tenant.client.responses.stream({ model: "demo-chat", input: "hello there" }).finalResponse();
    expect(response.output_text).toContain("hello there");
  });

  test("the standard client parses structured output of chats and responses", async () => {
    const response_format = zodResponseFormat(sum, "sum");
    const { choices } = await tenant.client.chat.completions.parse({ ...chat("add"), response_format });
    expect(choices[0]?.message.parsed).toEqual({ sum: expect.any(Number), parts: expect.any(Array) });
    const format = zodTextFormat(sum, "sum");
    const { output_parsed } = await tenant.client.responses.parse({
      model: "demo-chat",
      input: "add",
      text: { format },
    });
    expect(output_parsed).toEqual(choices[0]?.message.parsed);
  });

  test("the standard client receives a stream through event listeners, and can abort the stream", async () => {
    const requestId = newId();
    const stream = tenant.client.chat.completions.stream(chat("[[words=200 pace=20]]", "demo-paced"), {
      headers: { "x-request-id": requestId },
    });
    const deltas: string[] = [];
    stream.on("content", (delta) => {
      deltas.push(delta);
      if (deltas.length === 3) stream.abort();
    });
    await expect(stream.done()).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    expect((await tenant.accountOf(requestId)).truth).toMatchObject([{ aborted: true }]);
  });

  test("the OpenAI client creates embeddings and speech", async () => {
    const { data } = await tenant.client.embeddings.create({ model: "demo-embedding", input: ["one", "two"] });
    expect(data.map(({ embedding }) => embedding.length)).toEqual([expect.any(Number), data[0]?.embedding.length]);
    const speech = await tenant.client.audio.speech.create({ model: "demo-speech", voice: "alloy", input: "hello" });
    expect(
      Buffer.from(await speech.arrayBuffer())
        .subarray(0, 4)
        .toString(),
    ).toBe("RIFF");
  });

  test("the standard client lists all models on one page", async () => {
    const ids: string[] = [];
    for await (const { id } of tenant.client.models.list()) ids.push(id);
    expect(ids).toContain("demo-chat");
    expect((await tenant.client.models.retrieve("demo-chat")).id).toBe("demo-chat");
  });
});

describe("errors in the standard client", () => {
  const failure = async (work: Promise<unknown>) => {
    const error = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!(error instanceof OpenAI.APIError)) throw new Error("no error of the API");
    expect(error.requestID).toBeTruthy();
    expect(error.error).toMatchObject({ request_id: error.requestID, message: expect.any(String) });
    return error;
  };
  const create = (body: object, headers: Record<string, string> = {}) =>
    tenant.client.chat.completions.create(body as OpenAI.ChatCompletionCreateParamsNonStreaming, { headers });

  test("each error reaches the standard client with the matching class, code and field", async () => {
    const key = newId();
    await create(chat("one"), { "idempotency-key": key, "x-request-id": key });
    await tenant.accountOf(key);
    const elsewhere = { "X-Platform-Workspace-Id": randomUUID() };
    const calls: [() => Promise<unknown>, unknown, object][] = [
      [
        () => create({ ...chat("x"), n: 9 }),
        OpenAI.BadRequestError,
        { status: 400, code: "invalid_request", param: "n" },
      ],
      [
        () => create({ ...chat("x"), store: true }),
        OpenAI.BadRequestError,
        { code: "unsupported_parameter", param: "store" },
      ],
      [
        () => tenant.client.withOptions({ apiKey: "sk-x" }).models.list(),
        OpenAI.AuthenticationError,
        { code: "invalid_api_key" },
      ],
      [() => create(chat("x"), elsewhere), OpenAI.PermissionDeniedError, { status: 403, code: "workspace_mismatch" }],
      [() => create(chat("x", "none")), OpenAI.NotFoundError, { status: 404, code: "model_not_found" }],
      [() => create(chat("one"), { "idempotency-key": key }), OpenAI.ConflictError, { code: "idempotency_key_used" }],
      [
        () => create(chat("two"), { "idempotency-key": key }),
        OpenAI.UnprocessableEntityError,
        { code: "idempotency_key_reused" },
      ],
      [() => create(chat("x", "demo-error-500")), OpenAI.InternalServerError, { status: 502, type: "server_error" }],
    ];
    for (const [call, type, properties] of calls) {
      const error = await failure(call());
      expect(error).toBeInstanceOf(type);
      expect(error).toMatchObject(properties);
    }
  });

  test("the standard client's automatic retries never repeat a call that must not be retried", async () => {
    const retrying = tenant.client.withOptions({ maxRetries: 2 });
    for (const model of ["demo-reset", "demo-cut"]) {
      const requestId = newId();
      const headers = { "x-request-id": requestId };
      await failure(retrying.chat.completions.create(chat("x", model), { headers }));
      expect((await tenant.accountOf(requestId)).truth).toHaveLength(1);
    }
  });
});
