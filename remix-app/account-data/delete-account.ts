import type { SupabaseClient } from "@supabase/supabase-js";
import { z } from "zod";

const blocker = z.object({ workspaceId: z.uuid(), name: z.string(), members: z.number().int() });

/** A workspace with others in it that needs another owner before its only one may go. */
export type DeletionBlocker = z.infer<typeof blocker>;

const answer = z.object({ deleted: z.boolean(), blockers: z.array(blocker) });

/**
 * Ends an account for good, or says which workspaces stand in the way.
 * @param service the service role's client; whose account it is was decided by the caller
 * @throws Error where the database did not answer; nothing is deleted then
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

/** The workspaces that stand in the way of an account's deletion, by name. */
export async function deletionBlockers(service: SupabaseClient, userId: string): Promise<DeletionBlocker[]> {
  const { data, error } = await service.schema("private").rpc("list_account_deletion_blockers", { subject_id: userId });
  if (error) throw new Error(`the account’s workspaces couldn’t be read: ${error.code}`);
  const rows = z.array(z.object({ workspace_id: z.uuid(), name: z.string(), members: z.number().int() })).parse(data);
  return rows.map(({ workspace_id, ...row }) => ({ workspaceId: workspace_id, ...row }));
}
