import { randomUUID } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

type Body = { messages: { role: string; content: unknown }[]; stream?: boolean };

/** How the provider handles the next call. */
let answer: (body: Body, response: ServerResponse) => void;
const provider = createServer(async (request, response) => {
  let text = "";
  for await (const chunk of request) text += chunk;
  answer(JSON.parse(text), response);
});

let tenant: GatewayTenant;
let gateway: InProcessGateway;
/** A gateway whose provider charges in full even if the client leaves. */
let draining: InProcessGateway;
beforeAll(async () => {
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  tenant = await createGatewayTenant();
  const { port } = provider.address() as AddressInfo;
  const settings = { AI_PROVIDER_DEMO_BASE_URL: `http://127.0.0.1:${port}/v1` };
  gateway = await openGateway(settings);
  draining = await openGateway({ ...settings, AI_PROVIDER_DEMO_ON_LEAVE: "drain" });
});
afterAll(async () => {
  await gateway.close();
  await draining.close();
  await tenant.close();
  provider.closeAllConnections();
  provider.close();
});

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const responseUsage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
const completion = (message: object) => ({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [
    { index: 0, message: { role: "assistant", refusal: null, ...message }, finish_reason: "stop", logprobs: null },
  ],
  usage,
});
const chunk = { id: "c", object: "chat.completion.chunk", created: 1, model: "m" };
const event = (rest: object) => `data: ${JSON.stringify({ ...chunk, ...rest })}\n\n`;
const json = (response: ServerResponse, body: object) =>
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));

type Outcome = {
  value?: { platform: { steps: { type: string }[]; billed_credits: number; usage_source: string } };
  error?: { status: number; code: string; message: string };
};

/**
 * Reads an answer, streamed or not, to its end.
 * @throws the error that ends a stream
 */
async function readToEnd(value: unknown): Promise<unknown> {
  const isStream = typeof value === "object" && value !== null && Symbol.asyncIterator in value;
  if (isStream) for await (const _ of value as AsyncIterable<unknown>);
  return value;
}

async function ask(
  fields: object = {},
  { by = gateway, leaveAfterMs }: { by?: InProcessGateway; leaveAfterMs?: number } = {},
) {
  const signal = leaveAfterMs ? AbortSignal.timeout(leaveAfterMs) : undefined;
  const requestId = `it-${randomUUID()}`;
  const body = { model: "demo-chat", messages: [{ role: "user", content: "x" }], ...fields };
  const call = by
    .clientOf(tenant.key)
    .chat.completions.create(body as never, { headers: { "x-request-id": requestId }, signal });
  const outcome = await (call as Promise<unknown>).then(readToEnd).then(
    (value): Outcome => ({ value: value as Outcome["value"] }),
    (error): Outcome => ({ error }),
  );
  return { ...outcome, account: await tenant.accountOf(requestId) };
}

/** Requests a streamed response. Returns the run, and either the types of the events or the error. */
async function askResponse(platform: object = {}) {
  const requestId = `it-${randomUUID()}`;
  const body = { model: "demo-chat", input: "x", stream: true, platform };
  const stream = gateway
    .clientOf(tenant.key)
    .responses.create(body as never, { headers: { "x-request-id": requestId } }) as unknown;
  const typesOf = async (events: AsyncIterable<{ type: string }>) => {
    const types: string[] = [];
    for await (const { type } of events) types.push(type);
    return types;
  };
  const ended = await (stream as Promise<AsyncIterable<{ type: string }>>).then(typesOf).catch((error) => error);
  return { ended: ended as unknown, run: (await tenant.accountOf(requestId)).run };
}

