import type { AppLoadContext } from "@remix-run/server-runtime";
import { claimsOfIssued } from "#shared/claims.ts";
import { createServiceClient } from "../supabase/data-api.ts";

/**
 * Ends a session that this server made and gave to nobody, such as one that checks a password. It is not a sign-in of
 * the account's activity. It never fails: a session that may live on is logged.
 */
export async function discardSession(
  { env, requestId, session }: AppLoadContext,
  { access_token }: { access_token: string },
): Promise<void> {
  const { sub, session_id } = claimsOfIssued(access_token);
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("discard_session", { subject_id: sub, target_id: session_id });
  if (!error) return;
  // The identity backend can still end it while the Data API is down.
  const { error: notEnded } = await session.mailClient().auth.admin.signOut(access_token, "local");
  if (notEnded) console.error(`warning request=${requestId} a session was not ended: ${notEnded.code ?? "no answer"}`);
}
