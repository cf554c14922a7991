import { describe, expect, test } from "vitest";
import type { AttemptFailure } from "../../_shared/attempt.ts";
import { readRefusal } from "./refusal.ts";

const headersOf = (headers: Record<string, string>) => (name: string) => headers[name];
const failureOf = (status: number, body: unknown) =>
  readRefusal({ status, text: typeof body === "string" ? body : JSON.stringify(body) }).failure;

describe("a provider's refusal with only a status", () => {
  test.for<[number, AttemptFailure]>([
    [400, "invalid_request"],
    [401, "unauthorized"],
    [402, "payment_required"],
    [403, "forbidden"],
    [404, "not_found"],
    [408, "timeout"],
    [409, "server_error"],
    [410, "not_found"],
    [413, "invalid_request"],
    [415, "invalid_request"],
    [422, "invalid_request"],
    [424, "server_error"],
    [429, "rate_limited"],
    [498, "rate_limited"],
    [500, "server_error"],
    [502, "server_error"],
    [503, "server_error"],
    [504, "timeout"],
    [524, "timeout"],
    [529, "server_error"],
    [302, "invalid_answer"],
  ])("the status %i alone is classified as %s", ([status, failure]) => {
    for (const text of ["", "{}", "<html>", "[]", "null"]) expect(failureOf(status, text)).toBe(failure);
  });
});

describe("Inputs that are too long", () => {
  test.for<[string, number, unknown]>([
    ["OpenAI: platform.openai.com/docs/guides/error-codes", 400, { error: { code: "context_length_exceeded" } }],
    ["OpenAI, Responses", 400, { error: { message: "Your input exceeds the context window of this model." } }],
    [
      "vLLM: vllm-project/vllm, serving/openai",
      400,
      {
        object: "error",
        message: "This model's maximum context length is 4096 tokens. However, you requested 5048 tokens.",
        type: "BadRequestError",
        code: 400,
      },
    ],
    [
      "llama.cpp: tools/server/README.md",
      400,
      {
        error: {
          code: 400,
          message: "the request exceeds the available context size",
          type: "exceed_context_size_error",
        },
      },
    ],
    [
      "Gemini: ai.google.dev/gemini-api/docs/troubleshooting",
      400,
      [
        {
          error: {
            code: 400,
            message: "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            status: "INVALID_ARGUMENT",
          },
        },
      ],
    ],
    ["Bedrock: ValidationException", 400, { message: "Input is too long for requested model." }],
    [
      "xAI",
      400,
      {
        code: "Client specified an invalid argument",
        error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
      },
    ],
    [
      "Mistral",
      400,
      {
        object: "error",
        message:
          "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        type: "invalid_request_error",
        code: "3051",
      },
    ],
    [
      "Moonshot: platform.moonshot.ai/docs/api/errors",
      400,
      {
        error: {
          message: "Invalid request: Your request exceeded model token limit: 8192",
          type: "invalid_request_error",
        },
      },
    ],
    [
      "Together",
      422,
      { error: { message: "`inputs` tokens + `max_new_tokens` must be <= 4097.", type: "invalid_request_error" } },
    ],
    [
      "Groq",
      413,
      { error: { message: "Please reduce the length of the messages or completion.", type: "invalid_request_error" } },
    ],
    [
      "OpenRouter, with the provider's own error: openrouter.ai/docs/api-reference/errors",
      400,
      {
        error: {
          code: 400,
          message: "Provider returned error",
          metadata: { raw: '{"message":"prompt is too long: 208310 tokens > 200000 maximum"}' },
        },
      },
    ],
  ])("recognizes an input that is too long: %s", ([, status, body]) => {
    expect(failureOf(status, body)).toBe("context_length_exceeded");
  });

  test("an output limit that is too high is not reported as an input that is too long", () => {
    const message = "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.";
    expect(failureOf(400, { error: { message, param: "max_tokens" } })).toBe("invalid_request");
  });
});

