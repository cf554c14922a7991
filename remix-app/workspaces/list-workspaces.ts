import { z } from "zod";
import { problem } from "../http/problem.ts";
import type { Reader } from "../session/user.ts";

const rows = z.array(
  z.object({
    id: z.uuid(),
    name: z.string(),
    plan_id: z.string(),
    personal_user_id: z.uuid().nullable(),
    workspace_members: z.array(z.object({ role: z.object({ name: z.string() }) })),
  }),
);

/** A workspace as one of its members sees it. */
export interface Workspace {
  id: string;
  name: string;
  planId: string;
  /** Whether it is the caller's own personal workspace. */
  personal: boolean;
  /** The caller's role in it. */
  role: string;
}

/**
 * The workspaces that a user belongs to, by name, their personal one first. Row-level security decides which.
 * @throws Response 503 UNAVAILABLE where the Data API did not answer
 */
export async function listWorkspaces(
  { id: userId, data }: Reader,
  { requestId }: { requestId: string },
): Promise<Workspace[]> {
  const { data: found, error } = await data
    .from("workspaces")
    .select("id, name, plan_id, personal_user_id, workspace_members!inner(role:workspace_roles!inner(name))")
    .eq("workspace_members.user_id", userId)
    .order("name");
  if (error) {
    console.error(`error request=${requestId} workspaces could not be read: ${error.code}`);
    throw problem("UNAVAILABLE", { requestId });
  }
  return rows
    .parse(found)
    .map((row) => ({
      id: row.id,
      name: row.name,
      planId: row.plan_id,
      personal: row.personal_user_id === userId,
      role: row.workspace_members[0]?.role.name ?? "",
    }))
    .sort((a, b) => Number(b.personal) - Number(a.personal));
}
