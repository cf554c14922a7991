import { describe, expect, test } from "vitest";
import { createResponsesReader, readResponseTexts } from "./events.ts";

const encoder = new TextEncoder();
const event = (type: string, rest: object = {}) => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const delta = (text: string) => event("response.output_text.delta", { delta: text });
const created = event("response.created", { response: { id: "r", error: null, store: false, usage: null } });
const usage = { input_tokens: 3, output_tokens: 2, output_tokens_details: { reasoning_tokens: 1 } };
const completed = event("response.completed", { response: { id: "r", usage } });

function scan(...pieces: (string | Uint8Array)[]) {
  const reader = createResponsesReader({ usageLimits: { contextWindow: 100, outputLimit: 100, choices: 1 } });
  const passed = pieces.flatMap((piece) => reader.push(typeof piece === "string" ? encoder.encode(piece) : piece));
  const text = Buffer.concat([...passed, ...reader.end()]).toString("utf8");
  return { text, facts: reader.facts, reader };
}

describe("Response streams", () => {
  const body = [created, delta("Grüße 🦊"), delta('{"type":"response.completed"} [DONE]'), delta("end")];

  test("a response stream is passed on byte for byte up to its last event, wherever the bytes are split", () => {
    const bytes = encoder.encode([...body, completed, delta("never")].join(""));
    for (let at = 0; at <= bytes.length; at++) {
      const { text, facts } = scan(bytes.slice(0, at), bytes.slice(at));
      expect(text, `split at ${at}`).toBe(body.join(""));
      expect(facts).toMatchObject({
        usage: { counts: { input_tokens: 3, output_tokens: 2, reasoning_tokens: 1 } },
        usageIsFinal: true,
        done: true,
        failed: false,
      });
    }
  });

  test.for([{}, { store: true }, { store: null }])(
    "states store: false in every response of a stream, although the provider states %j",
    (stated) => {
      const [begun, progress, end] = ["response.created", "response.in_progress", "response.completed"].map((type) =>
        event(type, { sequence_number: 1, response: { id: "r", usage, ...stated } }),
      );
      const { text, reader, facts } = scan(begun ?? "", progress ?? "", delta("a"), end ?? "");
      const all = `${text}${reader.completion({} as never)}`;
      const responses = [...all.matchAll(/^data: (\{.*"response":.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
      expect(responses).toMatchObject(
        [begun, progress, end].map(() => ({ sequence_number: 1, response: { id: "r", store: false } })),
      );
      expect(facts).toMatchObject({ done: true, failed: false });
    },
  );

  test("adds our metadata to the last event of a response stream, and sends [DONE] after that event", () => {
    const { reader } = scan(...body, completed);
    const platform = { run_id: "x", usage: {} };
    const [last, done, rest] = reader.completion(platform).split("\n\n");
    expect(last).toMatch(/^event: response\.completed\ndata: /);
    expect(JSON.parse(last?.split("data: ")[1] ?? "")).toEqual({
      type: "response.completed",
      response: { id: "r", usage, store: false, platform },
      platform,
    });
    expect([done, rest]).toEqual(["data: [DONE]", ""]);
  });

  test.for([
    event("ping", { time: 1 }),
    event("status", { message: "Searching" }),
    "event: ping\ndata: {}\n\n",
    'data: {"time":1}\n\n',
    'data: {"type":null}\n\n',
    "data: ping\n\n",
    "data: null\n\n",
  ])("drops the event %j, which clients don't know", (other) => {
    const { text, facts } = scan(other, created, other, delta("a"), other, completed);
    expect(text).toBe(created + delta("a"));
    expect(facts).toMatchObject({ done: true, failed: false });
  });

  test("forwards unknown events whose names begin with `response.`", () => {
    const [first, later] = [event("response.new_event", { x: 1 }), event("response.mcp_call.failed", { x: 1 })];
    const { text, facts } = scan(created, first, delta("a"), later, completed);
    expect(text).toBe(created + first + delta("a") + later);
    expect(facts).toMatchObject({ done: true, failed: false });
  });

  test("drops the provider's keepalives, since Codex doesn't count comments and other clients fail on their events", () => {
    const keepalive = event("keepalive", { sequence_number: 2 });
    expect(scan(created, keepalive, ": wait\n\n", delta("a")).text).toBe(created + delta("a"));
  });

  test("a response stream without its last event is incomplete, unless [DONE] follows its content", () => {
    const done = event("response.output_text.done", { text: "a" });
    expect(scan(created, delta("a"), done).facts.done).toBe(false);
    expect(scan(created, delta("a"), done, "data: [DONE]\n\n").facts).toMatchObject({ done: true, failed: false });
    expect(scan(created, "data: [DONE]\n\n").facts).toMatchObject({ done: false, failed: true });
  });

  test("estimates a response stream's output from the deltas only", () => {
    const long = "x".repeat(400);
    const done = event("response.output_text.done", { text: long });
    expect(scan(created, delta(long), done).facts.estimatedOutputTokens).toBe(100);
    expect(scan(created).facts).toMatchObject({ events: 0, estimatedOutputTokens: 0 });
  });

  test.for([
    event("response.failed", { response: { id: "r", error: { message: "secret" }, usage: null } }),
    event("error", { message: "secret" }),
    'data: {"type":"error","message":"secret"}\n\n',
    'data: {"type":"server_error","message":"secret"}\n\n',
    'data: {"error":{"message":"secret"}}\n\n',
    'data: {"choices":[oops\n\n',
    'data: {"choices":[{"delta":{"content":"secret"}}]}\n\n',
    'data: {"object":"response","output":[]}\n\n',
    'event: response.output_text.delta\ndata: {"delta":"secret"}\n\n',
    "Traceback (secret)\n\n",
  ])("a response stream fails on %j without passing it on", (failure) => {
    for (const before of ["", created, created + delta("a")]) {
      const { text, facts } = scan(before + failure + delta("b"));
      expect(text).toBe(before);
      expect(facts).toMatchObject({ failed: true, done: false });
    }
  });

  test("counts the usage that a failed response stream states", () => {
    const failed = event("response.failed", { response: { id: "r", error: {}, usage } });
    expect(scan(created, delta("a"), failed).facts).toMatchObject({
      failed: true,
      usage: { counts: { output_tokens: 2 } },
      usageIsFinal: true,
    });
  });
});

const lookMessage = { type: "message", content: [{ type: "output_text", text: "Let me look." }] };

test.for(["function_call", "custom_tool_call", "tool_search_call"])(
  "finds no final answer in a response that ends in a %s, even if a message precedes it",
  (type) => {
    expect(readResponseTexts({ output: [lookMessage, { type, call_id: "c1" }] })).toEqual([]);
    expect(readResponseTexts({ output: [lookMessage] })).toEqual(["Let me look."]);
  },
);
