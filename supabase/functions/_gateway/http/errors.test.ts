import { expect, test } from "vitest";
import type { Gateway } from "../calls/gateway.ts";
import { refusalError } from "../database/refusals.ts";
import { ProviderFailure } from "../providers/provider-failure.ts";
import { responsesErrors } from "../responses/errors.ts";
import { anthropicErrors } from "./anthropic-errors.ts";
import { type ErrorCode, type ErrorShape, errorCodes, GatewayError, linkErrors, openaiErrors } from "./errors.ts";
import { createRouter } from "./router.ts";

/** Whether a retry of the same request can succeed, for each code of the closed list. */
const canSucceed: Record<ErrorCode, boolean> = {
  invalid_request: false,
  invalid_json: false,
  context_length_exceeded: false,
  content_filter: false,
  unsupported_schema: false,
  unsupported_parameter: false,
  workspace_header_required: false,
  // Claude Code retries a 401 for three minutes if the header is missing.
  invalid_api_key: false,
  // Until somebody adds credits, or the month ends.
  insufficient_credits: false,
  budget_exceeded: false,
  envelope_exhausted: false,
  envelope_not_found: false,
  insufficient_scope: false,
  app_not_allowed: false,
  workspace_mismatch: false,
  credential_not_bound: false,
  region_not_allowed: false,
  MFA_REQUIRED: false,
  model_not_found: false,
  endpoint_not_served: false,
  not_found: false,
  // The call in progress may end.
  request_in_progress: true,
  idempotency_key_used: false,
  invoice_conflict: false,
  cost_conflict: false,
  payload_too_large: false,
  idempotency_key_reused: false,
  // The window ends within a minute.
  rate_limit_exceeded: true,
  internal_error: true,
  provider_error: true,
  provider_overloaded: true,
  service_unavailable: true,
  AUTH_UNAVAILABLE: true,
  provider_timeout: true,
};

type Services = Pick<Gateway, "report" | "now" | "telemetry">;
const services: Services = { report: () => {}, now: () => 0, telemetry: {} };
const shapes: Record<string, ErrorShape> = { openaiErrors, responsesErrors, anthropicErrors };

/** Returns the value of `x-should-retry` in the answer to an error. */
async function retryHeader(error: GatewayError, shape?: ErrorShape, headers?: HeadersInit): Promise<string | null> {
  const handle = () => Promise.reject(error);
  const serve = createRouter([{ path: /^\/x$/, method: "POST", handle }], services, shape);
  const response = await serve(new Request("http://f/x", { method: "POST", headers }));
  return response.headers.get("x-should-retry");
}

test.for(errorCodes)("says whether a retry after %s can succeed, in every format of errors", async (code) => {
  const expected = canSucceed[code] ? null : "false";
  for (const [name, shape] of Object.entries(shapes)) {
    expect(await retryHeader(new GatewayError(code), shape), name).toBe(expected);
  }
  expect(await retryHeader(new GatewayError(code), undefined, { "anthropic-version": "2023-06-01" })).toBe(expected);
});

test.for<[string, GatewayError, string | null]>([
  ["a wrong method", new GatewayError("invalid_request", { status: 405 }), "false"],
  ["a compressed body", new GatewayError("invalid_request", { status: 415 }), "false"],
  ["a WebSocket", new GatewayError("invalid_request", { status: 426 }), "false"],
  ["a body that arrived too slowly", new GatewayError("invalid_request", { status: 408 }), null],
  ["an outage after a charged call", new GatewayError("service_unavailable").withoutRetry(), "false"],
  ["a used-up budget", refusalError({ refused: "budget_exceeded" }), "false"],
  ["a budget that running calls hold", refusalError({ refused: "budget_exceeded", frees: true }), null],
  ["a used-up balance", refusalError({ refused: "insufficient_credits" }), "false"],
  ["a balance that running calls hold", refusalError({ refused: "insufficient_credits", frees: true }), null],
  ["a rejected provider key", new ProviderFailure("unauthorized", { mayHaveCharged: false }).toGatewayError(), "false"],
  ["a provider's rate limit", new ProviderFailure("rate_limited", { mayHaveCharged: false }).toGatewayError(), null],
  ["a provider's outage", new ProviderFailure("server_error", { mayHaveCharged: false }).toGatewayError(), null],
  [
    "a lost, charged answer",
    new ProviderFailure("connection_lost", { mayHaveCharged: true }).toGatewayError(),
    "false",
  ],
  [
    "a request that the provider refuses",
    new ProviderFailure("invalid_request", { mayHaveCharged: false }).toGatewayError(),
    "false",
  ],
])("says whether a retry after %s can succeed", async ([, error, expected]) => {
  expect(await retryHeader(error)).toBe(expected);
});

test("links every error to its code if the web server's origin is known", () => {
  const error = new GatewayError("budget_exceeded");
  for (const shape of Object.values(shapes)) expect(JSON.stringify(shape.body(error, "r"))).not.toContain("doc_url");
  linkErrors("https://app.example.com");
  for (const shape of Object.values(shapes)) {
    const linked = { doc_url: "https://app.example.com/docs/errors#budget_exceeded" };
    expect(shape.body(error, "r")).toMatchObject({ error: linked });
  }
  linkErrors(undefined);
});

test("a defect and an unknown path have the header that their code has", async () => {
  const defect = createRouter(
    [{ path: /^\/x$/, method: "GET", handle: () => Promise.reject(new TypeError("defect")) }],
    services,
  );
  const failed = await defect(new Request("http://f/x"));
  expect([failed.status, failed.headers.get("x-should-retry")]).toEqual([500, null]);
  const unknown = await defect(new Request("http://f/y", { headers: { "anthropic-version": "2023-06-01" } }));
  expect([unknown.status, unknown.headers.get("x-should-retry")]).toEqual([404, "false"]);
  expect(await unknown.json()).toMatchObject({ type: "error", error: { type: "not_found_error", code: "not_found" } });
});