describe("a provider that misbehaves", () => {
  test.for([
    [32, 32],
    [33, 32],
    [5_000, 32],
  ])(
    "if a provider makes %i tool calls in one step, the gateway runs and traces only %i of them, but returns a result for every call",
    async ([called = 0, traced = 0]) => {
      let results = 0;
      answer = ({ messages }, response) => {
        results = messages.filter(({ role }) => role === "tool").length;
        const tool_calls = Array.from({ length: called }, (_, at) => ({
          id: `t${at}`,
          type: "function",
          function: { name: "calculator", arguments: '{"expression":"1+1"}' },
        }));
        json(response, completion(results > 0 ? { content: "done" } : { content: null, tool_calls }));
      };
      const { value, account } = await ask({ platform: { tools: ["calculator"] } });
      expect(results).toBe(called);
      expect(value?.platform.steps.map(({ type }) => type)).toEqual(["model", ...Array(traced).fill("tool"), "model"]);
      expect(account.run).toMatchObject({
        status: "succeeded",
        usage_source: "provider",
        input_tokens: 6,
        output_tokens: 4,
      });
      expect(account.steps).toHaveLength(traced + 2);
    },
  );

  test("understands a provider's media type in any case (RFC 9110, 8.3.1)", async () => {
    const delta = { role: "assistant", content: "x" };
    const events = [{ choices: [{ index: 0, delta }] }, { choices: [], usage }].map(event);
    answer = (_, response) =>
      response
        .writeHead(200, { "content-type": "Text/Event-Stream; charset=UTF-8" })
        .end(`${events.join("")}data: [DONE]\n\n`);
    const requestId = `it-${randomUUID()}`;
    const stream = await gateway
      .clientOf(tenant.key)
      .chat.completions.create(
        { model: "demo-chat", messages: [{ role: "user", content: "x" }], stream: true },
        { headers: { "x-request-id": requestId } },
      );
    let said = "";
    for await (const { choices } of stream) said += choices[0]?.delta.content ?? "";
    const { run } = await tenant.accountOf(requestId);
    expect([said, run.status, run.usage_source]).toEqual(["x", "succeeded", "provider"]);
  });

  test("understands a whole answer labelled as a stream", async () => {
    answer = (_, response) =>
      response
        .writeHead(200, { "content-type": "text/event-stream" })
        .end(JSON.stringify(completion({ content: "x" })));
    const { account } = await ask();
    expect(account.run).toMatchObject({ status: "succeeded", usage_source: "provider", input_tokens: 3 });
  });

  test("recognizes the requested stream by its bytes even if the provider labels it as JSON", async () => {
    answer = (_, response) =>
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(`${event({ choices: [], usage })}data: [DONE]\n\n`);
    const { error, account } = await ask({ stream: true });
    expect(error).toBeUndefined();
    expect(account.run).toMatchObject({ status: "succeeded", usage_source: "provider", input_tokens: 3 });
  });

  describe("a stream instead of a whole answer", () => {
    const word = { choices: [{ index: 0, delta: { content: "x" } }] };
    const counted = event(word) + event({ choices: [], usage });
    const begin = (response: ServerResponse, events: string) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(events);
      return response;
    };
    const charged = { usage_source: "provider", input_tokens: 3, output_tokens: 2 };

    test("charges the final usage if a provider streams the answer to a non-streamed call and keeps the connection open", async () => {
      const closed = new Promise((resolve) => {
        answer = (_, response) => begin(response, `${counted}data: [DONE]\n\n`).once("close", resolve);
      });
      const { error, account } = await ask();
      expect(error?.status).toBe(502);
      expect(account.run).toMatchObject({ status: "failed", ...charged });
      await closed;
    });

    test.for<[string, string, (response: ServerResponse) => void]>([
      ["that is cut off after its usage", counted, (response) => setTimeout(() => response.destroy(), 50)],
      ["that fails and states usage", event({ choices: [], error: {}, usage }), (response) => response.end()],
      [
        "that states usage with its content",
        `${event({ ...word, usage })}data: [DONE]\n\n`,
        (response) => response.end(),
      ],
    ])(
      "if the provider answers a non-streamed call with a stream %s, the stated usage is charged",
      async ([, events, finish]) => {
        answer = (_, response) => void finish(begin(response, events));
        const { error, account } = await ask();
        expect(error?.status).toBe(502);
        expect(account.run).toMatchObject({ status: "failed", ...charged });
      },
    );

    test("a non-streamed call that the provider answers with a stream is charged the streamed usage, not an estimate, if the client disconnects", async () => {
      answer = (_, response) => void begin(response, counted);
      const { account } = await ask({}, { leaveAfterMs: 300 });
      expect(account.run).toMatchObject({ status: "cancelled", http_status: 499, ...charged });
    });
  });

  test.for([false, true])(
    "cancels the provider's call if the provider sends bytes that are not text, streamed: %s",
    async (stream) => {
      let timer: NodeJS.Timeout | undefined;
      const closed = new Promise((resolve) => {
        answer = (_, response) => {
          response.once("close", resolve).writeHead(200, { "content-type": "application/json" });
          response.write(Buffer.from([0x7b, 0xc3, 0x28]));
          timer = setInterval(() => response.write("x".repeat(1_000)), 100);
        };
      });
      expect((await ask({ stream })).error?.status).toBe(502);
      await closed;
      clearInterval(timer);
    },
  );

  test.for<[string, object, object, string]>([
    ["fails and states its usage", {}, { choices: undefined }, "provider"],
    ["fails and states no usage", {}, { choices: undefined, usage: undefined }, "unavailable"],
    ["is whole instead of streamed", { stream: true }, {}, "provider"],
  ])(
    "if the client has left and the answer %s, the gateway reads the whole answer but records the run as cancelled",
    async ([, asked, fields, source]) => {
      answer = (_, response) => void setTimeout(json, 600, response, { ...completion({ content: "x" }), ...fields });
      const { account } = await ask(asked, { by: draining, leaveAfterMs: 250 });
      expect(account.run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: source });
    },
  );

  test("never copies a provider's tool names, ids or arguments into the trace", async () => {
    answer = ({ messages }, response) => {
      const calls = ["__proto__", "constructor", "calculator\u0000", "x".repeat(10_000)].map((name) => ({
        id: "",
        type: "function",
        function: { name, arguments: "\u0000{" },
      }));
      const answered = messages.some(({ role }) => role === "tool");
      json(response, completion(answered ? { content: "done" } : { content: null, tool_calls: calls }));
    };
    const { account } = await ask({ platform: { tools: ["calculator"] } });
    const failed = { type: "tool", name: "unknown", status: "failed" };
    expect(account.steps.slice(1, 5)).toMatchObject([failed, failed, failed, failed]);
    expect(account.run.status).toBe("succeeded");
  });

  test("ignores a forged `platform` member in a provider's answer", async () => {
    answer = (_, response) =>
      json(response, {
        ...completion({ content: "x" }),
        platform: { billed_credits: -1, run_id: "forged", steps: [] },
      });
    const { value, account } = await ask();
    expect(value?.platform).toMatchObject({
      billed_credits: Number(account.run.billed_credits),
      usage_source: "provider",
    });
    expect(JSON.stringify(value)).not.toContain("forged");
  });

  test.for<[string, object]>([
    ["negative counts", { prompt_tokens: -1, completion_tokens: 2 }],
    ["fractions", { prompt_tokens: 1.5, completion_tokens: 2 }],
    ["text", { prompt_tokens: "3", completion_tokens: 2 }],
    ["more cached tokens than input", { ...usage, prompt_tokens_details: { cached_tokens: 9_999 } }],
  ])("charges within the reservation if the provider states %s as usage", async ([, stated]) => {
    answer = (_, response) => json(response, { ...completion({ content: "x" }), usage: stated });
    const { account } = await ask();
    expect(account.run.status).toBe("succeeded");
    expect(Number(account.charged)).toBeGreaterThanOrEqual(0);
    expect(Number(account.charged)).toBeLessThanOrEqual(Number(account.run.reserved_credits));
  });

  test("caps the charged input at the model's context window if the provider reports more input tokens", async () => {
    answer = (_, response) =>
      json(response, { ...completion({ content: "x" }), usage: { prompt_tokens: 1e15, completion_tokens: 2 } });
    const { account } = await ask();
    expect(account.run).toMatchObject({ status: "succeeded", input_tokens: 128_000, output_tokens: 2 });
  });

  describe("a whole answer instead of a stream", () => {
    const calculate = {
      id: "t",
      type: "function",
      function: { name: "calculator", arguments: '{"expression":"1+1"}' },
    };

    test.for<[string, object, object, string]>([
      ["that states its usage is charged for it", {}, { input_tokens: 3, output_tokens: 2 }, "provider"],
      ["that states no usage is free", { usage: undefined }, { input_tokens: 0, output_tokens: 0 }, "unavailable"],
      [
        "that is an error is charged for the usage it states",
        { choices: undefined, error: {} },
        { input_tokens: 3 },
        "provider",
      ],
      [
        "that is an error without usage is free",
        { choices: undefined, error: {}, usage: undefined },
        {},
        "unavailable",
      ],
    ])(
      "a streamed call gets 502 if the provider does not stream its answer: an answer %s",
      async ([, fields, counted, source]) => {
        answer = (_, response) => json(response, { ...completion({ content: "x" }), ...fields });
        const { error, account } = await ask({ stream: true });
        expect(error).toMatchObject({ status: 502, code: "provider_error" });
        expect(account.run).toMatchObject({ status: "failed", usage_source: source, ...counted });
        expect(Number(account.charged) > 0).toBe(source === "provider");
        expect(account.steps).toMatchObject([{ type: "model", status: "failed" }]);
      },
    );

    test.for<[string, object, object, object, string]>([
      ["that states its usage is charged for it", {}, {}, { input_tokens: 3, output_tokens: 2 }, "provider"],
      [
        "that states its usage is charged for it, in a call with tools",
        { platform: { tools: ["calculator"] } },
        {},
        { input_tokens: 3 },
        "provider",
      ],
      ["that states no usage is free", {}, { usage: undefined }, { input_tokens: 0 }, "unavailable"],
      [
        "that is an error is charged for the usage it states",
        {},
        { choices: undefined, error: {} },
        { input_tokens: 3 },
        "provider",
      ],
      [
        "that is an error without usage is free",
        {},
        { choices: undefined, error: {}, usage: undefined },
        {},
        "unavailable",
      ],
    ])(
      "the call fails with provider_error if the provider labels a whole answer as a stream: an answer %s",
      async ([, asked, fields, counted, source]) => {
        const text = JSON.stringify({ ...completion({ content: "x" }), ...fields }, null, 2);
        answer = (_, response) => response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
        const { error, account } = await ask({ stream: true, ...asked });
        expect(error).toMatchObject({ code: "provider_error" });
        expect(account.run).toMatchObject({ status: "failed", usage_source: source, ...counted });
        expect(Number(account.charged) > 0).toBe(source === "provider");
        expect(account.steps).toMatchObject([{ type: "model", status: "failed" }]);
      },
    );

    const whole = completion({ content: "x" });
    const inLines = JSON.stringify(whole, null, 2);
    const failure = JSON.stringify({ error: { message: "no" } });
    const calculating = { platform: { tools: ["calculator"] } };
    test.for<[string, string, object, string]>([
      ["followed by the end of a stream", `${inLines}\ndata: [DONE]\n\n`, {}, "provider"],
      ["followed by an unknown event", `${inLines}\ndata: x\n\n`, {}, "provider"],
      ["after a comment", `: waiting\n${inLines}`, {}, "provider"],
      ["in an event, in a call with tools", `data: ${JSON.stringify(whole)}\n\n`, calculating, "provider"],
      ["that is an error followed by the end of a stream", `${failure}\ndata: [DONE]\n\n`, {}, "unavailable"],
      ["that is only the end of a stream", "data: [DONE]\n\n", {}, "unavailable"],
    ])(
      "if the provider labels a whole answer as a stream, only the usage in the answer is charged: an answer %s",
      async ([, text, asked, source]) => {
        answer = (_, response) => response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
        const { error, account } = await ask({ stream: true, ...asked });
        expect(error).toMatchObject({ code: "provider_error" });
        expect(account.run).toMatchObject({ status: "failed", usage_source: source });
        expect(Number(account.charged) > 0).toBe(source === "provider");
      },
    );

    test.for<[string, string]>([
      ["an error", '{"error":{}}'],
      ["an error event", 'data: {"error":{}}\n\n'],
      ["a comment", ": waiting\n\n"],
    ])(
      "if the client disconnects, the gateway reads the answer to its end, but charges nothing for an answer that contains only %s",
      async ([, text]) => {
        answer = (_, response) => {
          response.writeHead(200, { "content-type": "text/event-stream" }).write(": waiting\n\n");
          setTimeout(() => response.end(text), 600);
        };
        const { account } = await ask({ stream: true }, { by: draining, leaveAfterMs: 250 });
        expect(account.run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "unavailable" });
        expect(Number(account.charged)).toBe(0);
      },
    );

    test("charges all steps of a streamed call if a later step gets a whole answer instead of a stream", async () => {
      const choice = { index: 0, delta: { tool_calls: [{ index: 0, ...calculate }] }, finish_reason: "tool_calls" };
      const events = [{ choices: [choice] }, { choices: [], usage }].map(event);
      answer = ({ messages }, response) => {
        if (messages.some(({ role }) => role === "tool")) return void json(response, completion({ content: "x" }));
        response.writeHead(200, { "content-type": "text/event-stream" }).end(`${events.join("")}data: [DONE]\n\n`);
      };
      const withTools = { stream: true, platform: { tools: ["calculator"] } };
      const { account } = await ask(withTools);
      expect(account.run).toMatchObject({ status: "failed", input_tokens: 6, output_tokens: 4 });
      expect(account.steps.map(({ status }) => status)).toEqual(["succeeded", "succeeded", "failed"]);

      const atOnce = answer;
      answer = (body, response) => void setTimeout(atOnce, body.messages.length > 1 ? 700 : 0, body, response);
      const left = await ask(withTools, { by: draining, leaveAfterMs: 350 });
      expect(left.account.run).toMatchObject({ status: "cancelled", input_tokens: 6, output_tokens: 4 });
    });
  });

  test.for<[string, object, object, string, object]>([
    ["that states its usage is charged for it", {}, { input_tokens: 3, output_tokens: 2 }, "provider", {}],
    [
      "that states its usage is charged for it, in a call with tools",
      {},
      { input_tokens: 3 },
      "provider",
      { platform: { tools: ["calculator"] } },
    ],
    ["that states no usage is free", { usage: undefined }, { input_tokens: 0 }, "unavailable", {}],
  ])("an unrequested stream %s, and the call fails with 502", async (row) => {
    const [, fields, counted, source, asked] = row;
    const events = [{ choices: [{ index: 0, delta: { content: "x" } }] }, { choices: [], usage, ...fields }].map(event);
    answer = (_, response) =>
      response.writeHead(200, { "content-type": "text/event-stream" }).end(`${events.join("")}data: [DONE]\n\n`);
    const { error, account } = await ask(asked);
    expect(error).toMatchObject({ status: 502, code: "provider_error" });
    expect(account.run).toMatchObject({ status: "failed", usage_source: source, ...counted });
    expect(Number(account.charged) > 0).toBe(source === "provider");
    expect(account.steps).toMatchObject([{ type: "model", status: "failed" }]);
  });

  const end = `${event({ choices: [], usage })}data: [DONE]\n\n`;
  const begun = event({ choices: [{ index: 0, delta: { role: "assistant", content: "x" } }] });
  test.for<[string, string]>([
    ["a comment above its first event", `: waiting\n${begun}${end}`],
    ["unknown fields", `weight: 1\nnothing\n${begun}${end}`],
    [
      "an event before any content, such as Azure's filter results",
      `${event({ choices: [], prompt_filter_results: [] })}${begun}${end}`,
    ],
    ["usage but no content", end],
  ])("understands a stream with %s", async ([, text]) => {
    answer = (_, response) => response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
    const { error, account } = await ask({ stream: true });
    expect(error).toBeUndefined();
    expect(account.run).toMatchObject({ status: "succeeded", usage_source: "provider", input_tokens: 3 });
  });

  const wholeResponse = { object: "response", output: [], usage: responseUsage };
  test.for<[string, string, string]>([
    [
      "a whole response followed by the end of a stream",
      `${JSON.stringify(wholeResponse, null, 2)}\ndata: [DONE]\n\n`,
      "provider",
    ],
    ["a whole response in an event", `data: ${JSON.stringify(wholeResponse)}\n\n`, "provider"],
    [
      "only its beginning and its end",
      `data: ${JSON.stringify({ type: "response.created", response: { output: [] } })}\n\ndata: [DONE]\n\n`,
      "unavailable",
    ],
  ])("charges the usage stated in a malformed streamed response: %s", async ([, text, source]) => {
    answer = (_, response) => response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
    const { ended, run } = await askResponse();
    expect(ended).toMatchObject({ code: "provider_error" });
    expect(run).toMatchObject({ status: "failed", usage_source: source });
  });

  test.for<[string, string, string]>([
    ["a stream after a blank line", "\n", `${event({ choices: [], usage })}data: [DONE]\n\n`],
    ["a stream after many spaces", " ", `${" ".repeat(70)}\n\n${event({ choices: [], usage })}data: [DONE]\n\n`],
    ["a whole answer after a comment", ": waiting\n", JSON.stringify(completion({ content: "x" }))],
  ])("charges the usage stated in a malformed answer to a non-streamed call: %s", async ([, first, rest]) => {
    answer = (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(first);
      setTimeout(() => response.end(rest), 50);
    };
    const { error, account } = await ask();
    expect(error?.status).toBe(502);
    expect(account.run).toMatchObject({ status: "failed", usage_source: "provider", input_tokens: 3 });
  });

  test("cancels the call to the provider if the provider sends endless whitespace before an answer", async () => {
    const blanks = Buffer.alloc(1024 * 1024, "\n");
    const closed = new Promise((resolve) => {
      answer = (_, response) => {
        const pour = (left: number): void => {
          if (left > 0) response.write(blanks, () => pour(left - 1));
        };
        response.once("close", resolve).writeHead(200, { "content-type": "application/json" });
        pour(40);
      };
    });
    const { error, account } = await ask();
    expect(error?.status).toBe(502);
    expect(account.run).toMatchObject({ status: "failed", usage_source: "unavailable" });
    await closed;
  });

  describe("an extremely deeply nested answer", () => {
    const nested = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;

    test.for<[string, object, string]>([
      ["that states usage", {}, "provider"],
      ["that states usage and has a `platform` member", { platform: {} }, "provider"],
      ["that states no usage", { usage: undefined }, "unavailable"],
    ])(
      "an extremely deeply nested answer %s causes a 502, and any stated usage is charged",
      async ([, fields, source]) => {
        const { choices: _, ...rest } = { ...completion({ content: "x" }), ...fields };
        answer = (_, response) =>
          response
            .writeHead(200, { "content-type": "application/json" })
            .end(`{"choices":[${nested}],${JSON.stringify(rest).slice(1)}`);
        const { error, account } = await ask();
        expect(error?.status).toBe(502);
        expect(account.run).toMatchObject({ status: "failed", usage_source: source });
      },
    );

    test.for([false, true])(
      "charges the usage of a streamed response whose last event is deeply nested (call with tools: %s)",
      async (withTools) => {
        const completed = { id: "r", object: "response", created_at: 1, status: "completed", usage: responseUsage };
        answer = (_, response) =>
          response
            .writeHead(200, { "content-type": "text/event-stream" })
            .end(
              `data: {"type":"response.completed","response":{"output":[${nested}],${JSON.stringify(completed).slice(1)}}\n\n`,
            );
        const { ended, run } = await askResponse(withTools ? { tools: ["calculator"] } : {});
        expect(ended).toMatchObject({ code: "provider_error" });
        expect(run).toMatchObject({ status: "failed", usage_source: "provider", input_tokens: 3 });
      },
    );
  });

  test.for([false, true])("ignores keepalive events in a response stream (call with tools: %s)", async (tools) => {
    const keepalive = 'event: keepalive\ndata: {"type":"keepalive","sequence_number":2}\n\n';
    const begun = { id: "r", created_at: 1, output: [] };
    const completed = { ...begun, status: "completed", usage: responseUsage };
    const events = [
      { type: "response.created", response: begun },
      { type: "response.output_text.delta", delta: "x" },
      { type: "response.completed", response: completed },
    ];
    const text = events.map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`).join(keepalive);
    answer = (_, response) =>
      response.writeHead(200, { "content-type": "text/event-stream" }).end(`event: ping\n\n${keepalive}${text}`);
    const { ended, run } = await askResponse(tools ? { tools: ["calculator"] } : {});
    expect(ended).toEqual(events.map(({ type }) => type));
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider", input_tokens: 3 });
  });

  test.for<[string, (response: ServerResponse) => void]>([
    ["an answer of the wrong type", (response) => json(response, { object: "list", data: [] })],
    ["a web page", (response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>secret</html>")],
    ["bytes that are not text", (response) => response.writeHead(200).end(Buffer.from([0x7b, 0xc3, 0x28, 0x7d]))],
    ["its own error with status 200", (response) => json(response, { error: { message: "secret" } })],
    ["nothing", (response) => response.writeHead(200).end()],
    ["an error in its own words", (response) => response.writeHead(500).end('{"error":{"message":"secret"}}')],
  ])("answers 502 with our own error message if the provider sends %s", async ([, send]) => {
    answer = (_, response) => void send(response);
    const { error, account } = await ask();
    expect(error).toMatchObject({ status: 502, code: "provider_error" });
    expect(error?.message).not.toContain("secret");
    expect(account.run).toMatchObject({ status: "failed", usage_source: "unavailable" });
  });
});
