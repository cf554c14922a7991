import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { denoCommand, functionsCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { type AppTenant, createAppTenant } from "../../tests/gateway/app-tenant.ts";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";

const root = path.resolve(import.meta.dirname, "../../..");
const functions = ["audio", "chat", "embeddings", "generate", "models", "provider-costs", "responses", "usage"];

/**
 * Serves the functions as in a deployment, where no code of ours catches a rejection that a function leaves unhandled.
 */
const plainHost = `
  const { responseLoop } = await import("./packages/local-stack/services/functions/response-loops.ts");
  const listen = responseLoop(Deno.env.get("LOCAL_RESPONSE_LOOP"));
  const handlers = {};
  let name;
  Object.defineProperty(Deno, "serve", { value: (handler) => { handlers[name] = handler; } });
  for (name of ${JSON.stringify(functions)}) await import("./supabase/functions/" + name + "/index.ts");
  const runtime = await import("./supabase/functions/_gateway/runtime.ts");
  name = "failing";
  runtime.serve(({ waitUntil }) => async () => {
    waitUntil(Promise.reject(new RangeError("behind the answer")));
    return new Response("answered");
  });
  const handle = async (request) => {
    const handler = handlers[new URL(request.url).pathname.split("/")[1]];
    return handler ? handler(request) : new Response("ready");
  };
  listen(handle, {
    hostname: "127.0.0.1",
    port: Number(Deno.env.get("PORT")),
    onListen() {},
    onError: () => new Response("failed", { status: 500 }),
  });`;
const paceMs = 20;
const pieces = 60;
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
const chunk = (fields: object) =>
  event({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...fields });
const responsesUsage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
const message = { role: "assistant", content: "x" };
const wholeAnswers: Record<string, object> = {
  completions: { ...chunk, object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop" }], usage },
  responses: { id: "r", object: "response", model: "m", status: "completed", output: [], usage: responsesUsage },
  embeddings: { object: "list", model: "m", data: [{ object: "embedding", index: 0, embedding: [0] }], usage },
};

/** Number of provider calls that the gateway aborted. */
let abandoned = 0;

async function writeSlowly(response: ServerResponse, piece: string): Promise<void> {
  for (let count = 0; count < pieces && !response.destroyed; count += 1) {
    response.write(piece);
    await sleep(paceMs);
  }
  if (response.destroyed) abandoned += 1;
}

/** A slow provider that cuts off its answer if the request asks for a cut. */
const provider = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request) text += piece;
  const isCut = text.includes("cut");
  if (request.url?.includes("models/")) {
    // Gemini's format: PCM audio as base64 in JSON.
    response.writeHead(200, { "content-type": "application/json" });
    response.write('{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"audio/L16;rate=24000","data":"');
    await writeSlowly(response, "AAAA".repeat(2_000));
    response.end('"}}]}}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":25,"totalTokenCount":28}}');
    return;
  }
  if (!JSON.parse(text).stream) {
    await sleep(300);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(isCut ? "{" : JSON.stringify(wholeAnswers[request.url?.split("/").at(-1) ?? ""]));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  if (isCut) setTimeout(() => response.destroy(), 160);
  if (request.url?.endsWith("/responses")) {
    await writeSlowly(response, event({ type: "response.output_text.delta", delta: "word " }));
    response.end(event({ type: "response.completed", response: wholeAnswers.responses }));
    return;
  }
  await writeSlowly(response, event({ ...chunk, choices: [{ index: 0, delta: { content: "word " } }] }));
  response.write(event({ ...chunk, choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage }));
  response.end("data: [DONE]\n\n");
});

let tenant: AppTenant;
let paying: GatewayTenant;
beforeAll(async () => {
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  [tenant, paying] = await Promise.all([createAppTenant(), createGatewayTenant()]);
});
afterAll(async () => {
  provider.closeAllConnections();
  provider.close();
  await Promise.all([tenant.close(), paying.close()]);
});

/** `base` precedes the path of a call. */
type Host = { child: ChildProcess; port: number; base: string; output: () => string };

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

type HostOptions = { command: string; args: string[]; loop?: string; base?: string; onLeave: string };

