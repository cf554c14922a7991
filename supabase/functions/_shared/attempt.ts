import type { TokenCounts } from "./money.ts";

/** Why a request to a provider failed: a closed list, so that no text of a provider is kept. */
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

/** One request to a provider, as `ai.runs.attempts` keeps it. */
export type Attempt = {
  /** The position of the route. */
  route: number;
  provider: string;
  /** The provider's name for the model. */
  model: string;
  /** The HTTP status of its answer; absent where there was none. */
  status?: number;
  /** Absent where it succeeded. `skipped`: not asked, because the route is cooling down; `cancelled`: the client left. */
  failure?: AttemptFailure;
  /** The provider's id of the request, from its answer's headers. */
  upstream_request_id?: string;
  /** The provider may charge for it although its answer was not used. */
  may_have_charged?: true;
  latency_ms: number;
  /** Its charged usage, if the run is charged for several requests; the run's own counts are the sum. */
  charged?: ChargedUse;
};

/** What a request to a provider is charged for, with what else decides its price. */
export type ChargedUse = TokenCounts & { served_tier?: string; stated_cost_usd?: string };
