import { describe, expect, test } from "vitest";
import { readStatedCounts } from "./stated-counts.ts";
import { toTokenCounts } from "./token-counts.ts";

function countsOf(usage: object) {
  const stated = readStatedCounts(usage);
  return toTokenCounts({ ...stated, input: stated.input ?? Number.NaN, output: stated.output ?? Number.NaN });
}

describe("toTokenCounts", () => {
  const usage = (total_tokens: number | undefined, counts: object = {}) =>
    countsOf({ prompt_tokens: 1000, completion_tokens: 100, total_tokens, ...counts });
  const [read, write] = ["cache_read_input_tokens", "cache_creation_input_tokens"];

  test.for<[string, number | undefined, object, number[]]>([
    ["cache reads, if the total includes them", 1900, { [read]: 800 }, [1800, 800, 100, 0]],
    ["cache writes, if the total includes them", 1900, { [write]: 800 }, [1800, 0, 100, 0]],
    ["cache reads and writes", 2100, { [read]: 300, [write]: 700 }, [2000, 300, 100, 0]],
    ["cache reads, if the prompt includes the writes", 1400, { [read]: 300, [write]: 700 }, [1300, 300, 100, 0]],
    ["cache writes, if the prompt includes the reads", 1800, { [read]: 300, [write]: 700 }, [1700, 300, 100, 0]],
    ["none, if the prompt includes both", 1100, { [read]: 300, [write]: 700 }, [1000, 300, 100, 0]],
    ["none, without a total", undefined, { [read]: 300, [write]: 700 }, [1000, 300, 100, 0]],
    [
      "cache writes, if reads and writes together exceed the prompt",
      undefined,
      { [read]: 300, [write]: 701 },
      [1701, 300, 100, 0],
    ],
    ["both, if each exceeds the prompt", undefined, { [read]: 1001, [write]: 1001 }, [3002, 1001, 100, 0]],
    ["cache writes that exceed the prompt", 1100, { [write]: 1001 }, [2001, 0, 100, 0]],
    ["cache writes and reasoning", 2300, { [write]: 1000, reasoning_tokens: 200 }, [2000, 0, 300, 200]],
    ["cache reads, and reasoning without a count of its own", 3400, { [read]: 2000 }, [3000, 2000, 400, 300]],
    [
      "reasoning without a count of its own, if the prompt includes the reads",
      1400,
      { [read]: 900 },
      [1000, 900, 400, 300],
    ],
    ["none, if the total matches no combination", 1333, { [read]: 300, reasoning_tokens: 50 }, [1000, 300, 100, 50]],
    ["none, if the total is too small", 500, { [read]: 300 }, [1000, 300, 100, 0]],
  ])(
    "adds tokens that the prompt or output count leaves out, if the total includes them: %s",
    ([, total, counts, expected]) => {
      const {
        input_tokens,
        cached_input_tokens = 0,
        output_tokens,
        reasoning_tokens = 0,
        ...rest
      } = usage(total, counts);
      expect([input_tokens, cached_input_tokens, output_tokens, reasoning_tokens]).toEqual(expected);
      const { [write]: writes = 0 } = counts as Record<string, number>;
      expect(rest).toEqual(writes > 0 ? { cache_write_tokens: writes } : {});
    },
  );

  test("if a part is larger than the count that should contain it, adds the part to the count", () => {
    const separate = (details: object, outputDetails: object = {}) =>
      usage(undefined, { prompt_tokens_details: details, completion_tokens_details: outputDetails });
    expect(separate({ cached_tokens: 1000 })).toMatchObject({ input_tokens: 1000, cached_input_tokens: 1000 });
    expect(separate({ cached_tokens: 1001 })).toMatchObject({ input_tokens: 2001, cached_input_tokens: 1001 });
    expect(separate({ audio_tokens: 1000 })).toMatchObject({ input_tokens: 1000, audio_input_tokens: 1000 });
    expect(separate({ audio_tokens: 1001 })).toMatchObject({ input_tokens: 2001, audio_input_tokens: 1001 });
    expect(separate({ image_tokens: 1000 })).toMatchObject({ input_tokens: 1000, image_input_tokens: 1000 });
    expect(separate({ image_tokens: 1001 })).toMatchObject({ input_tokens: 2001, image_input_tokens: 1001 });
    expect(separate({}, { reasoning_tokens: 100 })).toMatchObject({ output_tokens: 100, reasoning_tokens: 100 });
    expect(separate({}, { reasoning_tokens: 101 })).toMatchObject({ output_tokens: 201, reasoning_tokens: 101 });
    expect(separate({}, { audio_tokens: 100 })).toMatchObject({ output_tokens: 100, audio_output_tokens: 100 });
    expect(separate({}, { audio_tokens: 101 })).toMatchObject({ output_tokens: 201, audio_output_tokens: 101 });
  });

  test("counts cached audio tokens once, as cached input", () => {
    const prompt_tokens_details = { cached_tokens: 400, audio_tokens: 700 };
    expect(usage(1100, { prompt_tokens_details })).toEqual({
      input_tokens: 1000,
      cached_input_tokens: 400,
      audio_input_tokens: 600,
      output_tokens: 100,
    });
  });

  test("counts reasoning tokens that only the total includes, even if the provider states zero reasoning tokens", () => {
    // Some proxies fill in zeros: https://github.com/QuantumNous/new-api/blob/main/dto/openai_response.go
    expect(usage(1500, { reasoning_tokens: 0 })).toMatchObject({ output_tokens: 500, reasoning_tokens: 400 });
    expect(usage(1100, { reasoning_tokens: 0 })).toEqual({ input_tokens: 1000, output_tokens: 100 });
  });

  test.for([
    "cached_tokens",
    "cache_read_tokens",
    "cacheReadInputTokens",
    "prompt_cache_hit_tokens",
    "cached_content_tokens",
  ])("counts cache reads under the name %s", (name) => {
    expect(usage(undefined, { [name]: 900 })).toMatchObject({ input_tokens: 1000, cached_input_tokens: 900 });
    expect(usage(2000, { [name]: 900 })).toMatchObject({ cached_input_tokens: 900, output_tokens: 100 });
    expect(usage(undefined, { prompt_tokens_details: { [name]: 900 } })).toMatchObject({ cached_input_tokens: 900 });
  });

  test.for(["cache_write_tokens", "cacheWriteInputTokens", "cached_creation_tokens", "cache_creation_tokens"])(
    "counts cache writes under the name %s",
    (name) => {
      const counts = { input_tokens: 13_000, cache_write_tokens: 12_000, output_tokens: 100 };
      expect(usage(13_100, { [name]: 12_000 })).toEqual(counts);
      expect(usage(13_100, { prompt_tokens_details: { [name]: 12_000 } })).toEqual(counts);
    },
  );

  test.for([
    "prompt_cache_miss_tokens",
    "uncached_tokens",
    "non_cached_tokens",
    "noCacheTokens",
    "cache_discount",
    "constructor",
  ])("does not count %s as cached tokens", (name) => {
    expect(usage(undefined, { [name]: 100 })).toEqual({ input_tokens: 1000, output_tokens: 100 });
  });
});

