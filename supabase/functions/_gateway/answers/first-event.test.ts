import { describe, expect, test } from "vitest";
import { createMessagesReader } from "../messages/events.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { ClientLeft, ProviderFailure } from "../providers/provider-failure.ts";
import { bufferFirstEvent } from "./first-event.ts";

const usageLimits = { contextWindow: 200_000, outputLimit: 1_000, choices: 1 };

/**
 * Passes an answer that arrives in pieces to `bufferFirstEvent`. An error in place of a piece interrupts it. @returns
 * whether it is a stream, and the bytes that can still be read from it
 */
async function hold(...pieces: (string | Error)[]) {
  const left = pieces.map((piece) => (typeof piece === "string" ? new TextEncoder().encode(piece) : piece));
  let back = "";
  const answer = {
    contentType: "text/event-stream",
    firstByteAt: 0,
    route: { position: 2 },
    async read() {
      const piece = left.shift();
      if (piece instanceof Error) throw piece;
      return piece;
    },
    unread(bytes: Uint8Array) {
      back = new TextDecoder().decode(bytes);
    },
  } as unknown as ProviderAnswer;
  const isStream = await bufferFirstEvent(answer, () => createMessagesReader({ usageLimits }));
  return { isStream, back, left: left.length };
}

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const response = { id: "resp_1", error: null };
const begin = ["response.created", "response.queued", "response.in_progress"].map((type) => event({ type, response }));
const added = event({ type: "response.output_item.added", item: {} });

describe("Streamed responses", () => {
  test("holds a streamed response until its first event with output", async () => {
    expect(await hold(...begin, added, added)).toEqual({ isStream: true, back: begin.join("") + added, left: 1 });
  });

  // https://github.com/openai/codex/issues/43337
  test.for([
    { type: "error", error: { type: "service_unavailable_error", code: "server_is_overloaded" } },
    { type: "response.failed", response: { ...response, error: { code: "server_error" }, usage: null } },
  ])("a stream that fails before any output falls back to the next route: %j", async (error) => {
    const failure = { failure: "server_error", mayHaveCharged: false, retryable: true };
    await expect(hold(...begin, event(error))).rejects.toMatchObject(failure);
  });

  test("a stream that ends without any output counts as possibly charged", async () => {
    await expect(hold(...begin)).rejects.toMatchObject({ failure: "invalid_answer", mayHaveCharged: true });
  });
});

describe("Errors instead of a stream", () => {
  const zero = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  const counted = { ...zero, prompt_tokens: 4_000 };
  const error = { code: 402, message: "Insufficient credits" };
  const failed = { type: "response.failed", response: { error: { code: "insufficient_quota" } } };
  const withUsage = (usage: object) => ({ ...failed, response: { ...failed.response, usage } });

  test.for<object>([
    { choices: [], error, usage: zero },
    { error, usage: zero },
    { error, usage: { ...zero, cost: 0 } },
    withUsage({ input_tokens: 0, output_tokens: 0 }),
  ])("refuses an error whose usage is zero: %j", async (body) => {
    const failure = { failure: "payment_required", mayHaveCharged: false };
    await expect(hold(event(body))).rejects.toMatchObject(failure);
    if ("error" in body) await expect(hold(JSON.stringify(body))).rejects.toMatchObject(failure);
  });

  test.for<object>([
    { choices: [], error, usage: counted },
    { error, usage: counted },
    { error, usage: { ...zero, cost: 0.03 } },
    { error: "boom", prompt_eval_count: 4_000, eval_count: 30 },
    { choices: [{ finish_reason: "error" }], x_groq: { usage: counted } },
    { choices: [{ finish_reason: "error", usage: counted }] },
    withUsage({ input_tokens: 4_000, output_tokens: 0 }),
  ])("leaves an error with usage to its reader, which meters it: %j", async (body) => {
    expect(await hold(event(body))).toMatchObject({ back: event(body) });
    if ("error" in body) expect(await hold(JSON.stringify(body))).toMatchObject({ isStream: true });
  });
});

describe("Openings of other streams", () => {
  const start = event({ type: "message_start", message: { usage: { input_tokens: 3 } } });
  const ping = event({ type: "ping" });
  const block = (content_block: object) => event({ type: "content_block_start", index: 0, content_block });
  const role = event({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] });
  const text = event({ type: "content_block_delta", delta: { type: "text_delta", text: "a" } });

  test.for<[string, string[], string]>([
    ["a message", [start, ping, block({ type: "text", text: "" })], text],
    ["a message that thinks", [start, block({ type: "thinking", thinking: "" })], text],
    ["a message that calls a tool", [start], block({ type: "tool_use", id: "t", name: "f", input: {} })],
    ["a message with hidden thinking", [start], block({ type: "redacted_thinking", data: "x" })],
    ["a chat", [role], event({ choices: [{ index: 0, delta: { content: "a" } }] })],
    ["a chat that calls a tool", [role], event({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0 }] } }] })],
    ["an empty chat", [role], event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })],
  ])("holds %s until its first content", async ([, opening, content]) => {
    expect(await hold(...opening, content, content)).toEqual({
      isStream: true,
      back: opening.join("") + content,
      left: 1,
    });
  });

  test.for<[string, () => Error, object]>([
    [
      "the connection fails",
      () => new ProviderFailure("connection_lost", { mayHaveCharged: true }),
      { retryable: true },
    ],
    ["the provider stops", () => new ProviderFailure("timeout", { mayHaveCharged: true }), { retryable: true }],
    ["the client leaves", () => new ClientLeft(), {}],
  ])("keeps the usage of an opening if %s before any content", async ([, error, facts]) => {
    const opening = event({ type: "message_start", message: { usage: { input_tokens: 12_000, output_tokens: 1 } } });
    const use = { route: 2, usage: { input_tokens: 12_000, output_tokens: 0 }, basis: "partial" };
    await expect(hold(opening, ping, error())).rejects.toMatchObject({ ...facts, use });
    expect(await hold(ping, error()).catch(({ use }) => use)).toBeUndefined();
  });

  test.for([start, role])(
    "leaves a stream that ends after its opening to its reader, which meters it: %s",
    async (opening) => {
      expect(await hold(opening)).toEqual({ isStream: true, back: opening, left: 0 });
    },
  );
});
