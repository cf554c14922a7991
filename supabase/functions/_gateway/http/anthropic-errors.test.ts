import { expect, test } from "vitest";
import { anthropicErrors, usesAnthropicApi } from "./anthropic-errors.ts";
import { type ErrorCode, errorCodes, GatewayError } from "./errors.ts";

// https://platform.claude.com/docs/en/api/errors
test.for<[ErrorCode, string]>([
  ["invalid_request", "invalid_request_error"],
  ["context_length_exceeded", "invalid_request_error"],
  ["invalid_api_key", "authentication_error"],
  ["insufficient_credits", "billing_error"],
  ["budget_exceeded", "billing_error"],
  ["insufficient_scope", "permission_error"],
  ["model_not_found", "not_found_error"],
  ["idempotency_key_used", "invalid_request_error"],
  ["payload_too_large", "request_too_large"],
  ["rate_limit_exceeded", "rate_limit_error"],
  ["internal_error", "api_error"],
  ["provider_error", "api_error"],
  ["provider_overloaded", "overloaded_error"],
  ["service_unavailable", "overloaded_error"],
  ["provider_timeout", "timeout_error"],
])("the error code %s becomes Anthropic's type %s", ([code, type]) => {
  const error = new GatewayError(code, { param: "p" });
  expect(anthropicErrors.body(error, "req_1")).toEqual({
    type: "error",
    error: { type, message: expect.stringContaining(error.message), code, param: "p" },
    request_id: "req_1",
  });
});

test.each([
  ["max_tokens", "This field is required.", "max_tokens: This field is required."],
  ["max_tokens", "Lower max_tokens.", "Lower max_tokens."],
])("an error message names the invalid field %s only once", (param, message, shown) => {
  const error = new GatewayError("invalid_request", { param, message });
  expect(anthropicErrors.body(error, "req_1")).toMatchObject({ error: { message: shown } });
});

test.each([
  [{ "anthropic-version": "2023-06-01" }, true],
  [{ "anthropic-beta": "files-api-2025-04-14" }, true],
  [{ "x-api-key": "k" }, false],
])("a request with the headers %j calls Anthropic's API: %s", (headers, expected) => {
  expect(usesAnthropicApi(new Request("http://f/files", { headers: headers as Record<string, string> }))).toBe(
    expected,
  );
});

test("every code has a type that Anthropic's clients know", () => {
  const known =
    /^(?:invalid_request|authentication|billing|permission|not_found|rate_limit|api|overloaded|timeout)_error$|^request_too_large$/;
  for (const code of errorCodes) {
    const { error } = anthropicErrors.body(new GatewayError(code), "r") as { error: { type: string } };
    expect(error.type).toMatch(known);
  }
});