async function startHost({ command, args, loop, base = "", onLeave }: HostOptions): Promise<Host> {
  const port = await freePort();
  const { gatewayDbUrl, supabase } = readStack();
  const providerUrl = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const child = spawn(command, args, {
    cwd: root,
    env: {
      ...process.env,
      PORT: String(port),
      ...(loop ? { LOCAL_RESPONSE_LOOP: loop } : {}),
      GATEWAY_DB_URL: gatewayDbUrl,
      SUPABASE_URL: supabase.url,
      SUPABASE_PUBLISHABLE_KEYS: JSON.stringify({ default: supabase.publishableKey }),
      AI_PROVIDER_DEMO_KIND: "openai",
      AI_PROVIDER_DEMO_BASE_URL: `${providerUrl}/v1`,
      AI_PROVIDER_DEMO_API_KEY: "k",
      AI_PROVIDER_DEMO_ON_LEAVE: onLeave,
      AI_PROVIDER_DEMO_SPEECH_BASE_URL: `${providerUrl}/v1beta`,
      AI_PROVIDER_DEMO_SPEECH_API_KEY: "k",
      AI_PROVIDER_DEMO_SPEECH_KIND: "gemini",
      DENO_NO_UPDATE_CHECK: "1",
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const isReady = async () => expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
  await vi.waitFor(isReady, { timeout: 20_000 });
  return { child, port, base, output: () => output };
}

const openRuns = () =>
  tenant.db.query("select id from ai.runs where workspace_id = $1 and status = 'running'", [tenant.workspaceId]);

type Asked = { path: string; body: object; status: number };

/** Sends a request, or only the first `bytes` bytes of its body. */
function send(
  { port, base }: Host,
  { path: url, text, bytes }: { path: string; text: string; bytes?: number | undefined },
) {
  const head = [
    `POST ${base}${url} HTTP/1.1`,
    "host: functions",
    `authorization: Bearer ${tenant.key}`,
    `x-platform-workspace-id: ${tenant.workspaceId}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  const socket = connect(port, "127.0.0.1");
  let answer = "";
  socket.on("data", (piece) => (answer += piece)).on("error", () => {});
  socket.write(`${head.join("\r\n")}\r\n\r\n${text.slice(0, bytes)}`);
  return { socket, answer: () => answer };
}

/** A call, and the expected status if the client waits for the answer. */
const chat = (content: string, fields: object = {}, status = 200): Asked => ({
  path: "/chat/completions",
  body: { model: "demo-chat", messages: [{ role: "user", content }], ...fields },
  status,
});
const calls: Asked[] = [
  chat("whole"),
  chat("cut", {}, 502),
  chat("stream", { stream: true }),
  chat("cut stream", { stream: true }),
  chat("tools", { stream: true, tools: ["calculator"], max_steps: 3 }),
  { path: "/responses", body: { model: "demo-chat", input: "whole" }, status: 200 },
  { path: "/responses", body: { model: "demo-chat", input: "stream", stream: true }, status: 200 },
  { path: "/audio/speech", body: { model: "demo-speech", input: "speech" }, status: 200 },
  { path: "/embeddings", body: { model: "demo-embedding", input: "text" }, status: 200 },
  { path: "/generate", body: { prompt: "whole" }, status: 200 },
  { path: "/provider-costs", body: { provider: "openai" }, status: 400 },
];

async function leave(host: Host, { path: url, body }: Asked, { afterMs, bytes }: { afterMs: number; bytes?: number }) {
  const { socket } = send(host, { path: url, text: JSON.stringify(body), bytes });
  await sleep(afterMs);
  if (afterMs % 2 === 0) socket.destroy();
  else socket.resetAndDestroy();
}

async function stay(host: Host, { path: url, body }: Asked): Promise<number> {
  const { socket, answer } = send(host, { path: url, text: JSON.stringify(body) });
  await once(socket, "close");
  return Number(/^HTTP\/1.1 (\d+)/.exec(answer())?.[1]);
}

/** Makes clients disconnect at various stages of a call, alternating with clients that wait for the answer. */
async function callAndLeave(host: Host): Promise<void> {
  await serveAll(host);
  await Promise.all([
    ...calls.flatMap((call) => [5, 120, 251, 420].map((afterMs) => leave(host, call, { afterMs }))),
    ...calls.map((call, at) => leave(host, call, { afterMs: 50 + at, bytes: 9 })),
  ]);
  await expect.poll(openRuns).toEqual([]);
  await serveAll(host);
  await expect.poll(openRuns).toEqual([]);
  expect(host.child.exitCode).toBeNull();
  expect(host.output()).not.toMatch(/uncaught|unhandled/i);
}

/**
 * Repeats the calls until all are answered, because a new process on a busy machine may not reach the database in time.
 */
async function serveAll(host: Host): Promise<void> {
  const answered = () => Promise.all(calls.map((call) => stay(host, call)));
  await expect.poll(answered).toEqual(calls.map(({ status }) => status));
}

async function stop({ child }: Host): Promise<void> {
  child.kill("SIGTERM");
  if (child.exitCode === null) await once(child, "exit");
}

/** Streams a completion for the paying workspace, and disconnects after the first piece if `leaves` is set. */
async function streamTo({ port }: Host, { requestId, leaves }: { requestId: string; leaves: boolean }) {
  const leaving = new AbortController();
  const response = await fetch(`http://127.0.0.1:${port}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${paying.key}`, "x-request-id": requestId, "content-type": "application/json" },
    body: JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "stream" }], stream: true }),
    signal: leaving.signal,
  });
  if (!leaves) return response.text();
  await response.body?.getReader().read();
  leaving.abort();
  return "";
}

