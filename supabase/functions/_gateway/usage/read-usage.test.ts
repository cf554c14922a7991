import { describe, expect, test } from "vitest";
import { parseAnswer, readCompletionUsage, readEmbeddingUsage, readGeminiUsage } from "./read-usage.ts";
import { latestUsage } from "./usage.ts";

const limits = { contextWindow: 1_000, outputLimit: 1_000, choices: 1 };
const read = (usage: object, own: object = {}) => readCompletionUsage(usage, { ...limits, ...own });

describe("readCompletionUsage", () => {
  test("caps token counts at the context window, and marks usage above the window", () => {
    const usage = (prompt_tokens: number, completion_tokens: number) => read({ prompt_tokens, completion_tokens });
    expect(usage(1_000, 1_000)).toEqual({ counts: { input_tokens: 1_000, output_tokens: 1_000 } });
    expect(usage(1_001, 5)).toEqual({
      counts: { input_tokens: 1_000, output_tokens: 5 },
      marks: ["above_context_window"],
    });
    expect(usage(5, 1_001)?.counts.output_tokens).toBe(1_000);
  });

  test("allows each choice a full context window of output", () => {
    const usage = { prompt_tokens: 5, completion_tokens: 2_000 };
    expect(read(usage, { choices: 2 })).toEqual({ counts: { input_tokens: 5, output_tokens: 2_000 } });
    expect(read({ ...usage, completion_tokens: 2_001 }, { choices: 2 })?.counts.output_tokens).toBe(2_000);
  });

  test("charges up to 10,000 search fees and marks a higher count as implausible", () => {
    const fees = (num_search_queries: number) => {
      const usage = read({ prompt_tokens: 5, completion_tokens: 5, num_search_queries });
      return [usage?.counts.fee_requests, usage?.marks];
    };
    expect(fees(10_000)).toEqual([10_000, undefined]);
    expect(fees(10_001)).toEqual([10_000, ["implausible"]]);
    expect(fees(Number.MAX_SAFE_INTEGER)).toEqual([10_000, ["implausible"]]);
  });

  test.for([
    ["100000", "100000", undefined],
    ["1e5", "100000", undefined],
    ["100000.01", undefined, ["implausible"]],
    ["1e30", undefined, ["implausible"]],
    ["1e-7", "0.0000001", undefined],
    ["-1", undefined, undefined],
    [`0.${"1".repeat(98)}`, `0.${"1".repeat(98)}`, undefined],
    [`0.${"1".repeat(99)}`, undefined, undefined],
  ] as const)(
    "judges whether a stated cost of %s is valid and plausible for one call",
    ([cost, statedCostUsd, marks]) => {
      const usage = parseAnswer(`{"prompt_tokens":5,"completion_tokens":5,"cost":${cost}}`) as object;
      const stated = read(usage);
      expect([stated?.statedCostUsd, stated?.marks]).toEqual([statedCostUsd, marks]);
    },
  );

  test("caps the cached and audio parts of a count if the context window caps the whole count", () => {
    const usage = {
      prompt_tokens: 3_000,
      completion_tokens: 5,
      prompt_tokens_details: { cached_tokens: 900, cache_write_tokens: 900, audio_tokens: 900 },
    };
    expect(read(usage)?.counts).toEqual({
      input_tokens: 1_000,
      cached_input_tokens: 900,
      cache_write_tokens: 100,
      output_tokens: 5,
    });
  });

  test("accepts an input of 10 million tokens, and caps and marks a larger one", () => {
    const usage = (prompt_tokens: number) =>
      read({ prompt_tokens, completion_tokens: 5 }, { contextWindow: undefined });
    expect(usage(10_000_000)).toEqual({ counts: { input_tokens: 10_000_000, output_tokens: 5 } });
    expect(usage(10_000_001)).toEqual({
      counts: { input_tokens: 10_000_000, output_tokens: 5 },
      marks: ["implausible"],
    });
  });

  test("usage is marked above_output_limit if the output without reasoning tokens exceeds the output limit", () => {
    const usage = (completion_tokens: number, reasoning_tokens = 0) =>
      read(
        { prompt_tokens: 5, completion_tokens, completion_tokens_details: { reasoning_tokens } },
        { outputLimit: 10 },
      )?.marks;
    expect([usage(10), usage(11), usage(110, 100), usage(111, 100)]).toEqual([
      undefined,
      ["above_output_limit"],
      undefined,
      ["above_output_limit"],
    ]);
  });

  test.for([{}, { completion_tokens: null }, { total_tokens: 5 }, { completion_tokens: null, total_tokens: 3 }])(
    "reads no usage without an output count: %j",
    (stated) => {
      expect(read({ prompt_tokens: 5, ...stated })).toBeUndefined();
    },
  );

  test("derives a missing output or input count from the total", () => {
    expect(read({ prompt_tokens: 5, total_tokens: 30 })?.counts.output_tokens).toBe(25);
    expect(read({ completion_tokens: 5, total_tokens: 30 })?.counts.input_tokens).toBe(25);
    expect(read({ completion_tokens: 5, total_tokens: 5 })).toBeUndefined();
    expect(read({ total_tokens: 30 })).toBeUndefined();
  });

  test.for<[string, string | undefined]>([
    ['"cost": 0.0031', "0.0031"],
    ['"cost": "0.0031"', "0.0031"],
    ['"cost": 3.1e-05', "0.000031"],
    ['"cost": 0.12345678901234567890', "0.12345678901234567890"],
    ['"cost": 0', "0"],
    ['"cost": {"total_cost": 0.10, "request_cost": 0.005}', "0.10"],
    ['"cost_in_usd_ticks": 232856000', "0.0232856"],
    ['"cost": 0.1, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.2}', "0.3"],
    ['"cost": 0.1, "is_byok": false, "cost_details": {"upstream_inference_cost": 0.1}', "0.1"],
    // https://openrouter.ai/docs/guides/overview/auth/byok: the cost of a call with one's own key is only the fee.
    ['"cost": 0.1, "is_byok": true, "cost_details": {"upstream_inference_cost": null}', undefined],
    ['"cost": 0.1, "is_byok": true, "cost_details": {"upstream_inference_cost": 0}', undefined],
    ['"cost": 0.1, "is_byok": true', undefined],
    ['"cost": 0, "is_byok": true', undefined],
    ['"cost": 0, "is_byok": true, "cost_details": {"upstream_inference_cost": null}', undefined],
    ['"cost": 0, "is_byok": true, "cost_details": {"upstream_inference_cost": 0}', undefined],
    ['"cost": "0.00", "is_byok": true, "cost_details": {}', undefined],
    ['"cost": 0, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.2}', "0.2"],
    ['"cost": 0, "is_byok": false', "0"],
    ['"cost": -1', undefined],
    ['"cost": "much"', undefined],
    ['"cost": 1e400', undefined],
    ['"cost": []', undefined],
    ['"cost": null', undefined],
  ])("reads a cost that the provider states, without rounding it: %s", ([member, cost]) => {
    const answer = `{"prompt_tokens": 5, "completion_tokens": 5, ${member}}`;
    const usage = readCompletionUsage(parseAnswer(answer), limits);
    expect(usage?.statedCostUsd).toBe(cost);
    expect(usage?.counts).toEqual({ input_tokens: 5, output_tokens: 5 });
  });

  test("keeps every digit of a stated amount", () => {
    expect(JSON.stringify(parseAnswer('{"usage":{"cost":0.10000000000000000001}}'))).toBe(
      '{"usage":{"cost":0.10000000000000000001}}',
    );
  });
});

