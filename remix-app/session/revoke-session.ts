import type { AppLoadContext } from "@remix-run/server-runtime";
import { isAuthSessionMissingError } from "@supabase/supabase-js";

/** By these the identity backend says that there is no such session any more; its client has an error of its own for it. */
const endedStatuses: readonly (number | undefined)[] = [401, 403, 404];

/**
 * Ends the session that this request came with at the identity backend, and none of its user's others.
 * @returns false where it may live on, because the backend did not answer; that is logged
 */
export async function revokeSession({ session, requestId }: AppLoadContext): Promise<boolean> {
  const { auth } = session;
  if (auth.status === "anonymous") return true;
  if (auth.status === "authenticated") {
    const { error } = await session.authClient().auth.admin.signOut(auth.accessToken, "local");
    if (!error || isAuthSessionMissingError(error) || endedStatuses.includes(error.status)) return true;
  }
  console.error(`warning request=${requestId} the session was not revoked: the identity backend did not answer`);
  return false;
}
