import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { createAiKey } from "../_shared/ai-key.ts";
import { createHandler } from "../chat/handler.ts";
import { createCredentialReader } from "./admission/credentials.ts";
import type { Gateway } from "./calls/gateway.ts";
import type { GatewayDatabase, Run } from "./database/database.ts";
import { createBodyReader } from "./http/body.ts";
import { createBodyMemory } from "./http/body-memory.ts";
import { GatewayError } from "./http/errors.ts";
import { createCooldowns } from "./providers/cooldowns.ts";
import { kinds } from "./providers/kinds/registry.ts";
import { timeLimitsOf } from "./providers/limits.ts";
import type { OpenRuns } from "./runs/open-runs.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const prompt = "x".repeat(200 * 1024);
const { text: key } = await createAiKey();

type Answer = (response: ServerResponse, body: string) => void;

/** Starts a provider that answers its requests in turn, once it has received each whole body. */
async function startProvider(answers: readonly Answer[]) {
  const received: string[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    received.push(body);
    answers[received.length - 1]?.(response, body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, received };
}

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const completion = (message: object, finish_reason = "stop") => ({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "a", ...message }, finish_reason }],
  usage,
});
const whole: Answer = (response) =>
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(completion({})));
const failing: Answer = (response) => response.writeHead(500).end("{}");
const toolCall = { id: "c", type: "function", function: { name: "calculator", arguments: '{"expression":"1+1"}' } };
const callsTool: Answer = (response) => {
  const tool_calls = [toolCall];
  response
    .writeHead(200, { "content-type": "application/json" })
    .end(JSON.stringify(completion({ content: null, tool_calls }, "tool_calls")));
};
const chunk = (delta: object, rest: object = {}) =>
  `data: ${JSON.stringify({ id: "c", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: null }], ...rest })}\n\n`;
const beginsStream: Answer = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" }).write(chunk({ role: "assistant", content: "a" }));
};
function endStream(response: ServerResponse, finish_reason: string): void {
  response.write(chunk({}, { choices: [{ index: 0, delta: {}, finish_reason }] }));
  response.end(`${chunk({}, { choices: [], usage })}data: [DONE]\n\n`);
}
const streams: Answer = (response, body) => {
  beginsStream(response, body);
  endStream(response, "stop");
};
const streamsTool: Answer = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(chunk({ role: "assistant", tool_calls: [{ index: 0, ...toolCall }] }));
  endStream(response, "tool_calls");
};
const hangs: Answer = () => {};

function runOf(routes: number, capture: boolean): Run {
  const route = (_: unknown, n: number) => ({
    position: n + 1,
    provider: "p",
    model: `m${n + 1}`,
    prices: [{ min_input_tokens: 0, input: "1", output: "1" }],
  });
  return {
    run_id: crypto.randomUUID(),
    created_at: new Date().toISOString(),
    workspace_id: crypto.randomUUID(),
    model: "m",
    routes: Array.from({ length: routes }, route),
    credits_per_usd: "1",
    exempt: false,
    reserved_usd: "0",
    reserved_credits: "0",
    cost_visible: true,
    capture,
    limits: { minute: null, counts: Array(8).fill(null) },
  };
}

/** Creates a chat function whose database admits every call, and memory for little more than one body. */
async function createChat({
  answers = [],
  routes = 1,
  totalBytes = 8 * prompt.length,
  begin,
  store = async () => {},
}: {
  answers?: readonly Answer[];
  routes?: number;
  totalBytes?: number;
  begin?: () => ReturnType<GatewayDatabase["beginRun"]>;
  store?: GatewayDatabase["storeRunContent"];
}) {
  const provider = await startProvider(answers);
  const memory = createBodyMemory(totalBytes);
  const soFar: (() => { input_tokens: number; cost_usd: string })[] = [];
  const database = {
    checkCredential: async () => "workspace",
    extendRun: async () => ({ reserved_usd: "0", reserved_credits: "0" }),
    storeRunContent: store,
  } as unknown as GatewayDatabase;
  const now = () => performance.now();
  const gateway = {
    database,
    beginRun: begin ?? (async () => runOf(routes, false)),
    providers: new Map([
      ["p", { baseUrl: provider.baseUrl, kind: kinds["openai-compatible"], allowPrivate: true, drains: false }],
    ]),
    cooldowns: createCooldowns({ now }),
    limits: timeLimitsOf({ totalSeconds: 20, isHosted: false }),
    readBody: createBodyReader(memory),
    readCredential: createCredentialReader(async () => ({ status: "unavailable" }), { identityHeaders: {} }),
    addressOf: () => undefined,
    settlements: { add() {}, awaitOutcome() {}, flush: async () => {} },
    refusedCalls: { add() {}, flush: async () => {} },
    openRuns: {
      track(_: Run, use: Parameters<OpenRuns["track"]>[1]) {
        soFar.push(use);
        return () => {};
      },
    },
    now,
    waitUntil() {},
    report() {},
    telemetry: {},
  } as unknown as Gateway;
  const chat = createHandler(gateway);
  /** Returns whether all memory is free. */
  async function isFree(): Promise<boolean> {
    const leaving = new AbortController();
    const granting = memory.grant(totalBytes, { workspace: "other", signal: leaving.signal });
    setImmediate(() => leaving.abort());
    return granting.then(
      (grant) => {
        grant.release();
        return true;
      },
      () => false,
    );
  }
  return {
    /** Returns what the heartbeat of the last run reports. */
    useSoFar: () => soFar.at(-1)?.(),
    received: provider.received,
    isFree,
    untilFree: () => vi.waitFor(async () => expect(await isFree()).toBe(true), { timeout: 10_000 }),
    post(body: object | string, init: RequestInit = {}) {
      const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
      const sent = typeof body === "string" ? body : JSON.stringify(body);
      return chat(new Request("http://f/chat/completions", { method: "POST", headers, body: sent, ...init }));
    },
  };
}

