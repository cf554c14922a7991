import { describe, expect, test } from "vitest";
import { createMessageAssembly } from "./assembly.ts";
import { createMessagesReader } from "./events.ts";
import { replayMessage } from "./replay.ts";

const encoder = new TextEncoder();
type Members = Record<string, unknown>;
const event = (type: string, rest: Members = {}) => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const text = (piece: string, index = 0) =>
  event("content_block_delta", { index, delta: { type: "text_delta", text: piece } });
const start = (usage: Members) =>
  event("message_start", {
    message: { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], usage },
  });
const block = event("content_block_start", { index: 0, content_block: { type: "text", text: "" } });
const blockEnd = event("content_block_stop", { index: 0 });
const end = (usage: Members, stop_reason: string | null = "end_turn") =>
  event("message_delta", { delta: { stop_reason, stop_sequence: null }, usage });
const stop = event("message_stop");
const usageLimits = { contextWindow: 1_000_000, outputLimit: 1_000, choices: 1 };

function scan(...pieces: (string | Uint8Array)[]) {
  const assembly = createMessageAssembly();
  const reader = createMessagesReader({ usageLimits, assembly });
  const passed = pieces.flatMap((piece) => reader.push(typeof piece === "string" ? encoder.encode(piece) : piece));
  return { text: Buffer.concat([...passed, ...reader.end()]).toString("utf8"), facts: reader.facts, reader };
}
const countsOf = (...pieces: string[]) => scan(...pieces).facts.usage?.counts;

describe("Streams of the Messages API", () => {
  const body = [
    start({ input_tokens: 10, output_tokens: 1 }),
    event("ping"),
    block,
    text("Grüße 🦊"),
    text('{"type":"message_stop"}'),
    blockEnd,
    end({ output_tokens: 7 }),
  ];

  test("the Messages API reader passes on all bytes before the last event, wherever the input is split", () => {
    const bytes = encoder.encode([...body, stop, text("never")].join(""));
    for (let at = 0; at <= bytes.length; at++) {
      const { text: passed, facts } = scan(bytes.slice(0, at), bytes.slice(at));
      expect(passed, `split at ${at}`).toBe(body.join(""));
      expect(facts).toMatchObject({ done: true, failed: false, usageIsFinal: true });
      expect(facts.usage?.counts).toEqual({ input_tokens: 10, output_tokens: 7 });
    }
  });

  test("a Messages API stream ends with the provider's last event, with our metadata added", () => {
    const { reader } = scan(...body, event("message_stop", { extra: 1 }));
    const platform = { run_id: "x", usage: {} };
    expect(reader.completion(platform)).toBe(event("message_stop", { extra: 1, platform }));
  });

  test("a Messages API stream that lacks only its last event is complete, and the gateway adds the event", () => {
    const { reader } = scan(...body);
    expect(reader.facts).toMatchObject({ done: true, failed: false });
    expect(reader.completion({ usage: {} })).toBe(event("message_stop", { platform: { usage: {} } }));
  });

  test.for<[string, string]>([
    ["an error event", event("error", { error: { type: "overloaded_error", message: "Overloaded" } })],
    ["an unnamed error event", 'data: {"type":"error","error":{"type":"api_error","message":"x"}}\n\n'],
    ["garbage", 'data: {"type": [oops\n\n'],
  ])("a Messages API stream fails on %s, and keeps the input token count reported at its start", ([, failure]) => {
    const { facts } = scan(start({ input_tokens: 10, output_tokens: 1 }), block, text("some text"), failure);
    expect(facts).toMatchObject({ failed: true, done: false, estimatedOutputTokens: 3 });
    expect(facts.usage?.counts).toEqual({ input_tokens: 10, output_tokens: 0 });
  });

  test("a Messages API stream fails if it is cut before a stop reason", () => {
    expect(scan(start({ input_tokens: 10, output_tokens: 1 }), block, text("a")).facts).toMatchObject({ done: false });
  });
});

describe("Usage of a Messages API stream", () => {
  test("combines the usage reported by the first and the last event", () => {
    const cache_creation = { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 };
    const begun = {
      input_tokens: 10,
      cache_creation_input_tokens: 50,
      cache_read_input_tokens: 40,
      cache_creation,
      output_tokens: 1,
      service_tier: "standard",
    };
    const details = { output_tokens_details: { thinking_tokens: 4 } };
    const { facts } = scan(start(begun), block, text("a"), end({ output_tokens: 9, ...details }), stop);
    expect(facts.usage).toEqual({
      counts: {
        input_tokens: 100,
        cached_input_tokens: 40,
        cache_write_tokens: 20,
        cache_write_1h_tokens: 30,
        output_tokens: 9,
        reasoning_tokens: 4,
      },
      servedTier: "standard",
    });
  });

  // From `message_delta` in the web search example of https://platform.claude.com/docs/en/build-with-claude/streaming
  test("uses the last event's input token count if web searches increased the count", () => {
    const corrected = {
      input_tokens: 10_682,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: null,
      output_tokens: 510,
      server_tool_use: { web_search_requests: 1 },
    };
    const begun = { input_tokens: 2_679, cache_read_input_tokens: 5, output_tokens: 3 };
    expect(countsOf(start(begun), block, text("a"), end(corrected), stop)).toEqual({
      input_tokens: 10_687,
      cached_input_tokens: 5,
      output_tokens: 510,
      fee_requests: 1,
    });
  });

  test("counts additional cache writes of the last event as 5-minute writes", () => {
    const cache_creation = { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 };
    const begun = { input_tokens: 10, cache_creation_input_tokens: 50, cache_creation, output_tokens: 1 };
    const corrected = { cache_creation_input_tokens: 60, output_tokens: 5 };
    expect(countsOf(start(begun), block, text("a"), end(corrected), stop)).toMatchObject({
      input_tokens: 70,
      cache_write_1h_tokens: 30,
      cache_write_tokens: 30,
    });
  });
});

test("a streamed message is assembled and replayed unchanged", () => {
  const content = [
    { type: "thinking", thinking: "hm", signature: "s" },
    { type: "text", text: "one two", citations: [{ cited_text: "c" }] },
    { type: "tool_use", id: "t", name: "f", input: { a: [1, { b: "}" }] } },
    { type: "web_search_tool_result", tool_use_id: "w", content: [] },
  ];
  const usage = { input_tokens: 3, output_tokens: 9 };
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    stop_reason: "tool_use",
    stop_sequence: null,
  };
  const kept = { ...message, content, usage, platform: { run_id: "r" } };
  const { reader, facts } = scan(replayMessage(kept));
  expect(facts).toMatchObject({ done: true, failed: false, usageIsFinal: true });
  expect(reader.answer?.()?.value).toEqual({ ...message, content, usage });
  expect(replayMessage(kept).endsWith(event("message_stop", { platform: { run_id: "r" } }))).toBe(true);
});
