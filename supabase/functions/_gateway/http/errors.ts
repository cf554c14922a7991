import { gatewayErrors as catalogue, type ErrorEntry } from "../../_shared/gateway-errors.ts";

export type ErrorCode = keyof typeof catalogue;

/** Returns the message for a code that says more about a cause than the code's own; undefined if there is none. */
export function specificMessage(code: ErrorCode, cause: string | undefined): string | undefined {
  const [, , , specific = {}]: ErrorEntry = catalogue[code];
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

/** The web server's origin. All gateways of a process have the same one. */
let webServer: string | undefined;

/** Sets the web server's origin, whose page about errors every error links to. Without it, errors have no link. */
export function linkErrors(webOrigin: string | undefined): void {
  webServer = webOrigin;
}

/** Returns the address of a page of the web server; undefined if its origin is not known. */
export function linkToPage(path: string): string | undefined {
  return webServer && `${webServer}${path}`;
}

/** Returns the member of an error with the address of its code, in Stripe's name, or none. */
export function linkToCode(code: ErrorCode): { doc_url?: string } {
  return webServer ? { doc_url: `${webServer}/docs/errors#${code}` } : {};
}

/** Returns OpenAI's error object with our request id. */
export function errorBody(error: GatewayError, requestId: string): { error: Record<string, unknown> } {
  return {
    error: {
      message: error.message,
      type: catalogue[error.code][1],
      param: error.options.param ?? null,
      code: error.code,
      request_id: requestId,
      ...linkToCode(error.code),
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
