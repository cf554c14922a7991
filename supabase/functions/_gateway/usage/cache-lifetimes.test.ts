import { describe, expect, test } from "vitest";
import { formatDecimal } from "../../_shared/decimal.ts";
import { usageCostUsd } from "../../_shared/money.ts";
import { readChat } from "../chat/request.ts";
import { createMessagesReader } from "../messages/events.ts";
import { readMessages } from "../messages/request.ts";
import { readHourWrites } from "./cache-lifetimes.ts";
import { readCompletionUsage, readMessageUsage } from "./read-usage.ts";
import type { StatedUsage } from "./usage.ts";

const limits = { contextWindow: 200_000, outputLimit: 1_000, choices: 1 };
const chatPrices = { input: "2", cached_input: "0.2", cache_write: "2.5", cache_write_1h: "4", output: "8" };
const messagePrices = { input: "3", cached_input: "0.3", cache_write: "3.75", cache_write_1h: "6", output: "15" };
const costOf = (usage: StatedUsage | undefined, prices: typeof chatPrices) =>
  usage && formatDecimal(usageCostUsd({ prices: [{ min_input_tokens: 0, ...prices }] }, usage.counts));

const chat = { prompt_tokens: 8_000, completion_tokens: 100, total_tokens: 8_100 };
const split = { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 7_900 };

describe("An answer that states the lifetimes of its cache writes", () => {
  test.for<[string, object]>([
    // github.com/BerriAI/litellm/issues/15056
    [
      "LiteLLM",
      {
        ...chat,
        prompt_tokens_details: { cached_tokens: 0, cache_creation_tokens: 7_900, cache_creation_token_details: split },
      },
    ],
    // github.com/QuantumNous/new-api (dto/openai_response.go)
    [
      "new-api",
      {
        ...chat,
        prompt_tokens_details: { cached_tokens: 0, cached_creation_tokens: 7_900 },
        claude_cache_creation_5_m_tokens: 0,
        claude_cache_creation_1_h_tokens: 7_900,
      },
    ],
    // github.com/theopenco/llmgateway/pull/2193
    ["LLM Gateway", { ...chat, prompt_tokens_details: { cache_write_tokens: 7_900, cache_creation: split } }],
    ["Anthropic's members next to OpenAI's", { ...chat, cache_creation_input_tokens: 7_900, cache_creation: split }],
    [
      "flat names",
      { ...chat, cache_creation_5m_input_tokens: 0, cache_creation_1h_input_tokens: 7_900, cache_write_tokens: 7_900 },
    ],
    ["names that end in the lifetime", { ...chat, cache_creation_input_tokens_1h: 7_900 }],
    ["camel case", { ...chat, cacheCreation: { ephemeral5mInputTokens: 0, ephemeral1hInputTokens: 7_900 } }],
    [
      "details of cached writes",
      {
        ...chat,
        prompt_tokens_details: {
          cached_write_tokens: 7_900,
          cached_write_token_details: { cached_write_tokens_5m: 0, cached_write_tokens_1h: 7_900 },
        },
      },
    ],
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CacheDetail.html
    [
      "Bedrock, whose input excludes the writes",
      {
        inputTokens: 100,
        outputTokens: 100,
        totalTokens: 8_100,
        cacheWriteInputTokens: 7_900,
        cacheDetails: [
          { ttl: "1h", inputTokens: 7_900 },
          { ttl: "5m", inputTokens: 0 },
        ],
      },
    ],
  ])("is charged by them in the shape of %s", ([, usage]) => {
    for (const hourWrites of [undefined, "some"] as const) {
      const read = readCompletionUsage(usage, { ...limits, hourWrites });
      expect(read?.counts).toEqual({ input_tokens: 8_000, cache_write_1h_tokens: 7_900, output_tokens: 100 });
      expect(read?.marks).toBeUndefined();
      expect(costOf(read, chatPrices)).toBe("0.0326");
    }
  });

  test("has writes of both lifetimes, and several of one", () => {
    const cacheDetails = [
      { ttl: "1h", inputTokens: 3_000 },
      { ttl: "5m", inputTokens: 3_900 },
      { ttl: "1h", inputTokens: 1_000 },
    ];
    const usage = { ...chat, cacheWriteInputTokens: 7_900, cacheDetails };
    expect(readCompletionUsage(usage, limits)?.counts).toMatchObject({
      cache_write_tokens: 3_900,
      cache_write_1h_tokens: 4_000,
    });
  });
});

