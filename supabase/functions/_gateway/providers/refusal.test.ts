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
    [
      "Bedrock, Amazon Nova: validationException",
      400,
      { message: "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input." },
    ],
    [
      "DashScope: github.com/QwenLM/qwen-code/issues/98",
      400,
      { message: "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]" },
    ],
  ])("recognizes an input that is too long: %s", ([, status, body]) => {
    expect(failureOf(status, body)).toBe("context_length_exceeded");
  });

  // What providers state is repeated to clients, some of which compact the conversation by these counts.
  test.for<[string, number, unknown, object | undefined]>([
    [
      "Anthropic: platform.claude.com/docs/en/build-with-claude/context-windows",
      400,
      { error: { message: "prompt is too long: 208310 tokens > 200000 maximum" } },
      { input: 208_310, max: 200_000 },
    ],
    [
      "Anthropic, with the output: github.com/continuedev/continue/issues/6080",
      400,
      { error: { message: "input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648, decrease" } },
      { input: 189_136, output: 20_000, max: 204_648 },
    ],
    [
      "Z.AI: github.com/anomalyco/opencode/issues/45834",
      400,
      { error: { code: "1261", message: "Prompt exceeds max length" } },
      undefined,
    ],
    ["Z.AI, only the code", 400, { error: { code: "1261", message: "参数过长" } }, undefined],
    [
      "GitHub Copilot: github.com/NousResearch/hermes-agent/issues/61728",
      400,
      {
        error: {
          code: "model_max_prompt_tokens_exceeded",
          message: "prompt token count of 391491 exceeds the limit of 128000",
        },
      },
      { input: 391_491, max: 128_000 },
    ],
    [
      "vLLM: vllm-project/vllm, serving/openai",
      400,
      {
        message:
          "This model's maximum context length is 4096 tokens. However, you requested 5048 tokens (1000 in the messages, 4048 in the completion).",
      },
      { input: 1_000, output: 4_048, max: 4_096 },
    ],
    [
      "OpenAI: platform.openai.com/docs/guides/error-codes",
      400,
      {
        error: {
          code: "context_length_exceeded",
          message:
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130017 tokens.",
        },
      },
      { input: 130_017, max: 128_000 },
    ],
    [
      "Gemini: ai.google.dev/gemini-api/docs/troubleshooting",
      400,
      { error: { message: "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)." } },
      { input: 1_196_265, max: 1_048_575 },
    ],
    [
      "xAI",
      400,
      { error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens." },
      { input: 537_812, max: 131_072 },
    ],
    [
      "Mistral",
      400,
      {
        message:
          "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
      },
      { input: 40_000, max: 32_768 },
    ],
    [
      "llama.cpp: github.com/ggml-org/llama.cpp, tools/server",
      400,
      {
        error: {
          type: "exceed_context_size_error",
          message: "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it",
        },
      },
      { input: 14_429, max: 8_192 },
    ],
    [
      "llama.cpp, in members: github.com/ggml-org/llama.cpp, tools/server",
      400,
      {
        error: {
          code: 400,
          message: "the request exceeds the available context size, try increasing it",
          type: "exceed_context_size_error",
          n_prompt_tokens: 14_429,
          n_ctx: 8_192,
        },
      },
      { input: 14_429, max: 8_192 },
    ],
    [
      "OpenRouter: github.com/OpenHands/OpenHands/issues/9937",
      400,
      {
        error: {
          message:
            'This endpoint\'s maximum context length is 131072 tokens. However, you requested about 138956 tokens (7884 of text input, 131072 in the output). Please reduce the length of either one, or use the "middle-out" transform.',
        },
      },
      { input: 7_884, output: 131_072, max: 131_072 },
    ],
    [
      "OpenRouter, with tools: github.com/boldsoftware/shelley/issues/159",
      400,
      {
        error: {
          message:
            "This endpoint's maximum context length is 204800 tokens. However, you requested about 205432 tokens (81684 of text input, 3748 of tool input, 120000 in the output).",
        },
      },
      { input: 85_432, output: 120_000, max: 204_800 },
    ],
    [
      "OpenAI, older models: github.com/run-llama/llama_index/issues/948",
      400,
      {
        error: {
          message:
            "This model's maximum context length is 4097 tokens, however you requested 4116 tokens (3860 in your prompt; 256 for the completion). Please reduce your prompt; or completion length.",
        },
      },
      { input: 3_860, output: 256, max: 4_097 },
    ],
    [
      "vLLM, a large output: vllm-project/vllm, entrypoints/openai/serving_engine.py",
      400,
      {
        message:
          "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 40960 tokens and your request has 10000 input tokens (32000 > 40960 - 10000).",
      },
      { input: 10_000, output: 32_000, max: 40_960 },
    ],
    [
      "vLLM, newer: github.com/vllm-project/vllm/issues/42474",
      400,
      {
        message:
          "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your prompt contains at least 62466 input tokens, for a total of at least 128001 tokens.",
      },
      { input: 62_466, output: 65_535, max: 128_000 },
    ],
    [
      "SGLang: sgl-project/sglang, managers/tokenizer_manager.py",
      400,
      { message: "The input (40000 tokens) is longer than the model's context length (32768 tokens)." },
      { input: 40_000, max: 32_768 },
    ],
    [
      "SGLang, with the output: sgl-project/sglang, managers/tokenizer_manager.py",
      400,
      {
        message:
          "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 135000 tokens: 130000 tokens from the input messages and 5000 tokens for the completion.",
      },
      { input: 130_000, output: 5_000, max: 131_072 },
    ],
    [
      "Cohere: github.com/cohere-ai/sandbox-topically/issues/4",
      400,
      {
        message:
          "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt.",
      },
      { input: 4_292, max: 4_081 },
    ],
    [
      "numbers with commas",
      400,
      { message: "prompt is too long: 208,310 tokens > 200,000 maximum" },
      { input: 208_310, max: 200_000 },
    ],
    ["counts that fit", 400, { message: "prompt is too long: 5 tokens > 200000 maximum" }, undefined],
  ])("reads the tokens that do not fit: %s", ([, status, body, contextTokens]) => {
    const refusal = readRefusal({ status, text: JSON.stringify(body) });
    expect([refusal.failure, refusal.contextTokens]).toEqual(["context_length_exceeded", contextTokens]);
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
    ["OpenAI: github.com/openai/codex, codex-api/src/sse/responses.rs", 400, { error: { code: "cyber_policy" } }],
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

const anthropic = (type: string, message: string, details = {}) => ({
  type: "error",
  error: { type, message, ...details },
});
const google = (code: number, status: string, message: string, details: object[] = []) => [
  { error: { code, status, message, details } },
];

describe("Money stops", () => {
  test.for<[string, number, unknown]>([
    [
      "Anthropic, the organization's limit: github.com/laravel/ai/pull/864",
      400,
      anthropic(
        "invalid_request_error",
        "You have reached your specified API usage limits. You will regain access on 2026-09-01.",
      ),
    ],
    [
      "Anthropic, the workspace's limit: learn.microsoft.com, dev-proxy, anthropic-529-overloaded-error",
      400,
      anthropic("invalid_request_error", "You have reached your specified workspace API usage limits."),
    ],
    [
      "Anthropic, the tier's limit: platform.claude.com/docs/en/api/rate-limits",
      429,
      anthropic(
        "rate_limit_error",
        "You have reached your API usage limits: your organization has crossed its monthly threshold.",
        {
          details: { error_code: "enforced_spend_limit_reached" },
        },
      ),
    ],
    [
      "Anthropic, a subscription's limit: github.com/can1357/oh-my-pi/pull/5418",
      429,
      anthropic(
        "rate_limit_error",
        "This request would exceed your account's monthly spend limit. Please try again later.",
      ),
    ],
    [
      "Anthropic, no credits: github.com/continuedev/continue/issues/10432",
      400,
      anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    ],
    [
      "Anthropic, extra usage: github.com/NousResearch/hermes-agent/issues/80553",
      400,
      anthropic("invalid_request_error", "You're out of extra usage. Add more to keep going."),
    ],
    ["Anthropic, billing: platform.claude.com/docs/en/api/errors", 402, anthropic("billing_error", "Billing.")],
    [
      "OpenAI, inactive billing: github.com/BerriAI/litellm/issues/2743",
      429,
      {
        error: {
          message: "Your account is not active, please check your billing details on our website.",
          type: "billing_not_active",
          code: "billing_not_active",
        },
      },
    ],
    [
      "OpenAI, inactive billing without a code: github.com/Chanzhaoyu/chatgpt-web/issues/1273",
      429,
      {
        error: { message: "Your account is not active, please check your billing details on our website.", code: null },
      },
    ],
    ["OpenAI, no quota", 429, { error: { type: "insufficient_quota", code: "insufficient_quota" } }],
    [
      "OpenAI, a hard limit: github.com/dfinke/PowerShellAI/issues/127",
      400,
      { error: { code: "billing_hard_limit_reached", message: "Billing hard limit has been reached" } },
    ],
    ...[
      "credit_balance_exhausted",
      "organization_spend_limit_exceeded",
      "project_spend_limit_exceeded",
      "organization_usage_limit_exceeded",
    ].map((code): [string, number, unknown] => [
      `OpenAI, ${code}: github.com/NousResearch/hermes-agent/pull/98929`,
      429,
      { error: { message: "Stopped.", type: "invalid_request_error", code } },
    ]),
    ["OpenAI, in a stream", 200, { type: "response.failed", response: { error: { code: "insufficient_quota" } } }],
    [
      "Gemini, the account's cap: github.com/openclaw/openclaw/pull/74120",
      429,
      google(429, "RESOURCE_EXHAUSTED", "Your billing account has exceeded its monthly spending cap."),
    ],
    [
      "Gemini, the project's cap: ai.google.dev/gemini-api/docs/billing",
      429,
      google(429, "RESOURCE_EXHAUSTED", "Your project has exceeded its monthly spending cap."),
    ],
    [
      "Gemini, no prepaid credits: ai.google.dev/gemini-api/docs/billing",
      429,
      google(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted. Please go to AI Studio."),
    ],
    [
      "Vertex AI, no billing: github.com/pgmichael/wavenet-for-chrome/issues/83",
      403,
      google(
        403,
        "PERMISSION_DENIED",
        "This API method requires billing to be enabled. Please enable billing on project #1.",
      ),
    ],
    [
      "Vertex AI, the reason alone: cloud.google.com/apis/design/errors",
      403,
      google(403, "PERMISSION_DENIED", "Denied.", [{ "@type": "ErrorInfo", reason: "BILLING_DISABLED" }]),
    ],
    [
      "Azure: learn.microsoft.com, azure/cost-management-billing/manage/subscription-disabled",
      403,
      { error: { code: "ReadOnlyDisabledSubscription", message: "The subscription '0-1' is disabled and read only." } },
    ],
    ["Azure, no quota", 429, { error: { code: "insufficient_quota", message: "You exceeded your current quota." } }],
    [
      "Bedrock: docs.aws.amazon.com/bedrock/latest/userguide/model-access.html",
      403,
      {
        __type: "AccessDeniedException",
        message:
          "Model access is denied due to INVALID_PAYMENT_INSTRUMENT: A valid payment instrument must be provided.",
      },
    ],
    [
      "OpenRouter: openrouter.ai/docs/api-reference/errors",
      402,
      { error: { code: 402, message: "This request requires more credits, or fewer max_tokens." } },
    ],
    [
      "OpenRouter, the key's limit: github.com/vellum-ai/vellum-assistant/pull/38275",
      403,
      { error: { code: 403, message: "Key limit exceeded (total limit)." } },
    ],
    [
      "OpenRouter, the provider's own stop",
      400,
      {
        error: {
          code: 400,
          message: "Provider returned error",
          metadata: { raw: '{"error":{"code":"insufficient_quota"}}' },
        },
      },
    ],
    ["OpenRouter, in a stream", 200, { error: { code: 402, message: "Insufficient credits" } }],
    ["DeepSeek: api-docs.deepseek.com/quick_start/error_codes", 402, { error: { message: "Insufficient Balance" } }],
    [
      "DeepSeek behind another gateway: github.com/NousResearch/hermes-agent/pull/16772",
      400,
      { error: { message: "Insufficient Balance", type: "unknown_error" } },
    ],
    [
      "Moonshot: github.com/openclaw/openclaw/pull/31786",
      429,
      {
        error: {
          type: "exceeded_current_quota_error",
          message: "Your account is suspended due to insufficient balance",
        },
      },
    ],
    ["Mistral, a used-up plan", 401, { message: "Inactive subscription or usage limit reached", request_id: "r" }],
    ["Mistral, as 403", 403, { message: "Inactive subscription or usage limit reached" }],
    [
      "xAI: github.com/continuedev/continue/issues/10740",
      429,
      "Your team t has either used all available credits or reached its monthly spending limit. To continue, purchase more credits.",
    ],
    [
      "xAI, a new team: github.com/continuedev/continue/issues/12670",
      403,
      {
        code: "The caller does not have permission",
        error: "Your newly created team doesn't have any credits or licenses yet.",
      },
    ],
    [
      "Groq: console.groq.com/docs/spend-limits",
      400,
      { error: { message: "Access blocked.", type: "invalid_request_error", code: "blocked_api_access" } },
    ],
    [
      "Groq, by the message: console.groq.com/docs/spend-limits",
      400,
      { error: { message: "Your organization has reached its spend limit.", type: "invalid_request_error" } },
    ],
    [
      "Together: docs.together.ai/docs/error-codes",
      402,
      { error: { message: "Credit limit exceeded", type: "credit_limit" } },
    ],
    ["Together, as 429", 429, { error: { message: "Credit limit exceeded, please navigate to billing settings." } }],
    [
      "Perplexity, no quota",
      401,
      { error: { message: "You exceeded your current quota.", type: "insufficient_quota", code: 401 } },
    ],
    ["Z.AI: docs.z.ai/api-reference/api-code", 429, { error: { code: "1113", message: "余额不足或无可用资源包" } }],
    [
      "Alibaba: github.com/dataelement/bisheng/pull/2426",
      400,
      { code: "Arrearage", message: "Access denied, please make sure your account is in good standing." },
    ],
    [
      "Fireworks: github.com/pollinations/pollinations/issues/12136",
      412,
      {
        error: {
          message:
            "Account a is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices.",
        },
      },
    ],
    [
      "LiteLLM: github.com/openclaw/openclaw/pull/74120",
      400,
      {
        error: {
          message: "Budget has been exceeded! Current cost: 5.1, Max budget: 5.0",
          type: "budget_exceeded",
          code: "400",
        },
      },
    ],
    [
      "Hugging Face: huggingface.co/docs/inference-providers/pricing",
      402,
      { error: "You have exceeded your monthly included credits." },
    ],
    [
      "Gemini, no free tier: ai.google.dev/gemini-api/docs/troubleshooting",
      400,
      google(
        400,
        "FAILED_PRECONDITION",
        "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.",
      ),
    ],
    [
      "AIHubMix: docs.aihubmix.com/en/FAQs/HTTP-Codes",
      403,
      { error: { message: "Your account balance is insufficient. Please recharge your account." } },
    ],
    [
      "Novita: novita.ai/docs/guides/error",
      403,
      { code: 403, reason: "NOT_ENOUGH_BALANCE", message: "not enough balance" },
    ],
    [
      "a gateway's own prefix: docs.litellm.ai/docs/exception_mapping",
      400,
      { error: { message: "litellm.BadRequestError: AnthropicException - Your credit balance is too low." } },
    ],
  ])("recognizes a money stop, which sets the route aside and is not retried: %s", ([, status, body]) => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const header = headersOf({ "retry-after": "600" });
    expect(readRefusal({ status, text, header })).toMatchObject({
      failure: "payment_required",
      mayBeRequest: false,
      retryAfterSeconds: undefined,
    });
  });

  // The rate limits of the same providers, from their documentation of rate limits.
  test.for<[string, number, unknown]>([
    [
      "Anthropic",
      429,
      anthropic(
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 30,000 input tokens per minute.",
      ),
    ],
    [
      "OpenAI",
      429,
      {
        error: {
          code: "rate_limit_exceeded",
          message:
            "Rate limit reached for m on tokens per min (TPM): Limit 10000. You can increase your rate limit by adding a payment method to your account at https://platform.openai.com/account/billing.",
        },
      },
    ],
    [
      "Gemini",
      429,
      google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."),
    ],
    [
      "Groq",
      429,
      {
        error: {
          code: "rate_limit_exceeded",
          message:
            "Rate limit reached for model m. Need more tokens? Upgrade at https://console.groq.com/settings/billing",
        },
      },
    ],
    ["Mistral", 429, { message: "Requests rate limit exceeded" }],
    ["Z.AI", 429, { error: { code: "1302", message: "High concurrency usage of this API" } }],
  ])("does not take a rate limit for a money stop: %s", ([, status, body]) => {
    expect(failureOf(status, body)).toBe("rate_limited");
  });

  test.for([
    `Invalid value: 'insufficient balance'. Supported values are: 'low'.`,
    `messages.0.content: unexpected "You have reached your specified API usage limits"`,
    "Unknown tool `credit balance is too low`",
    "[{'loc': ('body', 'messages'), 'input': 'insufficient balance'}]",
    "Invalid value: my credit balance is too low",
    "1 validation error: tools.0.name: billing is not active",
    "Invalid value: got 'what is a context window?'",
    "messages.0.role: unexpected 'could not decrypt'",
    'Unknown value "content filter"',
    "tool_choice: got 'invalid model'",
  ])("an invalid request that repeats the words of another failure stays one: %s", (message) => {
    for (const status of [400, 422]) {
      const text = JSON.stringify({ error: { type: "invalid_request_error", message } });
      const { failure, mayBeRequest, retryable } = readRefusal({ status, text });
      expect([failure, mayBeRequest, retryable]).toEqual(["invalid_request", true, undefined]);
    }
  });
});

describe("Failures with a more specific code", () => {
  test.for<[string, number, unknown, string | undefined]>([
    [
      "Anthropic: platform.claude.com/docs/en/api/errors",
      529,
      anthropic("overloaded_error", "Overloaded"),
      "provider_overloaded",
    ],
    ["Anthropic, in a stream", 200, anthropic("overloaded_error", "Overloaded"), "provider_overloaded"],
    [
      "OpenAI: github.com/openai/codex/issues/43337",
      200,
      { error: { code: "server_is_overloaded" } },
      "provider_overloaded",
    ],
    [
      "Gemini",
      503,
      google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
      "provider_overloaded",
    ],
    ["a status alone", 529, {}, "provider_overloaded"],
    ["another 503", 503, { error: { message: "upstream connect error" } }, undefined],
    [
      "Anthropic, a large body",
      413,
      anthropic("request_too_large", "Request exceeds the maximum size"),
      "payload_too_large",
    ],
    ["nginx, a large body", 413, "<html><h1>413 Request Entity Too Large</h1></html>", "payload_too_large"],
    ["another invalid request", 400, anthropic("invalid_request_error", "x"), undefined],
  ])("gives the caller the code of %s", ([, status, body, code]) => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    expect(readRefusal({ status, text }).code).toBe(code);
  });
});

describe("Encrypted reasoning of another account", () => {
  test.for<[string, unknown, true | undefined]>([
    [
      "OpenAI: github.com/BerriAI/litellm/issues/18094",
      { error: { code: "invalid_encrypted_content", message: "x" } },
      true,
    ],
    [
      "OpenAI, by the message: github.com/BerriAI/litellm/issues/21994",
      {
        error: {
          message:
            "The encrypted content gAAA could not be verified. Reason: Encrypted content organization_id did not match the target organization.",
        },
      },
      true,
    ],
    ["xAI", { error: "Could not decrypt the provided encrypted_content." }, true],
    [
      "Anthropic: github.com/microsoft/vscode/issues/322138",
      anthropic("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"),
      true,
    ],
    [
      "Anthropic, redacted",
      anthropic("invalid_request_error", "messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
      true,
    ],
    [
      "Gemini: ai.google.dev/gemini-api/docs/thought-signatures",
      google(400, "INVALID_ARGUMENT", "Thought signature is not valid."),
      true,
    ],
    ["another invalid request", anthropic("invalid_request_error", "messages.1.content: Field required"), undefined],
  ])("another route may accept a request that one refuses as %s", ([, body, retryable]) => {
    const refusal = readRefusal({ status: 400, text: JSON.stringify(body) });
    expect([refusal.failure, refusal.retryable]).toEqual(["invalid_request", retryable]);
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
  // github.com/anomalyco/opencode/pull/39621: Bedrock's throttle
  ...[{ code: 429 }, { type: "rate_limit_error" }, { type: "throttlingException" }, {}].map(
    (error): [unknown, AttemptFailure] => [
      { error: { ...error, message: "Too many tokens, please wait before trying again." } },
      "rate_limited",
    ],
  ),
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
