import type { AttemptFailure } from "../../_shared/attempt.ts";
import { type ErrorCode, GatewayError } from "../http/errors.ts";
import type { CallUse } from "../runs/run-cost.ts";
import { type RefusedAnswer, readRefusal } from "./refusal.ts";

/** The code that a caller gets where no other route is left. */
const codes = {
  unreachable: "provider_error",
  timeout: "provider_timeout",
  connection_lost: "provider_error",
  unauthorized: "provider_error",
  payment_required: "provider_error",
  forbidden: "provider_error",
  not_found: "provider_error",
  rate_limited: "rate_limit_exceeded",
  server_error: "provider_error",
  invalid_request: "invalid_request",
  context_length_exceeded: "context_length_exceeded",
  content_filter: "content_filter",
  invalid_answer: "provider_error",
  cancelled: "provider_error",
  skipped: "provider_error",
} as const satisfies Record<AttemptFailure, ErrorCode>;

const messages: Partial<Record<AttemptFailure, string>> = {
  rate_limited: "The model's provider is at its rate limit. Try again later.",
  invalid_request: "The model's provider refused this request as invalid.",
  not_found: "The model's provider does not have this endpoint or model.",
};

/** The request itself is at fault: every provider would refuse it. */
const requestFaults: ReadonlySet<AttemptFailure> = new Set([
  "invalid_request",
  "context_length_exceeded",
  "content_filter",
  "cancelled",
]);
/** To send the request again changes nothing until an operator acts. */
const operatorFaults: ReadonlySet<AttemptFailure> = new Set([
  "unauthorized",
  "payment_required",
  "forbidden",
  "not_found",
]);

type Options = Pick<ProviderFailure, "mayHaveCharged"> &
  Partial<Pick<ProviderFailure, "retryable" | "retryAfterSeconds" | "mayBeRequest" | "use">> & { cause?: unknown };

/** Why a request to a provider failed. */
export class ProviderFailure extends Error {
  readonly failure: AttemptFailure;
  /** The provider may charge for the request all the same, so it should not simply be sent again. */
  readonly mayHaveCharged: boolean;
  /** Another route may serve the call. */
  readonly retryable: boolean;
  /** When the provider takes requests again. */
  readonly retryAfterSeconds?: number;
  /** It says nothing about other requests to the route. */
  readonly mayBeRequest: boolean;
  /** The usage that the provider states all the same. */
  readonly use?: CallUse;

  constructor(failure: AttemptFailure, { cause, ...options }: Options) {
    super(failure, { cause });
    this.name = "ProviderFailure";
    this.failure = failure;
    this.mayHaveCharged = options.mayHaveCharged;
    this.retryable = options.retryable ?? !requestFaults.has(failure);
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.mayBeRequest = options.mayBeRequest ?? false;
    this.use = options.use;
  }

  get code(): ErrorCode {
    return codes[this.failure];
  }

  get needsOperator(): boolean {
    return operatorFaults.has(this.failure);
  }

  /** The same failure of a call of which an earlier attempt may have been charged. */
  afterCharge(): ProviderFailure {
    return new ProviderFailure(this.failure, { ...this, mayHaveCharged: true });
  }

  /** Returns the error for the caller. */
  toGatewayError(): GatewayError {
    const headers: Record<string, string> = {};
    if (this.retryAfterSeconds !== undefined) headers["retry-after"] = String(this.retryAfterSeconds);
    // Stock clients would send again what cannot succeed, or what is charged already.
    if (this.mayHaveCharged || this.needsOperator) headers["x-should-retry"] = "false";
    return new GatewayError(this.code, { message: messages[this.failure], headers });
  }
}

/** The client has left: neither an answer nor a failure. */
export class ClientLeft extends Error {
  /** An estimate of what the interrupted call used. */
  use?: CallUse;
}

/** Returns the failure of an error that a provider answered before it did any work. */
export function refusalFailure(answer: RefusedAnswer): ProviderFailure {
  const { failure, ...facts } = readRefusal(answer);
  // A proxy that gave up waiting does not know what its server still does.
  const mayHaveCharged = failure === "timeout";
  return new ProviderFailure(failure, { ...facts, mayHaveCharged });
}

/**
 * Returns the failure of an answer that is not one of the endpoint. The provider may charge for it.
 * @param use the usage that it states
 */
export function invalidAnswer(use?: CallUse): ProviderFailure {
  return new ProviderFailure("invalid_answer", { mayHaveCharged: true, retryable: false, use });
}