const hello = { model: "m", messages: [{ role: "user", content: prompt }] };
const untilReceived = (received: string[], count: number) =>
  vi.waitFor(() => expect(received).toHaveLength(count), { timeout: 10_000 });

describe("The memory of a large body", () => {
  test.for<[string, object | string, Parameters<typeof createChat>[0], number]>([
    ["a body that is not JSON", prompt, {}, 400],
    ["a body that the schema refuses", { ...hello, n: 0 }, {}, 400],
    [
      "a refusal by the database",
      hello,
      { begin: async () => Promise.reject(new GatewayError("budget_exceeded")) },
      402,
    ],
    ["a stored answer", hello, { begin: async () => ({ storedAnswer: JSON.stringify(completion({})) }) }, 200],
    ["a whole answer", hello, { answers: [whole] }, 200],
    ["an answer from the second route", hello, { answers: [failing, whole], routes: 2 }, 200],
    ["the failure of every route", hello, { answers: [failing, failing], routes: 2 }, 502],
    ["a stream", { ...hello, stream: true }, { answers: [streams] }, 200],
    ["a tool loop", { ...hello, tools: ["calculator"] }, { answers: [callsTool, whole] }, 200],
    [
      "a streamed tool loop",
      { ...hello, tools: ["calculator"], stream: true },
      { answers: [streamsTool, streams] },
      200,
    ],
  ])("is free after %s", async ([, body, options, status]) => {
    const { post, untilFree } = await createChat(options);
    const response = await post(body);
    expect(response.status).toBe(status);
    await response.text();
    await untilFree();
  });

  test("is free once the request was sent to the only route, while its provider thinks", async () => {
    const { post, received, untilFree } = await createChat({ answers: [hangs] });
    const leaving = new AbortController();
    const answering = post(hello, { signal: leaving.signal });
    await untilReceived(received, 1);
    await untilFree();
    leaving.abort();
    expect((await answering).status).toBe(502);
    await untilFree();
  });

  test("is kept for the next route while the first one thinks, which then gets the whole body", async () => {
    let fail = () => {};
    const thinking: Answer = (response, body) => {
      fail = () => failing(response, body);
    };
    const { post, received, isFree, untilFree } = await createChat({ answers: [thinking, whole], routes: 2 });
    const answering = post(hello);
    await untilReceived(received, 1);
    expect(await isFree()).toBe(false);
    fail();
    expect((await answering).status).toBe(200);
    expect(received.map((body) => JSON.parse(body).messages)).toEqual([hello.messages, hello.messages]);
    await untilFree();
  });

  test("is kept for the next step of a tool loop, which sends the whole conversation", async () => {
    const { post, received, untilFree } = await createChat({ answers: [callsTool, whole] });
    expect((await post({ ...hello, tools: ["calculator"] })).status).toBe(200);
    expect(received.map((body) => JSON.parse(body).messages.length)).toEqual([1, 3]);
    expect(JSON.parse(received[1] ?? "").messages[0]).toEqual(hello.messages[0]);
    await untilFree();
  });

  test("is free while a stream is still open, and after its client has left", async () => {
    const { post, untilFree } = await createChat({ answers: [beginsStream], routes: 2 });
    const leaving = new AbortController();
    const response = await post({ ...hello, stream: true }, { signal: leaving.signal });
    await response.body?.getReader().read();
    await untilFree();
    leaving.abort();
    await untilFree();
  });

  test("is kept until the prompt is stored, if the workspace captures content", async () => {
    let finish = () => {};
    const stored = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const { post, isFree, untilFree } = await createChat({
      answers: [whole],
      begin: async () => runOf(1, true),
      store: () => stored,
    });
    expect((await post(hello)).status).toBe(200);
    expect(await isFree()).toBe(false);
    finish();
    await untilFree();
  });
});

test.for([
  ["of 1 MiB is stored", 0],
  ["above 1 MiB is not stored", 1],
] as const)("if the workspace captures content, a prompt %s", async ([, more]) => {
  const stored: unknown[] = [];
  const { post, received } = await createChat({
    answers: [whole],
    totalBytes: 16 * 1024 * 1024,
    begin: async () => runOf(1, true),
    store: async ({ prompt }) => void stored.push(prompt),
  });
  const empty = JSON.stringify({ ...hello, messages: [{ role: "user", content: "" }] });
  const content = "x".repeat(1024 * 1024 - empty.length + more);
  const body = JSON.stringify({ ...hello, messages: [{ role: "user", content }] });
  expect((await post(body)).status).toBe(200);
  expect(stored.filter((each) => each !== undefined)).toEqual(more === 0 ? [body] : []);
  expect(JSON.parse(received[0] ?? "").messages).toEqual([{ role: "user", content }]);
});

describe("The heartbeats of a call whose provider thinks", () => {
  test.for([1, 2])("report the estimated cost of its input, once the request was sent to route %i", async (routes) => {
    const answers = routes === 1 ? [hangs] : [failing, hangs];
    const { post, received, useSoFar } = await createChat({ answers, routes });
    const leaving = new AbortController();
    const answering = post(hello, { signal: leaving.signal });
    await untilReceived(received, routes);
    const use = useSoFar();
    expect(use).toMatchObject({ route: routes });
    expect(use?.input_tokens).toBeGreaterThan(prompt.length / 10);
    expect(Number(use?.cost_usd)).toBeGreaterThan(0);
    leaving.abort();
    await answering;
  });
});
