import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { createChatReader } from "../chat/events.ts";
import { GatewayError } from "../http/errors.ts";
import { createCooldowns } from "../providers/cooldowns.ts";
import { kinds } from "../providers/kinds/registry.ts";
import { type TimeLimits, timeLimitsOf } from "../providers/limits.ts";
import { callProvider } from "../providers/provider.ts";
import type { OpenRun, RunEnd } from "../runs/run.ts";
import { createOutputReservation } from "./output-reservation.ts";
import { relayStream } from "./relay-stream.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** The idle limit is short. The connection limits are long enough for a busy machine. */
const limits = {
  ...timeLimitsOf({ isHosted: false }),
  connectMs: 1_500,
  firstByteMs: 1_500,
  idleMs: 300,
  totalMs: 1_500,
};
const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
const content = (text: string) => event({ id: "c", created: 1, model: "m", choices: [{ delta: { content: text } }] });
const usage = event({
  id: "c",
  created: 1,
  model: "m",
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
});

const usageLimits = { contextWindow: 100, outputLimit: 100, choices: 1 };
const platform = { run_id: "r", usage: {} };

type Relayed = { clientLeft?: AbortSignal; drains?: boolean; extendOutput?: ExtendOutput } & Partial<TimeLimits>;

type ExtendOutput = Parameters<typeof createOutputReservation>[0]["database"]["extendOutput"];

/** Relays what a provider writes, and records how the run ended. */
async function relay(
  write: (response: ServerResponse) => void,
  { clientLeft = new AbortController().signal, drains = false, extendOutput, ...changes }: Relayed = {},
) {
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
      model: "m",
      workspace_id: "0b6b1a3e-0000-4000-8000-000000000000",
      routes: [],
      credits_per_usd: "10000",
      exempt: false,
      reserved_usd: "1",
      reserved_credits: "1",
      cost_visible: true,
      capture: false,
      limits: { minute: null, counts: Array(8).fill(null) },
    },
    content: { storePrompt() {}, recordTool() {}, storeAnswer: (_, then) => then() },
    steps: [],
    attempts: [],
    progress: { input_tokens: 0, output_tokens: 0 },
    hasResponseBegun: false,
    dispatched: true,
    finishCall: () => {},
    hasCharged: () => false,
    totalUsage: () => ({}),
    addStep: ({ type, status }) => tried.push(`${type} ${status}`),
    end: (end) => {
      ends.push(end);
      return platform;
    },
  };
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const answer = await callProvider(
    {
      open,
      cooldowns: createCooldowns({ now: () => performance.now() }),
      endpoint: "chat",
      stream: true,
      routes: [{ position: 1, provider: "p", model: "m", prices: [] }],
      providers: new Map([["p", { baseUrl, kind: kinds["openai-compatible"], allowPrivate: true, drains }]]),
      requestFor: () => ({ endpoint: "chat", body: "{}" }),
      requestId: "r",
      name: "m",
      clientLeft,
      limits: { ...limits, ...changes },
      estimate: ({ position: route }) => ({ route, usage: { input_tokens: 9, output_tokens: 0 }, basis: "guess" }),
      deadline: performance.now() + (changes.totalMs ?? limits.totalMs),
      now: () => performance.now(),
      takeCall: () => Promise.reject(new Error("took a call from a provider without limits")),
    },
    async (accepted) => accepted,
  );
  const kept: Promise<unknown>[] = [];
  const stream = relayStream({
    step: {
      answer,
      reader: createChatReader({
        wantsUsage: false,
        usageLimits,
        unnamed: { id: "run", model: "m" },
      }),
      inputEstimate: { input_tokens: 9, output_tokens: 0 },
      usageLimits,
      readWholeUsage: () => undefined,
    },
    open,
    reservation:
      extendOutput &&
      createOutputReservation({
        database: { extendOutput },
        run: open.run,
        expectedOutput: 4,
        request: { outputLimit: 1_000, choices: 1 },
      }),
    requestId: "r",
    name: "m",
    clientLeft,
    keepalive: () => ": keepalive\n",
    limits: { ...limits, ...changes },
    waitUntil: (work) => kept.push(work),
  });
  return { stream, ends, tried, kept };
}

