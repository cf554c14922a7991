import { describe, expect, test } from "vitest";
import { boundUsage, readCompletionUsage, readEmbeddingUsage, readGeminiUsage } from "./usage.ts";

describe("usage that can be", () => {
  const asked = { inputBytes: 300, images: 2, outputLimit: 100, choices: 3 };

  test("is at most the body's bytes, its images and a provider's prompts; and four times the output's limit and more", () => {
    expect(boundUsage(asked, () => {})).toMatchObject({ inputTokens: 210_300, outputTokens: 301_200 });
  });

  test("is read up to the bound, and left out beyond it, which is told once", () => {
    let told = 0;
    const bound = boundUsage(asked, () => (told += 1));
    const read = (prompt_tokens: number, completion_tokens: number) =>
      readCompletionUsage({ prompt_tokens, completion_tokens }, bound)?.input_tokens;
    expect([read(210_300, 301_200), told]).toEqual([210_300, 0]);
    expect([read(210_301, 0), told]).toEqual([undefined, 1]);
    expect([read(0, 301_201), told]).toEqual([undefined, 1]);
  });
});

describe("details of usage", () => {
  const asked = { inputBytes: 300, images: 0, outputLimit: 100, choices: 1 };
  const bound = boundUsage(asked, () => {});
  const most = Number.MAX_SAFE_INTEGER;

  test.for([
    [{ cached_tokens: 10, audio_tokens: 0 }, [10, 10, 0]],
    [{ cached_tokens: 11, audio_tokens: 1 }, [21, 11, 1]],
    [{ cached_tokens: 4, audio_tokens: 6 }, [10, 4, 6]],
    [{ cached_tokens: 4, audio_tokens: 7 }, [10, 4, 6]],
    [{ cached_tokens: 10_290 }, [10_300, 10_290, 0]],
    [{ cached_tokens: 10_291 }, [10, 0, 0]],
    [{ cached_tokens: most, audio_tokens: most }, [10, 0, 0]],
    [{ cache_write_tokens: 10_290 }, [10_300, 0, 0]],
    [{ cache_write_tokens: 10_291 }, [10, 0, 0]],
  ] as const)("of the input are believed up to the bound: %j", ([prompt_tokens_details, counted]) => {
    const stated = { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details };
    const usage = readCompletionUsage(stated, bound);
    expect([usage?.input_tokens, usage?.cached_input_tokens, usage?.audio_input_tokens]).toEqual(counted);
    expect(usage?.output_tokens).toBe(5);
  });

  test.for([
    [{ reasoning_tokens: 5, audio_tokens: 6 }, [5, 5, 5]],
    [{ reasoning_tokens: 100_395, audio_tokens: 5 }, [100_400, 100_395, 5]],
    [{ reasoning_tokens: 100_396, audio_tokens: 6 }, [5, 0, 0]],
    [{ reasoning_tokens: most, audio_tokens: most }, [5, 0, 0]],
  ] as const)("of the output are believed up to the bound: %j", ([output_tokens_details, counted]) => {
    const usage = readCompletionUsage({ input_tokens: 10, output_tokens: 5, output_tokens_details }, bound);
    expect([usage?.output_tokens, usage?.reasoning_tokens, usage?.audio_output_tokens]).toEqual(counted);
  });

  test("are reported where they are not believed", () => {
    let told = 0;
    const read = (cached_tokens: number) =>
      readCompletionUsage(
        { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: { cached_tokens } },
        boundUsage(asked, () => (told += 1)),
      );
    read(10_290);
    expect(told).toBe(0);
    read(10_291);
    expect(told).toBe(1);
  });
});

describe("a completion", () => {
  const bound = boundUsage({ inputBytes: 300, images: 0, outputLimit: 100, choices: 1 }, () => {});

  test.for([{}, { completion_tokens: null }, { total_tokens: 5 }, { completion_tokens: null, total_tokens: 3 }])(
    "whose output is not counted is not counted: %j",
    (stated) => {
      expect(readCompletionUsage({ prompt_tokens: 5, ...stated }, bound)).toBeUndefined();
    },
  );

  test("whose output is counted in the total alone has that, and one of zero has none", () => {
    const output = (stated: object) => readCompletionUsage({ prompt_tokens: 5, ...stated }, bound)?.output_tokens;
    expect([output({ total_tokens: 30 }), output({ completion_tokens: 0 })]).toEqual([25, 0]);
  });

  test("whose input is counted in the total alone has that", () => {
    expect(readCompletionUsage({ completion_tokens: 5, total_tokens: 30 }, bound)).toMatchObject({ input_tokens: 25 });
    expect(readCompletionUsage({ completion_tokens: 5, total_tokens: 5 }, bound)).toBeUndefined();
    expect(readCompletionUsage({ total_tokens: 30 }, bound)).toBeUndefined();
  });
});

