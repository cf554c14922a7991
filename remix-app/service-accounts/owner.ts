import type { AppLoadContext } from "@remix-run/node";
import { type InfrastructureAdmin, requireInfrastructureAdmin } from "../admin/require-admin.ts";
import { platformScopes, workspaceScopes } from "../machines/scopes.ts";
import { requireFreshUser } from "../session/user.ts";
import { requirePermission } from "../workspaces/permission.ts";

/** What service accounts belong to: the platform or a workspace. */
export interface ServiceAccountOwner {
  /** Null for the platform. */
  workspaceId: string | null;
  /** Names the owner in the titles of pages. */
  label: string;
  /** The path of the list of service accounts. */
  path: string;
  /** The scopes that the person may give to a service account. */
  scopes: readonly string[];
}

/** The owner of service accounts, and the person who manages them. */
export interface ServiceAccountManager {
  owner: ServiceAccountOwner;
  person: InfrastructureAdmin;
}

/**
 * Returns the person who may manage the service accounts that a URL is about, with their owner. The database checks
 * each change again. In a workspace, people can give service accounts only permissions that they have.
 * @param options.fresh whether a person of a workspace must have confirmed their identity recently, as admins always
 * must
 * @throws Response like {@link requireInfrastructureAdmin}, or like {@link requirePermission} and requireFreshUser
 */
export async function requireServiceAccountManager(
  context: AppLoadContext,
  {
    request,
    params,
    fresh = false,
  }: { request: Request; params: { workspaceId?: string | undefined }; fresh?: boolean },
): Promise<ServiceAccountManager> {
  if (params.workspaceId === undefined) {
    const { id, email, sessionId } = await requireInfrastructureAdmin(context, request);
    const owner = { workspaceId: null, label: "Console", path: "/admin/service-accounts", scopes: platformScopes };
    return { owner, person: { id, email, sessionId } };
  }
  const permission = "manage_members";
  const { user, workspace } = await requirePermission(context, { request, params, permission });
  if (fresh) await requireFreshUser(context, request, { keepsForm: true });
  return {
    owner: {
      workspaceId: workspace.id,
      label: workspace.name,
      path: `/workspaces/${workspace.id}/service-accounts`,
      scopes: workspaceScopes.filter((scope) => workspace.permissions.includes(scope)),
    },
    person: { id: user.id, email: user.email, sessionId: user.sessionId },
  };
}
