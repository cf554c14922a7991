import type { Role } from "./members.ts";
import type { WorkspaceAccess, WorkspacePermission } from "./permission.ts";

type Access = Pick<WorkspaceAccess, "isOwner" | "permissions">;

/**
 * Returns the roles that a member may assign on the members page: those whose permissions the member has too. Row-level
 * security enforces the same rule. The owner's role is transferred on the settings page instead, after a fresh sign-in.
 */
export function assignableRoles(roles: readonly Role[], access: Access): { id: string; name: string }[] {
  return roles.filter((role) => canAssignRole(role, access)).map(({ id, name }) => ({ id, name }));
}

/**
 * Returns whether a member may change or delete a role. The member must manage members and be able to assign the role,
 * see {@link assignableRoles}.
 */
export function canEditRole(role: Role, access: Access): boolean {
  return access.permissions.includes("manage_members") && canAssignRole(role, access);
}

/** Capitalizes a role's name for display, because built-in roles are stored in lower case. */
export function roleLabel(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1);
}

function canAssignRole(role: Role, { isOwner, permissions }: Access): boolean {
  return !role.is_owner && (isOwner || role.permissions.every((one) => permissions.includes(one)));
}

/** Each permission's name and explanation, as shown where people assign it. */
export const permissionWords: Record<WorkspacePermission, { name: string; explanation: string }> = {
  manage_workspace_settings: { name: "Manage the workspace", explanation: "Rename and delete the workspace." },
  manage_members: { name: "Manage members", explanation: "Invite and remove people, and edit roles." },
  manage_ai_keys: { name: "Manage API keys", explanation: "Create, rotate and revoke API keys." },
  manage_ai_policy: {
    name: "Manage AI policy",
    explanation: "Set models, budgets and limits, and whether prompts and answers are kept.",
  },
  use_ai_studio: { name: "Use AI", explanation: "Call models, and see runs, usage and costs." },
};
