import { describe, expect, test } from "vitest";
import type { AdmittedCall } from "../calls/surface.ts";
import { createChatReader } from "../chat/events.ts";
import { chatFormat } from "../chat/surface.ts";
import { createMessagesReader } from "../messages/events.ts";
import { messagesFormat } from "../messages/surface.ts";
import { kinds } from "../providers/kinds/registry.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { ProviderFailure } from "../providers/provider-failure.ts";
import { createResponsesReader } from "../responses/events.ts";
import { createProgress } from "../responses/progress.ts";
import { responsesFormat } from "../responses/surface.ts";
import { createStepReader } from "../responses/tool-events.ts";
import { readUnbilledEnding, type StreamReader } from "./stream-reader.ts";
import { readWholeAnswer } from "./whole-answer.ts";

const usageLimits = { contextWindow: 200_000, outputLimit: 1_000, choices: 1 };
const formats = { chat: chatFormat, responses: responsesFormat, messages: messagesFormat };
type Format = keyof typeof formats;

/** Reads a whole answer as a provider of a kind. @returns the usage, also that of a failure */
async function useOf(format: Format, answer: unknown, kind: keyof typeof kinds = "openai") {
  const pieces = [new TextEncoder().encode(JSON.stringify(answer))];
  const provider = {
    route: { position: 2 },
    unbilled: kinds[kind].unbilled,
    read: async () => pieces.shift(),
    cancel() {},
  } as unknown as ProviderAnswer;
  const call = { usageLimits, inputEstimate: { input_tokens: 5, output_tokens: 0 } } as unknown as AdmittedCall;
  try {
    const { readAnswer } = formats[format];
    return { use: (await readWholeAnswer(provider, call, { readAnswer })).use };
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    const { use, failure, retryable, mayHaveCharged } = error;
    return { use, failure, retryable, ...(use ? { isCharged: mayHaveCharged } : {}) };
  }
}

const chatUsage = { prompt_tokens: 4_241, completion_tokens: 0, total_tokens: 4_241 };
const responseUsage = { input_tokens: 4_241, output_tokens: 0, total_tokens: 4_241 };
const responseCost = { ...responseUsage, cost: 0.03 };
const stated = { route: 2, usage: { input_tokens: 4_241, output_tokens: 0 }, basis: "final" };
const free = { route: 2, usage: { input_tokens: 0, output_tokens: 0 }, basis: "final" };

describe("A whole answer that cannot be read", () => {
  // github.com/BerriAI/litellm/issues/40252: empty choices with usage
  test.for<[Format, string, object]>([
    ["chat", "empty choices", { choices: [], usage: chatUsage }],
    ["chat", "choices of null", { choices: null, usage: chatUsage }],
    ["chat", "no choices", { usage: chatUsage }],
    ["chat", "choices that are not a list", { choices: {}, usage: chatUsage }],
    ["responses", "an output of null", { status: "completed", output: null, usage: responseUsage }],
    ["responses", "no output", { status: "completed", usage: responseUsage }],
    ["messages", "a content of null", { type: "message", content: null, usage: responseUsage }],
    ["messages", "no content", { type: "message", usage: responseUsage }],
    ["messages", "another type", { type: "completion", content: [], usage: responseUsage }],
    ["chat", "no output count", { choices: [], usage: { prompt_tokens: 4_241 } }],
    ["chat", "an output count of null", { choices: [], usage: { prompt_tokens: 4_241, completion_tokens: null } }],
    ["chat", "only a total", { choices: [], x_groq: { usage: { total_tokens: 4_241 } } }],
    ["chat", "an error and no output count", { choices: [{ error: {} }], usage: { prompt_tokens: 4_241 } }],
    ["responses", "no output count", { output: null, usage: { input_tokens: 4_241 } }],
    ["responses", "only a total", { output: null, usage: { total_tokens: 4_241 } }],
    ["responses", "a failure and no output count", { status: "failed", output: [], usage: { input_tokens: 4_241 } }],
    ["messages", "no output count", { type: "message", content: null, usage: { input_tokens: 4_241 } }],
    ["messages", "only a total", { type: "message", content: null, usage: { total_tokens: 4_241 } }],
  ])("is charged by its usage, and another route may answer: %s with %s", async ([format, what, answer]) => {
    expect(await useOf(format, answer)).toEqual({
      use: stated,
      // An answer that reports a failure keeps the failure's kind.
      failure: /error|failure/.test(what) ? "server_error" : "invalid_answer",
      retryable: true,
      isCharged: true,
    });
  });

  test("is free if its usage is zero", async () => {
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    const failure = { failure: "invalid_answer", retryable: true, isCharged: false };
    expect(await useOf("chat", { choices: [], usage })).toEqual({ ...failure, use: free });
  });

  test.for<[Format, object]>([
    ["chat", { choices: [] }],
    ["chat", { choices: [], usage: { completion_tokens: 5 } }],
    ["responses", { output: null, usage: {} }],
    ["messages", { type: "message" }],
  ])("is not charged without usage, and no other route is called: %s", async ([format, answer]) => {
    expect(await useOf(format, answer)).toEqual({ use: undefined, failure: "invalid_answer", retryable: false });
  });
});

