import { randomUUID } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createGzip, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import type { ChatCompletion } from "openai/resources/chat/completions";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

type Body = { messages: { role: string; content: unknown; tool_call_id?: string }[] };

/** How the provider handles the next call. */
let answer: (response: ServerResponse, body: Body) => void;
const provider = createServer(async (request, response) => {
  let text = "";
  for await (const chunk of request) text += chunk;
  answer(response, JSON.parse(text));
});

let tenant: GatewayTenant;
let gateway: InProcessGateway;
beforeAll(async () => {
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  tenant = await createGatewayTenant();
  const { port } = provider.address() as AddressInfo;
  gateway = await openGateway({ AI_PROVIDER_DEMO_BASE_URL: `http://127.0.0.1:${port}/v1` });
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
  provider.closeAllConnections();
  provider.close();
});

const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
const event = (rest: object) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...rest })}\n\n`;
const said = (content: string, more: object = {}) => event({ choices: [{ index: 0, delta: { content }, ...more }] });
const begun = event({ choices: [{ index: 0, delta: { role: "assistant", content: "hi" } }] });
const finish = (reason: unknown = "stop", index = 0) =>
  event({ choices: [{ index, delta: {}, finish_reason: reason }] });
const counted = event({ choices: [], usage });
const done = "data: [DONE]\n\n";
const inEvents = (response: ServerResponse) => response.writeHead(200, { "content-type": "text/event-stream" });

/** Requests a non-streamed answer. Returns the answer or the error, and the run. */
async function ask(fields: object = {}) {
  const requestId = `it-${randomUUID()}`;
  const body = { model: "demo-chat", messages: [{ role: "user", content: "x" }], ...fields };
  const call = gateway.clientOf(tenant.key).chat.completions.create(body as never, {
    headers: { "x-request-id": requestId },
  }) as unknown as Promise<ChatCompletion>;
  const outcome = await call.then(
    ({ choices }) => ({ choices, error: undefined }),
    (error) => ({ choices: [], error }),
  );
  return { ...outcome, run: (await tenant.accountOf(requestId)).run };
}

/** Requests a stream. Returns its content or the error, and the run. */
async function stream(fields: object = {}) {
  const requestId = `it-${randomUUID()}`;
  const body = { model: "demo-chat", messages: [{ role: "user", content: "x" }], ...fields };
  const streamed = gateway
    .clientOf(tenant.key)
    .chat.completions.stream(body as never, { headers: { "x-request-id": requestId } });
  const outcome = await streamed.finalChatCompletion().then(
    ({ choices }) => ({ choices, error: undefined }),
    (error) => ({ choices: [], error }),
  );
  const { run, charged, steps } = await tenant.accountOf(requestId);
  return { ...outcome, text: outcome.choices[0]?.message.content, run, charged, steps };
}

const charged = { status: "succeeded", usage_source: "provider", input_tokens: 1000, output_tokens: 100 };
// A run that succeeded without final usage.
const guessed = { status: "succeeded", usage_source: "provider_partial" };

// https://github.com/ollama/ollama/issues/15457, https://github.com/NousResearch/hermes-agent/issues/62940
describe("two streamed tool calls at index 0", () => {
  const call = (id: string, expression: string) => ({
    index: 0,
    id,
    type: "function",
    function: { name: "calculator", arguments: JSON.stringify({ expression }) },
  });
  const calls = [call("a", "1+1"), call("b", "2+2")];
  const inChunks = [
    ["in two chunks", calls.map((each) => [each])],
    ["in one chunk", [calls]],
  ] as const;

  test.for(inChunks)(
    "runs the server tools of two tool calls that a provider streams %s, both with index 0",
    async ([, chunks]) => {
      let results: unknown[] = [];
      answer = (response, { messages }) => {
        results = messages
          .filter(({ role }) => role === "tool")
          .map(({ tool_call_id, content }) => [tool_call_id, content]);
        const called = chunks.map((tool_calls) => event({ choices: [{ index: 0, delta: { tool_calls } }] })).join("");
        inEvents(response).end(
          (results.length > 0 ? said("done") + finish() : called + finish("tool_calls")) + counted + done,
        );
      };
      const { error, text, run, steps } = await stream({ platform: { tools: ["calculator"] } });
      expect(error).toBeUndefined();
      expect(results).toEqual([
        ["a", expect.stringContaining("2")],
        ["b", expect.stringContaining("4")],
      ]);
      expect([text, run.status]).toEqual(["done", "succeeded"]);
      expect(steps.map(({ type }) => type)).toEqual(["model", "tool", "tool", "model"]);
    },
  );

  test.for(inChunks)(
    "the standard client reads both streamed tool calls at index 0 if they arrive %s",
    async ([, chunks]) => {
      answer = (response) =>
        inEvents(response).end(
          begun +
            chunks.map((tool_calls) => event({ choices: [{ index: 0, delta: { tool_calls } }] })).join("") +
            finish("tool_calls") +
            counted +
            done,
        );
      const tools = [{ type: "function", function: { name: "calculator", parameters: { type: "object" } } }];
      const { choices, run } = await stream({ tools });
      expect(
        choices[0]?.message.tool_calls?.map((each) => [each.id, each.type === "function" && each.function.arguments]),
      ).toEqual([
        ["a", '{"expression":"1+1"}'],
        ["b", '{"expression":"2+2"}'],
      ]);
      expect(run).toMatchObject(charged);
    },
  );
});

test.for<[string, string]>([
  ["a typed event", 'data: {"type":"ping"}\n\n'],
  ["a chunk without choices", event({})],
  ["a chunk whose choices are null", event({ choices: null })],
  ["a chunk with filter results", event({ choices: [], prompt_filter_results: [] })],
  ["a named event without members", "event: ping\ndata: {}\n\n"],
  ["a word", "data: heartbeat\n\n"],
  ["null", "data: null\n\n"],
  ["an empty data line", "data:\n\n"],
  ["a comment and an id", ": waiting\nid: 7\n\n"],
  ["a status message", 'data: {"type":"status","message":"Searching"}\n\n'],
  ["search results", 'data: {"search_results":[],"citations":["https://example.org"]}\n\n'],
])("a stream that contains %s at any position continues, and its stated usage is charged", async ([, other]) => {
  answer = (response) =>
    inEvents(response).end([other, begun, other, said("there"), other, finish(), counted, done].join(""));
  const { error, text, run } = await stream();
  expect([error, text]).toEqual([undefined, "hithere"]);
  expect(run).toMatchObject(charged);
});

describe("a stream without [DONE] or usage", () => {
  const ends: [string, (response: ServerResponse, events: string) => void][] = [
    ["ends", (response, events) => void response.end(events)],
    [
      "is reset",
      (response, events) => void response.write(events, () => setTimeout(() => response.socket?.resetAndDestroy(), 50)),
    ],
  ];

  test.for(
    ends.flatMap(([how, end]) =>
      [
        ["stop", begun + finish()],
        ["length, in a chunk with content", begun + said("there", { finish_reason: "length" })],
        ["eos", begun + finish("eos")],
        ["two finish reasons", begun + finish("stop") + finish("MAX_TOKENS")],
        ["stop, in the middle of the next event", `${begun}${finish()}data: {"id":"c","choi`],
      ].map(([what = "", events = ""]) => [how, what, events, end] as const),
    ),
  )("succeeds if it %s after the finish reason: %s", async ([, , events, end]) => {
    answer = (response) => end(inEvents(response), events);
    const { error, choices, run, charged: paid } = await stream();
    expect(error).toBeUndefined();
    expect(choices[0]?.finish_reason).toBeTruthy();
    expect(run).toMatchObject(guessed);
    expect(Number(paid)).toBeGreaterThan(0);
  });

  test.for(ends)("a stream without [DONE] or usage fails if it %s before a finish reason", async ([, end]) => {
    for (const reason of [null, "", "null"]) {
      answer = (response) => end(inEvents(response), begun + finish(reason));
      const { error, run } = await stream();
      expect(error).toMatchObject({ code: "provider_error" });
      expect(run).toMatchObject({ status: "failed", usage_source: "estimated_partial" });
    }
  });

  test.for(ends)(
    "a stream with two choices that %s without [DONE] succeeds only if both choices have a finish reason",
    async ([, end]) => {
      const both = begun + event({ choices: [{ index: 1, delta: { role: "assistant", content: "ho" } }] }) + finish();
      answer = (response) => end(inEvents(response), both + finish("stop", 1));
      const whole = await stream({ n: 2 });
      expect([whole.error, whole.choices.length, whole.run.status]).toEqual([undefined, 2, "succeeded"]);
      answer = (response) => end(inEvents(response), both);
      const half = await stream({ n: 2 });
      expect(half.error).toMatchObject({ code: "provider_error" });
      expect(half.run.status).toBe("failed");
    },
  );

  test("a chat stream to the client ends with [DONE] even if the provider's stream does not", async () => {
    answer = (response) => inEvents(response).end(begun + finish());
    const body = { model: "demo-chat", messages: [{ role: "user", content: "x" }], stream: true } as const;
    const response = await gateway
      .clientOf(tenant.key)
      .chat.completions.create(body as never)
      .asResponse();
    const text = await response.text();
    expect(text).toMatch(/\n\nevent: response\.completed\ndata: \{.*\}\n\ndata: \[DONE\]\n\n$/);
    expect(text).not.toContain('"error"');
  });
});

