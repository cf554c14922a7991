import type { AppLoadContext } from "@remix-run/node";
import { logError } from "#shared/log.ts";
import type { AuthorizationError } from "./authorization-request.ts";

/** RFC 6749 section 5.2, RFC 6750 section 3.1, RFC 7591 section 3.2.2, RFC 8628 section 3.5, RFC 9126 section 2.3. */
export type OAuthErrorCode =
  | AuthorizationError["error"]
  | "invalid_client"
  | "invalid_grant"
  | "invalid_token"
  | "insufficient_scope"
  | "unauthorized_client"
  | "unsupported_grant_type"
  | "authorization_pending"
  | "slow_down"
  | "expired_token"
  | "invalid_client_metadata"
  | "invalid_redirect_uri"
  | "server_error";

/**
 * Creates the error response of an OAuth endpoint (RFC 6749 section 5.2).
 * @param options.description printable ASCII without quotation marks and backslashes
 * @param options.status 401 for `invalid_client`, else 400, unless set
 */
export function oauthError(
  code: OAuthErrorCode,
  { status, description, headers }: { status?: number; description: string; headers?: Record<string, string> },
): Response {
  return Response.json(
    { error: code, error_description: description },
    {
      status: status ?? (code === "invalid_client" ? 401 : 400),
      headers: { "Cache-Control": "no-store", Pragma: "no-cache", ...headers },
    },
  );
}

/** The Retry-After of a failure that doesn't set one. */
const retryAfterSeconds = "5";

/**
 * Runs an endpoint for OAuth clients. Turns unexpected failures into OAuth errors, so that the client keeps its code or
 * token and tries again. Answers 503 `temporarily_unavailable` if the database does not answer, 500 `server_error` for a
 * defect, and 413 or 415 `invalid_request` for a body that is too large or compressed.
 */
export async function handleClientRequest(
  { requestId }: Pick<AppLoadContext, "requestId">,
  answer: () => Promise<Response>,
): Promise<Response> {
  try {
    return await answer();
  } catch (thrown) {
    if (!(thrown instanceof Response)) {
      logError(String(thrown instanceof Error ? thrown.stack : thrown), { requestId });
      return oauthError("server_error", { status: 500, description: "The request failed. Try again later" });
    }
    const isProblem = thrown.headers.get("content-type") === "application/problem+json";
    if (isProblem && (thrown.status === 413 || thrown.status === 415)) return convertBodyError(thrown);
    if (thrown.status !== 503) return thrown;
    return oauthError("temporarily_unavailable", {
      status: 503,
      description: "The request could not be answered. Keep what you have and try again",
      headers: { "Retry-After": thrown.headers.get("retry-after") ?? retryAfterSeconds },
    });
  }
}

async function convertBodyError(thrown: Response): Promise<Response> {
  const { detail } = (await thrown.json()) as { detail: string };
  const headers = Object.fromEntries(
    ["accept-encoding", "connection"].flatMap((name) => {
      const value = thrown.headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
  return oauthError("invalid_request", { status: thrown.status, description: detail, headers });
}
