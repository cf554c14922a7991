import { z } from "zod";
import { problem } from "../http/problem.ts";
import { isReadable } from "../http/readable.ts";
import type { User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";
import { workspacePermissions } from "./permission.ts";

const roleFields = {
  // The database table has the same constraints on names.
  name: z
    .string()
    .trim()
    .min(1, "Enter a name for the role.")
    .max(40, "Use at most 40 characters for the name.")
    .refine(isReadable, "Use letters, digits and spaces for the name."),
  permissions: z.array(z.enum(workspacePermissions)),
  memberBudgetUsd: z.coerce.number().min(0).max(1_000_000_000).nullable(),
};

const roleChange = z.discriminatedUnion("intent", [
  z.object({ intent: z.literal("create"), ...roleFields }),
  z.object({ intent: z.literal("save"), ...roleFields }),
  z.object({ intent: z.literal("delete") }),
]);

/** Reads the typed name and what is ticked, to validate it and to show it again on failure. */
export function readRoleForm(form: FormData) {
  return {
    name: String(form.get("name") ?? ""),
    permissions: workspacePermissions.filter((one) => form.has(one)),
    memberBudgetUsd: form.has("memberBudgetUsd") ? Number(form.get("memberBudgetUsd")) : null,
  };
}

export function parseRoleChange(form: FormData) {
  return roleChange.safeParse({ intent: form.get("intent"), ...readRoleForm(form) });
}

/** Returns why a name is invalid, as text for its field, or null if something else is invalid. */
export function nameFault(error: z.ZodError): string | null {
  return error.issues.find(({ path }) => path[0] === "name")?.message ?? null;
}

/**
 * Creates, changes or deletes a role. Row-level security refuses permissions that the caller does not have.
 * @returns null, or the message about a conflict
 * @throws Response a problem if the caller is not allowed, the role no longer exists, or the database did not answer
 */
export async function applyRoleChange(
  { data }: User,
  options: { workspaceId: string; roleId?: string; change: z.infer<typeof roleChange>; requestId: string },
): Promise<string | null> {
  const { workspaceId, roleId = "", change, requestId } = options;
  const roles = data.from("workspace_roles");
  const one = { workspace_id: workspaceId, id: roleId };
  const { data: changed, error } = await (() => {
    switch (change.intent) {
      case "create":
        return roles.insert({ workspace_id: workspaceId, ...roleColumns(change) }).select("id");
      case "save":
        return roles.update(roleColumns(change)).match(one).select("id");
      case "delete":
        return roles.delete().match(one).select("id");
    }
  })();
  if (error?.code === "PT409") return "A workspace can have at most 100 roles. Delete one you don’t need first.";
  if (error?.code === "23514") {
    return "Use letters of one alphabet in each word, no invisible characters, and no lookalike of owner, admin or member.";
  }
  if (error?.code === "23505") return "A role with this name already exists.";
  if (error?.code === "23503") return "Someone still has this role. Give them another role first.";
  if (error) throw workspaceProblem(error, { requestId });
  if (changed.length > 0) return null;
  throw problem("NOT_FOUND", { requestId, detail: "This role doesn’t exist, or you can’t change it." });
}

function roleColumns({
  name,
  permissions,
  memberBudgetUsd,
}: Exclude<z.infer<typeof roleChange>, { intent: "delete" }>) {
  return { name, permissions, member_budget_usd: memberBudgetUsd };
}
