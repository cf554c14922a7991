import type { SupabaseClient } from "@supabase/supabase-js";
import { z } from "zod";

const blocker = z.object({ workspaceId: z.uuid(), name: z.string(), members: z.number().int() });

/** A shared workspace whose only owner must transfer it before deleting their account. */
export type DeletionBlocker = z.infer<typeof blocker>;

const answer = z.object({ deleted: z.boolean(), blockers: z.array(blocker) });

/**
 * Deletes an account permanently, or returns the workspaces that block the deletion.
 * @param service the service role's client, which can delete any account: the caller must have checked whose account it
 * is
 * @throws Error if the database did not answer; nothing was deleted
 */
export async function deleteAccount(
  service: SupabaseClient,
  { userId, requestId }: { userId: string; requestId: string },
): Promise<z.infer<typeof answer>> {
  const { data, error } = await service
    .schema("private")
    .rpc("delete_account", { subject_id: userId, request_id: requestId });
  if (error) throw new Error(`the account couldn’t be deleted: ${error.code}`);
  return answer.parse(data);
}

/** Returns the workspaces that block an account's deletion, ordered by name. */
export async function deletionBlockers(service: SupabaseClient, userId: string): Promise<DeletionBlocker[]> {
  const { data, error } = await service.schema("private").rpc("list_account_deletion_blockers", { subject_id: userId });
  if (error) throw new Error(`the account’s workspaces couldn’t be read: ${error.code}`);
  const rows = z.array(z.object({ workspace_id: z.uuid(), name: z.string(), members: z.number().int() })).parse(data);
  return rows.map(({ workspace_id, ...row }) => ({ workspaceId: workspace_id, ...row }));
}
