import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callFunction } from "../supabase/data-api.ts";

const offerSchema = z.object({
  /** Whether everyone may create an account. */
  open: z.boolean(),
  /** The email of the open invitation that was asked about; null if there is none. */
  email: z.string().nullable(),
});
/** Who may sign up with a link. */
export type SignUpOffer = z.infer<typeof offerSchema>;

/** The message for people who may not sign up. It is the same for every email. */
export const uninvitedMessage = "Sign-up is by invitation. Ask your administrator.";

/**
 * Returns whether sign-up is open, and the email of an invitation, by the id of an invitation to the platform or the hash
 * of the token of one to a workspace.
 * @throws Response 503 UNAVAILABLE
 */
export function readSignUp(
  context: AppLoadContext,
  {
    invitation = null,
    workspaceTokenHash = null,
  }: { invitation?: string | null; workspaceTokenHash?: string | null } = {},
): Promise<SignUpOffer> {
  const args = { invitation_id: invitation, workspace_token_hash: workspaceTokenHash };
  return callFunction(context, { name: "private.read_sign_up", args, schema: offerSchema });
}
