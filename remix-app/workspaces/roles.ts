import type { Role } from "./members.ts";
import type { WorkspaceAccess } from "./permission.ts";

type Access = Pick<WorkspaceAccess, "isOwner" | "permissions">;

/**
 * The roles that a member may give on the members page: none that allows more than their own, as row-level security
 * judges too, and not the owner's, which is handed over on the settings page after a fresh sign-in.
 */
export function assignableRoles(roles: readonly Role[], access: Access): { id: string; name: string }[] {
  return roles.filter((role) => withinReach(role, access)).map(({ id, name }) => ({ id, name }));
}

/** Whether a member may change or delete a role: by the same measure, and only who manages members. */
export function mayDefine(role: Role, access: Access): boolean {
  return access.permissions.includes("manage_members") && withinReach(role, access);
}

/** A role's name as it begins a line or stands alone: those that every workspace has are stored in small letters. */
export function roleLabel(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1);
}

function withinReach(role: Role, { isOwner, permissions }: Access): boolean {
  return !role.is_owner && (isOwner || role.permissions.every((one) => permissions.includes(one)));
}
