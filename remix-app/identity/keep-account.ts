import type { AppLoadContext } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";
import { requireKeptSession } from "./request-session.ts";
import { getUser } from "./user.ts";

/**
 * Does a sign-in that does not say beforehand whose it is, as by a passkey. Who is signed in in this browser stays: the
 * session of another account is ended again. Who has yet to prove a second factor may have come to be somebody else.
 * @param signIn leaves a session of the identity backend in the request's cookies
 * @throws Response 403 FORBIDDEN where the session is another account's
 */
export async function keepAccount(context: AppLoadContext, signIn: () => Promise<void>): Promise<void> {
  const { session, requestId } = context;
  const visitor = await getUser(context);
  const before = await session.stored();
  await signIn();
  if (!visitor || !before || (visitor.mfa.enrolled && !visitor.mfa.satisfied)) return;
  const { sub } = await requireKeptSession(context);
  if (sub === visitor.id) return;
  await session.authClient().auth.signOut({ scope: "local" });
  session.store(before);
  const detail = `That is another account's. You are signed in as ${visitor.email}: sign out first to use it.`;
  throw problem("FORBIDDEN", { requestId, detail });
}
