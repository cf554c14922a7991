import type { AppLoadContext } from "@remix-run/node";
import { problem } from "../http/problem.ts";
import { getServiceCaller } from "../machines/service-caller.ts";
import { requireFreshUser } from "../session/user.ts";
import { requirePermission, type WorkspacePermission } from "./permission.ts";

/** Who calls the API of a workspace: a member, or a service account of the workspace. */
interface WorkspaceCaller {
  /** The ids of the caller and the workspace. The database functions take a service account's id like a member's. */
  member: { userId: string; workspaceId: string };
  /** The scopes of the service account's token; null for a member, whose role the database reads. */
  scopes: readonly string[] | null;
}

/**
 * Returns the member or the service account that makes an API request in a workspace. To a workspace's service account,
 * other workspaces are missing, as all are to the platform's service accounts.
 * @param options.fresh whether the request needs a recent proof of a person's identity. A program has none to give; its
 * tokens are short-lived.
 * @throws Response for members like {@link requirePermission}, and 403 STEP_UP_REQUIRED
 * @throws Response for service accounts 401, 403 FORBIDDEN without the scope, 404 for another workspace
 */
export async function requireWorkspaceCaller(
  context: AppLoadContext,
  options: {
    request: Request;
    params: { workspaceId?: string | undefined };
    permission: WorkspacePermission;
    fresh?: boolean;
  },
): Promise<WorkspaceCaller> {
  const { request, params, permission, fresh = false } = options;
  const caller = await getServiceCaller(context, request);
  if (caller === null) {
    const { member } = await requirePermission(context, { request, params, permission });
    if (fresh) await requireFreshUser(context, request);
    return { member, scopes: null };
  }
  if (caller.workspaceId === null || caller.workspaceId !== params.workspaceId) {
    throw problem("NOT_FOUND", { requestId: context.requestId });
  }
  const found = { member: { userId: caller.id, workspaceId: caller.workspaceId }, scopes: caller.scopes };
  requireScope(context, { caller: found, permission });
  return found;
}

/**
 * Requires that a service account's token has a scope that depends on the request's body. The database checks a
 * member's role and the service account's own scopes, but it doesn't know to which scopes the token is limited.
 * @throws Response 403 FORBIDDEN
 */
export function requireScope(
  { requestId }: Pick<AppLoadContext, "requestId">,
  { caller, permission }: { caller: WorkspaceCaller; permission: WorkspacePermission },
): void {
  if (caller.scopes === null || caller.scopes.includes(permission)) return;
  const detail = `The service account’s token doesn’t have the scope ${permission}.`;
  throw problem("FORBIDDEN", { requestId, detail });
}
