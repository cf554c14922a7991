import type { PostgrestError } from "@supabase/supabase-js";
import { z } from "zod";
import type { User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";
import { workspacePermissions } from "./permission.ts";

const memberRow = z.object({
  user_id: z.uuid(),
  created_at: z.string(),
  profile: z.object({ display_name: z.string(), avatar_url: z.string().nullable() }).nullable(),
  role: z.object({ id: z.uuid(), name: z.string(), is_owner: z.boolean() }),
});
const roleRow = z.object({
  id: z.uuid(),
  name: z.string(),
  is_owner: z.boolean(),
  permissions: z.array(z.enum(workspacePermissions)),
});

export interface Member {
  userId: string;
  name: string;
  roleId: string;
  role: string;
  isOwner: boolean;
  joinedAt: string;
}

export type Role = z.infer<typeof roleRow>;

type Place = { workspaceId: string; requestId: string };

/** Members of a workspace, owners first, then by name. */
export async function listMembers({ data }: User, { workspaceId, requestId }: Place): Promise<Member[]> {
  const { data: rows, error } = await data
    .from("workspace_members")
    .select(
      "user_id, created_at, profile:profiles(display_name, avatar_url), role:workspace_roles!inner(id, name, is_owner)",
    )
    .eq("workspace_id", workspaceId);
  if (error) throw workspaceProblem(error, { requestId });
  return z
    .array(memberRow)
    .parse(rows)
    .map((row) => ({
      userId: row.user_id,
      name: row.profile?.display_name ?? "Unknown",
      roleId: row.role.id,
      role: row.role.name,
      isOwner: row.role.is_owner,
      joinedAt: row.created_at,
    }))
    .sort((a, b) => Number(b.isOwner) - Number(a.isOwner) || a.name.localeCompare(b.name));
}

/** Roles of a workspace, from the widest to the narrowest. */
export async function listRoles({ data }: User, { workspaceId, requestId }: Place): Promise<Role[]> {
  const { data: rows, error } = await data
    .from("workspace_roles")
    .select("id, name, is_owner, permissions")
    .eq("workspace_id", workspaceId);
  if (error) throw workspaceProblem(error, { requestId });
  return z
    .array(roleRow)
    .parse(rows)
    .sort(
      (a, b) =>
        Number(b.is_owner) - Number(a.is_owner) ||
        b.permissions.length - a.permissions.length ||
        a.name.localeCompare(b.name),
    );
}

/**
 * Gives a member another role. Row-level security refuses roles above the caller's own.
 * @returns null, or the failure: PT409 where it would leave no owner, PT404 where nothing was changed
 */
export async function changeRole(
  { data }: User,
  { workspaceId, userId, roleId }: { workspaceId: string; userId: string; roleId: string },
): Promise<Pick<PostgrestError, "code"> | null> {
  const { data: changed, error } = await data
    .from("workspace_members")
    .update({ role_id: roleId })
    .eq("workspace_id", workspaceId)
    .eq("user_id", userId)
    .select("user_id");
  return error ?? (changed.length === 0 ? { code: "PT404" } : null);
}

/**
 * Takes a member out of a workspace, or lets the caller leave it.
 * @returns as {@link changeRole}
 */
export async function removeMember(
  { data }: User,
  { workspaceId, userId }: { workspaceId: string; userId: string },
): Promise<Pick<PostgrestError, "code"> | null> {
  const { data: removed, error } = await data
    .from("workspace_members")
    .delete()
    .eq("workspace_id", workspaceId)
    .eq("user_id", userId)
    .select("user_id");
  return error ?? (removed.length === 0 ? { code: "PT404" } : null);
}

/** Makes another member the owner; the caller stays as what comes next below. @returns the failure or null */
export async function transferOwnership(
  { data }: User,
  { workspaceId, userId }: { workspaceId: string; userId: string },
): Promise<PostgrestError | null> {
  const { error } = await data.rpc("transfer_workspace_ownership", { workspace_id: workspaceId, new_owner_id: userId });
  return error;
}
