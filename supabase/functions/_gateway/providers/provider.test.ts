import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { createGzip, gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import type { Attempt } from "../../_shared/attempt.ts";
import { createCooldowns } from "./cooldowns.ts";
import { kinds } from "./kinds/registry.ts";
import { chooseRequestLimits, timeLimitsOf } from "./limits.ts";
import { callProvider, type ProviderCall } from "./provider.ts";
import type { ProviderAnswer } from "./provider-answer.ts";
import { ClientLeft, type ProviderFailure } from "./provider-failure.ts";
import { noteReached } from "./reachable.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/**
 * Starts a provider with the given handler. Returns its URL, the paths that were requested, and a promise that resolves
 * when a client disconnects.
 */
async function provider(answer: RequestListener): Promise<{ baseUrl: string; asked: string[]; left: Promise<void> }> {
  const asked: string[] = [];
  let leave: () => void = () => {};
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.once("close", () => response.writableFinished || leave());
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked, left };
}

const limits = { ...timeLimitsOf({ isHosted: false }), connectMs: 300, firstByteMs: 300, idleMs: 300, totalMs: 2_000 };
const text = (body: string, status = 200): RequestListener => {
  return (_, response) => response.writeHead(status, { "content-type": "application/json" }).end(body);
};

function callOf(baseUrls: string[], changes: Partial<ProviderCall> = {}): ProviderCall {
  return {
    open: { addStep() {}, finishCall() {}, attempts: [] },
    cooldowns: createCooldowns({ now: () => performance.now() }),
    endpoint: "chat",
    stream: true,
    routes: baseUrls.map((_, n) => ({ position: n + 1, provider: `p${n}`, model: `m${n}`, prices: [] })),
    providers: new Map(
      baseUrls.map((baseUrl, n) => [
        `p${n}`,
        { baseUrl, kind: kinds["openai-compatible"], allowPrivate: true, drains: false },
      ]),
    ),
    requestFor: (route) => ({ endpoint: "chat", body: JSON.stringify({ model: route.model }) }),
    requestId: "r",
    name: "model",
    clientLeft: new AbortController().signal,
    limits,
    takeCall: () => Promise.reject(new Error("took a call from a provider without limits")),
    estimate: ({ position: route }) => ({ route, usage: { input_tokens: 9, output_tokens: 0 }, basis: "guess" }),
    deadline: performance.now() + (changes.limits ?? limits).totalMs,
    now: () => performance.now(),
    ...changes,
  };
}

const accept = async (answer: ProviderAnswer) => answer;

type Tried = { type: string; name: string; status: string };

async function readAll(call: ProviderCall, tried: Tried[] = []): Promise<string> {
  const addStep: ProviderCall["open"]["addStep"] = (step, _, attempt) => {
    tried.push(step);
    if (attempt) call.open.attempts.push(attempt);
  };
  const answer = await callProvider({ ...call, open: { ...call.open, addStep } }, accept);
  let body = "";
  for (let bytes = await answer.read(); bytes; bytes = await answer.read()) body += new TextDecoder().decode(bytes);
  return body;
}

test("an answer has no getter, because a getter would keep the call in memory until a full garbage collection", async () => {
  const { baseUrl } = await provider(text("{}"));
  const answer = await callProvider(callOf([baseUrl]), accept);
  const getters = Object.entries(Object.getOwnPropertyDescriptors(answer)).filter(([, { get }]) => get);
  expect(getters.map(([name]) => name)).toEqual([]);
});