describe("Refused content", () => {
  test.for<[string, number, unknown]>([
    [
      "Azure: learn.microsoft.com, content-filter",
      400,
      { error: { code: "content_filter", status: 400, innererror: { code: "ResponsibleAIPolicyViolation" } } },
    ],
    [
      "OpenAI, reasoning models",
      400,
      {
        error: {
          code: "invalid_prompt",
          message: "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
        },
      },
    ],
    ["DeepSeek: deepseek-ai/DeepSeek-V2, issue 30", 400, { detail: "Content Exists Risk" }],
    [
      "xAI: UKGovernmentBEIS/inspect_ai, pull request 2267",
      403,
      {
        code: "The caller does not have permission to execute the specified operation",
        error: "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
      },
    ],
    [
      "OpenRouter: openrouter.ai/docs/api-reference/errors",
      403,
      { error: { code: 403, message: "Your input was flagged", metadata: { reasons: ["violence"] } } },
    ],
    [
      "Moonshot: platform.moonshot.ai/docs/api/errors",
      400,
      { error: { type: "content_filter", message: "The request was rejected because it was considered high risk" } },
    ],
  ])("recognizes refused content: %s", ([, status, body]) => {
    expect(failureOf(status, body)).toBe("content_filter");
  });
});

describe("Errors that an operator must fix", () => {
  test.for<[string, number, unknown, AttemptFailure]>([
    [
      "Gemini, a wrong key",
      400,
      [
        {
          error: {
            code: 400,
            message: "API key not valid. Please pass a valid API key.",
            status: "INVALID_ARGUMENT",
            details: [{ reason: "API_KEY_INVALID" }],
          },
        },
      ],
      "unauthorized",
    ],
    [
      "xAI, a wrong key",
      400,
      { code: "Client specified an invalid argument", error: "Incorrect API key provided: xa***xx." },
      "unauthorized",
    ],
    [
      "OpenAI, no quota: platform.openai.com/docs/guides/error-codes",
      429,
      { error: { type: "insufficient_quota", code: "insufficient_quota" } },
      "payment_required",
    ],
    [
      "Moonshot, no balance: platform.moonshot.ai/docs/api/errors",
      429,
      {
        error: {
          type: "exceeded_current_quota_error",
          message: "Your account is suspended, please check your plan and billing details",
        },
      },
      "payment_required",
    ],
    [
      "xAI, no credits",
      403,
      { error: "Your team has used all available credits or reached its monthly spending limit." },
      "payment_required",
    ],
    [
      "DeepSeek, an unknown model",
      400,
      { error: { message: "Model Not Exist", type: "invalid_request_error" } },
      "not_found",
    ],
    [
      "Anthropic, no credits: github.com/continuedev/continue/issues/10432",
      400,
      { type: "invalid_request_error", message: "Your credit balance is too low to access the Anthropic API." },
      "payment_required",
    ],
    [
      "Gemini, an unsupported region: github.com/poenl/gemini-api/issues/4",
      400,
      [
        {
          error: {
            code: 400,
            message: "User location is not supported for the API use.",
            status: "FAILED_PRECONDITION",
          },
        },
      ],
      "forbidden",
    ],
    [
      "Bedrock, an unknown model: ValidationException",
      400,
      { message: "The provided model identifier is invalid." },
      "not_found",
    ],
    ["Groq, a decommissioned model", 400, { error: { code: "model_decommissioned" } }, "not_found"],
    [
      "OpenRouter, an unknown model",
      400,
      { error: { code: 400, message: "x/y is not a valid model ID" } },
      "not_found",
    ],
    ["Mistral, an unknown model", 400, { message: "Invalid model: mistral-x", type: "invalid_model" }, "not_found"],
    ["OpenAI, another project's model", 403, { error: { code: "model_not_found" } }, "not_found"],
  ])("recognizes an error that an operator must fix: %s", ([, status, body, failure]) => {
    expect(failureOf(status, body)).toBe(failure);
  });

  test("Gemini's per-minute quota is not reported as an error that an operator must fix", () => {
    const error = { code: 429, message: "You exceeded your current quota.", status: "RESOURCE_EXHAUSTED" };
    expect(failureOf(429, [{ error }])).toBe("rate_limited");
  });
});

test.for<[unknown, AttemptFailure]>([
  [{ error: { code: "server_error" } }, "server_error"],
  [{ error: { message: "Rate limit exceeded", code: 429 } }, "rate_limited"],
  [{ error: { code: "context_length_exceeded" } }, "context_length_exceeded"],
  [{ error: { code: "context_length_exceeded", status: 500 } }, "context_length_exceeded"],
  [{ error: { code: 400, message: "Provider returned error" } }, "invalid_request"],
  [{ error: { code: 401, message: "User not found." } }, "unauthorized"],
  [{ error: { code: 502, message: "Provider disconnected" } }, "server_error"],
  [{ error: { code: "3051" } }, "server_error"],
  [{ type: "response.failed", response: { error: { code: "rate_limit_exceeded" } } }, "rate_limited"],
])("classifies an error that a provider sent with status 200: %j", ([body, failure]) => {
  expect(failureOf(200, body)).toBe(failure);
});

