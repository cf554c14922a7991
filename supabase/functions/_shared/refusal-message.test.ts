import { describe, expect, test } from "vitest";
import { describeRefusal } from "./refusal-message.ts";

const sizeFields = { input: "messages", output: "max_tokens" };
const month = { kind: "budget", window: "month", resets_at: "2026-12-01T00:00:00.000Z" };
const spent = { limit_usd: 1, spent_usd: 0.0303, reserved_usd: 0, remaining_usd: 0.9697 };
const berlin = { time_zone: "Europe/Berlin", resets_at: "2026-11-30T23:00:00Z" };
const concurrent = { kind: "concurrent", limit: 5, used: 5, reset_seconds: 1 };
const minute = { kind: "rate", window: "minute", resets_at: "2026-11-26T07:32:00.000Z", reset_seconds: 44 };

describe("what a refusal says", () => {
  test.for<[string, object, string]>([
    [
      "budget_exceeded",
      {
        limit: { ...month, ...spent, scope: "member", is_caller: true },
        need: { usd: 0.98 },
        fitting_output_limit: 1_800,
      },
      "Your member budget has $0.9697 left this month; this request may cost up to $0.98. With `max_tokens` 1,800 it fits.",
    ],
    [
      "budget_exceeded",
      { limit: { ...month, ...spent, scope: "key", name: "CI" }, need: { usd: 0.98 }, fitting_output_limit: null },
      "The budget of the key “CI” has $0.9697 left this month; this request may cost up to $0.98. Shorten `messages`, or raise the budget, which resets at 00:00 on 1 December 2026 (UTC).",
    ],
    [
      "budget_exceeded",
      { limit: { ...month, scope: "label", name: "customer:7" }, fitting_output_limit: 1_800 },
      "The budget of the label “customer:7” does not cover the maximum cost of this request this month. With `max_tokens` 1,800 it fits.",
    ],
    [
      "budget_exceeded",
      {
        limit: { ...month, scope: "workspace", limit_usd: 10, spent_usd: 8, reserved_usd: 2, remaining_usd: 0 },
        need: { usd: 0.98 },
        fitting_output_limit: null,
      },
      "The workspace's budget has nothing left of $10.00 this month, and calls in progress hold $2.00; this request may cost up to $0.98. Shorten `messages`, or raise the budget, which resets at 00:00 on 1 December 2026 (UTC).",
    ],
    [
      "budget_exceeded",
      {
        limit: { ...month, scope: "app", name: "Notes", limit_usd: 0, spent_usd: 0, reserved_usd: 0, remaining_usd: 0 },
        need: { usd: 0 },
      },
      "The budget of the app “Notes” is $0.00, which allows no calls. Raise the budget.",
    ],
    [
      "budget_exceeded",
      {
        limit: { ...month, ...spent, scope: "member", is_caller: true, ...berlin },
        need: { usd: 0.98 },
        fitting_output_limit: null,
      },
      "Your member budget has $0.9697 left this month; this request may cost up to $0.98. Shorten `messages`, or raise the budget, which resets at 00:00 on 1 December 2026 (Europe/Berlin).",
    ],
    [
      "budget_exceeded",
      { limit: { ...month, ...spent, ...berlin, scope: "workspace", window: "day" }, need: { usd: 0.98 } },
      "The workspace's budget has $0.9697 left today; this request may cost up to $0.98. Shorten `messages`, or raise the budget, which resets at 00:00 on 1 December 2026 (Europe/Berlin).",
    ],
    [
      "budget_exceeded",
      { limit: { ...month, ...spent, scope: "key", window: "week", time_zone: "Mars/Base" }, need: { usd: 0.98 } },
      "The key's budget has $0.9697 left this week; this request may cost up to $0.98. Shorten `messages`, or raise the budget, which resets at 00:00 on 1 December 2026 (UTC).",
    ],
    [
      "budget_exceeded",
      { limit: { kind: "budget", ...spent, scope: "key", name: "CI", window: "total" }, need: { usd: 0.98 } },
      "The budget of the key “CI” has $0.9697 left; this request may cost up to $0.98. Shorten `messages`, or raise the budget, which has no reset.",
    ],
    [
      "budget_exceeded",
      { limit: { ...month, ...spent, scope: "workspace" }, need: { usd: 0.98, tokens: 1_200 } },
      "The workspace's budget has $0.9697 left this month; this request costs up to $0.98 with its usual output of 1,200 tokens. Shorten `messages`, or raise the budget, which resets at 00:00 on 1 December 2026 (UTC).",
    ],
    [
      "budget_exceeded",
      { limit: { ...month, ...spent, scope: "workspace" }, need: { usd: 0.98 }, is_step: true },
      "The workspace's budget has $0.9697 left this month; the next step of this request may cost up to $0.98. Raise the budget, which resets at 00:00 on 1 December 2026 (UTC).",
    ],
    [
      "insufficient_credits",
      {
        limit: {
          kind: "balance",
          payer: "workspace",
          balance_credits: 120.5,
          reserved_credits: 0,
          remaining_credits: 120.5,
        },
        need: { credits: 9_800 },
        fitting_output_limit: 12,
      },
      "The workspace's credit balance has 120.50 credits left; this request may cost up to 9,800.00 credits. With `max_tokens` 12 it fits.",
    ],
    [
      "insufficient_credits",
      { limit: { kind: "balance", payer: "member" }, fitting_output_limit: 12, is_step: true },
      "The credit balance of the key's creator does not cover the maximum cost of the next step of this request. With `max_tokens` 12 it would have fit.",
    ],
    [
      "rate_limit_exceeded",
      { limit: { ...minute, scope: "key", name: "CI", unit: "requests", limit: 1_000, used: 1_000, remaining: 0 } },
      "The key “CI” has used up its limit of 1,000 requests per minute. Try again in 44 seconds.",
    ],
    [
      "rate_limit_exceeded",
      { limit: { ...minute, scope: "plan", unit: "requests", limit: 1, used: 1, remaining: 0, reset_seconds: 1 } },
      "The workspace has used up its plan's limit of 1 request per minute. Try again in 1 second.",
    ],
    [
      "rate_limit_exceeded",
      {
        limit: { ...minute, scope: "workspace", unit: "tokens", limit: 2_000, used: 1_500, remaining: 500 },
        need: { tokens: 1_012 },
        fitting_output_limit: 388,
      },
      "The workspace has 500 left of its limit of 2,000 tokens per minute; this request counts 1,012. Try again in 44 seconds. With `max_tokens` 388 it fits.",
    ],
    [
      "rate_limit_exceeded",
      { limit: { ...minute, scope: "model", name: "gpt-5", unit: "requests", limit: 10, used: 10, remaining: 0 } },
      "The workspace's limit for the model gpt-5 is used up: 10 requests per minute. Try again in 44 seconds.",
    ],
    [
      "rate_limit_exceeded",
      {
        limit: { ...minute, scope: "model", name: "gpt-5", unit: "tokens", limit: 2_000, used: 1_500, remaining: 500 },
        need: { tokens: 1_012 },
      },
      "The workspace's limit for the model gpt-5 has 500 left of 2,000 tokens per minute; this request counts 1,012. Try again in 44 seconds.",
    ],
    [
      "invalid_request",
      { limit: { ...minute, scope: "model", name: "gpt-5", unit: "tokens", limit: 2_000 }, need: { tokens: 3_012 } },
      "The workspace's limit for the model gpt-5 allows 2,000 tokens per minute; this request counts 3,012. Shorten `messages`, or raise the limit.",
    ],
    [
      "rate_limit_exceeded",
      { limit: { ...concurrent, scope: "key", name: "x" } },
      "The key “x” has 5 calls in progress, its limit. Try again in 1 second.",
    ],
    [
      "rate_limit_exceeded",
      { limit: { ...concurrent, scope: "member", is_caller: true, limit: 1, used: 1 } },
      "You have 1 call in progress, your limit. Try again in 1 second.",
    ],
    [
      "rate_limit_exceeded",
      { limit: { ...concurrent, scope: "member" } },
      "The key's creator has 5 calls in progress, their limit. Try again in 1 second.",
    ],
    [
      "rate_limit_exceeded",
      { limit: { ...concurrent, scope: "workspace" } },
      "The workspace has 5 calls in progress, its limit. Try again in 1 second.",
    ],
    [
      "rate_limit_exceeded",
      { limit: { kind: "provider", reset_seconds: 12 } },
      "The model's provider is at its own rate limit. Try again in 12 seconds.",
    ],
    [
      "context_length_exceeded",
      { limit: { kind: "context_window", limit: 200_000 }, need: { tokens: 210_000, input_tokens: 178_000 } },
      "The request has 178,000 tokens of input and 32,000 of output, more than the model's context window of 200,000. Shorten `messages`, or lower the output limit.",
    ],
    [
      "context_length_exceeded",
      { limit: { kind: "context_window", limit: 200_000 }, need: { tokens: 200_082, input_tokens: 200_082 } },
      "The request has 200,082 tokens of input, more than the model's context window of 200,000. Shorten `messages`.",
    ],
    [
      "insufficient_scope",
      { missing: { kind: "scope", scopes: ["tts:use"] } },
      "This credential lacks the scope tts:use. The app's registration and its token both need it.",
    ],
    [
      "insufficient_scope",
      { missing: { kind: "permission", permission: "use_ai_studio" } },
      "You lack the permission use_ai_studio in this workspace. An owner or admin can give it.",
    ],
    [
      "insufficient_scope",
      { missing: { kind: "address", address: "198.51.100.1" } },
      "This key may not be used from the address 198.51.100.1. Add it to the key's allowed addresses, or call from one of them.",
    ],
    [
      "region_not_allowed",
      { regions: ["us"], allowed_regions: ["eu", "ch"] },
      "The workspace's AI policy allows only eu and ch. This model's providers are in: us. GET /v1/models lists the models that it allows.",
    ],
    [
      "model_not_found",
      { model: "gtp-5", similar_models: ["gpt-5", "gpt-5-mini", "gpt-4"] },
      "The model “gtp-5” does not exist or is not available to this credential. Did you mean gpt-5, gpt-5-mini or gpt-4? GET /v1/models lists the models that it may use.",
    ],
    ["invalid_json", {}, "The body is not valid JSON."],
    [
      "budget_exceeded",
      { limit: { kind: "of a later release" } },
      "A budget does not cover this request's maximum cost. Lower its output limit, or raise the budget.",
    ],
  ])("explains %s (case %#)", ([code, details, message]) => {
    expect(describeRefusal({ code, details, sizeFields })).toBe(message);
  });

  test("addresses other readers as such, and names no field where the API is unknown", () => {
    const details = {
      limit: { ...month, scope: "member", is_caller: true },
      fitting_output_limit: 1_800,
    };
    expect(describeRefusal({ code: "budget_exceeded", details, isForCaller: false })).toBe(
      "The caller's member budget does not cover the maximum cost of this request this month. With an output limit of 1,800 tokens it fits.",
    );
  });
});