const written = {
  input_tokens: 4,
  cache_creation_input_tokens: 10_000,
  cache_read_input_tokens: 0,
  output_tokens: 100,
};

describe("An answer that states no lifetimes", () => {
  test.for<["all" | "some" | undefined, object, string, number, string[] | undefined]>([
    ["all", {}, "0.061512", 10_000, undefined],
    // github.com/anthropics/anthropic-sdk-java/issues/353: zeros after a web search
    [
      "all",
      { cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 } },
      "0.061512",
      10_000,
      undefined,
    ],
    ["all", { cache_creation: { ephemeral_5m_input_tokens: 4_000 } }, "0.052512", 6_000, undefined],
    [undefined, {}, "0.039012", 0, undefined],
    ["some", {}, "0.039012", 0, ["unattributed_cache_writes"]],
    [
      "some",
      { cache_creation: { ephemeral_1h_input_tokens: 4_000 } },
      "0.048012",
      4_000,
      ["unattributed_cache_writes"],
    ],
    ["some", { cache_creation: { ephemeral_1h_input_tokens: 10_000 } }, "0.061512", 10_000, undefined],
    ["some", { cache_creation_input_tokens: 0 }, "0.001512", 0, undefined],
  ])(
    "is charged by the request, which caches %s of its prompt for an hour: %j",
    ([hourWrites, usage, cost, hour, marks]) => {
      const read = readMessageUsage({ ...written, ...usage }, { ...limits, hourWrites });
      expect(costOf(read, messagePrices)).toBe(cost);
      expect(read?.counts.cache_write_1h_tokens ?? 0).toBe(hour);
      expect(read?.marks).toEqual(marks);
    },
  );

  test("is charged by the request when it is streamed, until a later event states the lifetimes", () => {
    const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
    const { output_tokens, ...start } = written;
    const usageOf = (usage: object) => {
      const reader = createMessagesReader({ usageLimits: { ...limits, hourWrites: "all" } });
      const end = {
        type: "message_delta",
        delta: { stop_reason: "end_turn" },
        usage: { output_tokens: 100, ...usage },
      };
      const text = event({ type: "message_start", message: { usage: { ...start, output_tokens: 1 } } }) + event(end);
      reader.push(new TextEncoder().encode(text));
      return reader.facts.usage;
    };
    expect(costOf(usageOf({}), messagePrices)).toBe("0.061512");
    expect(costOf(usageOf({ cache_creation: { ephemeral_5m_input_tokens: 10_000 } }), messagePrices)).toBe("0.039012");
  });
});

describe("readHourWrites", () => {
  const hour = { type: "ephemeral", ttl: "1h" };
  const block = (cache_control?: object) => ({ type: "text", text: "t", ...(cache_control ? { cache_control } : {}) });
  const body = { model: "m", max_tokens: 10, messages: [{ role: "user", content: "hello" }] };
  const of = (fields: object) => readMessages({ ...body, ...fields }, 100, new Headers()).hourWrites;
  const user = (...content: object[]) => [{ role: "user", content }];

  test.for<[string, object, "all" | "some" | undefined]>([
    ["no marker", {}, undefined],
    ["a marker without a time", { system: [block({ type: "ephemeral" })] }, undefined],
    ["five minutes", { system: [block({ type: "ephemeral", ttl: "5m" })] }, undefined],
    ["an hour in the system prompt", { system: [block(hour)] }, "all"],
    ["an hour for the whole request", { cache_control: hour }, "all"],
    ["an hour for a tool", { tools: [{ name: "f", input_schema: {}, cache_control: hour }] }, "all"],
    [
      "an hour in a tool result",
      { messages: user({ type: "tool_result", tool_use_id: "t", content: [block(hour)] }) },
      "all",
    ],
    ["both times", { system: [block(hour)], messages: user(block({ type: "ephemeral" })) }, "some"],
    [
      "a tool input with a member of that name",
      { messages: user({ type: "tool_use", id: "t", name: "f", input: { cache_control: hour } }) },
      undefined,
    ],
  ])("finds %s in a Messages API request", ([, fields, expected]) => {
    expect(of(fields)).toBe(expected);
  });

  test("finds the markers of a chat", () => {
    const messages = [{ role: "system", content: [block(hour)] }];
    expect(readChat({ model: "m", messages }, 100).hourWrites).toBe("all");
    expect(readHourWrites(["text", null, 1])).toBeUndefined();
  });
});
