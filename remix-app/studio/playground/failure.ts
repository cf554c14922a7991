/** Why a request failed, for display. */
export interface Failure {
  sentence: string;
  /** The request id to quote. Absent if no server was reached. */
  requestId?: string | undefined;
}

interface ErrorFacts {
  status: number;
  code?: string | undefined;
  message?: string | undefined;
  param?: string | undefined;
  requestId?: string | undefined;
  retryAfterSeconds?: number | undefined;
}

const errorSentences: Record<string, string | ((facts: ErrorFacts) => string)> = {
  insufficient_credits:
    "There aren’t enough credits for this request. Lower the output limit, or ask for more credits.",
  budget_exceeded:
    "There isn’t enough left in a budget for this request. Lower the output limit, wait for next month, or raise the budget.",
  rate_limit_exceeded: (facts) => `The rate limit is reached. Try again ${formatRetryTime(facts)}.`,
  RATE_LIMITED: (facts) => `The rate limit is reached. Try again ${formatRetryTime(facts)}.`,
  MFA_REQUIRED: "Your account requires a second factor. Reload this page to continue.",
  UNAUTHENTICATED: "You’re signed out. Reload this page to sign in again.",
  invalid_api_key: "You’re signed out. Reload this page to sign in again.",
  insufficient_scope: "Your role in this workspace doesn’t allow this. Ask an owner for the “Use AI” permission.",
  FORBIDDEN: "Your role in this workspace doesn’t allow this. Ask an owner for the “Use AI” permission.",
  workspace_mismatch: "You’re no longer a member of this workspace.",
  CONFLICT: "You’re now signed in to another account. Switch back to continue here, or reload this page.",
  CSRF_REJECTED: "We couldn’t verify that this request came from this page. Reload it and try again.",
  endpoint_not_served: "This model doesn’t support this kind of request. Choose another one.",
  region_not_allowed: "This workspace’s AI policy doesn’t allow this model’s regions. Choose another one.",
  model_not_found: "This workspace can’t use that model now. Choose another one.",
  payload_too_large: "This is more than 64 KiB. Shorten it, or start a new conversation.",
  PAYLOAD_TOO_LARGE: "This is more than 64 KiB. Shorten it, or start a new conversation.",
  provider_error: "The model’s provider failed. Try again, or choose another model.",
  provider_overloaded: "The model’s provider is overloaded. Try again later, or choose another model.",
  provider_timeout: "The model’s provider didn’t answer in time. Try again, or choose another model.",
  service_unavailable: (facts) => `The gateway isn’t available right now. Try again ${formatRetryTime(facts)}.`,
  UNAVAILABLE: (facts) => `The gateway isn’t available right now. Try again ${formatRetryTime(facts)}.`,
  AUTH_UNAVAILABLE: (facts) => `Your sign-in can’t be checked right now. Try again ${formatRetryTime(facts)}.`,
};

/** Returns one sentence for an error of the gateway or our own server. */
export function failureOf(facts: ErrorFacts): Failure {
  const { code = "" } = facts;
  const known = Object.hasOwn(errorSentences, code) ? errorSentences[code] : undefined;
  const sentence = typeof known === "function" ? known(facts) : (known ?? describeOtherError(facts));
  return { sentence, requestId: facts.requestId };
}

export async function readFailure(response: Response): Promise<Failure> {
  const body = await response.json().catch(() => null);
  return failureOf({
    ...readErrorFacts(body?.error ?? body),
    status: response.status,
    requestId: response.headers.get("x-request-id") ?? readErrorFacts(body?.error ?? body).requestId,
    retryAfterSeconds: secondsOf(response.headers.get("retry-after")),
  });
}

/** Returns the failure for an error event within a stream. */
export function failureInStream(error: unknown): Failure {
  return failureOf({ status: 200, ...readErrorFacts(error) });
}

/** No server answered. */
export const unreached: Failure = {
  sentence: "The server couldn’t be reached. Check your connection, then try again.",
};

function describeOtherError({ status, message, param }: ErrorFacts): string {
  if (status < 400 || status >= 500 || !message) {
    return "Something went wrong on our side. Try again; if it happens again, contact support with the request ID.";
  }
  return `The request was refused: ${message}${param ? ` (${param})` : ""}`;
}

function formatRetryTime({ retryAfterSeconds }: ErrorFacts): string {
  if (retryAfterSeconds === undefined) return "in a moment";
  return `in ${retryAfterSeconds} ${retryAfterSeconds === 1 ? "second" : "seconds"}`;
}

function readErrorFacts(error: unknown): Omit<ErrorFacts, "status"> {
  const { code, message, detail, param, request_id, requestId } = (error ?? {}) as Record<string, unknown>;
  const text = (value: unknown) => (typeof value === "string" ? value : undefined);
  return {
    code: text(code),
    message: text(message) ?? text(detail),
    param: text(param),
    requestId: text(request_id) ?? text(requestId),
  };
}

function secondsOf(retryAfter: string | null): number | undefined {
  return retryAfter !== null && /^\d+$/.test(retryAfter) ? Math.max(1, Number(retryAfter)) : undefined;
}