const plainHosts = [
  { deno: "deno", loop: "deno", onLeave: "cancel" },
  { deno: "deno", loop: "hosted", onLeave: "drain" },
  { deno: "deno-hosted", loop: "deno", onLeave: "drain" },
  { deno: "deno-hosted", loop: "hosted", onLeave: "cancel" },
] as const;
const testedHosts = plainHosts.filter(({ deno }) => deno === (process.env.LOCAL_DENO ?? "deno"));

describe.for(testedHosts)("functions on $deno (response loop: $loop, abandoned calls: $onLeave)", (options) => {
  let host: Host;
  beforeAll(async () => {
    const { command, args } = denoCommand(root, options.deno);
    host = await startHost({ ...options, command, args: [...args, "eval", "--quiet", plainHost] });
  });
  afterAll(() => stop(host));

  test("functions settle every run and keep serving when clients disconnect, without an unhandled rejection", () =>
    callAndLeave(host));

  test("when one of six clients disconnects, functions complete the other five streams and record all six runs", async () => {
    const requestIds = Array.from({ length: 6 }, () => `it-${randomUUID()}`);
    const abandonedBefore = abandoned;
    const texts = await Promise.all(requestIds.map((requestId, at) => streamTo(host, { requestId, leaves: at === 0 })));
    for (const text of texts.slice(1)) {
      expect(text.match(/word /g)).toHaveLength(pieces);
      expect(text).toContain("data: [DONE]");
    }
    const [left, ...whole] = await Promise.all(requestIds.map(paying.accountOf));
    const usage_source = options.onLeave === "cancel" ? "estimated_partial" : "provider";
    expect(left?.run).toMatchObject({ status: "cancelled", http_status: 499, usage_source });
    expect(left?.charged).toBe(left?.run.billed_credits);
    expect(Number(left?.charged)).toBeGreaterThan(0);
    expect(abandoned - abandonedBefore).toBe(options.onLeave === "cancel" ? 1 : 0);
    for (const { run, charged } of whole) {
      expect(run).toMatchObject({ status: "succeeded", usage_source: "provider", input_tokens: 3, output_tokens: 2 });
      expect(charged).toBe(run.billed_credits);
    }
    const { granted, balance, ledger, runs, reserved } = await paying.books();
    expect(ledger).toBe(balance);
    expect(Number(granted) - Number(runs)).toBeCloseTo(Number(balance), 6);
    expect(Number(reserved)).toBe(0);
    expect(host.child.exitCode).toBeNull();
    expect(host.output()).not.toMatch(/uncaught|unhandled/i);
  });

  // Hosted Supabase detects a disconnect only on a write, and a non-streamed call writes only once.
  if (options.loop === "hosted") {
    test("a non-streamed call is charged in full when its client disconnects", async () => {
      const requestId = `it-${randomUUID()}`;
      const call = fetch(`http://127.0.0.1:${host.port}/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${paying.key}`,
          "x-request-id": requestId,
          "content-type": "application/json",
        },
        body: JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "whole" }] }),
        signal: AbortSignal.timeout(150),
      });
      await expect(call).rejects.toThrow();
      const { run, charged } = await paying.accountOf(requestId);
      expect(run).toMatchObject({ status: "succeeded", usage_source: "provider", input_tokens: 3, output_tokens: 2 });
      expect(charged).toBe(run.billed_credits);
      expect(host.output()).not.toMatch(/uncaught|unhandled/i);
    });
  }

  test("functions report errors in background work and keep serving", async () => {
    for (let count = 0; count < 2; count += 1) {
      expect(await (await fetch(`http://127.0.0.1:${host.port}/failing`)).text()).toBe("answered");
    }
    await expect.poll(host.output).toMatch(/"error":"RangeError"/);
    expect(host.output()).not.toMatch(/uncaught|unhandled/i);
  });
});

test("the local stack's functions settle every run and keep serving when clients disconnect", async () => {
  const host = await startHost({ ...functionsCommand(root), base: "/functions/v1", onLeave: "cancel" });
  await callAndLeave(host).finally(() => stop(host));
});
