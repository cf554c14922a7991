import { describe, expect, test } from "vitest";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { holdFirstEvent } from "./first-event.ts";

/**
 * Passes an answer that arrives in pieces to `holdFirstEvent`. @returns whether it is a stream, and the bytes that can
 * still be read from it
 */
async function hold(...pieces: string[]) {
  const left = pieces.map((piece) => new TextEncoder().encode(piece));
  let back = "";
  const answer = {
    contentType: "text/event-stream",
    firstByteAt: 0,
    read: async () => left.shift(),
    unread(bytes: Uint8Array) {
      back = new TextDecoder().decode(bytes);
    },
  } as unknown as ProviderAnswer;
  const isStream = await holdFirstEvent(answer, { now: () => 0 });
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
