/** What an app may be allowed, each with its field in forms; the database has the same list. */
export const appScopes = [
  { field: "scopeProfile", scope: "profile", label: "Profile: who its users are" },
  { field: "scopeWorkspacesRead", scope: "workspaces:read", label: "Read workspaces" },
  { field: "scopeWorkspacesWrite", scope: "workspaces:write", label: "Rename workspaces" },
  { field: "scopeStudioRead", scope: "studio:read", label: "Read provider costs and invoices" },
  { field: "scopeWorkspaceSession", scope: "workspace:session", label: "Act in linked workspaces (external)" },
  { field: "scopeAiUse", scope: "ai:use", label: "Use models (external)" },
  { field: "scopeTtsUse", scope: "tts:use", label: "Use speech (external)" },
] as const;
