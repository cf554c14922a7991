import { type ProblemCode, problems as problemCodes } from "../../remix-app/http/problem.ts";
import { problemSchema } from "../../remix-app/http/problem-schema.ts";
import { anthropicErrors } from "../../supabase/functions/_gateway/http/anthropic-errors.ts";
import { errorSchema, messagesErrorSchema } from "../../supabase/functions/_gateway/http/error-schema.ts";
import {
  type ErrorCode,
  GatewayError,
  getErrorStatus,
  isErrorCode,
} from "../../supabase/functions/_gateway/http/errors.ts";
import type { ErrorStyle } from "./document.ts";

/** The web server's errors as RFC 9457 problems. */
export const problemStyle: ErrorStyle = {
  component: { name: "Problem", schema: problemSchema },
  contentType: "application/problem+json",
  knows: (code) => Object.hasOwn(problemCodes, code),
  statusOf: (code) => problemCodes[code as ProblemCode].status,
  meaningOf: (code) => `${problemCodes[code as ProblemCode].title}.`,
  narrow: (codes) => ({ properties: { code: { enum: codes } } }),
  common: ({ method }) => [
    "UNAUTHENTICATED",
    ...(method === "GET" ? [] : ["CSRF_REJECTED"]),
    "PAYLOAD_TOO_LARGE",
    "AUTH_UNAVAILABLE",
    "UNAVAILABLE",
    "INTERNAL",
  ],
  unsupported: "UNSUPPORTED_MEDIA_TYPE",
};

/** The gateway's errors in OpenAI's format. */
export const gatewayStyle: ErrorStyle = {
  component: { name: "GatewayError", schema: errorSchema },
  contentType: "application/json",
  knows: isErrorCode,
  statusOf: (code) => new GatewayError(code as ErrorCode).status,
  meaningOf: (code) => new GatewayError(code as ErrorCode).message,
  narrow: (codes) => ({ properties: { error: { properties: { code: { enum: codes } } } } }),
  common: () => [
    "invalid_request",
    "workspace_header_required",
    "invalid_api_key",
    "workspace_mismatch",
    "MFA_REQUIRED",
    "internal_error",
    "service_unavailable",
    "AUTH_UNAVAILABLE",
  ],
  unsupported: "invalid_request",
  hasRetryAdvice: true,
};

/** The gateway's errors in Anthropic's format. */
export const messagesStyle: ErrorStyle = {
  ...gatewayStyle,
  component: { name: "MessagesError", schema: messagesErrorSchema },
  statusOf: (code) => getErrorStatus(new GatewayError(code as ErrorCode), anthropicErrors),
};