// https://github.com/ggml-org/llama.cpp/issues/20198, https://github.com/huggingface/text-generation-inference/issues/2136
describe("tool arguments sent as an object instead of text", () => {
  const call = {
    index: 0,
    id: "a",
    type: "function",
    function: { name: "calculator", arguments: { expression: "1+1" } },
  };
  const message = { role: "assistant", content: null, tool_calls: [call] };
  const whole = {
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message, finish_reason: "tool_calls" }],
    usage,
  };
  const events = event({ choices: [{ index: 0, delta: message }] }) + finish("tool_calls") + counted + done;
  const tools = [{ type: "function", function: { name: "calculator", parameters: { type: "object" } } }];

  test.for([false, true])(
    "tool arguments that the provider sends as an object reach the client as JSON text (stream: %s)",
    async (streams) => {
      answer = (response) => void (streams ? inEvents(response).end(events) : response.end(JSON.stringify(whole)));
      const { choices } = streams ? await stream({ tools }) : await ask({ tools });
      expect(choices[0]?.message.tool_calls).toMatchObject([
        { id: "a", function: { arguments: '{"expression":"1+1"}' } },
      ]);
    },
  );

  test.for([false, true])(
    "server tools accept arguments that are an object instead of JSON text (stream: %s)",
    async (streams) => {
      let result: unknown;
      answer = (response, { messages }) => {
        result = messages.find(({ role }) => role === "tool")?.content;
        const last = {
          ...whole,
          choices: [{ index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }],
        };
        if (streams) inEvents(response).end(result === undefined ? events : said("done") + finish() + counted + done);
        else response.end(JSON.stringify(result === undefined ? whole : last));
      };
      const asked = { platform: { tools: ["calculator"] } };
      const { choices } = streams ? await stream(asked) : await ask(asked);
      expect([choices[0]?.message.content, result]).toEqual(["done", expect.stringContaining("2")]);
    },
  );
});

