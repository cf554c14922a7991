import { afterEach, describe, expect, test } from "vitest";
import { anthropicErrors } from "../http/anthropic-errors.ts";
import { linkErrors } from "../http/errors.ts";
import { refusalError } from "./refusals.ts";

const chat = { input: "messages", output: "max_completion_tokens" };

describe("a call that alone exceeds a limit", () => {
  const limit = { kind: "rate", scope: "key", name: "CI", unit: "tokens", window: "minute", limit: 2_000 };
  const refused = (fits: number | null) => ({
    refused: "invalid_request",
    token_limit: { scope: "key", limit: 2_000, input: 12, counted: 3_012 },
    limit,
    need: { tokens: 3_012, input_tokens: 12 },
    fitting_output_limit: fits,
  });

  test.for([
    [1_988, "max_completion_tokens", "With `max_completion_tokens` 1,988 it fits."],
    [null, "messages", "Shorten `messages`, or raise the limit."],
  ] as const)("with an output limit of %s that fits, %s is at fault", ([fits, param, cure]) => {
    const error = refusalError(refused(fits), chat);
    expect(error).toMatchObject({ code: "invalid_request", status: 400 });
    expect(error.message).toBe(
      `The key “CI” allows 2,000 tokens per minute; this request counts 3,012 (12 of input). ${cure}`,
    );
    expect(error.options.param).toBe(param);
    expect(error.options.details).toEqual({
      limit,
      need: { tokens: 3_012, input_tokens: 12 },
      fitting_output_limit: fits,
    });
  });

  test("names the input if the API has no output limit", () => {
    const error = refusalError(refused(1_988), { input: "prompt" });
    expect(error.options.param).toBe("prompt");
    expect(error.message).toContain("Shorten `prompt`, or raise the limit.");
    expect(error.options.details).not.toHaveProperty("fitting_output_limit");
  });

  test.for(["max_completion_tokens", "max_tokens", "max_output_tokens"])(
    "names the model's output limit, and %s as the field to lower",
    (output) => {
      const error = refusalError(
        {
          refused: "invalid_request",
          model_output_limit: 4_096,
          limit: { kind: "model_output", limit: 4_096 },
          need: { tokens: 5_000 },
          fitting_output_limit: 4_096,
        },
        { input: "messages", output },
      );
      expect([error.status, error.code, error.options.param]).toEqual([400, "invalid_request", output]);
      expect(error.message).toBe(
        `The model's output limit is 4,096 tokens; this request allows 5,000. With \`${output}\` 4,096 it fits.`,
      );
      expect(error.options.details).not.toHaveProperty("model_output_limit");
    },
  );
});

test.for([
  [1_024, 1_025, null],
  [1_024, 1_024, 1_024],
] as const)("if %i tokens fit and other fields require %i, the fitting limit is %s", ([fits, minOutput, shown]) => {
  const error = refusalError(
    { refused: "insufficient_credits", limit: { kind: "balance", payer: "workspace" }, fitting_output_limit: fits },
    { input: "messages", output: "max_tokens", minOutput },
  );
  expect(error.options.details).toMatchObject({ fitting_output_limit: shown });
});

test("a refused call gets the general message if the limits are unknown", () => {
  expect(refusalError({ refused: "rate_limit_exceeded" }).message).toBe("The rate limit is reached. Try again later.");
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

test("a refusal of concurrent calls says to retry when its limit does, not with the window", () => {
  const error = refusalError({
    refused: "rate_limit_exceeded",
    frees: true,
    limits: { minute: "2026-11-26T07:31:00+00:00", counts: [9, 1, null, null, null, null, null, null] },
    at: "2026-11-26T07:31:16+00:00",
    limit: { kind: "concurrent", scope: "key", name: "x", limit: 5, used: 5, reset_seconds: 1 },
  });
  expect([error.status, error.headers["retry-after"], error.headers["x-should-retry"]]).toEqual([429, "1", undefined]);
  expect(error.message).toBe("The key “x” has 5 calls in progress, its limit. Try again in 1 second.");
});

describe("a call that its envelope refuses", () => {
  const limit = {
    kind: "envelope",
    id: "e1",
    label: "codex:1",
    state: "open",
    limit_usd: 5,
    spent_usd: 5,
    reserved_usd: 0,
    remaining_usd: 0,
    workspace_id: "w1",
  };
  const refused = (more: object) => refusalError({ refused: "envelope_exhausted", need: { usd: 0.4 }, limit, ...more });
  afterEach(() => linkErrors(undefined));

  test("gets the address of its page, and no retry", () => {
    linkErrors("https://hub.test");
    const error = refused({});
    const url = "https://hub.test/workspaces/w1/ai/envelopes/e1";
    expect(error.message).toBe(
      `The task “codex:1” has used $5.00 of its limit of $5.00. Raise the limit at ${url}, then send the request again.`,
    );
    expect([error.status, error.headers["x-should-retry"], error.headers["retry-after"]]).toEqual([
      402,
      "false",
      undefined,
    ]);
    expect(error.options.details).toMatchObject({ limit: { ...limit, url } });
  });

  test("may be retried while only calls in progress hold the rest", () => {
    expect(refused({ frees: true }).headers).toEqual({});
  });

  test.for(["body", "event"] as const)("is a billing error in the %s of Anthropic's API", (form) => {
    const text = JSON.stringify(anthropicErrors[form](refused({}), "r"));
    expect(text).toMatch(/billing_error.*envelope_exhausted/);
  });
});

test("a header with other amounts is refused with those that the envelope has", () => {
  const error = refusalError({
    refused: "invalid_request",
    param: "X-Platform-Envelope",
    envelope: { id: "e1", usd: "5", calls: null, ttl_seconds: 3_600 },
  });
  expect([error.status, error.options.param]).toEqual([400, "X-Platform-Envelope"]);
  expect(error.message).toContain("Send X-Platform-Envelope: usd=5; ttl=3600, even if it was raised since");
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
