import { z } from "zod";
import type { User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";

const row = z.object({
  id: z.number(),
  actor_id: z.uuid().nullable(),
  action: z.string(),
  subject: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  created_at: z.string(),
});

export interface LogEntry {
  id: number;
  actorId: string | null;
  action: string;
  subject: string | null;
  details: Record<string, unknown>;
  at: string;
}

const pageSize = 50;

/**
 * Returns a page of a workspace's log, newest first. Only its owners can read it.
 * @param options.before the id of the previous page's last entry
 */
export async function listLogEntries(
  { data }: User,
  { workspaceId, before, requestId }: { workspaceId: string; before: number | null; requestId: string },
): Promise<{ entries: LogEntry[]; next: number | null }> {
  const query = data
    .from("workspace_audit_log")
    .select("id, actor_id, action, subject, details, created_at")
    .eq("workspace_id", workspaceId)
    .order("id", { ascending: false })
    .limit(pageSize + 1);
  const { data: rows, error } = await (before === null ? query : query.lt("id", before));
  if (error) throw workspaceProblem(error, { requestId });
  const entries = z
    .array(row)
    .parse(rows)
    .map(({ actor_id, created_at, ...entry }) => ({ ...entry, actorId: actor_id, at: created_at }));
  const page = entries.slice(0, pageSize);
  return { entries: page, next: entries.length > pageSize ? (page.at(-1)?.id ?? null) : null };
}

/** Verbs for members' actions, by the log entry's action. */
const verbs: Record<string, string> = {
  "workspace.created": "created the workspace",
  "workspace.changed": "changed the workspace",
  "workspace.deleted": "deleted the workspace",
  "member.joined": "joined",
  "member.left": "left or was removed",
  "member.role_changed": "was given another role",
  "role.created": "created the role",
  "role.changed": "changed the role",
  "role.deleted": "deleted the role",
  "invitation.sent": "invited",
  "invitation.accepted": "accepted the invitation to",
  "invitation.withdrawn": "withdrew the invitation to",
  "key.created": "created the key",
  "key.rotated": "rotated the key",
  "key.revoked": "revoked the key",
  "agent_access.approved": "approved coding agents for",
  "agent_access.declined": "declined coding agents for",
  "agent_access.withdrawn": "withdrew the approval of coding agents for",
  "provider_costs.imported": "imported costs of",
  "provider_invoice.recorded": "recorded the invoice",
  "run_content.read": "viewed the prompts and answers of the run",
  "ai_policy.changed": "changed",
  "budget.changed": "changed the budget of",
};

/** Formats a log entry as a sentence, also for an unknown future action. */
export function activitySentence({
  action,
  actor,
  actorId,
  subject,
}: Pick<LogEntry, "action" | "actorId" | "subject"> & {
  /** The actor's name; null if they have left the workspace, or the system acted. */
  actor: string | null;
}): string {
  const what = verbs[action] ?? action.replaceAll(/[._]/g, " ");
  if (action.startsWith("member.")) {
    const by = actor ?? (actorId ? "a former member" : null);
    return `${subject ?? "Someone"} ${what}${by ? ` (by ${by})` : ""}`;
  }
  return `${actor ?? (actorId ? "A former member" : "System")} ${what} ${subject ?? ""}`.trim();
}
