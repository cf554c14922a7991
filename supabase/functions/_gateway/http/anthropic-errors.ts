import { type ContextTokens, type ErrorShape, type GatewayError, getErrorStatus, linkToCode } from "./errors.ts";

/**
 * Anthropic's error types by status (https://platform.claude.com/docs/en/api/errors). Other statuses below 500 have the
 * type `invalid_request_error`.
 */
const errorTypes: Readonly<Record<number, string>> = {
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error",
};

/** Anthropic's error object, with our error code as an additional member. */
export const anthropicErrors: ErrorShape = {
  body: createErrorBody,
  event: (error, requestId) => `event: error\ndata: ${JSON.stringify(createErrorBody(error, requestId))}\n\n`,
  statuses: { provider_overloaded: 529 },
  idHeader: "request-id",
};

/** Returns whether a request has headers of Anthropic's API, whose clients send a version with every request. */
export function usesAnthropicApi({ headers }: Request): boolean {
  return headers.has("anthropic-version") || headers.has("anthropic-beta");
}

function createErrorBody(error: GatewayError, requestId: string): object {
  const status = getErrorStatus(error, anthropicErrors);
  return {
    type: "error",
    error: {
      type: errorTypes[status] ?? (status >= 500 ? "api_error" : "invalid_request_error"),
      message: formatMessage(error),
      code: error.code,
      param: error.options.param ?? null,
      ...linkToCode(error.code),
      ...error.options.details,
    },
    request_id: requestId,
  };
}

/**
 * Prefixes the message with the field, as Anthropic does ("max_tokens: Field required"), because its clients show only
 * the message. Claude Code compacts the conversation or lowers `max_tokens` when it finds Anthropic's words for a full
 * context window (https://code.claude.com/docs/en/llm-gateway).
 */
function formatMessage({ code, message, options: { param, contextTokens } }: GatewayError): string {
  if (code === "context_length_exceeded") {
    return contextTokens ? contextMessage(contextTokens) : `prompt is too long: ${message}`;
  }
  return code === "invalid_request" && param && !message.includes(param) ? `${param}: ${message}` : message;
}

function contextMessage({ input, output, max }: ContextTokens): string {
  if (output === undefined) return `prompt is too long: ${input} tokens > ${max} maximum`;
  return `input length and \`max_tokens\` exceed context limit: ${input} + ${output} > ${max}, decrease input length or \`max_tokens\` and try again`;
}
