import { describe, expect, test } from "vitest";
import { chatUsages, prices, responseUsages } from "../../../tests/stated-usages.ts";
import { formatDecimal } from "../../_shared/decimal.ts";
import { usageCostUsd } from "../../_shared/money.ts";
import { latestCounts, readCount, readStatedCounts, toTokenCounts } from "./stated-usage.ts";

function countsOf(usage: object) {
  const stated = readStatedCounts(usage);
  return toTokenCounts({ ...stated, input: stated.input ?? Number.NaN, output: stated.output ?? Number.NaN });
}

describe("the counts of", () => {
  test.for([...chatUsages, ...responseUsages])("$from", ({ usage, counts, usd }) => {
    const read = countsOf(usage);
    expect(read).toMatchObject({
      input_tokens: counts.input,
      cached_input_tokens: counts.cached ?? 0,
      output_tokens: counts.output,
      reasoning_tokens: counts.reasoning ?? 0,
    });
    expect(formatDecimal(usageCostUsd([{ min_input_tokens: 0, ...prices }], read))).toBe(usd);
  });
});

describe("tokens that are counted apart", () => {
  const usage = (total_tokens: number | undefined, counts: object = {}) =>
    countsOf({ prompt_tokens: 1000, completion_tokens: 100, total_tokens, ...counts });
  const [read, write] = ["cache_read_input_tokens", "cache_creation_input_tokens"];

  test.for<[string, number | undefined, object, number[]]>([
    ["reads that the total has beyond both", 1900, { [read]: 800 }, [1800, 800, 100, 0]],
    ["writes that the total has beyond both", 1900, { [write]: 800 }, [1800, 0, 100, 0]],
    ["reads and writes", 2100, { [read]: 300, [write]: 700 }, [2000, 300, 100, 0]],
    ["reads, next to writes in the prompt", 1400, { [read]: 300, [write]: 700 }, [1300, 300, 100, 0]],
    ["writes, next to reads in the prompt", 1800, { [read]: 300, [write]: 700 }, [1700, 300, 100, 0]],
    ["none, where the total is of both", 1100, { [read]: 300, [write]: 700 }, [1000, 300, 100, 0]],
    ["none, without a total", undefined, { [read]: 300, [write]: 700 }, [1000, 300, 100, 0]],
    ["writes, where both do not fit into the prompt", undefined, { [read]: 300, [write]: 701 }, [1701, 300, 100, 0]],
    ["both, where neither fits", undefined, { [read]: 1001, [write]: 1001 }, [3002, 1001, 100, 0]],
    ["writes that only their size tells of", 1100, { [write]: 1001 }, [2001, 0, 100, 0]],
    ["writes and reasoning", 2300, { [write]: 1000, reasoning_tokens: 200 }, [2000, 0, 300, 200]],
    ["reads and reasoning that is named nowhere", 3400, { [read]: 2000 }, [3000, 2000, 400, 300]],
    ["reasoning that is named nowhere, next to reads in the prompt", 1400, { [read]: 900 }, [1000, 900, 400, 300]],
    ["none, in a total that tells nothing", 1333, { [read]: 300, reasoning_tokens: 50 }, [1000, 300, 100, 50]],
    ["none, in a total that is too small", 500, { [read]: 300 }, [1000, 300, 100, 0]],
  ])("%s", ([, total, counts, expected]) => {
    const { input_tokens, cached_input_tokens, output_tokens, reasoning_tokens } = usage(total, counts);
    expect([input_tokens, cached_input_tokens, output_tokens, reasoning_tokens]).toEqual(expected);
  });

  test.for([
    "cached_tokens",
    "cache_read_tokens",
    "cacheReadInputTokens",
    "prompt_cache_hit_tokens",
    "cached_content_tokens",
  ])("are read by whatever name caches have: %s", (name) => {
    expect(usage(undefined, { [name]: 900 })).toMatchObject({ input_tokens: 1000, cached_input_tokens: 900 });
    expect(usage(2000, { [name]: 900 })).toMatchObject({ cached_input_tokens: 900, output_tokens: 100 });
    expect(usage(undefined, { prompt_tokens_details: { [name]: 900 } })).toMatchObject({ cached_input_tokens: 900 });
  });

  test.for(["cache_write_tokens", "cacheWriteInputTokens", "cached_creation_tokens", "cache_creation_tokens"])(
    "are written by whatever name caches have: %s",
    (name) => {
      const counts = { input_tokens: 13_000, cached_input_tokens: 0, output_tokens: 100 };
      expect(usage(13_100, { [name]: 12_000 })).toMatchObject(counts);
      expect(usage(13_100, { prompt_tokens_details: { [name]: 12_000 } })).toMatchObject(counts);
    },
  );

  test.for([
    "prompt_cache_miss_tokens",
    "uncached_tokens",
    "non_cached_tokens",
    "noCacheTokens",
    "cache_discount",
    "constructor",
  ])("are not what %s counts", (name) => {
    expect(usage(undefined, { [name]: 100 })).toMatchObject({ input_tokens: 1000, cached_input_tokens: 0 });
  });
});

describe("a malformed count", () => {
  const good = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
  const counts = { input_tokens: 1000, output_tokens: 100 };

  test.for<unknown>([[], [1], "none", "", 7, true, null, {}, { cached_tokens: [] }, { cached_tokens: {} }])(
    "loses no other where the details are %j",
    (details) => {
      const usage = { ...good, prompt_tokens_details: details, completion_tokens_details: details };
      expect(countsOf(usage)).toMatchObject({ ...counts, cached_input_tokens: 0, reasoning_tokens: 0 });
    },
  );

  test.for<unknown>([-1, 1.5, 1e30, "", "1.5", "-1", "many", "9".repeat(16), true, null, [], {}])(
    "loses no other where a detail is %j",
    (count) => {
      const prompt_tokens_details = { cached_tokens: count, audio_tokens: 3 };
      const completion_tokens_details = { reasoning_tokens: count, audio_tokens: 2 };
      expect(countsOf({ ...good, prompt_tokens_details, completion_tokens_details })).toEqual({
        ...counts,
        cached_input_tokens: 0,
        audio_input_tokens: 3,
        reasoning_tokens: 0,
        audio_output_tokens: 2,
      });
    },
  );

  test("is read where it says a whole number all the same", () => {
    // https://protobuf.dev/programming-guides/json/ writes 64-bit integers as text.
    expect([JSON.parse("12.0"), "12", "0", "9".repeat(15)].map(readCount)).toEqual([12, 12, 0, 999_999_999_999_999]);
    const details = { cached_tokens: "900" };
    const usage = { prompt_tokens: "1000", completion_tokens: 100, prompt_tokens_details: details };
    expect(countsOf(usage)).toMatchObject({ ...counts, cached_input_tokens: 900 });
  });
});

test("counts that are stated later stand, but for zeros", () => {
  const zeros = countsOf({ prompt_tokens: 0, completion_tokens: 0 });
  const first = countsOf({ prompt_tokens: 1000, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 900 } });
  const last = countsOf({ prompt_tokens: 0, completion_tokens: 100 });
  const both = { input_tokens: 1000, cached_input_tokens: 900, output_tokens: 100 };
  expect(latestCounts(latestCounts(first, last), zeros)).toMatchObject(both);
  expect(latestCounts(latestCounts(undefined, zeros), { ...zeros, ...both })).toMatchObject(both);
  const corrected = countsOf({ prompt_tokens: 990, completion_tokens: 90 });
  expect(latestCounts({ ...zeros, ...both }, corrected)).toMatchObject({ input_tokens: 990, output_tokens: 90 });
});
