/**
 * The scopes of the platform's service accounts. The database has the same list. No scope allows requiring MFA,
 * resetting authenticators, recovering accounts, or changing roles and service accounts: only people do that.
 */
export const platformScopes = [
  "admin:accounts:read",
  "admin:accounts:write",
  "admin:workspaces:read",
  "admin:workspaces:write",
  "admin:approvals:write",
  "admin:catalogue:read",
  "admin:catalogue:write",
  "admin:apps:read",
  "admin:apps:write",
  "admin:books",
  "admin:audit:read",
  "admin:security:read",
] as const;
type PlatformScope = (typeof platformScopes)[number];

/**
 * The scopes of a workspace's service accounts: the permissions of members that a program may have. It can't invite or
 * remove people, or rename and delete the workspace.
 */
export const workspaceScopes = ["use_ai_studio", "manage_ai_keys", "manage_ai_policy"] as const;
type WorkspaceScope = (typeof workspaceScopes)[number];

/** What each scope allows, as shown where people choose it. */
const scopeLabels: Record<PlatformScope | WorkspaceScope, string> = {
  "admin:accounts:read": "See accounts and blocked IP addresses",
  "admin:accounts:write": "Change accounts: invite, ban, delete, sign out, lift blocks, and open or close sign-up",
  "admin:workspaces:read": "See workspaces and their credits",
  "admin:workspaces:write": "Change workspaces: plan, credits, policy, budgets",
  "admin:approvals:write": "Approve and decline API keys",
  "admin:catalogue:read": "See models, prices, plans and providers",
  "admin:catalogue:write": "Change models, prices, plans and providers’ limits",
  "admin:apps:read": "See apps and OpenID clients",
  "admin:apps:write": "Change apps and OpenID clients, and rotate their secrets",
  "admin:books": "Use the platform’s books",
  "admin:audit:read": "Read the audit log",
  "admin:security:read": "See required MFA, recovery, administrators and service accounts",
  use_ai_studio: "See runs, usage and costs, and record invoices",
  manage_ai_keys: "Create, edit, rotate and revoke API keys",
  manage_ai_policy: "Set models, budgets and limits",
};

/** Returns what a scope allows, or the scope itself if only a newer version knows it. */
export function scopeLabel(scope: string): string {
  return Object.hasOwn(scopeLabels, scope) ? scopeLabels[scope as keyof typeof scopeLabels] : scope;
}
