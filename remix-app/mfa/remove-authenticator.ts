import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { recordEvent } from "../activity/record-event.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { User } from "../identity/user.ts";
import { defaultName } from "./authenticators.ts";

const answered = z.union([
  z.object({ outcome: z.literal("deleted"), name: z.string().nullable() }),
  z.object({ outcome: z.enum(["last_of_required", "insufficient_aal", "not_found"]) }),
]);

/**
 * Removes an authenticator of the signed-in user, and with the last one the recovery codes, which have nothing left to
 * recover. One that is gone already is removed. The owner is told.
 * @returns false where it is the last one of an account that must have one
 * @throws Response 403 MFA_REQUIRED where the session has yet to prove one, 503 UNAVAILABLE
 */
export async function removeAuthenticator(
  context: AppLoadContext,
  { user, factorId }: { user: User; factorId: string },
): Promise<boolean> {
  const { env, requestId, session } = context;
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("delete_authenticator", { subject_id: user.id, actor_session_id: user.sessionId, target_id: factorId });
  const answer = answered.safeParse(data);
  if (error || !answer.success) {
    console.error(`error request=${requestId} an authenticator was not removed: ${error?.code ?? "unexpected answer"}`);
    throw problem("UNAVAILABLE", { requestId });
  }
  switch (answer.data.outcome) {
    case "deleted": {
      const details = { name: answer.data.name || defaultName };
      await recordEvent(context, { userId: user.id, kind: "authenticator_removed", details });
      // The token says less from now on: a new one says so at once.
      await session.authClient().auth.refreshSession();
      return true;
    }
    case "not_found":
      return true;
    case "last_of_required":
      return false;
    case "insufficient_aal":
      throw problem("MFA_REQUIRED", { requestId });
  }
}
