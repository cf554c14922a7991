import { describe, expect, test } from "vitest";
import { refusalError } from "./refusals.ts";

describe("a call larger than a whole token limit", () => {
  const refused = (token_limit: object) => ({ refused: "invalid_request", token_limit });
  const stated = { input: "messages", output: "max_completion_tokens" };

  test("says to lower the stated output limit, and never to wait", () => {
    const error = refusalError(refused({ scope: "key", limit: 2_000, input: 12, counted: 3_012 }), stated);
    expect(error).toMatchObject({ code: "invalid_request", status: 400 });
    expect(error.message).toBe(
      "This call counts 3,012 tokens (input and max_completion_tokens), more than the key's limit of 2,000 tokens per minute. Lower max_completion_tokens or raise the limit.",
    );
    expect(error.options.param).toBe("max_completion_tokens");
    expect(error.options.headers).toBeUndefined();
    expect(error.options.details).toBeUndefined();
  });

  test.for([
    [2_000, "max_completion_tokens", "Lower max_completion_tokens"],
    [2_001, "messages", "Shorten messages"],
  ] as const)("with %i tokens of input should change %s", ([input, param, advice]) => {
    const error = refusalError(refused({ scope: "key", limit: 2_000, input, counted: 4_000 }), stated);
    expect(error.options.param).toBe(param);
    expect(error.message).toContain(`${advice} or raise the limit.`);
  });

  test("without a stated output limit should shorten its input", () => {
    const error = refusalError(refused({ scope: "workspace", limit: 10, input: 11, counted: 11 }), { input: "prompt" });
    expect(error.message).toBe(
      "This call counts 11 tokens, more than the workspace's limit of 10 tokens per minute. Shorten prompt or raise the limit.",
    );
    expect(error.options.param).toBe("prompt");
  });
});

describe("the headers of a refusal", () => {
  const limits = { minute: "2026-11-26T07:31:00+00:00", counts: [1, 1, null, null, null, null, 5_000, 200] };
  const headersOf = (code: string) =>
    refusalError({ refused: code, limits, at: "2026-11-26T07:31:16+00:00" }).options.headers;
  const applying = {
    "x-ratelimit-limit-requests": "1",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "44s",
    "x-ratelimit-limit-tokens": "5000",
    "x-ratelimit-remaining-tokens": "4800",
    "x-ratelimit-reset-tokens": "44s",
  };

  test("state every limit and when to try again", () => {
    expect(headersOf("rate_limit_exceeded")).toEqual({ ...applying, "retry-after": "44" });
  });

  test.for(["budget_exceeded", "insufficient_credits"])("for %s state every limit and no time to wait", (code) => {
    expect(headersOf(code)).toEqual(applying);
  });
});
