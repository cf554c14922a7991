import type { ContentfulStatusCode } from "hono/utils/http-status";
import { AuthError, OAuthError } from "../core/errors.ts";
import type { Request } from "./context.ts";

const versionHeader = "X-Supabase-Api-Version";
const codesVersion = "2024-01-01";

/** Returns whether the client requested the error format of version 2024-01-01 or later. */
function wantsCodes(c: Request): boolean {
  const requestedVersion = c.req.header(versionHeader) ?? "";
  return requestedVersion >= codesVersion && isDate(requestedVersion);
}

/** Returns whether a text is a calendar date. `Date` would accept 30 February as a day in March. */
function isDate(text: string): boolean {
  const date = new Date(/^\d{4}-\d{2}-\d{2}$/.test(text) ? text : Number.NaN);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/**
 * Returns an AuthError unchanged, and converts any other error to a 500 that hides its text from clients. Errors with
 * status 500 or higher are logged.
 */
export function asAuthError(error: unknown, c: Request, log: (line: string) => void): AuthError {
  const message = "Unexpected failure, please check server logs for more information";
  const authError =
    error instanceof AuthError ? error : new AuthError(500, "unexpected_failure", message, { cause: error });
  if (authError.status >= 500) log(describe(authError, c));
  return authError;
}

/** Maps all errors to responses. */
export function errorResponse(error: unknown, c: Request, log: (line: string) => void): Response {
  if (error instanceof OAuthError) {
    return c.json({ error: error.error, error_description: error.message }, 400);
  }
  const authError = asAuthError(error, c, log);
  const newer = wantsCodes(c);
  if (newer) c.header(versionHeader, codesVersion);
  if (!(newer && authError.code === "weak_password")) c.header("X-Sb-Error-Code", authError.code);
  const weak = authError.reasons ? { weak_password: { reasons: authError.reasons } } : {};
  const errorId = authError.status >= 500 ? { error_id: c.get("requestId") } : {};
  const body = newer
    ? { code: authError.code, message: authError.message, ...weak }
    : { code: authError.status, error_code: authError.code, msg: authError.message, ...errorId, ...weak };
  return c.json(body, authError.status as ContentfulStatusCode);
}

function describe(error: AuthError, c: Request): string {
  const { cause } = error;
  const detail = cause instanceof Error ? `: ${cause.stack ?? cause.message}` : "";
  return `${c.get("requestId")} ${c.req.method} ${c.req.path} ${error.status} ${error.message}${detail}`;
}
