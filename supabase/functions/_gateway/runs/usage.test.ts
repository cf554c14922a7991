import { describe, expect, test } from "vitest";
import { boundUsage, readCompletionUsage, readEmbeddingUsage, readResponseUsage } from "./usage.ts";

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

describe("parts of what is counted", () => {
  const bound = boundUsage({ inputBytes: 300, images: 0, outputLimit: 100, choices: 1 }, () => {});
  const most = Number.MAX_SAFE_INTEGER;

  test.for([
    [{ cached_tokens: 10, audio_tokens: 0 }, [10, 0]],
    [{ cached_tokens: 11, audio_tokens: 1 }, [10, 0]],
    [{ cached_tokens: 4, audio_tokens: 6 }, [4, 6]],
    [{ cached_tokens: 4, audio_tokens: 7 }, [4, 6]],
    [{ cached_tokens: most, audio_tokens: most }, [10, 0]],
  ] as const)("are of the input no more than there is, as they are charged: %j", ([prompt_tokens_details, counted]) => {
    const stated = { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details };
    const usage = readCompletionUsage(stated, bound);
    expect([usage?.cached_input_tokens, usage?.audio_input_tokens]).toEqual(counted);
  });

  test.for([
    [{ reasoning_tokens: 100_400, audio_tokens: 5 }, [100_400, 5]],
    [{ reasoning_tokens: 100_401, audio_tokens: 6 }, [100_400, 5]],
    [{ reasoning_tokens: most, audio_tokens: most }, [100_400, 5]],
  ] as const)("are of the output no more than can be: %j", ([output_tokens_details, counted]) => {
    const usage = readResponseUsage({ input_tokens: 10, output_tokens: 5, output_tokens_details }, bound);
    expect([usage?.reasoning_tokens, usage?.audio_output_tokens]).toEqual(counted);
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

  test("that counts no input, or more than there can be, counts nothing", () => {
    expect(readEmbeddingUsage({ total_tokens: 5 }, bound)).toBeUndefined();
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
    ["more than the output, with no total to tell why", undefined, 10, 30, [10, 30]],
    ["of a total that tells nothing of them", 99, 50, 30, [50, 30]],
    ["of a total that is less than its parts", 10, 50, 30, [50, 30]],
    ["that are none, beside a total that says more", 100, 50, 0, [50, 0]],
    ["of nobody", undefined, 50, undefined, [50, 0]],
  ])("%s, are output", ([, total, output, reasoning, counted]) => {
    expect(chat(total, output, reasoning)).toEqual(counted);
  });

  test("are read of responses alike", () => {
    const stated = { input_tokens: 20, output_tokens: 50, total_tokens: 100 };
    expect(readResponseUsage(stated, bound)).toMatchObject({ output_tokens: 80, reasoning_tokens: 30 });
  });

  test("beyond all bounds are not believed, as any output is not", () => {
    expect(chat(100_401 + 20, 0)).toEqual([undefined, undefined]);
    expect(chat(100_400 + 20, 0)).toEqual([100_400, 100_400]);
  });
});
