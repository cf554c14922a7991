import { describeGatewayFault, type RouteTest } from "../gateway/provider-setup.ts";
import { attemptResult } from "../studio/runs/run-facts.ts";
import { countOf, formatMs } from "../ui/format-amount.ts";

/** What to correct, by the member of the test that the gateway can't serve. */
const refusedMembers: Record<string, string> = {
  provider: "The functions have no settings for this provider.",
  endpoint: "This provider doesn’t have the endpoint. Its setting _ENDPOINTS or its kind decides which it has.",
  voice: "Enter a voice to test speech.",
  model: "Enter the provider’s name of the model.",
};

/** Describes the result of a test call in one to three sentences, without any text of the provider. */
export function describeRouteTest(test: RouteTest): string {
  switch (test.outcome) {
    case "answered":
      return describeAnswer(test);
    case "failed":
      return describeFailure(test);
    case "refused":
      return refusedMembers[test.param ?? ""] ?? "The gateway refused the test. Check the route, and try again.";
    case "fault":
      return describeGatewayFault(test.fault);
  }
}

function describeAnswer({ latencyMs, usage, estimated }: Extract<RouteTest, { outcome: "answered" }>): string {
  const { input_tokens: input = 0, output_tokens: output = 0 } = usage;
  const tokens = `${countOf(input, "input token")} and ${countOf(output, "output token")}`;
  const source = estimated ? " The tokens are estimated, because the provider states none." : "";
  return `Answered in ${formatMs(latencyMs)}, with ${tokens}.${source}`;
}

function describeFailure(test: Extract<RouteTest, { outcome: "failed" }>): string {
  const { failure, status, retryAfterSeconds, upstreamRequestId } = test;
  const later = retryAfterSeconds === null ? "" : ` Try again in ${countOf(retryAfterSeconds, "second")}.`;
  if (failure === "rate_limited" && status === null) {
    return `The limits that the console sets for this provider have no room, so nothing was sent.${later}`;
  }
  const id = upstreamRequestId === null ? "" : ` The provider’s request ID is ${upstreamRequestId}.`;
  return `${attemptResult({ status, failure })}.${later}${id}`;
}
