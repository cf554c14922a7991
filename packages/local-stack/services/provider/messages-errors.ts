import type { Behaviour } from "./behaviours.ts";
import { sseEvent } from "./event-stream.ts";

/** Maps HTTP statuses to Anthropic's error types (https://platform.claude.com/docs/en/api/errors). */
const types: Record<number, string> = {
  400: "invalid_request_error",
  401: "authentication_error",
  404: "not_found_error",
  429: "rate_limit_error",
  500: "api_error",
  503: "overloaded_error",
  529: "overloaded_error",
};

export function messagesError(status: number, message: string): Response {
  const headers: HeadersInit = status === 429 ? { "retry-after": "1" } : {};
  return Response.json(errorBody(status, message), { status, headers });
}

/** Creates the error response of a model that is made to fail. */
export function messagesFailure(status: Extract<Behaviour["failure"], number | "full">): Response {
  if (status === "full") return messagesError(400, "prompt is too long: 208310 tokens > 200000 maximum");
  return messagesError(status, "The demo fails on purpose.");
}

/** The event that ends a stream if it fails after it has begun. */
export const messagesMidwayError = sseEvent(errorBody(529, "The demo is overloaded."), "error");

function errorBody(status: number, message: string) {
  return { type: "error", error: { type: types[status], message }, request_id: "req_demo" };
}