describe("an answer in a content coding that was not requested", () => {
  const completion = JSON.stringify({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
    usage,
  });

  const askIn = (coding: string, bytes: Buffer) => {
    answer = (response) =>
      response.writeHead(200, { "content-type": "application/json", "content-encoding": coding }).end(bytes);
    return ask();
  };

  test.for<[string, (text: string) => Buffer]>([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["deflate", deflateRawSync],
  ])("decodes and charges an answer in a content coding that was not requested: %s", async ([coding, encode]) => {
    const { choices, run } = await askIn(coding, encode(completion));
    expect(choices[0]?.message.content).toBe("hi");
    expect(run).toMatchObject(charged);
  });

  test.for<[string, string, Buffer]>([
    ["is truncated", "gzip", gzipSync(completion).subarray(0, -12)],
    ["does not match its stated coding", "gzip", Buffer.from(completion)],
    ["is in an unknown coding", "compress", gzipSync(completion)],
    ["is larger than any answer once it is decoded", "gzip", gzipSync(`${" ".repeat(33 * 1024 * 1024)}${completion}`)],
  ])("an encoded answer that %s fails with provider_error and x-should-retry: false", async ([, coding, bytes]) => {
    const { error, run } = await askIn(coding, bytes);
    expect(error).toMatchObject({ status: 502, code: "provider_error" });
    expect(error.headers.get("x-should-retry")).toBe("false");
    expect(run.status).toBe("failed");
  });

  test("passes on the events of a compressed stream as they arrive", async () => {
    const gzip = createGzip();
    answer = (response) => {
      gzip.pipe(response.writeHead(200, { "content-type": "text/event-stream", "content-encoding": "gzip" }));
      gzip.write(begun);
      gzip.flush();
    };
    let text = "";
    for await (const { choices } of await gateway
      .clientOf(tenant.key)
      .chat.completions.create({ model: "demo-chat", messages: [{ role: "user", content: "x" }], stream: true })) {
      text += choices[0]?.delta.content ?? "";
      // The provider sends the rest only after this text has arrived.
      if (text === "hi") gzip.end(said("there") + finish() + counted + done);
    }
    expect(text).toBe("hithere");
  });
});

describe("a streamed response without its last event", () => {
  const events = [
    { type: "response.created", response: { id: "r", created_at: 1, output: [] } },
    { type: "response.output_text.delta", delta: "hi" },
  ];
  const text = events.map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`).join("");

  test.for<[string, string, string | undefined]>([
    ["fails if it ends without [DONE]", "", "provider_error"],
    ["succeeds if it ends with [DONE]", done, undefined],
  ])("a Responses stream without response.completed %s", async ([, last, code]) => {
    answer = (response) => inEvents(response).end(text + last);
    const requestId = `it-${randomUUID()}`;
    const body = { model: "demo-chat", input: "x", stream: true } as const;
    const read = async () => {
      const client = gateway.clientOf(tenant.key);
      for await (const _ of await client.responses.create(body, { headers: { "x-request-id": requestId } }));
    };
    expect(await read().catch((error) => error.code)).toBe(code);
    expect((await tenant.accountOf(requestId)).run.status).toBe(code ? "failed" : "succeeded");
  });
});