describe("latestUsage", () => {
  const usage = (usage: object) => read(usage) ?? { counts: { input_tokens: Number.NaN, output_tokens: Number.NaN } };
  const first = usage({ prompt_tokens: 900, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 800 } });
  const last = usage({ prompt_tokens: 0, completion_tokens: 100, cost: "0.5" });
  const zeros = usage({ prompt_tokens: 0, completion_tokens: 0, cost: "0" });
  const both = { input_tokens: 900, cached_input_tokens: 800, output_tokens: 100 };

  test("never lets a zero in later usage replace a count or a cost", () => {
    expect(latestUsage(latestUsage(latestUsage(undefined, first), last), zeros)).toEqual({
      counts: both,
      statedCostUsd: "0.5",
    });
    expect(latestUsage(latestUsage(undefined, zeros), first).counts.input_tokens).toBe(900);
  });

  test("keeps a cost of zero if no other cost was stated", () => {
    expect(latestUsage(first, zeros).statedCostUsd).toBe("0");
  });

  test.for<[string, object, "all" | "some" | undefined, [number | undefined, number | undefined]]>([
    ["keeps their lifetimes if a later statement has only their total", {}, "some", [10, 90]],
    ["keeps them if the request has one lifetime", {}, "all", [10, 90]],
    ["applies later lifetimes", { cache_creation: { ephemeral_5m_input_tokens: 100 } }, "some", [100, undefined]],
    ["applies a different total", { cache_creation_input_tokens: 120 }, undefined, [120, undefined]],
  ])("for cache writes by lifetime, %s", ([, later, hourWrites, [short, hour]]) => {
    const total = { prompt_tokens: 900, completion_tokens: 5, cache_creation_input_tokens: 100 };
    const split = { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 90 };
    const stated = [usage({ ...total, cache_creation: split }), read({ ...total, ...later }, { hourWrites })];
    const { counts, marks } = stated.reduce((earlier, each) => each && latestUsage(earlier, each)) ?? first;
    expect([counts.cache_write_tokens, counts.cache_write_1h_tokens]).toEqual([short, hour]);
    expect(marks).toBeUndefined();
  });

  test("prefers a later usage statement to an earlier one", () => {
    const corrected = usage({ prompt_tokens: 890, completion_tokens: 90 });
    expect(latestUsage({ counts: both }, corrected).counts).toEqual({ ...both, input_tokens: 890, output_tokens: 90 });
  });
});

