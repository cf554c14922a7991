import type { PostgrestError } from "@supabase/supabase-js";
import { z } from "zod";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import type { User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";
import { workspacePermissions } from "./permission.ts";

const memberRow = z.object({
  user_id: z.uuid(),
  name: z.string(),
  role_id: z.uuid(),
  role: z.string(),
  is_owner: z.boolean(),
  joined_at: z.string(),
  sorts_as: z.string(),
  email: z.string().nullable(),
});
const roleRow = z.object({
  id: z.uuid(),
  name: z.string(),
  is_owner: z.boolean(),
  permissions: z
    .array(z.enum(workspacePermissions))
    .transform((given) => workspacePermissions.filter((one) => given.includes(one))),
  /** The monthly budget in USD that a person without one gets with this role. */
  member_budget_usd: z.number().nullable(),
});

export interface Member {
  userId: string;
  name: string;
  /** Visible to people who manage members, and to the member. Null for everyone else. */
  email: string | null;
  roleId: string;
  role: string;
  isOwner: boolean;
  joinedAt: string;
}

export type Role = z.infer<typeof roleRow>;

type WorkspaceParams = { workspaceId: string; requestId: string };

/** Filters for a workspace's members. Selects all members if no filter is set. */
interface MemberQuery extends WorkspaceParams {
  limit: number;
  cursor?: string | null;
  /** Part of a name, or of an email that the caller may see, case-insensitive. */
  search?: string;
  roleId?: string;
  userId?: string;
}

const ownerPart = z.enum(["true", "false"]);
const idPart = z.uuid();

function readMemberCursor(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 3 });
  return ownerPart.safeParse(position?.[0]).success && idPart.safeParse(position?.[2]).success ? position : null;
}

/**
 * Returns a page of a workspace's members, owners first, then by name.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listMembers(
  { data }: User,
  { workspaceId, requestId, limit, cursor = null, search = "", roleId, userId }: MemberQuery,
): Promise<{ members: Member[]; nextCursor: string | null }> {
  const { data: rows, error } = await data.rpc("list_workspace_members", {
    workspace_id: workspaceId,
    search,
    of_role: roleId ?? null,
    member_id: userId ?? null,
    after: parseCursor(cursor, { read: readMemberCursor, requestId }),
    page_size: limit + 1,
  });
  if (error) throw workspaceProblem(error, { requestId });
  const { records, nextCursor } = buildPage(z.array(memberRow).parse(rows), {
    limit,
    cursorOf: ({ is_owner, sorts_as, user_id }) => writeKeyCursor([String(is_owner), sorts_as, user_id]),
  });
  const members = records.map(({ user_id, name, email, role_id, role, is_owner, joined_at }) => ({
    userId: user_id,
    name,
    email,
    roleId: role_id,
    role,
    isOwner: is_owner,
    joinedAt: joined_at,
  }));
  return { members, nextCursor };
}

/**
 * Returns the member whose user id is `userId`, or null if the workspace has no such member. `userId` may be any text.
 */
export async function getMember(
  user: User,
  { userId, ...place }: WorkspaceParams & { userId: string | null },
): Promise<Member | null> {
  if (!idPart.safeParse(userId).success || userId === null) return null;
  return (await listMembers(user, { ...place, userId, limit: 1 })).members[0] ?? null;
}

const nameRow = z.object({ user_id: z.uuid(), profile: z.object({ display_name: z.string() }).nullable() });

/** Returns the names of the given people who are members, by user id. */
export async function listMemberNames(
  { data }: User,
  { workspaceId, requestId, userIds }: WorkspaceParams & { userIds: readonly string[] },
): Promise<Map<string, string>> {
  const { data: rows, error } = await data
    .from("workspace_members")
    .select("user_id, profile:profiles(display_name)")
    .eq("workspace_id", workspaceId)
    .in("user_id", [...new Set(userIds)]);
  if (error) throw workspaceProblem(error, { requestId });
  return new Map(
    z
      .array(nameRow)
      .parse(rows)
      .map(({ user_id, profile }) => [user_id, profile?.display_name ?? "Unknown"]),
  );
}

/** Returns a workspace's roles, from the widest to the narrowest. */
export async function listRoles({ data }: User, { workspaceId, requestId }: WorkspaceParams): Promise<Role[]> {
  const { data: rows, error } = await data
    .from("workspace_roles")
    .select("id, name, is_owner, permissions, member_budget_usd")
    .eq("workspace_id", workspaceId);
  if (error) throw workspaceProblem(error, { requestId });
  return z.array(roleRow).parse(rows).sort(byWidth);
}

const countedRole = roleRow.extend({
  /** Counted up to 1,001. */
  members: z.number(),
});

/** Returns a workspace's roles like {@link listRoles}, each with its number of members. */
export async function listCountedRoles(
  { data }: User,
  { workspaceId, requestId }: WorkspaceParams,
): Promise<z.infer<typeof countedRole>[]> {
  const { data: rows, error } = await data.rpc("list_workspace_roles", { workspace_id: workspaceId });
  if (error) throw workspaceProblem(error, { requestId });
  return z.array(countedRole).parse(rows).sort(byWidth);
}

function byWidth(a: Role, b: Role): number {
  return (
    Number(b.is_owner) - Number(a.is_owner) ||
    b.permissions.length - a.permissions.length ||
    a.name.localeCompare(b.name)
  );
}

/**
 * Assigns another role to a member. Row-level security refuses roles above the caller's own.
 * @returns null, or the failure: PT409 if no owner would remain, PT404 if nothing was changed
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
 * Removes a member from a workspace, or lets the caller leave it. Revokes the given keys that the member made, if the
 * removal succeeds and the caller manages keys.
 * @returns like {@link changeRole}
 */
export async function removeMember(
  { data }: User,
  { workspaceId, userId, keyIds }: { workspaceId: string; userId: string; keyIds: readonly string[] },
): Promise<Pick<PostgrestError, "code"> | null> {
  const args = { workspace_id: workspaceId, user_id: userId, key_ids: keyIds };
  const { error } = await data.rpc("remove_workspace_member", args);
  return error?.code === "PT404" ? { code: error.code } : error;
}

/** Makes another member the owner. The caller gets the next lower role. @returns the failure or null */
export async function transferOwnership(
  { data }: User,
  { workspaceId, userId }: { workspaceId: string; userId: string },
): Promise<PostgrestError | null> {
  const { error } = await data.rpc("transfer_workspace_ownership", { workspace_id: workspaceId, new_owner_id: userId });
  return error;
}
