import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { createAiKey } from "../_shared/ai-key.ts";
import { createHandler } from "../chat/handler.ts";
import { createCredentialReader } from "./admission/credentials.ts";
import type { CallFacts } from "./admission/refused-calls.ts";
import type { Gateway } from "./calls/gateway.ts";
import type { GatewayDatabase, Run } from "./database/database.ts";
import type { EnvelopeSnapshot } from "./envelopes/envelope-watch.ts";
import { createWaitingCalls, type WaitEnd } from "./envelopes/waiting-calls.ts";
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
  drains = false,
  ...changes
}: {
  answers?: readonly Answer[];
  routes?: number;
  totalBytes?: number;
  begin?: () => ReturnType<GatewayDatabase["beginRun"]>;
  store?: GatewayDatabase["storeRunContent"];
  drains?: boolean;
} & Partial<Pick<Gateway, "watchEnvelope" | "waitForEnvelope" | "limits">>) {
  const provider = await startProvider(answers);
  const memory = createBodyMemory(totalBytes);
  const soFar: (() => { input_tokens: number; cost_usd: string })[] = [];
  const database = {
    checkCredential: async () => "workspace",
    extendRun: async () => ({ reserved_usd: "0", reserved_credits: "0" }),
    storeRunContent: store,
  } as unknown as GatewayDatabase;
  const now = () => performance.now();
  const outcomes: object[] = [];
  const refused: string[] = [];
  const gateway = {
    database,
    beginRun: begin ?? (async () => runOf(routes, false)),
    providers: new Map([
      ["p", { baseUrl: provider.baseUrl, kind: kinds["openai-compatible"], allowPrivate: true, drains }],
    ]),
    cooldowns: createCooldowns({ now }),
    limits: timeLimitsOf({ totalSeconds: 20, isHosted: false }),
    readBody: createBodyReader(memory),
    readCredential: createCredentialReader(async () => ({ status: "unavailable" }), { identityHeaders: {} }),
    addressOf: () => undefined,
    settlements: { add: (outcome: object) => outcomes.push(outcome), awaitOutcome() {}, flush: async () => {} },
    refusedCalls: {
      add({ state }: CallFacts, { code }: GatewayError) {
        if (state !== "open") refused.push(code);
      },
      flush: async () => {},
    },
    watchEnvelope: () => () => {},
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
    ...changes,
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
    outcomes,
    refused,
    isFree,
    untilFree: () => vi.waitFor(async () => expect(await isFree()).toBe(true), { timeout: 10_000 }),
    post(body: object | string, init: RequestInit = {}, more: Record<string, string> = {}) {
      const headers = { "content-type": "application/json", authorization: `Bearer ${key}`, ...more };
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

const limit = { kind: "envelope", id: "e", label: "l", state: "open", workspace_id: "w" };
const usedUp = () => Promise.reject(new GatewayError("envelope_exhausted", { details: { limit, need: { usd: 1 } } }));
const snapshot = { id: "e", limit_usd: 5, spent_usd: 5, reserved_usd: 0, calls: 1, ends_at: "2026-12-30T00:00:00Z" };
const waiting = { "x-platform-envelope": "usd=5; wait=600" };

/** Envelopes whose readings the test writes. */
function openEnvelopes() {
  const listeners = new Set<(snapshot: EnvelopeSnapshot) => void>();
  const watchEnvelope: Gateway["watchEnvelope"] = (_, listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  return {
    listeners,
    watchEnvelope,
    waitForEnvelope: createWaitingCalls({
      watch: watchEnvelope,
      maxBytes: 8 * prompt.length,
      stopping: new AbortController().signal,
    }),
    read(change: Partial<EnvelopeSnapshot>) {
      for (const listener of [...listeners]) listener({ ...snapshot, state: "open", ...change });
    },
    untilWatched: (count: number) => vi.waitFor(() => expect(listeners.size).toBe(count), { timeout: 10_000 }),
  };
}

describe("A call that waits for its envelope", () => {
  test.for([
    ["whole", {}, whole],
    ["streamed", { stream: true }, streams],
  ] as const)("is answered with its whole body once there is room: %s", async ([, fields, answer]) => {
    const envelopes = openEnvelopes();
    let calls = 0;
    const begin = () => (calls++ < 2 ? usedUp() : Promise.resolve(runOf(1, false)));
    const { post, received, untilFree, refused, outcomes } = await createChat({
      answers: [answer],
      begin,
      ...envelopes,
    });
    const answering = post({ ...hello, ...fields }, {}, waiting);
    for (const count of [1, 2]) {
      await vi.waitFor(() => expect([calls, envelopes.listeners.size]).toEqual([count, 1]));
      envelopes.read({});
      expect(calls).toBe(count);
      envelopes.read({ limit_usd: 6 });
    }
    const response = await answering;
    expect([response.status, (await response.text()).includes('"content":"a"')]).toEqual([200, true]);
    expect(received.map((body) => JSON.parse(body).messages)).toEqual([hello.messages]);
    expect([refused, outcomes.length, envelopes.listeners.size]).toEqual([[], 1, 0]);
    await untilFree();
  });

  test.for<[string, Partial<EnvelopeSnapshot> | "leaves", string]>([
    ["its client leaves", "leaves", "no room"],
    ["the envelope is stopped", { state: "ended" }, "was stopped by its owner"],
    ["the envelope expires", { state: "expired" }, "expired"],
  ])("frees everything and is refused once if %s", async ([, change, words]) => {
    const envelopes = openEnvelopes();
    const leaving = new AbortController();
    const { post, isFree, untilFree, refused } = await createChat({ begin: usedUp, ...envelopes });
    const answering = post(hello, { signal: leaving.signal }, waiting);
    await envelopes.untilWatched(1);
    expect(await isFree()).toBe(false);
    if (change === "leaves") leaving.abort();
    else envelopes.read(change);
    const response = await answering;
    expect([response.status, await response.text()]).toEqual([402, expect.stringContaining(words)]);
    expect([refused, envelopes.listeners.size]).toEqual([["envelope_exhausted"], 0]);
    await untilFree();
  });

  test.for([false, true])(
    "gets keepalives, then the error, after its response has begun (stream: %s)",
    async (stream) => {
      const envelopes = openEnvelopes();
      const limits = { ...timeLimitsOf({ totalSeconds: 20, isHosted: false }), beginMs: 50, keepaliveMs: 50 };
      const { post, untilFree, refused } = await createChat({ begin: usedUp, limits, ...envelopes });
      const response = await post({ ...hello, stream }, {}, waiting);
      const answer = response.text();
      setTimeout(() => envelopes.read({ state: "ended" }), 200);
      const text = await answer;
      expect([response.status, response.headers.get("content-type")?.split(";")[0]]).toEqual([
        200,
        stream ? "text/event-stream" : "application/json",
      ]);
      expect(text).toMatch(stream ? /^(: keepalive\n){2,}data: \{"error"/ : /^\n{2,}\{"error"/);
      expect(text).toContain('"code":"envelope_exhausted"');
      expect(refused).toEqual(["envelope_exhausted"]);
      await untilFree();
    },
  );

  test("is tried only once without the member wait, or if a later refusal is another one", async () => {
    const answers = [usedUp, () => Promise.reject(new GatewayError("budget_exceeded"))];
    const room: WaitEnd = { state: "room", roomUsd: 2 };
    const { post, refused } = await createChat({
      begin: () => answers.shift()?.() ?? usedUp(),
      waitForEnvelope: async () => room,
    });
    expect((await post(hello, {}, waiting)).status).toBe(402);
    expect((await post(hello, {}, { "x-platform-envelope": "usd=5" })).status).toBe(402);
    expect(refused).toEqual(["budget_exceeded", "envelope_exhausted"]);
  });
});

describe("A running call whose envelope is stopped", () => {
  const envelope = { id: "e", label: "l", remaining_usd: "12345.000000000001", remaining_calls: 2 };
  const begin = async () => ({ ...runOf(1, false), reserved_usd: "1", envelope: { ...envelope } });

  test.for([
    ["a whole answer", {}, false],
    ["a whole answer of a provider that charges in full", {}, true],
    ["a stream that has not begun", { stream: true }, false],
    ["a stream of a provider that charges in full", { stream: true }, true],
  ] as const)("gets 402 at once and is settled: %s", async ([, fields, drains]) => {
    let finish = () => {};
    const thinking: Answer = (response, body) => {
      finish = () => ("stream" in fields ? streams : whole)(response, body);
    };
    const envelopes = openEnvelopes();
    const { post, received, outcomes, untilFree } = await createChat({
      answers: [thinking],
      begin,
      drains,
      ...envelopes,
    });
    const answering = post({ ...hello, ...fields });
    await untilReceived(received, 1);
    envelopes.read({ state: "ended" });
    const response = await answering;
    expect([response.status, await response.text()]).toEqual([
      402,
      expect.stringContaining("was stopped by its owner"),
    ]);
    expect(response.headers.get("x-should-retry")).toBe("false");
    if (drains) finish();
    const status = "stream" in fields && drains ? 200 : 402;
    await vi.waitFor(() =>
      expect(outcomes).toMatchObject([{ status: "cancelled", http_status: status, error_code: "envelope_exhausted" }]),
    );
    expect(outcomes).not.toMatchObject([{ cost_usd: "0" }]);
    await untilFree();
    expect(envelopes.listeners.size).toBe(0);
  });

  test("is not affected if the envelope only expires, and states what is left", async () => {
    const envelopes = openEnvelopes();
    const expires: Answer = (response, body) => {
      expect(envelopes.listeners.size).toBe(1);
      envelopes.read({ state: "expired" });
      whole(response, body);
    };
    const { post } = await createChat({ answers: [expires], begin, ...envelopes });
    const response = await post(hello);
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-platform-envelope-id": "e",
      "x-platform-envelope-remaining-usd": "12345.999995000001",
      "x-platform-envelope-remaining-calls": "2",
    });
    expect(await response.text()).toContain(
      '"envelope":{"id":"e","remaining_usd":12345.999995000001,"remaining_calls":2}',
    );
  });
});