describe("readEmbeddingUsage", () => {
  test.for([
    { prompt_tokens: 5, total_tokens: 5 },
    { prompt_tokens: 5, completion_tokens: 50, total_tokens: 55 },
    { prompt_tokens: 5, completion_tokens_details: { reasoning_tokens: 50 } },
  ])("counts no output for embedding usage %j", (stated) => {
    expect(readEmbeddingUsage(stated, limits)?.counts).toEqual({ input_tokens: 5, output_tokens: 0 });
  });

  test("derives the input of an embedding from the total, the only count that Voyage AI states", () => {
    // https://docs.voyageai.com/reference/embeddings-api
    expect(readEmbeddingUsage({ total_tokens: 5 }, limits)?.counts).toEqual({ input_tokens: 5, output_tokens: 0 });
    expect(readEmbeddingUsage({}, limits)).toBeUndefined();
  });
});

describe("readGeminiUsage", () => {
  const speech = (stated: object) => {
    const { usage, countsSpeech } = readGeminiUsage({ promptTokenCount: 5, ...stated }, limits) ?? {};
    const { output_tokens, reasoning_tokens, audio_output_tokens } = usage?.counts ?? {};
    return [output_tokens, reasoning_tokens, audio_output_tokens, countsSpeech];
  };
  const listed = (...candidatesTokensDetails: unknown[]) => ({ candidatesTokenCount: 30, candidatesTokensDetails });

  // https://ai.google.dev/api/generate-content#UsageMetadata
  test.for<[string, object, unknown[]]>([
    ["all output as audio if its modalities are not listed", { candidatesTokenCount: 30 }, [30, undefined, 30, true]],
    ["the listed amount as audio", listed({ modality: "AUDIO", tokenCount: 20 }), [30, undefined, 20, true]],
    ["all output as audio if the list is malformed", listed(null, 1, { modality: "AUDIO" }), [30, undefined, 30, true]],
    ["output that only the total includes", { totalTokenCount: 35 }, [30, undefined, 30, true]],
    ["no output if none is stated", { totalTokenCount: 5 }, [0, undefined, undefined, false]],
    ["thoughts as text", { candidatesTokenCount: 30, thoughtsTokenCount: 7, totalTokenCount: 42 }, [37, 7, 30, true]],
  ])("counts Gemini usage: %s", ([, stated, counted]) => {
    expect(speech(stated)).toEqual(counted);
  });
});
