import { expect, test } from "vitest";
import { attemptFailures } from "#shared/attempt.ts";
import type { RouteTest } from "../gateway/provider-setup.ts";
import { describeRouteTest } from "./route-test-text.ts";

const answered = {
  outcome: "answered",
  ok: true,
  latencyMs: 840,
  upstreamRequestId: "req_1",
  usage: { input_tokens: 12, output_tokens: 1 },
  estimated: false,
  servedTier: null,
} as const;
const failed = {
  outcome: "failed",
  ok: false,
  latencyMs: 20,
  upstreamRequestId: null,
  failure: "unauthorized",
  status: 401,
  retryAfterSeconds: null,
} as const;

test.for<[RouteTest, string]>([
  [answered, "Answered in 840 ms, with 12 input tokens and 1 output token."],
  [
    { ...answered, estimated: true, usage: {} },
    "Answered in 840 ms, with 0 input tokens and 0 output tokens. The tokens are estimated, because the provider states none.",
  ],
  [failed, "401 – key rejected."],
  [
    { ...failed, failure: "rate_limited", status: 429, retryAfterSeconds: 1, upstreamRequestId: "req_2" },
    "429 – rate limit reached. Try again in 1 second. The provider’s request ID is req_2.",
  ],
  [
    { ...failed, failure: "rate_limited", status: null, retryAfterSeconds: 12 },
    "The limits that the console sets for this provider have no room, so nothing was sent. Try again in 12 seconds.",
  ],
  [{ ...failed, failure: "timeout", status: null }, "Timed out."],
  [{ outcome: "refused", param: "voice" }, "Enter a voice to test speech."],
  [{ outcome: "refused", param: null }, "The gateway refused the test. Check the route, and try again."],
  [{ outcome: "fault", fault: "timeout" }, "The gateway didn’t answer in time. Try again."],
])("describes the test result %j", ([result, text]) => {
  expect(describeRouteTest(result)).toBe(text);
});

test.for(attemptFailures)("describes a test that failed with %s in a sentence of its own", (failure) => {
  expect(describeRouteTest({ ...failed, failure, status: 400 })).toMatch(/^400 – .+\.$/);
});
