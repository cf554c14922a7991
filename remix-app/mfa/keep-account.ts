import type { AppLoadContext } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";
import { discardSession, requireKeptSession } from "../session/request-session.ts";
import type { User } from "../session/user.ts";

/**
 * Runs a sign-in while a user is signed in. Meant for a sign-in that doesn't name its account beforehand, such as a
 * passkey sign-in. If the new session belongs to another account, ends the new session and keeps the user signed in.
 * @param options.signIn stores a session of the identity backend
 * @throws Response 403 FORBIDDEN if the session belongs to another account
 */
export async function keepAccount(
  context: AppLoadContext,
  { user, signIn }: { user: User; signIn: () => Promise<void> },
): Promise<void> {
  const { session, requestId } = context;
  const before = session.stored;
  await signIn();
  const { claims, session: made } = requireKeptSession(context);
  if (claims.sub === user.id) return;
  await discardSession(context, made);
  if (before) session.store(before);
  throw problem("FORBIDDEN", {
    requestId,
    detail: `This belongs to another account. You’re signed in as ${user.email}.`,
  });
}
