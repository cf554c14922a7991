import { encodeQuery } from "../core/redirect-url.ts";
import type { SignedIn } from "../core/tokens.ts";
import type { Request } from "./context.ts";

/** Adds the ids of the user and the session to the headers, for the gateway's log. */
export function announce(c: Request, { userId, sessionId, body }: SignedIn): void {
  c.header("sb-auth-user-id", userId);
  c.header("sb-auth-session-id", sessionId);
  if (body.refresh_token.length === 12) c.header("sb-auth-refresh-token-prefix", body.refresh_token.slice(0, 5));
}

/** Creates the response to a sign-in or a refresh. */
export function tokenAnswer(c: Request, signedIn: SignedIn): Response {
  announce(c, signedIn);
  return c.json(signedIn.body);
}

/** Returns the URL at which an implicit flow ends. The tokens are in the fragment, which no server sees. */
export function fragmentUrl(target: string, { body }: SignedIn, extra: Record<string, string>): string {
  const fields = {
    ...extra,
    access_token: body.access_token,
    expires_at: String(body.expires_at),
    expires_in: String(body.expires_in),
    refresh_token: body.refresh_token,
    sb: "",
    token_type: body.token_type,
  };
  return `${target}#${encodeQuery(Object.entries(fields))}`;
}
