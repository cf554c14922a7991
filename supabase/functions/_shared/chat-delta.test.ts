import { describe, expect, test } from "vitest";
import { mergeDelta, wholeMessage } from "./chat-delta.ts";

function merge(...deltas: object[]): Record<string, unknown> {
  const message = {};
  for (const delta of deltas) mergeDelta(message, delta as Record<string, unknown>);
  return wholeMessage(message);
}
const calls = (...deltas: object[]) => merge(...deltas.map((call) => ({ tool_calls: [call] }))).tool_calls;
const called = (id: string, name: string, text: string, more: object = {}) => ({
  id,
  type: "function",
  function: { name, arguments: text },
  ...more,
});

describe("a streamed message", () => {
  test("joins the deltas of a streamed message, each field separately", () => {
    expect(
      merge(
        { role: "assistant", content: "" },
        { reasoning_content: "th", reasoning: "a" },
        { reasoning_content: "ink", reasoning: "b", role: "assistant" },
        { content: "Hel", refusal: null },
        { content: "lo" },
      ),
    ).toEqual({ role: "assistant", content: "Hello", reasoning_content: "think", reasoning: "ab" });
  });

  // The details arrive in pieces and are sent back as one sequence:
  // https://openrouter.ai/docs/use-cases/reasoning-tokens
  test("joins OpenRouter's reasoning details by their index", () => {
    const detail = (more: object) => ({
      reasoning_details: [{ type: "reasoning.text", format: "v1", index: 0, ...more }],
    });
    expect(merge(detail({ text: "th" }), detail({ text: "ink" }), detail({ signature: "s" }))).toMatchObject({
      reasoning_details: [{ type: "reasoning.text", format: "v1", index: 0, text: "think", signature: "s" }],
    });
  });

  test("merged deltas keep the order of list entries that have no index", () => {
    expect(merge({ annotations: [{ url: "a" }] }, { annotations: [{ url: "b" }] })).toMatchObject({
      annotations: [{ url: "a" }, { url: "b" }],
    });
  });

  test("does not let a delta change prototypes", () => {
    merge(JSON.parse('{"__proto__":{"polluted":1},"a":{"__proto__":{"polluted":1},"constructor":{"polluted":1}}}'));
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

describe("streamed tool calls", () => {
  test("completes streamed tool calls after all their pieces have arrived", () => {
    expect(
      calls(
        { index: 0, id: "a", type: "function", function: { name: "add", arguments: "" } },
        { index: 0, function: { arguments: '{"a"' } },
        { index: 0, function: { arguments: ":1}" } },
      ),
    ).toEqual([called("a", "add", '{"a":1}')]);
  });

  // https://ai.google.dev/gemini-api/docs/thought-signatures (OpenAI compatibility)
  test("keeps members that providers add to tool calls", () => {
    const extra_content = { google: { thought_signature: "c2ln" } };
    expect(calls({ index: 0, ...called("a", "add", "{}"), extra_content })).toEqual([
      called("a", "add", "{}", { extra_content }),
    ]);
  });

  test("treats tool calls with different ids as separate, even at the same index or without an index", () => {
    const [a, b] = [called("a", "add", '{"a":1}'), called("b", "add", '{"a":2}')];
    expect(calls({ index: 0, ...a }, { index: 0, ...b })).toEqual([a, b]);
    expect(calls(a, b)).toEqual([a, b]);
  });

  test("treats one id at two indexes as two tool calls", () => {
    const a = called("a", "add", "{}");
    expect(calls({ index: 0, ...a }, { index: 1, ...a })).toEqual([a, a]);
  });

  test("accepts tool call pieces that each repeat the id and name", () => {
    expect(
      calls(
        { index: 0, id: "a", function: { name: "add", arguments: "{" } },
        { index: 0, id: "a", function: { name: "add", arguments: "}" } },
      ),
    ).toEqual([called("a", "add", "{}")]);
  });

  test("merges tool call pieces in linear time, even with huge indexes", () => {
    const began = performance.now();
    const many = Array.from({ length: 50_000 }, (_, index) => ({ index: 2 ** 40 - index, function: { name: "f" } }));
    expect(calls(...many)).toHaveLength(many.length);
    expect(performance.now() - began).toBeLessThan(3_000);
  });
});

test("accepts any value as a tool call's index", () => {
  const index = [{ toString: 0 }];
  expect(wholeMessage({ tool_calls: [{ index: "1", id: "b" }, { index: {} }, { index, id: "a" }] }).tool_calls).toEqual(
    [
      { id: "", type: "function", function: { name: "", arguments: "" } },
      { id: "a", type: "function", function: { name: "", arguments: "" } },
      { id: "b", type: "function", function: { name: "", arguments: "" } },
    ],
  );
});