describe("A whole answer that reports an error", () => {
  const zero = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  const none = { input_tokens: 0, output_tokens: 0 };
  const money = { code: 402, message: "Insufficient credits" };
  const full = { code: "context_length_exceeded", message: "Too long." };
  const choice = { index: 0, message: { role: "assistant", content: "" }, finish_reason: "error" };

  test.for<[Format, object, string, boolean]>([
    ["chat", { choices: [], error: money, usage: zero }, "payment_required", true],
    ["chat", { error: money, usage: zero }, "payment_required", true],
    ["responses", { status: "failed", output: [], error: full, usage: none }, "context_length_exceeded", false],
    ["messages", { type: "error", error: { type: "overloaded_error" }, usage: none }, "server_error", true],
  ])("is refused if its usage is zero: %s %j", async ([format, answer, failure, retryable]) => {
    expect(await useOf(format, answer)).toEqual({ use: undefined, failure, retryable });
  });

  test.for<[Format, object, string, boolean]>([
    ["chat", { choices: [], error: money, usage: chatUsage }, "payment_required", true],
    ["chat", { error: "boom", prompt_eval_count: 4_241, eval_count: 0 }, "server_error", true],
    ["chat", { choices: [choice], x_groq: { usage: chatUsage } }, "server_error", true],
    ["chat", { choices: [{ ...choice, usage: chatUsage }] }, "server_error", true],
    [
      "responses",
      { status: "failed", output: [], error: full, usage: responseUsage },
      "context_length_exceeded",
      false,
    ],
    ["messages", { type: "error", error: { type: "overloaded_error" }, usage: responseUsage }, "server_error", true],
  ])("is charged by its usage and keeps its failure: %s %j", async ([format, answer, failure, retryable]) => {
    expect(await useOf(format, answer)).toEqual({ use: stated, failure, retryable, isCharged: true });
  });
});

const refused = (content: object[], output_tokens: number) => ({
  type: "message",
  content,
  stop_reason: "refusal",
  stop_details: { type: "refusal", category: "cyber", explanation: "This request was declined." },
  usage: { input_tokens: 12_000, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens },
});
const text = { type: "text", text: "Hello" };
const charged = (output_tokens: number) => ({
  route: 2,
  usage: { input_tokens: 12_000, output_tokens },
  basis: "final",
});

describe("A whole answer that its provider does not bill", () => {
  // https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback
  test.for<[string, object, keyof typeof kinds, object]>([
    ["a refusal without content", refused([], 0), "anthropic", free],
    // The usage of the example in Bedrock's claude-messages-fallback-credit.html
    ["a refusal that states one token", refused([], 1), "anthropic", free],
    ["a refusal with an empty text", refused([{ type: "text", text: "" }], 0), "anthropic", free],
    ["a refusal after output", refused([text], 120), "anthropic", charged(120)],
    ["a refusal whose output is not in the content", refused([], 120), "anthropic", charged(120)],
    ["a refusal by another kind of provider", refused([], 0), "openai-compatible", charged(0)],
  ])("costs nothing, and is otherwise charged: %s", async ([, answer, kind, use]) => {
    expect(await useOf("messages", answer, kind)).toEqual({ use });
  });

  // https://openrouter.ai/docs/guides/features/zero-completion-insurance
  test.for<[string, object, keyof typeof kinds, object]>([
    ["no choices", { choices: [] }, "openrouter", free],
    ["no reason", { choices: [{ finish_reason: null, message: { content: "" } }] }, "openrouter", free],
    ["a reason", { choices: [{ finish_reason: "stop", message: { content: "" } }] }, "openrouter", stated],
    ["no choices from another kind", { choices: [] }, "openai", stated],
    [
      "no choices, but a cost",
      { choices: [], usage: { ...chatUsage, cost: 0.03 } },
      "openrouter",
      { ...stated, statedCostUsd: "0.03" },
    ],
  ])("costs nothing at OpenRouter if it has no output and no reason: %s", async ([, answer, kind, use]) => {
    expect((await useOf("chat", { usage: chatUsage, ...answer }, kind)).use).toEqual(use);
  });
});

