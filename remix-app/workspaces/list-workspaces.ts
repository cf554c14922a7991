import { z } from "zod";
import { problem } from "../http/problem.ts";
import type { User } from "../identity/user.ts";

const rows = {
  workspaces: z.array(
    z.object({ id: z.uuid(), name: z.string(), plan_id: z.string(), personal_user_id: z.uuid().nullable() }),
  ),
  members: z.array(z.object({ workspace_id: z.uuid(), role_id: z.uuid() })),
  roles: z.array(z.object({ id: z.uuid(), name: z.string() })),
};

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
  { id: userId, data }: User,
  { requestId }: { requestId: string },
): Promise<Workspace[]> {
  const [workspaces, members, roles] = await Promise.all([
    data.from("workspaces").select("id, name, plan_id, personal_user_id").order("name"),
    data.from("workspace_members").select("workspace_id, role_id").eq("user_id", userId),
    data.from("workspace_roles").select("id, name"),
  ]);
  for (const { error } of [workspaces, members, roles]) {
    if (!error) continue;
    console.error(`error request=${requestId} workspaces could not be read: ${error.code}`);
    throw problem("UNAVAILABLE", { requestId });
  }
  const roleNames = new Map(rows.roles.parse(roles.data).map((role) => [role.id, role.name]));
  const myRoles = new Map(
    rows.members.parse(members.data).map((member) => [member.workspace_id, roleNames.get(member.role_id) ?? ""]),
  );
  return rows.workspaces
    .parse(workspaces.data)
    .map((row) => ({
      id: row.id,
      name: row.name,
      planId: row.plan_id,
      personal: row.personal_user_id === userId,
      role: myRoles.get(row.id) ?? "",
    }))
    .sort((a, b) => Number(b.personal) - Number(a.personal));
}
