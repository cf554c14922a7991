import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { StreamReader } from "../answers/stream-reader.ts";
import { createAssembly } from "../chat/assembly.ts";
import { createChatReader } from "../chat/events.ts";
import { readChat } from "../chat/request.ts";
import { createStepReader as createChatStep } from "../chat/tool-events.ts";
import { GatewayError } from "../http/errors.ts";
import { createMessageAssembly } from "../messages/assembly.ts";
import { createMessagesReader } from "../messages/events.ts";
import { readMessages } from "../messages/request.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { createResponsesReader } from "../responses/events.ts";
import { createProgress } from "../responses/progress.ts";
import { readResponses } from "../responses/request.ts";
import { createStepReader as createResponseStep } from "../responses/tool-events.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const schema = { type: "object", properties: { a: { $ref: "#/$defs/b" } }, $defs: { b: { pattern: "^x{1,3}$" } } };
const chat = {
  model: "m",
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: "t" },
        { type: "image_url", image_url: { url: "https://x.test/a" } },
      ],
    },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
    },
    { role: "tool", content: "r", tool_call_id: "c" },
  ],
  tools: [{ type: "function", function: { name: "f", parameters: {} } }],
  response_format: { type: "json_schema", json_schema: { name: "s", schema, strict: true } },
  platform: { max_steps: 2 },
  n: 2,
  stream: true,
};
const response = {
  model: "m",
  input: [
    { role: "user", content: [{ type: "input_text", text: "t" }] },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: "r" },
  ],
  tools: ["calculator"],
  text: { format: { type: "json_schema", name: "s", schema, strict: true } },
  max_output_tokens: 5,
};
const prompt = {
  model: "m",
  max_tokens: 5,
  system: [{ type: "text", text: "t", cache_control: { type: "ephemeral" } }],
  messages: [
    {
      role: "user",
      content: [
        { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
        { type: "document", source: { type: "content", content: [{ type: "text", text: "t" }] } },
        { type: "tool_result", tool_use_id: "c", content: "r" },
      ],
    },
  ],
  tools: [
    { name: "f", input_schema: {} },
    { type: "web_search_20250305", name: "web_search", max_uses: 1 },
  ],
  context_management: { edits: [{ type: "clear_thinking_20251015" }] },
};
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const toolCall = { index: 0, id: "c", function: { name: "calculator", arguments: "{" } };
const chunks = [
  { id: "c", created: 1, model: "m", choices: [{ index: 0, delta: { role: "assistant", content: "" } }] },
  { id: "c", created: 1, model: "m", choices: [{ index: 0, delta: { content: "a" }, finish_reason: null }] },
  {
    id: "c",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta: { tool_calls: [toolCall] }, finish_reason: "stop" }],
  },
  { id: "c", created: 1, model: "m", choices: [], usage },
];
const message = { id: "i", type: "message", role: "assistant", content: [{ type: "output_text", text: "a" }] };
const events = [
  { type: "response.created", response: { id: "r", created_at: 1, output: [] } },
  { type: "response.output_item.added", output_index: 0, item: { type: "function_call", arguments: "" } },
  { type: "response.output_text.delta", output_index: 1, delta: "a" },
  {
    type: "response.completed",
    response: { id: "r", output: [message], usage: { input_tokens: 3, output_tokens: 2 } },
  },
];

const messageEvents = [
  {
    type: "message_start",
    message: { id: "m", content: [], usage: { input_tokens: 3, cache_creation: { ephemeral_1h_input_tokens: 1 } } },
  },
  { type: "content_block_start", index: 0, content_block: { type: "tool_use", id: "c", name: "f", input: {} } },
  { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: "{" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "a" } },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
  { type: "message_stop" },
];

/** Generates copies of a JSON value in which some parts are replaced. */
function mutated(valid: unknown): fc.Arbitrary<unknown> {
  const other = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom<unknown>(null, -1, 1e308, "", "__proto__", "constructor", [], {}, [[]], "\u0000", "\ud800"),
  );
  if (Array.isArray(valid)) {
    const items = fc.tuple(...valid.map((each) => orElse(mutated(each), other)));
    return fc.oneof({ weight: 8, arbitrary: items }, { weight: 1, arbitrary: items.map((all) => [...all, ...all]) });
  }
  if (typeof valid !== "object" || valid === null) return orElse(fc.constant(valid), other);
  const members = Object.fromEntries(Object.entries(valid).map(([name, each]) => [name, orElse(mutated(each), other)]));
  const extra = fc.option(fc.tuple(fc.constantFrom("platform", "usage", "error", "index", "type", "zz"), other), {
    freq: 8,
  });
  return fc
    .tuple(fc.record(members, { requiredKeys: Object.keys(members).filter((_, at) => at % 2 === 0) }), extra)
    .map(([record, pair]) => (pair ? { ...record, [pair[0]]: pair[1] } : record));
}

