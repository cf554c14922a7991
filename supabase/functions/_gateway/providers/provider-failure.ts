import type { AttemptFailure } from "../../_shared/attempt.ts";
import { describeRefusal } from "../../_shared/refusal-message.ts";
import { type ContextTokens, type ErrorCode, GatewayError, specificMessage } from "../http/errors.ts";
import { type CallUse, isCharged } from "../usage/usage.ts";
import { type ErrorAnswer, readRefusal } from "./refusal.ts";

/** The error code that the caller gets after a failure if no other route is left. Defaults to `provider_error`. */
const codes: Partial<Record<AttemptFailure, ErrorCode>> = {
  timeout: "provider_timeout",
  rate_limited: "rate_limit_exceeded",
  invalid_request: "invalid_request",
  context_length_exceeded: "context_length_exceeded",
  content_filter: "content_filter",
};

/** Failures caused by the request itself, which every provider would refuse. */
const requestFaults: ReadonlySet<AttemptFailure> = new Set([
  "invalid_request",
  "context_length_exceeded",
  "content_filter",
  "cancelled",
]);
/** Failures that a retry can't fix until an operator acts. */
const operatorFaults: ReadonlySet<AttemptFailure> = new Set([
  "unauthorized",
  "payment_required",
  "forbidden",
  "not_found",
]);

type Options = Pick<ProviderFailure, "mayHaveCharged"> &
  Partial<
    Pick<
      ProviderFailure,
      "code" | "retryable" | "retryAfterSeconds" | "mayBeRequest" | "contextTokens" | "streamBegan" | "use"
    >
  > & { cause?: unknown };

/** Why a request to a provider failed. */
export class ProviderFailure extends Error {
  readonly failure: AttemptFailure;
  /** The error code that the caller gets if no other route is left. */
  readonly code: ErrorCode;
  /** Whether the provider may still charge for the failed request. In that case, the answer asks clients not to retry. */
  readonly mayHaveCharged: boolean;
  /** Whether another route may serve the call. */
  readonly retryable: boolean;
  /** When the provider accepts requests again, in seconds from now. */
  readonly retryAfterSeconds?: number;
  /** Whether the request itself may have caused the failure. In that case, other requests to the route may succeed. */
  readonly mayBeRequest: boolean;
  readonly contextTokens?: ContextTokens;
  /** Whether the provider's stream had begun, so that its client expects the failure as an event. */
  readonly streamBegan: boolean;
  /** The usage that the provider stated despite the failure. */
  readonly use?: CallUse;

  constructor(failure: AttemptFailure, { cause, ...options }: Options) {
    super(failure, { cause });
    this.name = "ProviderFailure";
    this.failure = failure;
    this.code = options.code ?? codes[failure] ?? "provider_error";
    this.mayHaveCharged = options.mayHaveCharged;
    this.retryable = options.retryable ?? !requestFaults.has(failure);
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.mayBeRequest = options.mayBeRequest ?? false;
    this.contextTokens = options.contextTokens;
    this.streamBegan = options.streamBegan ?? false;
    this.use = options.use;
  }

  get needsOperator(): boolean {
    return operatorFaults.has(this.failure);
  }

  /** Whether only this route refuses the request. Any other route's failure then says more. */
  get isOfRoute(): boolean {
    return this.retryable && requestFaults.has(this.failure);
  }

  /**
   * Returns the same failure, marked as possibly charged because of one of several attempts.
   * @param use the usage of the last attempt
   */
  afterCharge(use: CallUse | undefined): ProviderFailure {
    return new ProviderFailure(this.failure, { ...this, mayHaveCharged: true, use });
  }

  toGatewayError(): GatewayError {
    const headers: Record<string, string> = {};
    if (this.retryAfterSeconds !== undefined) headers["retry-after"] = String(this.retryAfterSeconds);
    // Keeps standard clients from retrying calls that can't succeed or may already be charged.
    if (this.mayHaveCharged || this.needsOperator) headers["x-should-retry"] = "false";
    const { code, contextTokens, retryAfterSeconds: reset_seconds } = this;
    if (code === "rate_limit_exceeded") {
      const details = { limit: { kind: "provider", ...(reset_seconds === undefined ? {} : { reset_seconds }) } };
      return new GatewayError(code, { message: describeRefusal({ code, details }), headers, details });
    }
    if (contextTokens) {
      const { input: input_tokens, output = 0, max } = contextTokens;
      const need = { tokens: input_tokens + output, input_tokens };
      const details = { limit: { kind: "context_window", limit: max }, need };
      return new GatewayError(code, { message: describeRefusal({ code, details }), headers, details, contextTokens });
    }
    return new GatewayError(code, { message: specificMessage(code, this.failure), headers });
  }
}

/** The client disconnected. The call has neither an answer nor a failure. */
export class ClientLeft extends Error {
  /** The estimated usage of the interrupted call. */
  use?: CallUse;
}

/** Returns the failure for an error with which a provider refused a request before any output. */
export function refusalFailure(
  answer: ErrorAnswer,
  { streamBegan }: Partial<Pick<ProviderFailure, "streamBegan">> = {},
): ProviderFailure {
  const { failure, ...facts } = readRefusal(answer);
  // A proxy that timed out doesn't know whether its server is still working.
  const mayHaveCharged = failure === "timeout";
  return new ProviderFailure(failure, { ...facts, mayHaveCharged, streamBegan });
}

/**
 * Returns the failure for an answer that isn't valid for the endpoint. The provider may charge for it, unless it states
 * usage of zero.
 * @param use the usage that the answer states
 * @param retryable whether another route may be called
 * @param refusal the failure that the answer reports
 */
export function createInvalidAnswerFailure(
  use?: CallUse,
  { retryable = false, refusal }: { retryable?: boolean; refusal?: ProviderFailure | undefined } = {},
): ProviderFailure {
  const mayHaveCharged = !use || isCharged(use);
  return new ProviderFailure(refusal?.failure ?? "invalid_answer", { ...refusal, mayHaveCharged, retryable, use });
}
