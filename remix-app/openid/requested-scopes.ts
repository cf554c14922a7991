import { oauthError } from "./oauth-error.ts";

/**
 * Returns the scopes that a token request asks for; null for all that the login or the service account has (RFC 6749
 * sections 3.3 and 6).
 * @throws Response the OAuth error invalid_scope if the parameter names none
 */
export function scopesIn(form: ReadonlyMap<string, string>): string[] | null {
  const scope = form.get("scope");
  if (scope === undefined) return null;
  const scopes = [...new Set(scope.split(" ").filter(Boolean))];
  if (scopes.length > 0) return scopes;
  throw oauthError("invalid_scope", { description: "scope must name at least one scope" });
}