describe("malformed counts", () => {
  const good = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
  const counts = { input_tokens: 1000, output_tokens: 100 };

  test.for<unknown>([[], [1], "none", "", 7, true, null, {}, { cached_tokens: [] }, { cached_tokens: {} }])(
    "reads the other counts if the token details are %j",
    (details) => {
      const usage = { ...good, prompt_tokens_details: details, completion_tokens_details: details };
      expect(countsOf(usage)).toEqual(counts);
    },
  );

  test.for<unknown>([-1, 1.5, 1e30, "", "1.5", "-1", "many", "9".repeat(16), true, null, [], {}])(
    "reads the other counts if one token detail is %j",
    (count) => {
      const prompt_tokens_details = { cached_tokens: count, audio_tokens: 3 };
      const completion_tokens_details = { reasoning_tokens: count, audio_tokens: 2 };
      expect(countsOf({ ...good, prompt_tokens_details, completion_tokens_details })).toEqual({
        ...counts,
        audio_input_tokens: 3,
        audio_output_tokens: 2,
      });
    },
  );

  test("reads a token count from a string or from a number written as 12.0", () => {
    // Protocol Buffers write 64-bit integers as strings: https://protobuf.dev/programming-guides/json/
    const inputs = [JSON.parse("12.0"), "12", "0", "9".repeat(15)].map((prompt_tokens) =>
      readStatedCounts({ prompt_tokens }),
    );
    expect(inputs.map(({ input }) => input)).toEqual([12, 12, 0, 999_999_999_999_999]);
    const details = { cached_tokens: "900" };
    const usage = { prompt_tokens: "1000", completion_tokens: 100, prompt_tokens_details: details };
    expect(countsOf(usage)).toMatchObject({ ...counts, cached_input_tokens: 900 });
  });
});
