import type { RunAttempt } from "./run-schema.ts";

const failures = {
  unreachable: "could not connect",
  timeout: "timed out",
  connection_lost: "connection lost",
  unauthorized: "key rejected",
  payment_required: "payment required",
  forbidden: "access denied",
  not_found: "endpoint or model not found",
  rate_limited: "rate limit reached",
  server_error: "provider error",
  invalid_request: "request rejected as invalid",
  context_length_exceeded: "input too long for the model",
  content_filter: "blocked by the content filter",
  invalid_answer: "answer could not be read",
  cancelled: "client disconnected",
  skipped: "skipped: in cooldown after failures",
} as const satisfies Record<NonNullable<RunAttempt["failure"]>, string>;

/** The result of a request to a provider in plain words: "401 – key rejected". */
export function attemptResult({ status, failure }: Pick<RunAttempt, "status" | "failure">): string {
  const words = failure === null ? "answered" : failures[failure];
  return status === null ? `${words.charAt(0).toUpperCase()}${words.slice(1)}` : `${status} – ${words}`;
}
