import type { TokenCounts } from "./money.ts";

/** The reasons why a request to a provider can fail. The list is closed, so that a provider's text is never stored. */
export const attemptFailures = [
  "unreachable",
  "timeout",
  "connection_lost",
  "unauthorized",
  "payment_required",
  "forbidden",
  "not_found",
  "rate_limited",
  "server_error",
  "invalid_request",
  "context_length_exceeded",
  "content_filter",
  "invalid_answer",
  "cancelled",
  "skipped",
] as const;

export type AttemptFailure = (typeof attemptFailures)[number];

/** One request to a provider, as stored in `ai.runs.attempts`. */
export type Attempt = {
  /** The position of the route in the run. */
  route: number;
  provider: string;
  /** The provider's name for the model. */
  model: string;
  /** The HTTP status of the provider's answer. Absent without an answer. */
  status?: number;
  /**
   * Absent if the request succeeded. `skipped` means that it was not sent because the route is cooling down or the
   * provider's limits have no room, and `cancelled` that the client left.
   */
  failure?: AttemptFailure;
  /** The provider's id for the request, from the headers of the answer. */
  upstream_request_id?: string;
  /** Whether the provider may charge for the request although its answer was not used. */
  may_have_charged?: true;
  latency_ms: number;
  /**
   * The usage charged for this request. Set only if the run is charged for several requests. The run's counts are then
   * the sum over these requests.
   */
  charged?: ChargedUse;
};

/** The usage that is charged for a request to a provider, with the details that affect its price. */
export type ChargedUse = TokenCounts & { served_tier?: string; stated_cost_usd?: string };