describe("an embedding", () => {
  const bound = boundUsage({ inputBytes: 300, images: 0, outputLimit: 0, choices: 1 }, () => {});

  test.for([
    { prompt_tokens: 5, total_tokens: 5 },
    { prompt_tokens: 5, total_tokens: 500 },
    { prompt_tokens: 5, completion_tokens: 50, total_tokens: 55 },
    { prompt_tokens: 5, completion_tokens_details: { reasoning_tokens: 50 } },
  ])("has no output, whatever is said of it: %j", (stated) => {
    expect(readEmbeddingUsage(stated, bound)).toMatchObject({
      input_tokens: 5,
      output_tokens: 0,
      reasoning_tokens: 0,
      audio_output_tokens: 0,
    });
  });

  test("whose provider states the total alone, as Voyage AI does, is counted by that", () => {
    // https://docs.voyageai.com/reference/embeddings-api
    expect(readEmbeddingUsage({ total_tokens: 5 }, bound)).toMatchObject({ input_tokens: 5, output_tokens: 0 });
  });

  test("that counts no input, or more than there can be, counts nothing", () => {
    expect(readEmbeddingUsage({}, bound)).toBeUndefined();
    expect(readEmbeddingUsage({ prompt_tokens: 10_301, total_tokens: 5 }, bound)).toBeUndefined();
  });
});

describe("thoughts", () => {
  const bound = boundUsage({ inputBytes: 300, images: 0, outputLimit: 100, choices: 1 }, () => {});
  const chat = (total_tokens: number | undefined, completion_tokens: number, reasoning_tokens?: number) => {
    const completion_tokens_details = reasoning_tokens === undefined ? undefined : { reasoning_tokens };
    const stated = { prompt_tokens: 20, completion_tokens, total_tokens, completion_tokens_details };
    const usage = readCompletionUsage(stated, bound);
    return [usage?.output_tokens, usage?.reasoning_tokens];
  };

  test.for<[string, number | undefined, number, number | undefined, number[]]>([
    ["in the output, as OpenAI counts them", 70, 50, 30, [50, 30]],
    ["beside it, as xAI does", 100, 50, 30, [80, 30]],
    ["beside it and named nowhere, as Google does", 100, 50, undefined, [80, 30]],
    ["more than the output, and so beside it", undefined, 10, 30, [40, 30]],
    ["as much as the output", undefined, 30, 30, [30, 30]],
    ["of a total that tells nothing of them", 99, 50, 30, [50, 30]],
    ["of a total that is less than its parts", 10, 50, 30, [50, 30]],
    ["that are none, beside a total that says more", 100, 50, 0, [50, 0]],
    ["of nobody", undefined, 50, undefined, [50, 0]],
  ])("%s, are output", ([, total, output, reasoning, counted]) => {
    expect(chat(total, output, reasoning)).toEqual(counted);
  });

  test("are read of responses alike", () => {
    const stated = { input_tokens: 20, output_tokens: 50, total_tokens: 100 };
    expect(readCompletionUsage(stated, bound)).toMatchObject({ output_tokens: 80, reasoning_tokens: 30 });
  });

  test("beyond all bounds are not believed, as any output is not", () => {
    expect(chat(100_401 + 20, 0)).toEqual([undefined, undefined]);
    expect(chat(100_400 + 20, 0)).toEqual([100_400, 100_400]);
  });
});

describe("speech", () => {
  const bound = boundUsage({ inputBytes: 300, images: 0, outputLimit: 100, choices: 1 }, () => {});
  const read = (stated: object) => {
    const { usage, spoken } = readGeminiUsage({ promptTokenCount: 5, ...stated }, bound) ?? {};
    return [usage?.output_tokens, usage?.reasoning_tokens, usage?.audio_output_tokens, spoken];
  };
  const listed = (...candidatesTokensDetails: unknown[]) => ({ candidatesTokenCount: 30, candidatesTokensDetails });

  // https://ai.google.dev/api/generate-content#UsageMetadata
  test.for<[string, object, unknown[]]>([
    ["is all audio where its kinds are not listed", { candidatesTokenCount: 30 }, [30, 0, 30, true]],
    ["is as much audio as is listed", listed({ modality: "AUDIO", tokenCount: 20 }), [30, 0, 20, true]],
    ["is all audio where the list cannot be read", listed(null, 1, { modality: "AUDIO" }), [30, 0, 30, true]],
    ["is counted in the total alone", { totalTokenCount: 35 }, [30, 0, 30, true]],
    ["is not counted", { totalTokenCount: 5 }, [0, 0, 0, false]],
    [
      "comes after thoughts, which are text",
      { candidatesTokenCount: 30, thoughtsTokenCount: 7, totalTokenCount: 42 },
      [37, 7, 30, true],
    ],
  ])("%s", ([, stated, counted]) => {
    expect(read(stated)).toEqual(counted);
  });

  test("has cached tokens in its input", () => {
    const stated = { promptTokenCount: 50, cachedContentTokenCount: 40, candidatesTokenCount: 1, totalTokenCount: 51 };
    expect(readGeminiUsage(stated, bound)?.usage).toMatchObject({ input_tokens: 50, cached_input_tokens: 40 });
  });
});
