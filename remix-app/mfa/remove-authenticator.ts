import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { describeEvent } from "../activity/record-event.ts";
import { problem } from "../http/problem.ts";
import type { User } from "../session/user.ts";
import { callFunction } from "../supabase/data-api.ts";
import { listAuthenticators } from "./authenticators.ts";

const deleteResult = z.object({ outcome: z.enum(["deleted", "last_of_required", "insufficient_aal", "not_found"]) });

/**
 * Removes an authenticator of the signed-in user. If it is the last one, the recovery codes are deleted too, because
 * they have nothing left to recover. An authenticator that is already gone counts as removed. The owner is notified of
 * a removal even if the database's answer does not reach this server.
 * @returns false if it is the last authenticator of an account that requires one
 * @throws Response 403 MFA_REQUIRED if the session's second factor is still due, 503 UNAVAILABLE or AUTH_UNAVAILABLE
 */
export async function removeAuthenticator(
  context: AppLoadContext,
  { user, factorId }: { user: User; factorId: string },
): Promise<boolean> {
  const { requestId, session } = context;
  const authenticator = (await listAuthenticators(context, user.id)).find(
    ({ id, verified }) => id === factorId && verified,
  );
  if (!authenticator) return true;
  const event = describeEvent(context, {
    userId: user.id,
    kind: "authenticator_removed",
    details: { name: authenticator.name },
  });
  const { outcome } = await callFunction(context, {
    name: "private.delete_authenticator",
    args: { subject_id: user.id, actor_session_id: user.sessionId, target_id: factorId, event },
    schema: deleteResult,
  });
  switch (outcome) {
    case "deleted":
      await renewToken(session);
      return true;
    case "not_found":
      return true;
    case "last_of_required":
      return false;
    case "insufficient_aal":
      throw problem("MFA_REQUIRED", { requestId });
  }
}

/** Replaces the access token, whose claims are now outdated. If that fails, the next regular refresh replaces it. */
async function renewToken(session: AppLoadContext["session"]): Promise<void> {
  const { stored } = session;
  const renewed = stored && (await session.refresh(stored.refresh_token));
  if (renewed?.status === "refreshed") session.store(renewed.session);
}
