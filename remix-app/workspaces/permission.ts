import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { requireFormAccount } from "../http/form.ts";
import { problem } from "../http/problem.ts";
import { type Reader, requireUser, type User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";
import { permissionWords } from "./roles.ts";

export const workspacePermissions = [
  "manage_workspace_settings",
  "manage_members",
  "manage_ai_keys",
  "manage_ai_policy",
  "use_ai_studio",
] as const;

export type WorkspacePermission = (typeof workspacePermissions)[number];

/** The permissions of the AI studio. */
export const studioPermissions: ReadonlySet<WorkspacePermission> = new Set([
  "use_ai_studio",
  "manage_ai_keys",
  "manage_ai_policy",
]);

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
}

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

export interface FoundWorkspace {
  user: User;
  workspace: WorkspaceAccess;
  /** The ids of the user and the workspace, for reads and changes on the user's behalf. */
  member: { userId: string; workspaceId: string };
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
  const workspace = await readOnce(context, { request, read: () => getWorkspace(user, { workspaceId, requestId }) });
  if (workspace) return { user, workspace, member: { userId: user.id, workspaceId: workspace.id } };
  await requireFormAccount(context, request);
  throw problem("NOT_FOUND", { requestId });
}

/** The workspaces of the pages being loaded. */
const pageReads = new WeakMap<AppLoadContext, Promise<WorkspaceAccess | null>>();

/**
 * Reads a page's workspace once for the loaders of the page and of its frames, which run at the same time. An action
 * reads for itself, because the page that answers it shows what has changed.
 */
function readOnce(
  context: AppLoadContext,
  { request, read }: { request: Request; read: () => Promise<WorkspaceAccess | null> },
): Promise<WorkspaceAccess | null> {
  if (request.method !== "GET") return read();
  const reading = pageReads.get(context) ?? read();
  pageReads.set(context, reading);
  return reading;
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
  if (found.workspace.permissions.includes(options.permission)) return found;
  await requireFormAccount(context, options.request);
  const detail = `Your role in this workspace doesn’t allow this. Ask an owner for the “${permissionWords[options.permission].name}” permission.`;
  throw problem("FORBIDDEN", { requestId: context.requestId, detail });
}
