import type { TokenCounts } from "./money.ts";

/** Why a request to a provider failed: a closed list, so that no provider's text is stored. */
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
  /** The position of the route. */
  route: number;
  provider: string;
  /** The provider's name for the model. */
  model: string;
  /** The HTTP status of its answer; absent if there was none. */
  status?: number;
  /** Absent if it succeeded. `skipped`: not called, because the route is cooling down; `cancelled`: the client left. */
  failure?: AttemptFailure;
  /** The provider's id of the request, from its answer's headers. */
  upstream_request_id?: string;
  /** Whether the provider may charge for the request although its answer was not used. */
  may_have_charged?: true;
  latency_ms: number;
  /** The request's charged usage, if the run is charged for several requests; the run's own counts are the sum. */
  charged?: ChargedUse;
};

/** What a request to a provider is charged for, and what else determines its price. */
export type ChargedUse = TokenCounts & { served_tier?: string; stated_cost_usd?: string };
