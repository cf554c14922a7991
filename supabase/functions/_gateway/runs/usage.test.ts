import { describe, expect, test } from "vitest";
import { boundUsage, readCompletionUsage } from "./usage.ts";

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
