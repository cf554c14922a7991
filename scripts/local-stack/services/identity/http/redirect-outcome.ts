import { AuthError, OAuthError } from "../core/errors.ts";

const oauthErrors: Record<number, string> = {
  400: "invalid_request",
  401: "unauthorized_client",
  403: "access_denied",
  500: "server_error",
  503: "temporarily_unavailable",
};

/** An address with some parameters of its query set. */
export function withQuery(target: string, fields: Record<string, string>): string {
  const url = new URL(target);
  for (const [name, value] of Object.entries(fields)) url.searchParams.set(name, value);
  return url.toString();
}

function withFragment(target: string, fields: Record<string, string>): string {
  const [bare] = target.split("#");
  const fragment = new URLSearchParams({ ...fields, sb: "" });
  fragment.sort();
  return `${bare}#${fragment}`;
}

/** Where a failed flow ends: the error in the fragment, and in the query too where a server is to see it. */
export function errorTarget(target: string, error: unknown, { inQuery }: { inQuery: boolean }): string {
  const fields = describe(error);
  return withFragment(inQuery ? withQuery(target, fields) : target, fields);
}

/** Where a flow ends that is not done yet. */
export function messageTarget(target: string, message: string, { inQuery }: { inQuery: boolean }): string {
  return withFragment(inQuery ? withQuery(target, { message }) : target, { message });
}

function describe(error: unknown): Record<string, string> {
  if (error instanceof OAuthError) return { error: error.error, error_description: error.message };
  if (!(error instanceof AuthError)) {
    return { error: "server_error", error_code: "unexpected_failure", error_description: "Unexpected failure" };
  }
  const oauth = oauthErrors[error.status];
  return { ...(oauth ? { error: oauth } : {}), error_code: error.code, error_description: error.message };
}
