import type { WorkspacePermission } from "./permission.ts";

/** What each permission is called where people give it, and what it lets its holders do. */
export const permissionWords: Record<WorkspacePermission, { name: string; explanation: string }> = {
  manage_workspace_settings: { name: "Manage the workspace", explanation: "Rename it and delete it." },
  manage_members: { name: "Manage members", explanation: "Invite and remove people, and define what roles allow." },
  manage_ai_keys: { name: "Manage keys", explanation: "Create, rotate and revoke keys of the AI gateway." },
  manage_ai_policy: { name: "Manage AI policy", explanation: "Choose models, budgets, limits and what is kept." },
  use_ai_studio: { name: "Use the AI studio", explanation: "Call the AI gateway, and see runs, usage and costs." },
};