test.for([
  [0.97, 0.970001, "$0.97", "$0.9701"],
  [0.97001, 0.97002, "$0.97", "$0.9701"],
  [0.970010000001, 0.970010000002, "$0.97", "$0.9701"],
  [0.97, 0.97 + 1e-12, "$0.97", "$0.9701"],
  [0.0000123456, 0.00001234561, "$0.00001234", "$0.00001235"],
  [1_234.5, 1_234.56789, "$1,234.50", "$1,234.5679"],
  [0.1, 0.1, "$0.10", "$0.10"],
] as const)("writes %d left and %d needed so that both are never the same text", ([remaining_usd, usd, left, cost]) => {
  const details = {
    limit: { ...month, ...spent, scope: "workspace", remaining_usd },
    need: { usd },
  };
  const message = describeRefusal({ code: "budget_exceeded", details });
  expect(message).toContain(`has ${left} left`);
  expect(message).toContain(`up to ${cost}.`);
});

describe("what a refusal of an envelope says", () => {
  const page = "https://hub.test/workspaces/w/ai/envelopes/e";
  const limit = { kind: "envelope", id: "e", label: "codex:1", state: "open", url: page };
  const used = { limit_usd: 5, spent_usd: 5, reserved_usd: 0, remaining_usd: 0 };
  const cure = `Raise the limit at ${page}, then send the request again.`;

  test.for<[string, object, string]>([
    [
      "nothing is left",
      { limit: { ...limit, ...used }, need: { usd: 0.4 } },
      `The task “codex:1” has used $5.00 of its limit of $5.00. ${cure}`,
    ],
    [
      "too little is left",
      {
        limit: { ...limit, ...used, spent_usd: 4.5, reserved_usd: 0.2, remaining_usd: 0.3 },
        need: { usd: 0.4 },
        fitting_output_limit: 1_800,
      },
      `The task “codex:1” has used $4.50 of its limit of $5.00, and calls in progress hold $0.20; $0.30 is left, and this request may cost up to $0.40. With \`max_tokens\` 1,800 it fits. ${cure}`,
    ],
    [
      "calls in progress hold everything",
      { limit: { ...limit, ...used, spent_usd: 1, reserved_usd: 4 }, need: { usd: 0.4 }, is_step: true },
      `The task “codex:1” has used $1.00 of its limit of $5.00, and calls in progress hold $4.00. ${cure}`,
    ],
    [
      "its calls are used up",
      { limit: { ...limit, ...used, spent_usd: 1, remaining_usd: 4, max_calls: 200, calls: 200, remaining_calls: 0 } },
      `The task “codex:1” has used its limit of 200 calls. ${cure}`,
    ],
    [
      "amounts are hidden",
      { limit: { ...limit, max_calls: null, remaining_calls: null } },
      `The task “codex:1” has too little left for the maximum cost of this request. ${cure}`,
    ],
    [
      "it has no label and no page is known",
      { limit: { ...limit, ...used, label: "", url: undefined } },
      "This task has used $5.00 of its limit of $5.00. Raise the limit under Task limits in the workspace's AI studio, then send the request again.",
    ],
    [
      "its owner ended it",
      { limit: { ...limit, ...used, state: "ended" } },
      `The task “codex:1” was stopped by its owner, so its calls are refused and ended. ${page} shows what it used.`,
    ],
    [
      "it expired",
      { limit: { ...limit, ...used, state: "expired", ends_at: "2026-11-30T12:05:00Z", url: undefined } },
      "The task “codex:1” expired at 12:05 on 30 November 2026 (UTC). Its task limit in the workspace's AI studio shows what it used.",
    ],
  ])("if %s", ([, details, message]) => {
    expect(describeRefusal({ code: "envelope_exhausted", details, sizeFields })).toBe(message);
  });

  test.for<[object, string]>([
    [
      { id: "e", usd: "5", calls: 200, ttl_seconds: null },
      "The envelope of these calls was opened with other amounts. Send X-Platform-Envelope: usd=5; calls=200, even if it was raised since, or another X-Platform-Entity-Id for another task.",
    ],
    [
      { id: "e", usd: 1e-8, calls: null, ttl_seconds: null },
      "The envelope of these calls was opened with other amounts. Send X-Platform-Envelope: usd=0.00000001, even if it was raised since, or another X-Platform-Entity-Id for another task.",
    ],
    [
      { open: 1_000 },
      "This caller has 1,000 open envelopes, the most that it may have. End some of them, or wait until they expire.",
    ],
  ])("explains the header of %j", ([envelope, message]) => {
    expect(describeRefusal({ code: "invalid_request", details: { envelope } })).toBe(message);
  });
});
