import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Gateway } from "../calls/gateway.ts";
import type { AdmittedCall } from "../calls/surface.ts";
import { GatewayError } from "../http/errors.ts";
import { messagesSurface } from "../messages/surface.ts";
import { timeLimitsOf } from "../providers/limits.ts";
import { createResponsesReader } from "../responses/events.ts";
import { createProgress } from "../responses/progress.ts";
import { responsesSurface } from "../responses/surface.ts";
import { beginInTime } from "./begin-response.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  // All time limits share one timer, which would otherwise be lost.
  vi.runOnlyPendingTimers();
  vi.useRealTimers();
});

const limits = timeLimitsOf({ isHosted: false });
/** How late a time limit may expire. */
const tolerance = 50;

/** Begins the response of a call whose answer arrives when `answer` or `fail` is called. */
function begin({ stream, surface = {}, ...rest }: { stream: boolean; surface?: object; progress?: object }) {
  const reported: unknown[] = [];
  const gateway = { limits, report: (error: unknown) => reported.push(error) } as unknown as Gateway;
  const open = { hasResponseBegun: false, run: { limits: { minute: null, counts: Array(8).fill(null) } } };
  const call = {
    request: { stream, ...rest },
    surface,
    open,
    requestId: "req_1",
    model: "m",
  } as unknown as AdmittedCall;
  let answer: (response: Response) => void = () => {};
  let fail: (error: unknown) => void = () => {};
  const answering = new Promise<Response>((resolve, reject) => {
    answer = resolve;
    fail = reject;
  });
  return { response: beginInTime(gateway, call, answering), answer, fail, open, reported };
}

const streamed = (text: string) => new Response(text, { headers: { "content-type": "text/event-stream" } });

describe("A call whose answer arrives in time", () => {
  test("gets the answer's own response", async () => {
    const { response, answer, open } = begin({ stream: true });
    await vi.advanceTimersByTimeAsync(limits.beginMs - 1);
    const answered = streamed("data: a\n\n");
    answer(answered);
    expect(await response).toBe(answered);
    await vi.advanceTimersByTimeAsync(limits.beginMs);
    expect(open.hasResponseBegun).toBe(false);
  });

  test("gets its error's own status", async () => {
    const { response, fail } = begin({ stream: false });
    fail(new GatewayError("provider_timeout"));
    await expect(response).rejects.toMatchObject({ status: 504 });
  });
});

describe("A call whose answer takes long", () => {
  /** Waits until the response begins, and reads `count` parts, with the time at which each arrived. */
  async function parts({ response }: ReturnType<typeof begin>, count: number) {
    const startedAt = performance.now();
    await vi.advanceTimersByTimeAsync(limits.beginMs + tolerance);
    const head = await response;
    const reader = head.body?.getReader();
    const read: { text: string; at: number }[] = [];
    for (let n = 0; n < count; n++) {
      const reading = reader?.read();
      await vi.advanceTimersByTimeAsync(n === 0 ? tolerance : limits.keepaliveMs + tolerance);
      read.push({ text: new TextDecoder().decode((await reading)?.value), at: performance.now() - startedAt });
    }
    async function rest(): Promise<string> {
      let text = "";
      for (let next = await reader?.read(); next?.value; next = await reader?.read()) {
        text += new TextDecoder().decode(next.value);
      }
      return text;
    }
    return { response: head, reader, read, rest };
  }

  test.for<[string, { stream: boolean; surface?: object }, string, string]>([
    ["a chat stream", { stream: true }, ": keepalive\n", "text/event-stream; charset=utf-8"],
    [
      "a streamed message",
      { stream: true, surface: messagesSurface },
      'event: ping\ndata: {"type":"ping"}\n\n',
      "text/event-stream; charset=utf-8",
    ],
    ["a whole answer", { stream: false }, "\n", "application/json"],
  ])("begins with status 200 and is kept alive until the answer follows: %s", async ([, kind, keepalive, type]) => {
    const call = begin(kind);
    const { response, read, rest } = await parts(call, 4);
    expect([response.status, response.headers.get("content-type")]).toEqual([200, type]);
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    expect(read.map(({ text }) => text)).toEqual(Array(4).fill(keepalive));
    expect(call.open.hasResponseBegun).toBe(true);
    call.answer(new Response('{"a":1}'));
    expect(await rest()).toBe('{"a":1}');
  });

  test.for<[string, { stream: boolean; surface?: object }, unknown]>([
    ["a chat stream", { stream: true }, { error: { code: "provider_timeout", request_id: "req_1" } }],
    [
      "a streamed message",
      { stream: true, surface: messagesSurface },
      { type: "error", error: { type: "timeout_error" } },
    ],
    ["a whole answer", { stream: false }, { error: { code: "provider_timeout", request_id: "req_1" } }],
    [
      "a whole message",
      { stream: false, surface: messagesSurface },
      { type: "error", error: { type: "timeout_error" } },
    ],
  ])("ends with its API's own error if it fails then: %s", async ([, kind, error]) => {
    const call = begin(kind);
    const { rest } = await parts(call, 2);
    call.fail(new GatewayError("provider_timeout"));
    const text = await rest();
    expect(JSON.parse(text.slice(text.indexOf("{")))).toMatchObject(error as object);
    if (kind.stream) expect(text).toMatch(/^(?:event: error\n)?data: /);
  });

  test("numbers the events of a response without gaps, and keeps its time of creation, if it fails then", async () => {
    const progress = createProgress();
    createResponsesReader({ usageLimits: { outputLimit: 100, choices: 1 }, progress });
    const call = begin({ stream: true, surface: responsesSurface, progress });
    const { read, rest } = await parts(call, 3);
    call.fail(new GatewayError("provider_timeout"));
    const text = read.map(({ text }) => text).join("") + (await rest());
    const events = text.match(/(?<=^data: ).*$/gm)?.map((data) => JSON.parse(data)) ?? [];
    expect(events.map(({ type, sequence_number }) => [type, sequence_number])).toEqual([
      ["response.created", 0],
      ["response.in_progress", 1],
      ["response.in_progress", 2],
      ["response.in_progress", 3],
      ["response.failed", 4],
    ]);
    expect(new Set(events.map(({ response }) => response.created_at)).size).toBe(1);
  });

  test("reports a defect, and tells the client internal_error", async () => {
    const call = begin({ stream: false });
    const { rest } = await parts(call, 1);
    call.fail(new TypeError("ours"));
    expect(JSON.parse(await rest())).toMatchObject({ error: { code: "internal_error" } });
    expect(call.reported).toMatchObject([{ message: "ours" }]);
  });

  test("cancels the answer's stream if the client leaves before or after the answer arrives", async () => {
    for (const isAnswered of [false, true]) {
      const call = begin({ stream: true });
      const { reader } = await parts(call, 1);
      const cancelled = vi.fn();
      const answer = () =>
        call.answer(new Response(new ReadableStream({ pull: (c) => c.enqueue(Uint8Array.of(10)), cancel: cancelled })));
      if (isAnswered) {
        answer();
        await reader?.read();
      }
      await reader?.cancel();
      if (!isAnswered) answer();
      await vi.advanceTimersByTimeAsync(1);
      expect(cancelled).toHaveBeenCalledOnce();
    }
  });
});
