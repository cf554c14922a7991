import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callFunction } from "../supabase/data-api.ts";
import { type FoundWorkspace, studioPermissions } from "./permission.ts";

const creditNotice = z.object({
  level: z.enum(["low", "empty"]),
  /** Exact decimal string. */
  available: z.string(),
});

/**
 * Returns a notice if the credits for the member's requests are low or used up. Returns null if they are not, if the
 * member's role doesn't include the AI studio, or if the database does not answer.
 */
export async function readCreditNotice(
  context: AppLoadContext,
  { workspace, member }: Pick<FoundWorkspace, "workspace" | "member">,
): Promise<z.infer<typeof creditNotice> | null> {
  if (!workspace.permissions.some((permission) => studioPermissions.has(permission))) return null;
  const args = { member_id: member.userId, workspace: member.workspaceId };
  const schema = creditNotice.nullable();
  return callFunction(context, { name: "ai.read_credit_notice", args, schema }).catch(() => null);
}
