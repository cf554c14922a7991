import type { AppLoadContext } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";
import { discardSession, requireKeptSession } from "../session/request-session.ts";
import type { User } from "../session/user.ts";

/**
 * Does a sign-in that does not say beforehand whose it is, as by a passkey, for who is signed in: they stay, and the
 * session of another account is ended again.
 * @param options.signIn stores a session of the identity backend
 * @throws Response 403 FORBIDDEN where the session is another account's
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
