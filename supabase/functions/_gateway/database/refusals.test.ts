import { describe, expect, test } from "vitest";
import { refusalError } from "./refusals.ts";

describe("Calls larger than an entire token limit", () => {
  const refused = (token_limit: object) => ({ refused: "invalid_request", token_limit });
  const stated = { input: "messages", output: "max_completion_tokens" };

  test("the error for a call larger than an entire token limit advises lowering the output limit, and never advises waiting", () => {
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
  ] as const)(
    "the error for a call with %i input tokens that exceeds a token limit advises changing %s",
    ([input, param, advice]) => {
      const error = refusalError(refused({ scope: "key", limit: 2_000, input, counted: 4_000 }), stated);
      expect(error.options.param).toBe(param);
      expect(error.message).toContain(`${advice} or raise the limit.`);
    },
  );

  test("if a call without an output limit exceeds a token limit, the error advises shortening the input", () => {
    const error = refusalError(refused({ scope: "workspace", limit: 10, input: 11, counted: 11 }), { input: "prompt" });
    expect(error.message).toBe(
      "This call counts 11 tokens, more than the workspace's limit of 10 tokens per minute. Shorten prompt or raise the limit.",
    );
    expect(error.options.param).toBe("prompt");
  });
});

describe("Calls that must wait for a limit", () => {
  const messageOf = (counts: (number | null)[], at: string, sizeFields?: { input: string; output?: string }) =>
    refusalError(
      { refused: "rate_limit_exceeded", limits: { minute: "2026-11-26T07:31:00+00:00", counts }, at },
      sizeFields,
    ).message;
  const chat = { input: "messages", output: "max_completion_tokens" };

  test("names the request limit that is used up", () => {
    expect(messageOf([1_000, 1_000, 5_000, 200, 9_000, 8_999, null, null], "2026-11-26T07:31:16+00:00", chat)).toBe(
      "The key's limit of 1,000 requests per minute is used up. Try again in 44 seconds.",
    );
    expect(messageOf([null, null, null, null, 60, 60, null, null], "2026-11-26T07:31:59+00:00")).toBe(
      "The workspace's limit of 60 requests per minute is used up. Try again in 1 second.",
    );
  });

  test("the refusal by a token limit names the tokens left, and advises waiting or lowering max_completion_tokens", () => {
    const counts = [10, 9, 2_000, 1_500, null, null, 100_000, 50_000];
    expect(messageOf(counts, "2026-11-26T07:31:16+00:00", chat)).toBe(
      "The key's limit of 2,000 tokens per minute has 500 left, too few for this call. Try again in 44 seconds or lower max_completion_tokens.",
    );
    expect(
      messageOf([null, null, null, null, null, null, 2_000, 2_000], "2026-11-26T07:31:16+00:00", { input: "input" }),
    ).toBe(
      "The workspace's limit of 2,000 tokens per minute has 0 left, too few for this call. Try again in 44 seconds.",
    );
  });

  test("a refused call gets the general message if the limits are unknown", () => {
    expect(refusalError({ refused: "rate_limit_exceeded" }).message).toBe(
      "The rate limit is reached. Try again later.",
    );
  });
});

describe("Calls above the model's output limit", () => {
  test.for(["max_completion_tokens", "max_tokens", "max_output_tokens"])(
    "names the model's output limit, and advises the caller to lower %s",
    (output) => {
      const refused = { refused: "invalid_request", model_output_limit: 4_096 };
      const error = refusalError(refused, { input: "messages", output });
      expect([error.status, error.code, error.options.param]).toEqual([400, "invalid_request", output]);
      expect(error.message).toBe(`The model's output limit is 4,096 tokens. Lower ${output}.`);
      expect(error.options.details).toBeUndefined();
    },
  );
});

describe("Headers of a refusal", () => {
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

  test("a rate limit refusal has headers with every limit and the time to wait before a retry", () => {
    expect(headersOf("rate_limit_exceeded")).toEqual({ ...applying, "retry-after": "44" });
  });

  test.for(["budget_exceeded", "insufficient_credits"])(
    "the headers of the refusal %s state every limit and no retry time",
    (code) => {
      expect(headersOf(code)).toEqual(applying);
    },
  );
});

test("names the header and the value to send if a call's label differs from its key's label", () => {
  const error = refusalError({ refused: "invalid_request", param: "X-Platform-Entity-Id" });
  expect(error).toMatchObject({ code: "invalid_request", status: 400 });
  expect(error.message).toBe(
    "The key has an entity label of its own. Send no X-Platform-Entity-Id header, or one with that label.",
  );
  expect(error.options.param).toBe("X-Platform-Entity-Id");
});

test("the error for a web search without a price names the `tools` field and says to leave out the search tool", () => {
  const error = refusalError({ refused: "unsupported_parameter", param: "tools" });
  expect([error.status, error.code, error.options.param]).toEqual([400, "unsupported_parameter", "tools"]);
  expect(error.message).toContain("has no price for searches. Leave out the web search tool");
});
