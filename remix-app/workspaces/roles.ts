import { formatUsd } from "../ui/format-amount.ts";
import type { Role } from "./members.ts";
import type { WorkspaceAccess, WorkspacePermission } from "./permission.ts";

type Access = Pick<WorkspaceAccess, "isOwner" | "permissions">;

/**
 * Returns the roles that a member may assign on the members page: those whose permissions the member has too. Row-level
 * security enforces the same rule. The owner's role is transferred on the settings page instead, after a fresh sign-in.
 */
export function assignableRoles(roles: readonly Role[], access: Access): AssignableRole[] {
  return roles
    .filter((role) => canAssignRole(role, access))
    .map((role) => ({ id: role.id, name: role.name, description: describeRole(role) }));
}

export interface AssignableRole {
  id: string;
  name: string;
  description: string;
}

/** Describes what people with a role can do. */
export function describeRole(role: Omit<Role, "id" | "name">): string {
  if (role.is_owner) return "All permissions, plus transferring ownership.";
  const { permissions, member_budget_usd: budget } = role;
  const allowed =
    permissions.length === Object.keys(permissionWords).length
      ? "All permissions, except transferring ownership."
      : permissions.map((one) => permissionWords[one].explanation).join(" ") || "Can only see who’s in the workspace.";
  return budget === null ? allowed : `${allowed} ${startBudgetText(budget)}`;
}

function startBudgetText(budget: number): string {
  const amount = formatUsd(String(budget));
  return budget === 0
    ? `Starts with a monthly budget of ${amount}, so calls are refused until somebody raises it.`
    : `Starts with a monthly budget of ${amount}.`;
}

/** A role for people who only need costs and invoices. They see what `use_ai_studio` shows, and their calls are refused. */
export const financePreset = { name: "Finance", permissions: ["use_ai_studio"], memberBudgetUsd: 0 } as const;

/** Returns whether to offer the preset to a member: the workspace lacks the role, and the member may create it. */
export function offersFinancePreset(roles: readonly Pick<Role, "name">[], { permissions }: Access): boolean {
  return (
    permissions.includes("manage_members") &&
    financePreset.permissions.every((one) => permissions.includes(one)) &&
    !roles.some(({ name }) => name.toLowerCase() === financePreset.name.toLowerCase())
  );
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
  manage_ai_keys: { name: "Manage API keys", explanation: "Create, edit, rotate and revoke API keys." },
  manage_ai_policy: {
    name: "Manage AI policy",
    explanation: "Set models, budgets and limits, and whether prompts and answers are kept.",
  },
  use_ai_studio: { name: "Use AI", explanation: "Call models, and see runs, usage and costs." },
};
