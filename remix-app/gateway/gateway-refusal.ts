import { aiCredentialKind } from "#shared/ai-key.ts";
import { bearerToken } from "../http/authorization.ts";

/** The gateway errors (docs/gateway.md, Errors) that the web server itself returns: status, type, message. */
export const gatewayRefusals = {
  invalid_request: [400, "invalid_request_error", "The request is invalid."],
  invalid_api_key: [401, "authentication_error", "The API key is missing, malformed, unknown, revoked or expired."],
  payload_too_large: [413, "invalid_request_error", "The body is too large."],
  internal_error: [500, "server_error", "The gateway had an error."],
  service_unavailable: [503, "server_error", "The gateway is temporarily unavailable. Try again."],
} as const;

type RefusalOptions = {
  requestId: string;
  /** Where the gateway's `/v1` is mounted. */
  aiUrl: string;
  /** The header at fault. */
  param?: string;
  status?: 405;
  message?: string;
  headers?: Record<string, string>;
};

/** The time of this endpoint's deprecation (RFC 9745). */
const deprecation = "@1767225600";

/** Returns the RFC 8288 link to this endpoint's successor, for a gateway whose `/v1` is mounted at `aiUrl`. */
export function successorLink(aiUrl: string): string {
  return `<${aiUrl}/v1/chat/completions>; rel="successor-version"`;
}

/** Refuses a request to the gateway's legacy endpoint in the gateway's own format. */
export function refuseForGateway(
  code: keyof typeof gatewayRefusals,
  { requestId, aiUrl, param, message, status, headers }: RefusalOptions,
): Response {
  const [usual, type, text] = gatewayRefusals[code];
  const error = { message: message ?? text, type, param: param ?? null, code, request_id: requestId };
  const allHeaders = {
    deprecation,
    link: successorLink(aiUrl),
    // A retry of these errors can't succeed unless the server caused them.
    ...(usual < 500 ? { "x-should-retry": "false" } : {}),
    ...headers,
  };
  return Response.json({ error }, { status: status ?? usual, headers: allHeaders });
}

/**
 * Returns whether an Authorization header may hold a credential of the gateway: a `ttr_ai_` key, a `ttr_app_` token or
 * a JWT.
 */
export function isGatewayCredential(authorization: string | null): boolean {
  const text = /^bearer +(\S+)$/i.exec(authorization ?? "")?.[1] ?? "";
  return aiCredentialKind(text) !== undefined || bearerToken(authorization) !== null;
}