describe("calls to a provider", () => {
  test("a provider call returns the answer's bytes and the route that answered", async () => {
    const { baseUrl, asked } = await provider(text("hello"));
    const tried: Tried[] = [];
    expect(await readAll(callOf([baseUrl]), tried)).toBe("hello");
    expect(asked).toEqual(["POST /v1/chat/completions"]);
    expect(tried).toEqual([]);
  });

  test("calls onDispatch for each route that receives the request, and onUncharged if a failed route charged nothing", async () => {
    const [busy, next] = [await provider(text("no", 429)), await provider(text("yes"))];
    const told: string[] = [];
    const onDispatch: ProviderCall["onDispatch"] = ({ position }) => told.push(`dispatch ${position}`);
    const onUncharged = () => told.push("uncharged");
    await readAll(callOf([busy.baseUrl, next.baseUrl], { onDispatch, onUncharged }));
    expect(told).toEqual(["dispatch 1", "uncharged", "dispatch 2"]);
  });

  test("a provider call does not call onDispatch if the connection is refused or the client has already left", async () => {
    const told: number[] = [];
    const onDispatch: ProviderCall["onDispatch"] = ({ position }) => told.push(position);
    const unreachable = await provider(text("no"));
    closers.pop()?.();
    await expect(readAll(callOf([unreachable.baseUrl], { onDispatch }))).rejects.toThrow();
    const { baseUrl, asked } = await provider(text("yes"));
    const clientLeft = AbortSignal.abort();
    await expect(readAll(callOf([baseUrl], { onDispatch, clientLeft }))).rejects.toThrow(ClientLeft);
    expect([told, asked]).toEqual([[], []]);
  });

  test.for([401, 402, 403, 404, 408, 429, 500, 502, 503, 504, 529])(
    "fails over to the next route after a %i",
    async (status) => {
      const [first, second] = [await provider(text("no", status)), await provider(text("yes"))];
      const tried: Tried[] = [];
      expect(await readAll(callOf([first.baseUrl, second.baseUrl]), tried)).toBe("yes");
      expect(tried).toEqual([{ type: "retry", name: "model", status: "failed" }]);
    },
  );

  test("one call fails over three times: after a refused connection, after a reset and after a timeout", async () => {
    const reset = await provider((_, response) => response.destroy());
    const silent = await provider(() => {});
    const good = await provider(text("yes"));
    const tried: Tried[] = [];
    expect(await readAll(callOf(["http://127.0.0.1:9/v1", reset.baseUrl, silent.baseUrl, good.baseUrl]), tried)).toBe(
      "yes",
    );
    expect(tried.map(({ type }) => type)).toEqual(["retry", "retry", "retry"]);
    await silent.left;
  });

  test("refuses a provider whose host name resolves to a private address, without a charge", async () => {
    const { baseUrl, asked } = await provider(text("yes"));
    const hidden = baseUrl.replace("127.0.0.1", "localhost");
    const call = callOf([hidden]);
    const providers = new Map([...call.providers].map(([id, each]) => [id, { ...each, allowPrivate: false }]));
    const failure = { code: "provider_error", mayHaveCharged: false };
    await expect(readAll({ ...call, providers })).rejects.toMatchObject(failure);
    expect(asked).toEqual([]);
    expect(await readAll(call)).toBe("yes");
  });

  test("reports that the provider answered 404, and tells standard clients not to retry", async () => {
    const { baseUrl } = await provider(text("{}", 404));
    const failure = await readAll(callOf([baseUrl])).catch((error) => error);
    expect(failure).toMatchObject({ code: "provider_error", mayHaveCharged: false });
    const told = failure.toGatewayError();
    expect(told.message).toBe("The model's provider does not have this endpoint or model.");
    expect(told.options.headers).toEqual({ "x-should-retry": "false" });
  });

  test("stops trying routes once the total time is up", async () => {
    const [first, second, third] = [await provider(() => {}), await provider(() => {}), await provider(() => {})];
    const routes = [first, second, third].map(({ baseUrl }) => baseUrl);
    const call = callOf(routes, { limits: { ...limits, totalMs: 450 } });
    await expect(readAll(call)).rejects.toMatchObject({ code: "provider_timeout", mayHaveCharged: true });
    expect(third.asked).toEqual([]);
  });

  test("a call costs nothing if a previously reachable host no longer accepts connections", async () => {
    const server = createTcpServer((socket) => void socket.once("data", () => socket.end("no handshake")));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => void server.close());
    const baseUrl = `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    noteReached(baseUrl, () => performance.now());
    await expect(readAll(callOf([baseUrl]))).rejects.toMatchObject({ code: "provider_error", mayHaveCharged: false });
  });

  test("a provider call whose answer has an unknown content coding fails, and counts as possibly charged", async () => {
    const { baseUrl } = await provider((_, response) =>
      response.writeHead(200, { "content-encoding": "compress" }).end(gzipSync("{}")),
    );
    await expect(readAll(callOf([baseUrl]))).rejects.toMatchObject({ code: "provider_error", mayHaveCharged: true });
  });

  test("decodes a provider answer with a content coding that the gateway did not request", async () => {
    const { baseUrl } = await provider((_, response) =>
      response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("{}")),
    );
    expect(await readAll(callOf([baseUrl]))).toBe("{}");
  });

  test("a provider call fails if the compressed answer is truncated, and counts as possibly charged", async () => {
    const { baseUrl } = await provider((_, response) => {
      const gzip = createGzip();
      gzip.pipe(response.writeHead(200, { "content-encoding": "gzip" }));
      gzip.write("half");
      gzip.flush(() => setTimeout(() => response.destroy(), 50));
    });
    await expect(readAll(callOf([baseUrl]))).rejects.toMatchObject({ code: "provider_error", mayHaveCharged: true });
  });

  test("accepts the content coding identity in upper or lower case (RFC 9110, 8.4.1)", async () => {
    const { baseUrl } = await provider((_, response) =>
      response.writeHead(200, { "content-encoding": "Identity" }).end("as it is"),
    );
    expect(await readAll(callOf([baseUrl]))).toBe("as it is");
  });

  test("a call that may have been charged at one route stays possibly charged, even if the next route refuses it", async () => {
    const reset = await provider((request, response) => request.resume().once("end", () => response.destroy()));
    for (const status of [429, 400]) {
      const refusing = await provider(text("no", status));
      await expect(readAll(callOf([reset.baseUrl, refusing.baseUrl]))).rejects.toMatchObject({ mayHaveCharged: true });
      await expect(readAll(callOf([refusing.baseUrl]))).rejects.toMatchObject({ mayHaveCharged: false });
    }
  });

  test("a provider call states the length of its body and sends the body unchanged", async () => {
    const { baseUrl } = await provider(async (request, response) => {
      const body = (await request.toArray()).join("");
      response.end(`${request.headers["content-length"]} ${request.headers["content-type"]} ${body}`);
    });
    expect(await readAll(callOf([baseUrl]))).toBe('14 application/json {"model":"m0"}');
  });

  test.for([400, 413, 415, 422])("does not fail over after a %i", async (status) => {
    const [first, second] = [await provider(text("no", status)), await provider(text("yes"))];
    await expect(readAll(callOf([first.baseUrl, second.baseUrl]))).rejects.toMatchObject({ mayHaveCharged: false });
    expect(second.asked).toEqual([]);
  });

  test("a provider call follows no redirect", async () => {
    const target = await provider(text("secret"));
    const { baseUrl } = await provider((_, response) => response.writeHead(307, { location: target.baseUrl }).end());
    await expect(readAll(callOf([baseUrl]))).rejects.toMatchObject({ code: "provider_error" });
    expect(target.asked).toEqual([]);
  });

  test("a provider call times out if the provider is silent before the first byte or between two bytes", async () => {
    const silent = await provider(() => {});
    await expect(readAll(callOf([silent.baseUrl]))).rejects.toMatchObject({
      code: "provider_timeout",
      mayHaveCharged: true,
    });
    const stalled = await provider((_, response) => response.writeHead(200).write("x"));
    await expect(readAll(callOf([stalled.baseUrl]))).rejects.toMatchObject({
      code: "provider_timeout",
      mayHaveCharged: true,
    });
    await Promise.all([silent.left, stalled.left]);
  });

  test("a call fails without a charge if no connection can be established", async () => {
    // TEST-NET-1 (RFC 5737) is not in use. A machine without a route to it fails at once instead of timing out.
    const call = callOf(["http://192.0.2.1:81/v1"]);
    await expect(readAll(call)).rejects.toMatchObject({ mayHaveCharged: false, retryable: true });
  });

  test("a provider call ends when its total time is up", async () => {
    const endless = await provider((_, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write("x"), 20);
      response.once("close", () => clearInterval(timer));
    });
    const call = callOf([endless.baseUrl], { deadline: performance.now() + 200 });
    await expect(readAll(call)).rejects.toMatchObject({ code: "provider_timeout" });
    await endless.left;
  });

  test("a provider call whose answer is cut off counts as possibly charged", async () => {
    const cut = await provider((_, response) => {
      response.writeHead(200, { "content-length": "100" }).write("half");
      setTimeout(() => response.destroy(), 20);
    });
    await expect(readAll(callOf([cut.baseUrl]))).rejects.toMatchObject({
      code: "provider_error",
      mayHaveCharged: true,
    });
  });

  test("a call is cancelled at the provider when the client leaves, before and after the first byte", async () => {
    for (const firstByte of [false, true]) {
      const leaving = new AbortController();
      const slow = await provider((_, response) => {
        if (firstByte) response.writeHead(200).write("x");
        setTimeout(() => leaving.abort(), 20);
      });
      await expect(readAll(callOf([slow.baseUrl], { clientLeft: leaving.signal }))).rejects.toBeInstanceOf(ClientLeft);
      await slow.left;
    }
  });
});

describe("calls to limited providers", () => {
  /** Answers takes with the waits for each provider, in order. 0 takes the call. */
  function takeIn(waits: Record<string, (number | null)[]>) {
    const takes: { provider: string; wait_ms: number }[] = [];
    const takeCall: ProviderCall["takeCall"] = async (take) => {
      takes.push(take);
      const wait_ms = waits[take.provider]?.shift() ?? null;
      return { taken: wait_ms !== null && wait_ms <= take.wait_ms, wait_ms };
    };
    return { takes, takeCall };
  }
  function limitedCall(baseUrls: string[], changes: Partial<ProviderCall> = {}): ProviderCall {
    const call = callOf(baseUrls, { limits: { ...limits, totalMs: 10_000 }, ...changes });
    return { ...call, routes: call.routes.map((route) => ({ ...route, limited: true })) };
  }
  const skippedRoute = (route: number) => expect.objectContaining({ route, failure: "skipped" });

  test("takes the call once before it is sent", async () => {
    const { baseUrl, asked } = await provider(text("yes"));
    const { takes, takeCall } = takeIn({ p0: [0] });
    expect(await readAll(limitedCall([baseUrl], { takeCall }))).toBe("yes");
    expect([takes.length, asked.length]).toEqual([1, 1]);
  });

  test("takes nothing for counting tokens, which has limits of its own", async () => {
    const { baseUrl } = await provider(text("yes"));
    expect(await readAll(limitedCall([baseUrl], { endpoint: "count_tokens" }))).toBe("yes");
  });

  test("uses the next route if a provider has no room, without waiting", async () => {
    const [full, next] = [await provider(text("no")), await provider(text("yes"))];
    const { takes, takeCall } = takeIn({ p0: [20], p1: [0] });
    const call = limitedCall([full.baseUrl, next.baseUrl], { takeCall });
    expect(await readAll(call)).toBe("yes");
    expect([full.asked.length, takes.map(({ wait_ms }) => wait_ms)]).toEqual([0, [0, 0]]);
    expect(call.open.attempts).toEqual([skippedRoute(1)]);
    expect(call.cooldowns.stateOf("p0 m0 chat")).toBe("open");
  });

  test("waits for room at the only route, and at the one that has room soonest if there are several", async () => {
    const { baseUrl } = await provider(text("yes"));
    const only = takeIn({ p0: [60] });
    const startedAt = performance.now();
    expect(await readAll(limitedCall([baseUrl], only))).toBe("yes");
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(60);
    const later = await provider(text("no"));
    const both = takeIn({ p0: [2_000], p1: [30, 30] });
    expect(await readAll(limitedCall([later.baseUrl, baseUrl], both))).toBe("yes");
    expect(later.asked).toEqual([]);
    expect(both.takes.map(({ provider, wait_ms }) => [provider, wait_ms])).toEqual([
      ["p0", 0],
      ["p1", 0],
      ["p1", 5_000],
    ]);
  });

  test("waits for room after another route has failed", async () => {
    const [full, broken] = [await provider(text("yes")), await provider(text("no", 500))];
    const { takeCall } = takeIn({ p0: [30, 30], p1: [0] });
    expect(await readAll(limitedCall([full.baseUrl, broken.baseUrl], { takeCall }))).toBe("yes");
  });

  test("a call reports the failure of its last route rather than the room that it waited for", async () => {
    const { baseUrl } = await provider(text("no", 500));
    const call = limitedCall([baseUrl, baseUrl], takeIn({ p0: [30, 30], p1: [0] }));
    await expect(readAll(call)).rejects.toMatchObject({ code: "provider_error" });
  });

  test("keeps the charge of an earlier route if the last provider has no room", async () => {
    const [full, cut] = [await provider(text("no")), await provider((_, response) => response.writeHead(200).end())];
    const call = limitedCall([full.baseUrl, cut.baseUrl], takeIn({ p0: [30, 9_000], p1: [0] }));
    await expect(readAll(call)).rejects.toMatchObject({ code: "rate_limit_exceeded", mayHaveCharged: true });
  });

  test.for<[string, (number | null)[], number | undefined]>([
    ["more than five seconds", [5_001], 6],
    ["longer than the call may", [200], 1],
    ["forever, because the call exceeds the limit", [null], undefined],
  ])("fails with rate_limit_exceeded if room takes %s", async ([, waits, retryAfterSeconds]) => {
    const { baseUrl, asked } = await provider(text("no"));
    const { takeCall } = takeIn({ p0: waits });
    const call = limitedCall([baseUrl], { takeCall, deadline: performance.now() + (waits[0] === 200 ? 100 : 10_000) });
    const failure = await readAll(call).catch((error: ProviderFailure) => error);
    expect(failure).toMatchObject({ code: "rate_limit_exceeded", mayHaveCharged: false, retryAfterSeconds });
    const details = { limit: { kind: "provider", ...(retryAfterSeconds ? { reset_seconds: retryAfterSeconds } : {}) } };
    expect((failure as ProviderFailure).toGatewayError()).toMatchObject({ options: { details } });
    expect([asked, call.open.attempts]).toEqual([[], [skippedRoute(1)]]);
  });

  test("a client that leaves while its call waits for room ends the wait, and nothing is sent", async () => {
    const { baseUrl, asked } = await provider(text("no"));
    const leaving = new AbortController();
    const { takeCall } = takeIn({ p0: [4_000] });
    setTimeout(() => leaving.abort(), 20);
    const startedAt = performance.now();
    const reading = readAll(limitedCall([baseUrl], { takeCall, clientLeft: leaving.signal }));
    await expect(reading).rejects.toBeInstanceOf(ClientLeft);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect(asked).toEqual([]);
  });

  test("a call without room lets another call probe a route after its cooldown", async () => {
    const { baseUrl } = await provider(text("no"));
    let now = 0;
    const cooldowns = createCooldowns({ now: () => now });
    cooldowns.noteFailure("p0 m0 chat", {
      failure: "rate_limited",
      startedAt: 0,
      retryAfterSeconds: 1,
      undecided: false,
    });
    now = 2_000;
    const { takeCall } = takeIn({ p0: [9_000] });
    await expect(readAll(limitedCall([baseUrl], { takeCall, cooldowns }))).rejects.toThrow();
    expect(cooldowns.stateOf("p0 m0 chat")).toBe("open");
  });

  test("a call fails if its provider's limits can't be read", async () => {
    const { baseUrl, asked } = await provider(text("no"));
    const takeCall = () => Promise.reject(new Error("database"));
    await expect(readAll(limitedCall([baseUrl], { takeCall }))).rejects.toThrow("database");
    expect(asked).toEqual([]);
  });
});

describe("Time limit before the first byte", () => {
  const inMs = (ms: number): RequestListener => {
    return (_, response) => void setTimeout(() => response.end("yes"), ms);
  };
  const whole = { limits: { ...limits, firstByteMs: 900, totalMs: 900 }, stream: false };
  const streamed = { limits };
  const timeout = { code: "provider_timeout", mayHaveCharged: true };

  const defaults = timeLimitsOf({ isHosted: false });

  test("a provider may be silent for ten minutes, streamed or not, whether another route follows or not", () => {
    for (const stream of [true, false]) {
      for (const isLast of [true, false]) {
        const { firstByteMs, idleMs } = chooseRequestLimits(defaults, { stream, isLast, provider: {}, route: {} });
        expect([firstByteMs, idleMs]).toEqual([600_000, 600_000]);
      }
    }
  });

  test.for([
    [400, 360_000],
    [70, 35_000],
  ] as const)("a route leaves time for the next one if the whole call has %i s", ([totalSeconds, firstByteMs]) => {
    const short = timeLimitsOf({ totalSeconds, isHosted: false });
    const of = (isLast: boolean) =>
      chooseRequestLimits(short, { stream: false, isLast, provider: {}, route: {} }).firstByteMs;
    expect([of(false), of(true)]).toEqual([firstByteMs, totalSeconds * 1_000]);
  });

  test("the route's time limits override the provider's, but never exceed the gateway's total time", () => {
    const short = timeLimitsOf({ totalSeconds: 180, isHosted: false });
    const provider = { timeLimits: { firstByteMs: 20_000, idleMs: 5_000, totalMs: 300_000 } };
    const of = (stream: boolean, route = {}) => chooseRequestLimits(short, { stream, isLast: true, provider, route });
    expect(of(true)).toMatchObject({ firstByteMs: 20_000, idleMs: 5_000, totalMs: 180_000 });
    const route = { time_limits: { first_byte: 90, total: 100 } };
    expect(of(true, route)).toMatchObject({ firstByteMs: 90_000, idleMs: 5_000, totalMs: 100_000 });
    expect(of(false, route).firstByteMs).toBe(100_000);
  });

  test("longer limits of a route apply to whole answers too, and shorter ones only to streams", () => {
    const of = (stream: boolean, time_limits: object) =>
      chooseRequestLimits(defaults, { stream, isLast: true, provider: {}, route: { time_limits } }).firstByteMs;
    expect([of(true, { first_byte: 1_500 }), of(false, { first_byte: 1_500 })]).toEqual([1_500_000, 1_500_000]);
    expect([of(true, { first_byte: 20, idle: 5 }), of(false, { first_byte: 20, idle: 5 })]).toEqual([20_000, 600_000]);
  });

  test("each route of a stream has its own limit for the first byte", async () => {
    const [fast, slow] = [await provider(inMs(100)), await provider(inMs(600))];
    expect(await readAll(callOf([fast.baseUrl], streamed))).toBe("yes");
    await expect(readAll(callOf([slow.baseUrl], streamed))).rejects.toMatchObject(timeout);
    expect(await readAll(callOf([slow.baseUrl, fast.baseUrl], streamed))).toBe("yes");
  });

  test("the total time also ends an answer that sends bytes but no usable output", async () => {
    const idle = await provider((_, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write(":\n"), 50);
      response.once("close", () => clearInterval(timer));
    });
    const call = callOf([idle.baseUrl], { limits: { ...limits, totalMs: 400 } });
    const readOn = async (answer: ProviderAnswer) => {
      while (await answer.read());
    };
    await expect(callProvider(call, readOn)).rejects.toMatchObject(timeout);
    await idle.left;
  });

  test("a call that exceeds a time limit is charged an estimate, also if another route answers", async () => {
    const [silent, good] = [await provider(() => {}), await provider(text("yes"))];
    const use = { route: 1, usage: { input_tokens: 9, output_tokens: 0 }, basis: "guess" };
    await expect(readAll(callOf([silent.baseUrl]))).rejects.toMatchObject({ ...timeout, use });
    const finished: unknown[] = [];
    const call = callOf([silent.baseUrl, good.baseUrl]);
    call.open.finishCall = (each) => void finished.push(each);
    expect(await readAll(call)).toBe("yes");
    expect(finished).toEqual([use]);
  });

  test("a charged failure is counted once if the body gets no memory for the next route", async () => {
    const [silent, good] = [await provider(() => {}), await provider(text("yes"))];
    const finished: unknown[] = [];
    let resumed = 0;
    const body = { keepOnly() {}, resume: async () => resumed++ === 0 };
    const call = callOf([silent.baseUrl, good.baseUrl], { body });
    call.open.finishCall = (each) => void finished.push(each);
    await expect(readAll(call)).rejects.toMatchObject({ ...timeout, mayHaveCharged: true, use: undefined });
    expect(finished).toMatchObject([{ route: 1 }]);
    expect(good.asked).toEqual([]);
  });

  test.for([408, 504])("a provider's own %i states no usage and is charged nothing", async (status) => {
    const late = await provider(text("{}", status));
    await expect(readAll(callOf([late.baseUrl]))).rejects.toMatchObject({ failure: "timeout", use: undefined });
  });

  test("a non-streamed call with only one route may wait for the first byte up to the time limit for all routes", async () => {
    const [slow, tooSlow] = [await provider(inMs(600)), await provider(inMs(1_200))];
    expect(await readAll(callOf([slow.baseUrl], whole))).toBe("yes");
    await expect(readAll(callOf([tooSlow.baseUrl], whole))).rejects.toMatchObject(timeout);
  });

  test("a non-streamed call waits for the first byte only until the call's deadline", async () => {
    const slow = await provider(inMs(600));
    const by = (ms: number) => callOf([slow.baseUrl], { ...whole, deadline: performance.now() + ms });
    expect(await readAll(by(800))).toBe("yes");
    await expect(readAll(by(400))).rejects.toMatchObject(timeout);
  });

  test("if earlier routes fail immediately, the next route gets their unused time for a non-streamed answer", async () => {
    const [busy, failing, slow] = [
      await provider(text("no", 429)),
      await provider(text("no", 500)),
      await provider(inMs(600)),
    ];
    const routes = ["http://127.0.0.1:9/v1", busy.baseUrl, failing.baseUrl, slow.baseUrl];
    expect(await readAll(callOf(routes, whole))).toBe("yes");
  });

  test("without streaming, the first route's time limit leaves enough time to try the next route", async () => {
    const [silent, good] = [await provider(() => {}), await provider(text("yes"))];
    const call = callOf([silent.baseUrl, good.baseUrl], whole);
    expect(await readAll(call)).toBe("yes");
    expect(call.open.attempts).toMatchObject([{ route: 1, failure: "timeout", may_have_charged: true }]);
  });
});

describe("the recorded attempts of a call", () => {
  const refuse = (status: number, headers: Record<string, string> = {}): RequestListener => {
    return (_, response) => response.writeHead(status, headers).end("{}");
  };
  const attemptsOf = async (call: ProviderCall): Promise<Attempt[]> => {
    await readAll(call).catch(() => {});
    return call.open.attempts.map(({ latency_ms: _, ...attempt }) => attempt as Attempt);
  };

  test("the recorded attempts name the failed route, its status, the reason, and the provider's request id", async () => {
    const [first, second] = [await provider(refuse(401, { "x-request-id": "req_up" })), await provider(text("yes"))];
    const call = callOf([first.baseUrl, second.baseUrl]);
    const answer = await callProvider(
      { ...call, open: { ...call.open, addStep: (_, __, one) => one && call.open.attempts.push(one) } },
      accept,
    );
    const failed = {
      route: 1,
      provider: "p0",
      model: "m0",
      status: 401,
      failure: "unauthorized",
      upstream_request_id: "req_up",
    };
    expect(call.open.attempts).toMatchObject([failed]);
    expect(answer.attempt()).toMatchObject({ route: 2, provider: "p1", model: "m1", status: 200 });
    expect(answer.attempt().failure).toBeUndefined();
    answer.cancel();
  });

  test.for([
    ["apim-request-id", "azure-1", "azure-1"],
    ["x-amzn-requestid", "aws-1", "aws-1"],
    ["cf-ray", "8c1-FRA", "8c1-FRA"],
    ["x-request-id", "r", undefined],
    ["x-request-id", "with space", undefined],
    ["x-request-id", "x".repeat(129), undefined],
  ] as const)(
    "an attempt records the provider's request id, but neither an invalid one nor our own (%s: %s)",
    async ([name, value, id]) => {
      const { baseUrl } = await provider(refuse(500, { [name]: value }));
      const [attempt] = await attemptsOf(callOf([baseUrl]));
      expect(attempt?.upstream_request_id).toBe(id);
    },
  );

  // https://openrouter.ai/docs/guides/features/router-metadata: "fetch the generation record via GET /api/v1/generation
  // using the X-Generation-Id response header". Cloudflare adds cf-ray.
  test("an attempt records OpenRouter's generation id rather than other ids of the request", async () => {
    const ids = { "cf-ray": "8c1-FRA", "x-request-id": "req_up", "X-Generation-Id": "gen-1764500000-AbC" };
    const { baseUrl } = await provider(refuse(500, ids));
    const [attempt] = await attemptsOf(callOf([baseUrl]));
    expect(attempt?.upstream_request_id).toBe("gen-1764500000-AbC");
  });

  test("the recorded attempts distinguish a failed connection, a lost connection, and a timeout", async () => {
    const reset = await provider((request, response) => request.resume().once("end", () => response.destroy()));
    const silent = await provider(() => {});
    expect(await attemptsOf(callOf(["http://127.0.0.1:9/v1", reset.baseUrl, silent.baseUrl]))).toMatchObject([
      { route: 1, failure: "unreachable" },
      { route: 2, failure: "connection_lost", may_have_charged: true },
      { route: 3, failure: "timeout", may_have_charged: true },
    ]);
  });
});

describe("Routes that keep failing", () => {
  test("a failing route is skipped while it cools down, and is listed as skipped in the call's attempts", async () => {
    const [first, second] = [await provider(text("no", 500)), await provider(text("yes"))];
    const call = callOf([first.baseUrl, second.baseUrl]);
    for (let n = 0; n < 5; n++) expect(await readAll(call)).toBe("yes");
    expect(first.asked).toHaveLength(3);
    expect(call.open.attempts.slice(-1)).toEqual([
      { route: 1, provider: "p0", model: "m0", failure: "skipped", latency_ms: 0 },
    ]);
  });

  // The request itself may cause these errors, so they say nothing about the route. The message may quote the request,
  // or the request may be too large for a limit: https://github.com/Aider-AI/aider/issues/1880
  test.for<[number, string]>([
    [400, "Invalid value: 'invalid api key'."],
    [422, "Input: 'the model was not found'"],
    [413, "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 7000"],
    [429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 36278."],
  ])("a route does not cool down after a %i that the request may have caused: %s", async ([status, message]) => {
    const first = await provider(text(JSON.stringify({ error: { message } }), status));
    const second = await provider(text("yes"));
    const call = callOf([first.baseUrl, second.baseUrl]);
    for (let n = 0; n < 5; n++) await readAll(call).catch(() => {});
    expect(first.asked).toHaveLength(5);
  });

  test("the attempts include a skipped route", async () => {
    const [busy, cooling, good] = [
      await provider(text("no", 400)),
      await provider(text("no", 500)),
      await provider(text("yes")),
    ];
    const cold = callOf([busy.baseUrl, cooling.baseUrl, good.baseUrl]);
    for (let n = 0; n < 3; n++) await readAll({ ...cold, routes: cold.routes.slice(1) });
    const failing = await provider(text("no", 503));
    const call = callOf([failing.baseUrl, cooling.baseUrl, good.baseUrl], { cooldowns: cold.cooldowns });
    expect(await readAll(call)).toBe("yes");
    expect(call.open.attempts).toMatchObject([
      { route: 1, failure: "server_error" },
      { route: 2, failure: "skipped" },
    ]);
  });

  test("failing routes are still called if no other route is left", async () => {
    const [first, second] = [await provider(text("no", 500)), await provider(text("no", 503))];
    const call = callOf([first.baseUrl, second.baseUrl]);
    for (let n = 0; n < 5; n++) await readAll(call).catch(() => {});
    expect([first.asked.length, second.asked.length]).toEqual([5, 5]);
    expect(call.open.attempts.filter(({ failure }) => failure === "skipped")).toEqual([]);
  });

  test("a route is set aside after three timeouts in a row, and the provider's other models are not", async () => {
    const [silent, good] = [await provider(() => {}), await provider(text("yes"))];
    const call = callOf([silent.baseUrl, good.baseUrl], { limits: { ...limits, firstByteMs: 100 } });
    const again = () => readAll({ ...call, deadline: performance.now() + 2_000 });
    for (let n = 0; n < 5; n++) expect(await again()).toBe("yes");
    expect(silent.asked).toHaveLength(3);
    const [slow, next] = call.routes;
    if (!slow || !next) throw new Error("two routes are missing");
    call.routes = [{ ...slow, model: "other" }, next];
    await again();
    expect(silent.asked).toHaveLength(4);
  });

  test("a route is probed again if the body of the call that was to probe it gets no memory", async () => {
    const [first, second] = [await provider(text("yes")), await provider(text("no"))];
    let time = 0;
    const cooldowns = createCooldowns({ now: () => time });
    const call = callOf([first.baseUrl, second.baseUrl], { cooldowns, now: () => time, deadline: limits.totalMs });
    for (let n = 0; n < 3; n++) {
      cooldowns.noteFailure("p0 m0 chat", { failure: "server_error", startedAt: 0, undecided: false });
    }
    time = 60_000;
    const body = { keepOnly() {}, resume: async () => false };
    await expect(readAll({ ...call, body })).rejects.toMatchObject({ code: "service_unavailable" });
    expect(await readAll({ ...call, deadline: time + limits.totalMs })).toBe("yes");
  });

  test("a route that hung is not retried as a last resort after another route fails", async () => {
    const [silent, failing] = [await provider(() => {}), await provider(text("no", 500))];
    const call = callOf([silent.baseUrl, failing.baseUrl]);
    const timeout = { failure: "timeout", startedAt: performance.now(), undecided: false } as const;
    for (let n = 0; n < 3; n++) call.cooldowns.noteFailure("p0 m0 chat", timeout);
    await expect(readAll(call)).rejects.toMatchObject({ failure: "server_error" });
    expect(silent.asked).toEqual([]);
  });
});

describe("Error of a call that failed on all routes", () => {
  const refuse = (status: number, body: object, headers: Record<string, string> = {}): RequestListener => {
    return (_, response) => response.writeHead(status, headers).end(JSON.stringify(body));
  };
  const told = async (...answers: RequestListener[]) => {
    const routes = await Promise.all(answers.map(provider));
    const failure = await readAll(callOf(routes.map(({ baseUrl }) => baseUrl))).catch((error) => error);
    const { code, status, options } = failure.toGatewayError();
    return [status, code, options.headers];
  };

  test("the error of a rate-limited call states when to retry", async () => {
    expect(await told(refuse(429, {}, { "retry-after": "17" }))).toEqual([
      429,
      "rate_limit_exceeded",
      { "retry-after": "17" },
    ]);
    // The caller cannot fix a revoked key on the other route, so the error reports the rate limit.
    expect(await told(refuse(429, {}, { "retry-after": "17" }), refuse(401, {}))).toEqual([
      429,
      "rate_limit_exceeded",
      { "retry-after": "17" },
    ]);
  });

  test("the error of an overloaded provider states when to retry", async () => {
    expect(await told(refuse(503, {}, { "retry-after": "30" }))).toEqual([
      502,
      "provider_error",
      { "retry-after": "30" },
    ]);
  });

  test("the error allows a retry if one route was overloaded and another has a wrong key", async () => {
    const overloaded = refuse(503, {}, { "retry-after": "30" });
    expect(await told(overloaded, refuse(401, {}))).toEqual([502, "provider_error", { "retry-after": "30" }]);
    expect(await told(refuse(401, {}), overloaded)).toEqual([502, "provider_error", { "retry-after": "30" }]);
  });

  test("an error caused by the request is returned without trying another route", async () => {
    const code = "context_length_exceeded";
    expect(await told(refuse(400, { error: { code } }), text("yes"))).toEqual([400, code, {}]);
  });

  test.for([401, 402, 403, 404])("the error advises against a retry if the provider answered %i", async (status) => {
    expect(await told(refuse(status, {}))).toEqual([502, "provider_error", { "x-should-retry": "false" }]);
  });
});
