import type { WorkspaceAccess } from "./permission.ts";
import { roleLabel } from "./roles.ts";

/** Capitalizes a plan's ID for display. */
export function planLabel(planId: string): string {
  return planId.slice(0, 1).toUpperCase() + planId.slice(1);
}

/** Returns what a member sees about a workspace, as pairs of a term and its text. */
export function workspaceFacts({
  planId,
  personal,
  role,
}: Pick<WorkspaceAccess, "planId" | "personal" | "role">): [term: string, text: string][] {
  return [
    ["Plan", planLabel(planId)],
    ["Type", personal ? "Personal" : "Shared"],
    ["Your role", roleLabel(role)],
  ];
}
