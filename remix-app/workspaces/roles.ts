import type { Role } from "./members.ts";
import type { WorkspaceAccess } from "./permission.ts";

/**
 * The roles that a member may give on the members page: none that allows more than their own, as row-level security
 * judges too, and not the owner's, which is handed over on the settings page after a fresh sign-in.
 */
export function assignableRoles(
  roles: readonly Role[],
  { isOwner, permissions }: Pick<WorkspaceAccess, "isOwner" | "permissions">,
): { id: string; name: string }[] {
  return roles
    .filter((role) => !role.is_owner && (isOwner || role.permissions.every((one) => permissions.includes(one))))
    .map(({ id, name }) => ({ id, name }));
}
