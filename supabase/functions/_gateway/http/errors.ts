type Entry = readonly [status: number, type: string, message: string, specific?: Readonly<Record<string, string>>];

/**
 * The gateway's closed list of error codes, with status, OpenAI's error type, and message. More specific messages are
 * listed by the parameter that the database refuses, or by the failure of a provider (`AttemptFailure`).
 */
const catalogue = {
  invalid_request: [
    400,
    "invalid_request_error",
    "The request is invalid.",
    {
      "X-Platform-Entity-Id":
        "The key has an entity label of its own. Send no X-Platform-Entity-Id header, or one with that label.",
      voice: "The model does not have this voice. GET /v1/models lists the voices of each model.",
      invalid_request: "The model's provider refused this request as invalid.",
    },
  ],
  invalid_json: [400, "invalid_request_error", "The body is not valid JSON."],
  context_length_exceeded: [
    400,
    "invalid_request_error",
    "The request exceeds the model's context window. Shorten the input or lower the output limit.",
  ],
  content_filter: [400, "invalid_request_error", "The model's provider refused the content of this request."],
  unsupported_schema: [400, "invalid_request_error", "The JSON schema is not supported."],
  unsupported_parameter: [
    400,
    "invalid_request_error",
    "This parameter or value is not supported.",
    {
      messages:
        "This model takes no audio. Send text, or choose a model whose prices in GET /v1/models have audio_input_usd_per_million.",
      tools:
        "A provider of this model has no price for searches. Leave out the web search tool, or choose a model whose prices in GET /v1/models have request_fee_usd.",
      service_tier:
        "A provider of this model has no price for the service tier. Leave it out, or name a tier with a price.",
    },
  ],
  workspace_header_required: [400, "invalid_request_error", "The header X-Platform-Workspace-Id is required."],
  invalid_api_key: [401, "authentication_error", "The API key is missing, malformed, unknown, revoked or expired."],
  insufficient_credits: [
    402,
    "insufficient_quota",
    "The credit balance does not cover this request's maximum cost. Lower its output limit, or add credits.",
  ],
  budget_exceeded: [
    402,
    "insufficient_quota",
    "A budget does not cover this request's maximum cost. Lower its output limit, or raise the budget.",
  ],
  insufficient_scope: [403, "permission_error", "This credential does not have the required scope."],
  app_not_allowed: [403, "permission_error", "The app of this credential is not allowed here."],
  workspace_mismatch: [403, "permission_error", "The workspace header does not match the credential."],
  credential_not_bound: [403, "permission_error", "This requires a credential that is bound to a registered app."],
  region_not_allowed: [
    403,
    "permission_error",
    "The workspace's AI policy does not allow the regions of this model's providers. GET /v1/models lists the models that it allows.",
  ],
  MFA_REQUIRED: [
    403,
    "permission_error",
    "This account needs its second step. Send the person to /mfa of the platform, then use the new access token.",
  ],
  model_not_found: [404, "invalid_request_error", "The model does not exist or is not available to this credential."],
  endpoint_not_served: [
    404,
    "invalid_request_error",
    "The model is not available at this endpoint. GET /v1/models lists the endpoints of each model.",
  ],
  not_found: [
    404,
    "invalid_request_error",
    "The gateway does not serve this endpoint. GET /v1/models lists the endpoints of each model.",
  ],
  request_in_progress: [409, "invalid_request_error", "A request with this idempotency key is in progress."],
  idempotency_key_used: [
    409,
    "invalid_request_error",
    "A request with this idempotency key has already finished. Send a new request with a new key.",
  ],
  invoice_conflict: [
    409,
    "invalid_request_error",
    "This reference is already recorded with other values, or the invoice it replaces is already replaced.",
  ],
  cost_conflict: [
    409,
    "invalid_request_error",
    "A cost with the same observedAt is already recorded with other values.",
  ],
  payload_too_large: [
    413,
    "invalid_request_error",
    "The body is too large.",
    { invalid_request: "The model's provider refused this request as too large." },
  ],
  idempotency_key_reused: [422, "invalid_request_error", "This idempotency key was used with another request."],
  rate_limit_exceeded: [
    429,
    "rate_limit_error",
    "The rate limit is reached. Try again later.",
    { rate_limited: "The model's provider is at its rate limit. Try again later." },
  ],
  internal_error: [500, "server_error", "The gateway had an error."],
  provider_error: [
    502,
    "server_error",
    "The model's provider failed.",
    { not_found: "The model's provider does not have this endpoint or model." },
  ],
  provider_overloaded: [502, "server_error", "The model's provider is overloaded. Try again later."],
  service_unavailable: [503, "server_error", "The gateway is temporarily unavailable. Try again."],
  AUTH_UNAVAILABLE: [503, "server_error", "The account's policy cannot be read. Try again."],
  provider_timeout: [504, "server_error", "The model's provider did not respond in time."],
} as const satisfies Record<string, Entry>;

export type ErrorCode = keyof typeof catalogue;