// console.groq.com/docs/flex-processing, platform.openai.com/docs/guides/flex-processing
test.for<[number, string]>([
  [498, "capacity_exceeded"],
  [429, "resource_unavailable"],
])(
  "treats a %i for a service tier without capacity as an error that the request may have caused: %s",
  ([status, code]) => {
    const { failure, mayBeRequest } = readRefusal({ status, text: JSON.stringify({ error: { code } }) });
    expect([failure, mayBeRequest]).toEqual(["rate_limited", true]);
    expect(readRefusal({ status: 429, text: "{}" }).mayBeRequest).toBe(false);
  },
);

test("classifies OpenAI's 404 for an item that it did not store as an invalid request: github.com/can1357/oh-my-pi/issues/41", () => {
  const message =
    "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.";
  const error = { message, type: "invalid_request_error", param: "input", code: null };
  expect(failureOf(404, { error })).toBe("invalid_request");
});

describe("retry time in a provider's refusal", () => {
  const retryAfter = (headers: Record<string, string>, { status = 429, text = "{}" } = {}) =>
    readRefusal({ status, text, header: headersOf(headers) }).retryAfterSeconds;

  test("the time to retry is read from seconds, milliseconds, a date, or Google's RetryInfo", () => {
    expect(retryAfter({ "retry-after": "17" })).toBe(17);
    expect(retryAfter({ "retry-after": "0.4" })).toBe(1);
    expect(retryAfter({ "retry-after-ms": "1500", "retry-after": "60" })).toBe(2);
    const date = new Date(Date.now() + 30_000).toUTCString();
    expect(retryAfter({ "retry-after": date })).toBeGreaterThanOrEqual(29);
    expect(retryAfter({ "retry-after": date })).toBeLessThanOrEqual(30);
    const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "26.3s" }];
    expect(retryAfter({}, { text: JSON.stringify([{ error: { code: 429, details } }]) })).toBe(27);
  });

  test.for(["", "soon", "-5", "0", "1e9", "NaN", "Infinity"])("the time to retry is unknown for %j", (value) => {
    expect(retryAfter({ "retry-after": value })).toBeUndefined();
  });

  test("the time to retry is read from a 503, but not from a 400, 401, 402 or 404", () => {
    expect(retryAfter({ "retry-after": "5" }, { status: 503 })).toBe(5);
    for (const status of [400, 401, 402, 404]) expect(retryAfter({ "retry-after": "5" }, { status })).toBeUndefined();
  });
});

test("classifies an error that is nested very deeply or has no known shape as an invalid request", () => {
  const deep = `${'{"error":'.repeat(5_000)}{"code":"content_filter"}${"}".repeat(5_000)}`;
  expect(failureOf(400, deep)).toBe("invalid_request");
  expect(failureOf(400, { error: { code: null, message: 7, details: [null, [[]]] } })).toBe("invalid_request");
});

// https://platform.claude.com/docs/en/api/errors
describe("Errors of Anthropic", () => {
  const body = (type: string, message = "x") => ({ type: "error", error: { type, message }, request_id: "req_1" });

  test.for<[number, string, AttemptFailure]>([
    [400, "invalid_request_error", "invalid_request"],
    [401, "authentication_error", "unauthorized"],
    [402, "billing_error", "payment_required"],
    [403, "permission_error", "forbidden"],
    [404, "not_found_error", "not_found"],
    [413, "request_too_large", "invalid_request"],
    [429, "rate_limit_error", "rate_limited"],
    [500, "api_error", "server_error"],
    [504, "timeout_error", "timeout"],
    [529, "overloaded_error", "server_error"],
    // Errors in the events of a stream that began with status 200.
    [200, "overloaded_error", "server_error"],
    [200, "rate_limit_error", "rate_limited"],
    [200, "billing_error", "payment_required"],
  ])("an Anthropic error with status %i and type %s is classified as %s", ([status, type, failure]) => {
    expect(failureOf(status, body(type))).toBe(failure);
  });

  test.for<[string, AttemptFailure]>([
    ["prompt is too long: 200082 tokens > 200000 maximum", "context_length_exceeded"],
    ["Your credit balance is too low to access the Anthropic API.", "payment_required"],
  ])("Anthropic's error is classified by its message: %s", ([message, failure]) => {
    expect(failureOf(400, body("invalid_request_error", message))).toBe(failure);
  });
});
