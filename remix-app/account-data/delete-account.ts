import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";

const blocker = z.object({ workspaceId: z.uuid(), name: z.string(), members: z.number().int() });

/** A shared workspace whose only owner must transfer it before deleting their account. */
export type DeletionBlocker = z.infer<typeof blocker>;

const answer = z.object({ deleted: z.boolean(), blockers: z.array(blocker) });

/**
 * Deletes an account permanently, or returns the workspaces that block the deletion. The caller must have checked whose
 * account it is.
 * @throws Response 503 UNAVAILABLE if the database did not answer; it says that the account may be deleted
 */
export async function deleteAccount(context: AppLoadContext, userId: string): Promise<z.infer<typeof answer>> {
  const { requestId } = context;
  const args = { subject_id: userId, request_id: requestId };
  try {
    return await callFunction(context, { name: "private.delete_account", args, schema: answer });
  } catch {
    const detail = "The database didn’t respond, so your account may be deleted. Reload the page to find out.";
    throw problem("UNAVAILABLE", { requestId, detail });
  }
}

const blockerRows = z.array(z.object({ workspace_id: z.uuid(), name: z.string(), members: z.number().int() }));

/** Returns the workspaces that block an account's deletion, ordered by name. @throws Response 503 UNAVAILABLE */
export async function deletionBlockers(context: AppLoadContext, userId: string): Promise<DeletionBlocker[]> {
  const args = { subject_id: userId };
  const name = "private.list_account_deletion_blockers";
  const rows = await callFunction(context, { name, args, schema: blockerRows });
  return rows.map(({ workspace_id, ...row }) => ({ workspaceId: workspace_id, ...row }));
}