/** Returns the message for a code that says more about a cause than the code's own; undefined if there is none. */
export function specificMessage(code: ErrorCode, cause: string | undefined): string | undefined {
  const [, , , specific = {}]: Entry = catalogue[code];
  return cause !== undefined && Object.hasOwn(specific, cause) ? specific[cause] : undefined;
}

/** The codes of errors after which the same request may succeed. A retry after any other error fails too. */
const transientCodes: ReadonlySet<ErrorCode> = new Set([
  "request_in_progress",
  "rate_limit_exceeded",
  "internal_error",
  "provider_error",
  "provider_overloaded",
  "service_unavailable",
  "AUTH_UNAVAILABLE",
  "provider_timeout",
]);

/**
 * Keeps standard clients from retrying. openai-node, openai-python and Anthropic's SDKs obey the header before they look
 * at the status (`shouldRetry` in src/client.ts), and so does Claude Code, which otherwise retries a 401 for minutes.
 */
const noRetry = { "x-should-retry": "false" };

/**
 * SDKs retry twice, and within two seconds if no header says when. A database that restarts or is replaced takes a few
 * seconds more.
 */
const outageHeaders = { "retry-after": "5" };

/** The tokens of a request that exceeds a model's context window, as its provider states them. */
export type ContextTokens = {
  input: number;
  /** The requested output, if it counts towards the window. */
  output?: number;
  max: number;
};

type ErrorOptions = {
  /** Replaces the code's default message. Must not contain another system's text. */
  message?: string;
  /** The field, header or parameter that caused the error. */
  param?: string;
  /** Replaces the code's default status with a more specific one. */
  status?: 405 | 408 | 415 | 426;
  headers?: Record<string, string>;
  /** Whether a retry may succeed, if that differs from what the code says. */
  isTransient?: boolean;
  /** Further members of the error object. */
  details?: Record<string, unknown>;
  /** For `context_length_exceeded`: the tokens that don't fit. */
  contextTokens?: ContextTokens | undefined;
  cause?: unknown;
};

/**
 * The only error that the gateway throws on purpose. Any other error is a defect and is answered as `internal_error`.
 */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly options: ErrorOptions;

  constructor(code: ErrorCode, options: ErrorOptions = {}) {
    super(options.message ?? catalogue[code][2], { cause: options.cause });
    this.name = "GatewayError";
    this.code = code;
    this.options = options;
  }

  /** Returns the same error, marked so that standard clients don't retry it. */
  withoutRetry(): GatewayError {
    return this.withHeaders(noRetry);
  }

  /** Returns the same error with additional headers. */
  withHeaders(more: Record<string, string>): GatewayError {
    const headers = { ...this.options.headers, ...more };
    return new GatewayError(this.code, { ...this.options, message: this.message, headers });
  }

  get status(): number {
    return this.options.status ?? catalogue[this.code][0];
  }

  /**
   * The headers of the response, which says `x-should-retry: false` if a retry can't succeed, and when to retry after an
   * outage.
   */
  get headers(): Record<string, string> {
    const isTransient = this.options.isTransient ?? (this.status === 408 || transientCodes.has(this.code));
    return { ...(isTransient ? {} : noRetry), ...(this.status === 503 ? outageHeaders : {}), ...this.options.headers };
  }
}

/** Returns the error for a call that exceeds the current capacity. */
export function overloadError(): GatewayError {
  return new GatewayError("service_unavailable");
}

/** Returns the error for the client. Any error that isn't a refusal is a defect of ours. */
export function toGatewayError(error: unknown): GatewayError {
  return error instanceof GatewayError ? error : new GatewayError("internal_error", { cause: error });
}

/** Returns whether a code from the database is one of the gateway's error codes. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(catalogue, code);
}

/** All error codes, for the OpenAPI document. */
export const errorCodes = Object.keys(catalogue) as readonly ErrorCode[];

/** The format of a surface's errors. */
export type ErrorShape = {
  body: (error: GatewayError, requestId: string) => object;
  /** Returns the event that ends a stream with an error. */
  event: (error: GatewayError, requestId: string) => string;
  /** The codes that clients of streams expect as an event, even if the provider's stream has not begun. */
  eventCodes?: ReadonlySet<ErrorCode>;
  /** Statuses that differ from the list's. */
  statuses?: Partial<Record<ErrorCode, number>>;
  /** A header for the request id in addition to `x-request-id`. */
  idHeader?: string;
};

/** Returns OpenAI's error object with our request id. */
export function errorBody(error: GatewayError, requestId: string): { error: Record<string, unknown> } {
  return {
    error: {
      message: error.message,
      type: catalogue[error.code][1],
      param: error.options.param ?? null,
      code: error.code,
      request_id: requestId,
      ...error.options.details,
    },
  };
}

export const openaiErrors: ErrorShape = {
  body: errorBody,
  event: (error, requestId) => `data: ${JSON.stringify(errorBody(error, requestId))}\n\n`,
};

/** Returns the HTTP status of an error in a surface's format. */
export function getErrorStatus(error: GatewayError, { statuses }: ErrorShape): number {
  return statuses?.[error.code] ?? error.status;
}