const text = (stream: ReadableStream<Uint8Array>) => new Response(stream as BodyInit).text();

describe("Relayed streams", () => {
  test("a stream ends with response.completed and [DONE], and its run records the provider's counts", async () => {
    const { stream, ends, tried } = await relay((response) => response.end(`${content("a")}${usage}data: [DONE]\n\n`));
    const completed = {
      id: "c",
      object: "chat.completion.chunk",
      created: 1,
      model: "m",
      choices: [{ index: 0, delta: {}, finish_reason: null }],
      usage: { prompt_tokens: 3, completion_tokens: 2 },
      platform,
    };
    expect(await text(stream)).toBe(`${content("a")}event: response.completed\n${event(completed)}data: [DONE]\n\n`);
    expect(ends).toMatchObject([
      { status: "succeeded", use: { route: 1, basis: "final", usage: { input_tokens: 3, output_tokens: 2 } } },
    ]);
    expect(tried).toEqual(["model succeeded"]);
  });

  test("a stream whose provider stalls ends in one error, and its run is charged an estimate", async () => {
    const { stream, ends } = await relay((response) => response.write(content("a")));
    const body = await text(stream);
    expect(body).toContain('"code":"provider_timeout"');
    expect(body).not.toContain("[DONE]");
    expect(ends).toMatchObject([{ status: "failed", use: { basis: "guess" }, errorCode: "provider_timeout" }]);
  });

  test("a stream that is cut off while its token counts grow is charged by the last count", async () => {
    const growing = event({ id: "c", choices: [{ delta: {} }], usage: { prompt_tokens: 3, completion_tokens: 1 } });
    const { stream, ends } = await relay((response) => {
      response.write(growing);
      setTimeout(() => response.destroy(), 50);
    });
    expect(await text(stream)).toContain('"code":"provider_error"');
    expect(ends).toMatchObject([{ status: "failed", use: { basis: "partial", usage: { output_tokens: 1 } } }]);
  });

  const counted = (text: string, completion_tokens: number) =>
    event({ id: "c", choices: [{ delta: { content: text } }], usage: { prompt_tokens: 3, completion_tokens } });
  const much = "a".repeat(40);
  test.for<[string, string, number]>([
    ["that were zero throughout", counted(much, 0) + counted(much, 0), 20],
    ["that came only before its content", counted("", 1) + content(much) + content(much), 21],
    ["that covered only a part of its content", counted(much, 9) + content(much), 19],
  ])(
    "a cut-off stream with token counts %s is charged an estimate that includes the uncounted content",
    async ([, written, output_tokens]) => {
      const { stream, ends } = await relay((response) => response.end(written));
      await text(stream);
      const use = { basis: "guess", usage: { input_tokens: 3, output_tokens } };
      expect(ends).toMatchObject([{ status: "failed", use }]);
    },
  );

  test.for<[string, string, object]>([
    ["before its content", counted("", 1) + content(much), { basis: "guess", usage: { output_tokens: 11 } }],
    ["after its content", content(much) + counted("", 7), { basis: "final", usage: { output_tokens: 7 } }],
    [
      "after its content and were zero",
      content(much) + counted("", 0),
      { basis: "guess", usage: { output_tokens: 10 } },
    ],
  ])(
    "a complete stream whose token counts came %s is charged by the counts, plus an estimate of any uncounted output",
    async ([, written, use]) => {
      const { stream, ends } = await relay((response) => response.end(`${written}data: [DONE]\n\n`));
      await text(stream);
      expect(ends).toMatchObject([{ status: "succeeded", use }]);
    },
  );

  test("a stream cut off after token counts of zero is still charged for its input", async () => {
    const none = { prompt_tokens: 0, completion_tokens: 0 };
    for (const [said, output_tokens] of [
      ["", 0],
      [much, 10],
    ] as const) {
      const { stream, ends } = await relay((response) =>
        response.end(event({ id: "c", choices: [{ delta: { content: said } }], usage: none })),
      );
      await text(stream);
      expect(ends).toMatchObject([{ use: { basis: "guess", usage: { input_tokens: 9, output_tokens } } }]);
    }
  });

  test("a stream with token counts of zero is charged an estimate if its client disconnects", async () => {
    const { stream, ends } = await relay((response) => response.write(counted(much, 0)));
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel();
    const use = { basis: "guess", usage: { input_tokens: 3, output_tokens: 10 } };
    expect(ends).toMatchObject([{ status: "cancelled", use }]);
  });

  test("a stream is free if it begins with an error, and charged an estimate if the error comes later", async () => {
    const error = event({ error: { message: "secret" } });
    const first = await relay((response) => response.end(error));
    expect(await text(first.stream)).not.toContain("secret");
    expect(first.ends).toMatchObject([{ status: "failed", use: undefined }]);
    const later = await relay((response) => response.end(content("a") + error));
    expect(await text(later.stream)).not.toContain("secret");
    expect(later.ends).toMatchObject([{ status: "failed", use: { basis: "guess" } }]);
  });

  test("a stream whose usage exceeds the context window is charged for a full window, and its usage is marked", async () => {
    const usage = event({ choices: [], usage: { prompt_tokens: 101, completion_tokens: 1 } });
    const { stream, ends } = await relay((response) => response.end(`${content("a")}${usage}data: [DONE]\n\n`));
    expect(await text(stream)).toContain("[DONE]");
    const use = { basis: "final", usage: { input_tokens: 100, output_tokens: 1 }, marks: ["above_context_window"] };
    expect(ends).toMatchObject([{ status: "succeeded", use }]);
  });

  test("a stream that states no usage is charged for its whole output, and marked above_output_limit if it exceeds the limit", async () => {
    const finish = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    for (const [words, marks] of [
      [50, undefined],
      [51, ["above_output_limit"]],
    ] as const) {
      const sent = content("sixteen letters ".repeat(words));
      const { stream, ends } = await relay((response) => response.end(`${sent}${finish}data: [DONE]\n\n`));
      await text(stream);
      expect(ends).toMatchObject([
        { status: "succeeded", use: { basis: "guess", usage: { output_tokens: words * 4 } } },
      ]);
      expect(ends[0]?.use?.marks).toEqual(marks);
    }
  });

  test("a run keeps the tier and the cost stated in the stream's events", async () => {
    const tier = (data: object) => event({ id: "c", created: 1, model: "m", ...data });
    const { stream, ends } = await relay((response) =>
      response.end(
        tier({ choices: [{ delta: { content: "a" } }], service_tier: "priority" }) +
          'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":0.00310}}\n\ndata: [DONE]\n\n',
      ),
    );
    await text(stream);
    expect(ends).toMatchObject([{ use: { basis: "final", servedTier: "priority", statedCostUsd: "0.00310" } }]);
  });

  test.for<[string, (response: ServerResponse) => void]>([
    ["ends without a terminator", (response) => response.end()],
    ["is cut", (response) => setTimeout(() => response.destroy(), 50)],
    ["falls silent", () => {}],
  ])("a stream that states its usage and then %s still succeeds", async ([, leaveOff]) => {
    const { stream, ends, tried } = await relay((response) => {
      response.write(content("a") + usage);
      leaveOff(response);
    });
    expect(await text(stream)).toContain("response.completed");
    expect(ends).toMatchObject([{ status: "succeeded", use: { basis: "final" } }]);
    expect(tried).toEqual(["model succeeded"]);
  });

  test("a stream that fails cancels the provider's call, which may have more to send", async () => {
    const left = Promise.withResolvers<void>();
    const { stream } = await relay(
      (response) => {
        const more = setInterval(() => response.write(": more\n\n"), 50);
        response.once("close", () => {
          clearInterval(more);
          left.resolve();
        });
        response.write(content("a") + event({ error: { message: "secret" } }));
      },
      // Longer than the test, so that only the failure can end the call.
      { totalMs: 60_000 },
    );
    expect(await text(stream)).toContain('"code":"provider_error"');
    await left.promise;
  });

  test("a stream cut off in the middle of an event fails, and the usage stated before the cut is charged", async () => {
    const { stream, ends } = await relay((response) => {
      response.write(`${content("a")}${usage}data: {"error":`);
      setTimeout(() => response.destroy(), 50);
    });
    expect(await text(stream)).toContain('"code":"provider_error"');
    expect(ends).toMatchObject([{ status: "failed", use: { basis: "final" } }]);
  });

  test("a silent stream is kept alive between two events, while its client waits and only then", async () => {
    let goOn = () => {};
    const { stream } = await relay(
      (response) => {
        response.write(content("a"));
        goOn = () => response.end(`${content("b")}${usage}data: [DONE]\n\n`);
      },
      { keepaliveMs: 10 },
    );
    const reader = stream.getReader();
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    expect(await read()).toBe(content("a"));
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect([await read(), await read()]).toEqual([": keepalive\n", ": keepalive\n"]);
    goOn();
    let rest = "";
    for (let piece = await read(); piece !== ""; piece = await read()) rest += piece;
    expect(rest.replaceAll(": keepalive\n", "")).toMatch(/^data: .*"b".*\n\nevent: response.completed\n/);
    expect(rest.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  const finish = event({ id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });

  test.for(["the signal, during a read", "the signal, between reads", "a cancelled stream"])(
    "a client that leaves after the finish reason is charged what the provider states after that: %s",
    async (how) => {
      const leaving = new AbortController();
      let goOn = () => {};
      const { stream, ends, kept } = await relay(
        (response) => {
          response.write(content("a") + finish);
          goOn = () => response.end(`${usage}data: [DONE]\n\n`);
        },
        { clientLeft: leaving.signal, leftMs: 60_000 },
      );
      const reader = stream.getReader();
      let seen = "";
      while (!seen.includes("finish_reason")) seen += new TextDecoder().decode((await reader.read()).value);
      const pending = how.includes("during") ? reader.read() : undefined;
      if (how.startsWith("the signal")) leaving.abort();
      else await reader.cancel();
      goOn();
      await pending;
      await Promise.all(kept);
      const use = { basis: "final", usage: { input_tokens: 3, output_tokens: 2 } };
      expect(ends).toMatchObject([{ status: "cancelled", httpStatus: 499, use }]);
    },
  );

  test("a client that leaves after the finish reason is charged an estimate if the usage does not follow soon", async () => {
    const { stream, ends, kept } = await relay((response) => response.write(content("abcd") + finish), { leftMs: 20 });
    const reader = stream.getReader();
    let seen = "";
    while (!seen.includes("finish_reason")) seen += new TextDecoder().decode((await reader.read()).value);
    await reader.cancel();
    await Promise.all(kept);
    expect(ends).toMatchObject([{ status: "cancelled", use: { basis: "guess", usage: { output_tokens: 1 } } }]);
  });

  test("a finished stream that its provider does not end is ended soon", async () => {
    const { stream, ends } = await relay((response) => response.write(content("a") + finish), { endMs: 20 });
    expect(await text(stream)).toContain("[DONE]");
    expect(ends).toMatchObject([{ status: "succeeded", use: { basis: "guess" } }]);
  });

  test("a client that pauses after the finish reason gets the end of its stream and pays for its usage", async () => {
    let goOn = () => {};
    const { stream, ends } = await relay(
      (response) => {
        response.write(content("a") + finish);
        goOn = () => response.end(`${usage}data: [DONE]\n\n`);
      },
      { endMs: 200 },
    );
    const reader = stream.getReader();
    let seen = "";
    while (!seen.includes("finish_reason")) seen += new TextDecoder().decode((await reader.read()).value);
    goOn();
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (let next = await reader.read(); next.value; next = await reader.read()) {
      seen += new TextDecoder().decode(next.value);
    }
    expect(seen).toContain("[DONE]");
    expect(ends).toMatchObject([{ status: "succeeded", use: { basis: "final" } }]);
  });

  test("a stream ends immediately when its client disconnects, and its end is recorded only once", async () => {
    const { stream, ends, tried } = await relay((response) => response.write(content("a")));
    const reader = stream.getReader();
    await reader.read();
    const pending = reader.read();
    await reader.cancel();
    await pending;
    expect(ends).toMatchObject([{ status: "cancelled", httpStatus: 499, use: { basis: "guess" } }]);
    expect(tried).toEqual(["model aborted"]);
  });

  test("a stream whose client disconnects between reads is cancelled, not failed", async () => {
    const leaving = new AbortController();
    const { stream, ends, tried } = await relay((response) => response.write(content("a")), {
      clientLeft: leaving.signal,
    });
    await stream.getReader().read();
    leaving.abort();
    expect(ends).toMatchObject([{ status: "cancelled", httpStatus: 499, use: { basis: "guess" } }]);
    expect(tried).toEqual(["model aborted"]);
  });

  test.for([false, true])(
    "a stream ends without an error when its client disconnects during a read (gateway reads the rest from the provider: %s)",
    async (drains) => {
      const leaving = new AbortController();
      const write = (response: ServerResponse) => {
        response.write(content("a"));
        setTimeout(() => response.end(`${usage}data: [DONE]\n\n`), 100);
      };
      const { stream, ends } = await relay(write, { clientLeft: leaving.signal, drains });
      const reader = stream.getReader();
      await reader.read();
      const pending = reader.read();
      leaving.abort();
      expect(await pending).toEqual({ done: true, value: undefined });
      await reader.closed;
      expect(ends).toMatchObject([{ status: "cancelled", use: { basis: drains ? "final" : "guess" } }]);
    },
  );

  test("a stream whose client stops reading ends only at its total time limit", async () => {
    const { stream, ends } = await relay((response) => {
      response.write(content("a"));
      setTimeout(() => response.write(content("b")), 50);
    });
    const reader = stream.getReader();
    await reader.read();
    await new Promise((resolve) => setTimeout(resolve, limits.idleMs + 200));
    expect(ends).toEqual([]);
    await expect.poll(() => ends.length, { timeout: 4_000 }).toBe(1);
    expect(ends).toMatchObject([{ status: "failed", errorCode: "provider_timeout" }]);
  });

  test("a relay forwards each event immediately, and events from one packet in one piece", async () => {
    let more = () => {};
    const { stream } = await relay((response) => {
      response.write(content("a"));
      more = () => {
        response.cork();
        response.write(content("b"));
        response.write(content("c"));
        response.uncork();
      };
    });
    const reader = stream.getReader();
    const readText = async () => new TextDecoder().decode((await reader.read()).value);
    expect(await readText()).toBe(content("a"));
    const next = readText();
    more();
    expect(await next).toBe(content("b") + content("c"));
    await reader.cancel();
  });

  test("a relay reads from the provider only as fast as the client reads", async () => {
    const piece = content("a".repeat(64 * 1024));
    const allBytes = 400 * piece.length;
    let goneBytes = 0;
    const { stream } = await relay((response) => {
      const writeNext = () => {
        goneBytes += piece.length;
        if (goneBytes < allBytes) response.write(piece, writeNext);
      };
      response.write(piece, writeNext);
    });
    const reader = stream.getReader();
    await reader.read();
    await new Promise((resolve) => setTimeout(resolve, 500));
    // The provider has filled only the socket buffers.
    expect(goneBytes).toBeLessThan(allBytes / 2);
    await reader.cancel();
  });

  test.for(["reading", "not reading"])(
    "if the client disconnects while %s, a stream from a provider that charges in full is still read to its end",
    async (how) => {
      const leaving = new AbortController();
      const write = (response: ServerResponse) => {
        response.write(content("a"));
        setTimeout(() => response.write(content("b")), 50);
        setTimeout(() => response.end(`${usage}data: [DONE]\n\n`), 100);
      };
      const { stream, ends, tried, kept } = await relay(write, { clientLeft: leaving.signal, drains: true });
      const reader = stream.getReader();
      await reader.read();
      const pending = how === "reading" ? reader.read() : undefined;
      leaving.abort();
      await reader.cancel();
      await pending;
      expect(ends).toEqual([]);
      await Promise.all(kept);
      expect(ends).toMatchObject([
        { status: "cancelled", httpStatus: 499, use: { basis: "final", usage: { input_tokens: 3, output_tokens: 2 } } },
      ]);
      expect(tried).toEqual(["model aborted"]);
    },
  );

  test("after the client disconnects, a stream that is still read for its usage ends at the total time limit", async () => {
    const leaving = new AbortController();
    const write = (response: ServerResponse) => void setInterval(() => response.write(content("a")), 20).unref();
    const { stream, ends } = await relay(write, { clientLeft: leaving.signal, drains: true });
    await stream.getReader().read();
    leaving.abort();
    await expect.poll(() => ends.length, { timeout: 4_000 }).toBe(1);
    expect(ends).toMatchObject([{ status: "cancelled", use: { basis: "guess" } }]);
  });
});

describe("A stream whose envelope's owner stops it", () => {
  const stopped = new GatewayError("envelope_exhausted", { message: "The envelope was stopped by its owner." });
  const slow = (response: ServerResponse) => {
    response.write(content("a"));
    const timer = setInterval(() => response.write(content("b")), 20);
    response.on("close", () => clearInterval(timer));
  };

  test.for([
    ["ends the provider's call", false, "guess"],
    ["reads a call to its end that is charged in full", true, "final"],
  ] as const)("gets an error event at once, and %s", async ([, drains, basis]) => {
    let finish = () => {};
    let isAborted = false;
    const write = (response: ServerResponse) => {
      slow(response);
      finish = () => response.end(`${usage}data: [DONE]\n\n`);
      response.on("close", () => {
        isAborted = !response.writableEnded;
      });
    };
    const stop = new AbortController();
    const { stream, ends, kept } = await relay(write, { clientLeft: stop.signal, drains });
    const reader = stream.getReader();
    await reader.read();
    stop.abort(stopped);
    const decoder = new TextDecoder();
    let rest = "";
    for (let next = await reader.read(); !next.done; next = await reader.read()) rest += decoder.decode(next.value);
    const last = rest.trim().split("\n\n").at(-1)?.replace("data: ", "");
    expect(JSON.parse(last ?? "")).toMatchObject({ error: { code: "envelope_exhausted", message: stopped.message } });
    expect(ends).toHaveLength(drains ? 0 : 1);
    if (drains) finish();
    await Promise.all(kept);
    expect(ends).toMatchObject([
      { status: "cancelled", httpStatus: 200, errorCode: "envelope_exhausted", use: { basis } },
    ]);
    await expect.poll(() => isAborted).toBe(!drains);
  });

  test("gets the event if it reads later, and none once it has ended or its client has left", async () => {
    const stop = new AbortController();
    const { stream, ends } = await relay(slow, { clientLeft: stop.signal });
    stop.abort(stopped);
    expect(ends).toHaveLength(1);
    expect(await text(stream)).toContain("stopped by its owner");

    const late = new AbortController();
    const ended = await relay((response) => response.end(`${content("a")}${usage}data: [DONE]\n\n`), {
      clientLeft: late.signal,
    });
    const answer = await text(ended.stream);
    late.abort(stopped);
    expect([answer.includes("stopped"), ended.ends.map(({ status }) => status)]).toEqual([false, ["succeeded"]]);

    const left = new AbortController();
    const cancelled = await relay(slow, { clientLeft: left.signal });
    await cancelled.stream.cancel();
    left.abort(stopped);
    expect(cancelled.ends).toMatchObject([{ status: "cancelled", httpStatus: 499 }]);
  });
});

describe("Streams whose budgets reserve the expected cost", () => {
  const refusedBudget = new GatewayError("budget_exceeded", {
    message: "The workspace's budget has nothing left.",
    details: { limit: { kind: "budget", scope: "workspace" } },
  });

  test("reserve further output in steps, each before more than the reserved output is delivered", async () => {
    const steps: { from: number; to: number; limit: number }[] = [];
    const extendOutput: ExtendOutput = async (_, step) => void steps.push(step);
    const { stream, ends } = await relay(
      async (response) => {
        for (let piece = 0; piece < 40; piece += 1) {
          response.write(content("word").repeat(10));
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        response.end(`${usage}data: [DONE]\n\n`);
      },
      { extendOutput },
    );
    expect(await text(stream)).toContain("response.completed");
    expect(steps[0]).toMatchObject({ from: 4, limit: 1_000 });
    for (const [at, { from, to }] of steps.entries()) {
      expect(from).toBe(steps[at - 1]?.to ?? 4);
      expect(to - from).toBeGreaterThanOrEqual(256);
    }
    expect(steps.at(-1)?.to).toBeGreaterThanOrEqual(400);
    expect(ends).toMatchObject([{ status: "succeeded" }]);
  });

  test("need no step if the answer is not longer than expected", async () => {
    const { stream, ends } = await relay((response) => response.end(`${content("a")}${usage}data: [DONE]\n\n`), {
      extendOutput: () => Promise.reject(new Error("asked for a step")),
    });
    expect(await text(stream)).toContain("[DONE]");
    expect(ends).toMatchObject([{ status: "succeeded" }]);
  });

  test.for([
    ["budget_exceeded", refusedBudget],
    ["service_unavailable", new GatewayError("service_unavailable")],
  ] as const)("are stopped with %s, and charged for what was delivered", async ([code, error]) => {
    let isAborted = false;
    const { stream, ends, tried } = await relay(
      (response) => {
        const timer = setInterval(() => response.write(content("word")), 5);
        response.on("close", () => {
          clearInterval(timer);
          isAborted = true;
        });
      },
      { extendOutput: () => Promise.reject(error) },
    );
    const answer = await text(stream);
    const last = answer.trim().split("\n\n").at(-1)?.replace("data: ", "");
    expect(JSON.parse(last ?? "")).toMatchObject({ error: { code } });
    expect(answer).not.toContain("[DONE]");
    const delivered = answer.split('"word"').length - 1;
    expect(delivered).toBeGreaterThanOrEqual(3);
    expect(ends).toMatchObject([
      {
        status: "failed",
        httpStatus: 200,
        errorCode: code,
        use: { basis: "guess", usage: { output_tokens: delivered } },
      },
    ]);
    expect(tried).toEqual(["model failed"]);
    await expect.poll(() => isAborted).toBe(true);
  });

  test("deliver little more than what is reserved, even if the provider sends everything at once", async () => {
    const { stream, ends } = await relay(
      (response) => response.end(`${content("word").repeat(2_000)}${usage}data: [DONE]\n\n`),
      { extendOutput: () => Promise.reject(refusedBudget) },
    );
    const delivered = (await text(stream)).split('"word"').length - 1;
    expect(delivered).toBeGreaterThanOrEqual(4);
    expect(delivered).toBeLessThanOrEqual(4 + 1_024 / content("word").length);
    expect(ends).toMatchObject([{ errorCode: "budget_exceeded", use: { usage: { output_tokens: delivered } } }]);
  });

  test("are cancelled once if their client leaves while a step is reserved", async () => {
    const leave = new AbortController();
    let steps = 0;
    const extendOutput: ExtendOutput = async () => {
      steps += 1;
      leave.abort();
      await new Promise((resolve) => setTimeout(resolve, 20));
      throw refusedBudget;
    };
    const { stream, ends } = await relay(
      (response) => {
        response.write(content("word").repeat(20));
      },
      { clientLeft: leave.signal, extendOutput },
    );
    await text(stream).catch(() => {});
    expect(steps).toBe(1);
    expect(ends).toMatchObject([{ status: "cancelled", httpStatus: 499 }]);
  });
});
