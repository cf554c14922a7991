import type { ErrorShape, GatewayError } from "./errors.ts";

/**
 * Anthropic's error types by status (https://platform.claude.com/docs/en/api/errors). Other statuses below 500 have the
 * type `invalid_request_error`.
 */
const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
};

/** Anthropic's error object, with our error code as an additional member. */
export const anthropicErrors: ErrorShape = {
  body: (error, requestId) => ({
    type: "error",
    error: {
      type: types[error.status] ?? (error.status >= 500 ? "api_error" : "invalid_request_error"),
      message: messageOf(error),
      code: error.code,
      param: error.options.param ?? null,
      ...error.options.details,
    },
    request_id: requestId,
  }),
  event: "error",
  idHeader: "request-id",
};

/**
 * Prefixes the message with the field, as Anthropic does ("max_tokens: Field required"), because its clients show only
 * the message.
 */
function messageOf({ code, message, options: { param } }: GatewayError): string {
  return code === "invalid_request" && param && !message.includes(param) ? `${param}: ${message}` : message;
}