describe("A stream that its provider does not bill", () => {
  const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
  const endingOf = (reader: StreamReader, ...events: string[]) => {
    reader.push(new TextEncoder().encode(events.join("")));
    reader.end();
    return readUnbilledEnding(reader.facts);
  };
  const start = event({ type: "message_start", message: { usage: { input_tokens: 12_000, output_tokens: 1 } } });
  const delta = (stop_reason: string, output_tokens: number) =>
    event({ type: "message_delta", delta: { stop_reason }, usage: { output_tokens } });
  const stop = event({ type: "message_stop" });
  const block = [
    event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello" } }),
    event({ type: "content_block_stop", index: 0 }),
  ];

  test.for<[string, string[], string | undefined]>([
    ["a refusal before any output", [start, delta("refusal", 0), stop], "refusal"],
    ["a refusal after a text", [start, ...block, delta("refusal", 120), stop], undefined],
    ["an empty answer", [start, delta("end_turn", 0), stop], undefined],
  ])("ends like this in the Messages API: %s", ([, events, ending]) => {
    expect(endingOf(createMessagesReader({ usageLimits }), ...events)).toBe(ending);
  });

  const chunk = (choices: object[], usage?: object) => event({ id: "c", choices, ...(usage ? { usage } : {}) });
  const end = "data: [DONE]\n\n";
  test.for<[string, string[], string | undefined]>([
    ["nothing", [chunk([{ index: 0, delta: { role: "assistant" } }]), chunk([], chatUsage), end], "nothing"],
    ["a reason", [chunk([{ index: 0, delta: {}, finish_reason: "stop" }]), chunk([], chatUsage), end], undefined],
    [
      "an output",
      [chunk([{ index: 0, delta: { content: "Hello" } }]), chunk([], { ...chatUsage, completion_tokens: 2 }), end],
      undefined,
    ],
    ["a client that left", [chunk([{ index: 0, delta: { role: "assistant" } }])], undefined],
    ["a cost", [chunk([{ index: 0, delta: {} }]), chunk([], { ...chatUsage, cost: 0.03 }), end], undefined],
    [
      "a reason of one of two choices",
      [chunk([{ index: 0, delta: {}, finish_reason: "length" }]), chunk([], chatUsage), end],
      undefined,
    ],
  ])("ends like this in a chat: %s", ([, events, ending]) => {
    const reader = createChatReader({ wantsUsage: true, usageLimits, choices: 2, unnamed: { id: "i", model: "m" } });
    expect(endingOf(reader, ...events)).toBe(ending);
  });

  const ofResponse = (type: string, response: object) =>
    event({ type, response: { id: "r", created_at: 1, ...response } });
  test.for<[string, string[], string | undefined]>([
    ["a completed response", [ofResponse("response.completed", { usage: responseUsage })], undefined],
    ["an incomplete response", [ofResponse("response.incomplete", { usage: responseUsage })], undefined],
    ["a failed response", [ofResponse("response.failed", { usage: responseUsage })], "error"],
    ["a failed response with a cost", [ofResponse("response.failed", { usage: responseCost })], undefined],
  ])("ends like this in the Responses API, also with server tools: %s", ([, events, ending]) => {
    const conversation = { progress: createProgress(), nextIndex: 0, nextSequence: 0, earlierItems: [] };
    const readers = [
      createResponsesReader({ usageLimits }),
      createStepReader({ usageLimits, conversation, first: true } as never),
    ];
    for (const reader of readers) {
      expect(endingOf(reader, ofResponse("response.created", {}), ...events)).toBe(ending);
    }
  });
});
