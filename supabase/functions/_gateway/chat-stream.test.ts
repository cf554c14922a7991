import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { relayChatStream } from "./chat-stream.ts";
import { callProvider } from "./provider.ts";
import type { OpenRun, RunEnd } from "./run.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const limits = { connectMs: 300, firstByteMs: 300, idleMs: 300, totalMs: 800 };
const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
const content = (text: string) => event({ id: "c", created: 1, model: "m", choices: [{ delta: { content: text } }] });
const usage = event({
  id: "c",
  created: 1,
  model: "m",
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
});

/** Relays what a provider writes, and collects how the run ended. */
async function relay(write: (response: ServerResponse) => void, clientLeft = new AbortController().signal) {
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    write(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const ends: RunEnd[] = [];
  const tried: string[] = [];
  const open: OpenRun = {
    run: {
      run_id: "0b6b1a3e-0000-7000-8000-000000000000",
      created_at: "2026-01-01T00:00:00Z",
      workspace_id: "0b6b1a3e-0000-4000-8000-000000000000",
      routes: [],
      markup: "1",
      exempt: false,
      reserved_usd: "1",
      reserved_credits: "1",
      cost_visible: true,
      limits: {},
    },
    steps: [],
    progress: { input_tokens: 0, output_tokens: 0 },
    addStep: ({ type, status }) => tried.push(`${type} ${status}`),
    end: (end) => {
      ends.push(end);
      return { run_id: "r" };
    },
  };
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const answer = await callProvider(
    {
      path: "/",
      routes: [{ position: 1, provider: "p", model: "m", prices: [] }],
      providers: new Map([["p", { baseUrl, apiKey: "k" }]]),
      bodyFor: () => "{}",
      requestId: "r",
      name: "m",
      clientLeft,
      limits,
      now: () => performance.now(),
    },
    open.addStep,
  );
  const stream = relayChatStream({
    answer,
    open,
    keepUsageChunk: false,
    usageBound: { inputTokens: 100, outputTokens: 100, exceeded: () => {} },
    requestId: "r",
    guessedInputTokens: 9,
    name: "m",
    clientLeft,
    waitUntil: () => {},
  });
  return { stream, ends, tried };
}

const text = (stream: ReadableStream<Uint8Array>) => new Response(stream as BodyInit).text();

describe("a relayed stream", () => {
  test("ends with response.completed and [DONE], and its run with the provider's counts", async () => {
    const { stream, ends, tried } = await relay((response) => response.end(`${content("a")}${usage}data: [DONE]\n\n`));
    const completed = { id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [] };
    expect(await text(stream)).toBe(
      `${content("a")}event: response.completed\n${event({ ...completed, platform: { run_id: "r" } })}data: [DONE]\n\n`,
    );
    expect(ends).toMatchObject([
      { status: "succeeded", source: "provider", usage: { input_tokens: 3, output_tokens: 2 } },
    ]);
    expect(tried).toEqual(["model succeeded"]);
  });

  test("whose provider stalls ends in one error, and its run with a guess", async () => {
    const { stream, ends } = await relay((response) => response.write(content("a")));
    const body = await text(stream);
    expect(body).toContain('"code":"provider_timeout"');
    expect(body).not.toContain("[DONE]");
    expect(ends).toMatchObject([
      { status: "failed", source: "estimated_partial", estimated: true, errorCode: "provider_timeout" },
    ]);
  });

  test("that was cut after counts which grew ends with the last of them", async () => {
    const growing = event({ id: "c", choices: [{ delta: {} }], usage: { prompt_tokens: 3, completion_tokens: 1 } });
    const { stream, ends } = await relay((response) => {
      response.write(growing);
      setTimeout(() => response.destroy(), 50);
    });
    expect(await text(stream)).toContain('"code":"provider_error"');
    expect(ends).toMatchObject([
      { status: "failed", source: "provider_partial", estimated: false, usage: { output_tokens: 1 } },
    ]);
  });

  test("that begins with an error is free, and one that has begun before it is charged by a guess", async () => {
    const error = event({ error: { message: "secret" } });
    const first = await relay((response) => response.end(error));
    expect(await text(first.stream)).not.toContain("secret");
    expect(first.ends).toMatchObject([{ status: "failed", source: "unavailable", usage: {}, estimated: false }]);
    const later = await relay((response) => response.end(content("a") + error));
    expect(await text(later.stream)).not.toContain("secret");
    expect(later.ends).toMatchObject([{ status: "failed", source: "estimated_partial", estimated: true }]);
  });

  test("whose usage cannot be is charged by a guess", async () => {
    const usage = event({ choices: [], usage: { prompt_tokens: 101, completion_tokens: 1 } });
    const { stream, ends } = await relay((response) => response.end(`${content("a")}${usage}data: [DONE]\n\n`));
    expect(await text(stream)).toContain("[DONE]");
    expect(ends).toMatchObject([{ status: "succeeded", source: "provider_partial", estimated: true }]);
  });

  test("that ends without a word after its usage is complete all the same", async () => {
    const { stream, ends } = await relay((response) => response.end(content("a") + usage));
    expect(await text(stream)).toContain("response.completed");
    expect(ends).toMatchObject([{ status: "succeeded", source: "provider" }]);
  });

  test("whose client leaves is over at once, and only once", async () => {
    const { stream, ends, tried } = await relay((response) => response.write(content("a")));
    const reader = stream.getReader();
    await reader.read();
    const pending = reader.read();
    await reader.cancel();
    await pending;
    expect(ends).toMatchObject([{ status: "cancelled", httpStatus: 499, source: "estimated_partial" }]);
    expect(tried).toEqual(["model aborted"]);
  });

  test("whose client leaves while it is not reading is cancelled, and no failure of the provider's", async () => {
    const leaving = new AbortController();
    const { stream, ends, tried } = await relay((response) => response.write(content("a")), leaving.signal);
    await stream.getReader().read();
    leaving.abort();
    expect(ends).toMatchObject([{ status: "cancelled", httpStatus: 499, source: "estimated_partial" }]);
    expect(tried).toEqual(["model aborted"]);
  });

  test("whose client stops reading is over when its time in all is up, though not before", async () => {
    const { stream, ends } = await relay((response) => {
      response.write(content("a"));
      setTimeout(() => response.write(content("b")), 50);
    });
    const reader = stream.getReader();
    await reader.read();
    await new Promise((resolve) => setTimeout(resolve, limits.idleMs + 200));
    expect(ends).toEqual([]);
    await expect.poll(() => ends.length, { timeout: 2_000 }).toBe(1);
    expect(ends).toMatchObject([{ status: "failed", errorCode: "provider_timeout" }]);
  });
});
