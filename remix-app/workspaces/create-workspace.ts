import type { PostgrestError } from "@supabase/supabase-js";
import { z } from "zod";
import { isReadable } from "../http/readable.ts";
import type { User } from "../session/user.ts";

/** Parses a workspace's name as typed. */
export const workspaceNameSchema = z
  .string()
  .trim()
  .min(1, "Enter a name.")
  .max(80, "Enter a name of at most 80 characters.")
  .refine(isReadable, "Enter a name without invisible characters.");

/**
 * Creates a workspace with the user as its owner.
 * @returns the workspace's id, or the failure: PT409 if the user has too many workspaces
 */
export async function createWorkspace(
  { data }: User,
  name: string,
): Promise<{ id: string } | { error: PostgrestError }> {
  const { data: id, error } = await data.rpc("create_workspace", { name });
  return error ? { error } : { id: z.uuid().parse(id) };
}

/** Renames a workspace. @returns null, or the failure: PT404 if nothing was changed */
export async function renameWorkspace(
  { data }: User,
  { workspaceId, name }: { workspaceId: string; name: string },
): Promise<Pick<PostgrestError, "code"> | null> {
  const { data: renamed, error } = await data.from("workspaces").update({ name }).eq("id", workspaceId).select("id");
  return error ?? (renamed.length === 0 ? { code: "PT404" } : null);
}

/** Deletes a workspace for all of its members. @returns the failure or null */
export async function deleteWorkspace({ data }: User, workspaceId: string): Promise<PostgrestError | null> {
  const { error } = await data.rpc("delete_workspace", { workspace_id: workspaceId });
  return error;
}
