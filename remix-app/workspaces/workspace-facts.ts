import type { WorkspaceAccess } from "./permission.ts";

/** A workspace's facts for a member, as terms and texts. */
export function workspaceFacts({
  planId,
  personal,
  role,
}: Pick<WorkspaceAccess, "planId" | "personal" | "role">): [term: string, text: string][] {
  return [
    ["Plan", planId],
    ["Type", personal ? "Personal" : "Shared"],
    ["Your role", role],
  ];
}