function orElse(valid: fc.Arbitrary<unknown>, other: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 12, arbitrary: valid }, { weight: 1, arbitrary: other });
}

describe("Hostile request bodies", { timeout: 30_000 }, () => {
  test.for([
    ["a chat", chat, readChat],
    ["a response", response, readResponses],
    ["a message", prompt, (body, bytes) => readMessages(body, bytes, new Headers())],
  ] as [string, object, (body: unknown, bytes: number) => ParsedRequest][])(
    "reads any request body for %s or refuses it with one of the gateway's own errors",
    ([, valid, read]) => {
      fc.assert(
        fc.property(mutated(valid), (body) => {
          try {
            const { inputBytes, outputLimit, choices, images, inputEstimate } = read(body, 1_000);
            for (const count of [inputBytes, outputLimit, choices, images, inputEstimate.input_tokens])
              expect(count).toBeGreaterThanOrEqual(0);
          } catch (error) {
            expect(error).toBeInstanceOf(GatewayError);
            expect((error as GatewayError).status).toBe(400);
          }
        }),
        { numRuns: 400 },
      );
    },
  );
});

describe("Hostile provider streams", { timeout: 30_000 }, () => {
  const usageLimits = { contextWindow: 100, outputLimit: 100, choices: 1 };
  const step = { first: true, last: false, earlier: { input_tokens: 1 }, usageLimits };
  const conversation = () => ({ progress: createProgress(), nextIndex: 0, nextSequence: 0, earlierItems: [] });
  const readers: [string, object[], () => StreamReader][] = [
    [
      "a chat stream",
      chunks,
      () =>
        createChatReader({
          wantsUsage: false,
          usageLimits,
          assembly: createAssembly(),
          unnamed: { id: "x", model: "m" },
        }),
    ],
    [
      "a chat stream with tools",
      chunks,
      () => createChatStep({ ...step, name: { created: 0, model: "m" }, wantsUsage: true, assembly: createAssembly() }),
    ],
    ["a response stream", events, () => createResponsesReader({ usageLimits })],
    ["a response stream with tools", events, () => createResponseStep({ ...step, conversation: conversation() })],
    ["a message stream", messageEvents, () => createMessagesReader({ usageLimits, assembly: createMessageAssembly() })],
  ];
  test.for(readers)("a reader never throws on malformed events in %s", ([, valid, create]) => {
    const written = fc.array(
      fc.oneof(
        ...valid.map((each) => ({
          weight: 4,
          arbitrary: mutated(each).map((data) => `data: ${JSON.stringify(data)}\n\n`),
        })),
        {
          weight: 1,
          arbitrary: fc.constantFrom(
            "data: [DONE]\n\n",
            ": ping\n\n",
            "data: {\n\n",
            "event: error\ndata: {}\n\n",
            "\n\n\n",
            "data:\n\n",
          ),
        },
        { weight: 1, arbitrary: fc.string().map((text) => `${text}\n\n`) },
      ),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(written, fc.integer({ min: 1, max: 50 }), (pieces, size) => {
        const reader = create();
        const bytes = encoder.encode(pieces.join(""));
        let passed = "";
        for (let at = 0; at < bytes.length; at += size) {
          for (const each of reader.push(bytes.subarray(at, at + size)))
            passed += decoder.decode(each, { stream: true });
        }
        for (const each of reader.end()) passed += decoder.decode(each);
        const { usage: stated } = reader.facts;
        if (stated)
          for (const count of Object.values(stated.counts))
            expect(Number.isSafeInteger(count) && count >= 0).toBe(true);
        reader.answer?.();
        const last = reader.completion({ usage: {} });
        const end = valid === messageEvents ? "event: message_stop\n" : "data: [DONE]\n\n";
        expect(last.includes(end)).toBe(true);
        expect(`${passed}${last}`.split(end)).toHaveLength(2);
      }),
      { numRuns: 300 },
    );
  });
});
