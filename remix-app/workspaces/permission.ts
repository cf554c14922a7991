import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { requireFormAccount } from "../http/form.ts";
import { problem } from "../http/problem.ts";
import { type Reader, requireUser, type User } from "../session/user.ts";
import { callFunction } from "../supabase/data-api.ts";
import { workspaceProblem } from "./failures.ts";
import { listWorkspaces } from "./list-workspaces.ts";
import { permissionWords } from "./roles.ts";

export const workspacePermissions = [
  "manage_workspace_settings",
  "manage_members",
  "manage_ai_keys",
  "manage_ai_policy",
  "use_ai_studio",
] as const;

export type WorkspacePermission = (typeof workspacePermissions)[number];

const studioPermissions = new Set<WorkspacePermission>(["use_ai_studio", "manage_ai_keys", "manage_ai_policy"]);

const anyId = z.uuid();
const permission = z.enum(workspacePermissions);
const row = z.object({
  id: z.uuid(),
  name: z.string(),
  plan_id: z.string(),
  personal_user_id: z.uuid().nullable(),
  created_at: z.string(),
  workspace_members: z.array(
    z.object({
      role: z.object({ id: z.uuid(), name: z.string(), permissions: z.array(permission), is_owner: z.boolean() }),
    }),
  ),
});

/** A workspace with the caller's permissions in it. */
export interface WorkspaceAccess {
  id: string;
  name: string;
  planId: string;
  /** Whether the workspace is the caller's own personal workspace. */
  personal: boolean;
  createdAt: string;
  role: string;
  isOwner: boolean;
  permissions: readonly WorkspacePermission[];
  /** For pages: the first few of the caller's other workspaces. */
  others?: readonly { id: string; name: string }[];
  /** For studio pages: the credits left for the caller's requests, if low. */
  creditNotice?: CreditNotice | null;
}

const creditNoticeSchema = z.object({
  level: z.enum(["low", "empty"]),
  /** Exact decimal string. */
  available: z.string(),
});
type CreditNotice = z.infer<typeof creditNoticeSchema>;

/**
 * Returns a workspace if row-level security shows it to the user as a member, otherwise null.
 * @throws Response 503 UNAVAILABLE if the Data API did not answer
 */
export async function getWorkspace(
  { id: userId, data }: Reader,
  { workspaceId, requestId }: { workspaceId: string; requestId: string },
): Promise<WorkspaceAccess | null> {
  if (!anyId.safeParse(workspaceId).success) return null;
  const { data: found, error } = await data
    .from("workspaces")
    .select(
      "id, name, plan_id, personal_user_id, created_at, " +
        "workspace_members!inner(role:workspace_roles!inner(id, name, permissions, is_owner))",
    )
    .eq("id", workspaceId)
    .eq("workspace_members.user_id", userId)
    .maybeSingle();
  if (error) throw workspaceProblem(error, { requestId });
  if (!found) return null;
  const workspace = row.parse(found);
  const role = workspace.workspace_members[0]?.role;
  if (!role) return null;
  return {
    id: workspace.id,
    name: workspace.name,
    planId: workspace.plan_id,
    personal: workspace.personal_user_id === userId,
    createdAt: workspace.created_at,
    role: role.name,
    isOwner: role.is_owner,
    permissions: role.is_owner ? workspacePermissions : role.permissions,
  };
}

/** A request with the workspace id in its URL. */
type AskedWorkspace = { request: Request; params: { workspaceId?: string | undefined } };

interface FoundWorkspace {
  user: User;
  workspace: WorkspaceAccess;
  /** The ids of the user and the workspace, for reads and changes on the user's behalf. */
  member: { kind: "member"; userId: string; workspaceId: string };
}

/**
 * Returns the signed-in user and one of their workspaces. Another person's workspace and a missing one get the same
 * response.
 * @throws Response like requireUser; 404 NOT_FOUND if the user is not a member, 409 if the form is from another
 * account's page
 */
export async function requireWorkspace(
  context: AppLoadContext,
  { request, params }: AskedWorkspace,
): Promise<FoundWorkspace> {
  const { requestId } = context;
  const user = await requireUser(context, request);
  const workspaceId = params.workspaceId ?? "";
  const [found, others] = await Promise.all([
    getWorkspace(user, { workspaceId, requestId }),
    request.method === "GET" && context.surface !== "api" ? readOthers(user, { workspaceId, requestId }) : [],
  ]);
  if (found) {
    const workspace = { ...found, others };
    return { user, workspace, member: { kind: "member", userId: user.id, workspaceId: workspace.id } };
  }
  await requireFormAccount(context, request);
  throw problem("NOT_FOUND", { requestId });
}

const othersListed = 8;

/** Returns other workspaces to switch to. Returns none if the lookup fails, so that the page still loads. */
async function readOthers(
  user: User,
  { workspaceId, requestId }: { workspaceId: string; requestId: string },
): Promise<NonNullable<WorkspaceAccess["others"]>> {
  const listed = await listWorkspaces(user, { limit: othersListed + 1, requestId }).catch(() => null);
  const others = listed?.workspaces.filter(({ id }) => id !== workspaceId) ?? [];
  return others.slice(0, othersListed).map(({ id, name }) => ({ id, name }));
}

/**
 * Does the same as {@link requireWorkspace}, and requires a permission.
 * @throws Response 403 FORBIDDEN if the member's role does not include the permission
 */
export async function requirePermission(
  context: AppLoadContext,
  options: AskedWorkspace & { permission: WorkspacePermission },
): Promise<FoundWorkspace> {
  const found = await requireWorkspace(context, options);
  if (found.workspace.permissions.includes(options.permission)) {
    return studioPermissions.has(options.permission) ? withCreditNotice(context, found) : found;
  }
  await requireFormAccount(context, options.request);
  const detail = `Your role in this workspace doesn’t allow this. Ask an owner for the “${permissionWords[options.permission].name}” permission.`;
  throw problem("FORBIDDEN", { requestId: context.requestId, detail });
}

/**
 * Adds a notice if the credits for the member's requests are low or used up. The notice is null if they are not, or if
 * the database does not answer.
 */
export async function withCreditNotice(context: AppLoadContext, found: FoundWorkspace): Promise<FoundWorkspace> {
  if (context.surface === "api") return found;
  const args = { member_id: found.member.userId, workspace: found.member.workspaceId };
  const schema = creditNoticeSchema.nullable();
  const creditNotice = await callFunction(context, { name: "ai.read_credit_notice", args, schema }).catch(() => null);
  return { ...found, workspace: { ...found.workspace, creditNotice } };
}
