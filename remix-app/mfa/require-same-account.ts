import type { AppLoadContext } from "@remix-run/node";
import { decodeIssuedClaims } from "#shared/claims.ts";
import { problem } from "../http/problem.ts";
import type { StoredSession } from "../session/cookies.ts";
import { discardSession } from "../session/request-session.ts";
import type { User } from "../session/user.ts";

/**
 * Checks that a new session belongs to the signed-in user. Meant for a sign-in that doesn't name its account
 * beforehand, such as a passkey sign-in.
 * @throws Response 403 FORBIDDEN if the session belongs to another account; the session has ended, and the user stays
 * signed in
 */
export async function requireSameAccount(
  context: AppLoadContext,
  { user, session }: { user: User; session: StoredSession },
): Promise<void> {
  if (decodeIssuedClaims(session.access_token).sub === user.id) return;
  await discardSession(context, session);
  throw problem("FORBIDDEN", {
    requestId: context.requestId,
    detail: `This belongs to another account. You’re signed in as ${user.email}.`,
  });
}
