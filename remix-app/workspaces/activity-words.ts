import type { LogEntry } from "./audit-log.ts";

/** What members do, by the action of the log's line. */
const verbs: Record<string, string> = {
  "workspace.created": "founded the workspace",
  "workspace.changed": "changed the workspace",
  "workspace.deleted": "deleted the workspace",
  "member.joined": "joined",
  "member.left": "left or was removed",
  "member.role_changed": "got another role",
  "role.created": "defined the role",
  "role.changed": "changed the role",
  "role.deleted": "deleted the role",
  "invitation.sent": "invited",
  "invitation.accepted": "accepted the invitation to",
  "invitation.withdrawn": "withdrew the invitation to",
  "key.created": "created the key",
  "key.rotated": "rotated the key",
  "key.revoked": "revoked the key",
  "provider_invoice.recorded": "recorded the invoice",
  "run_content.read": "read what was said in the run",
  "ai_policy.changed": "changed",
  "budget.changed": "changed the budget of",
};

/** A line of a workspace's log as a sentence, also of an action of tomorrow. */
export function activitySentence({
  action,
  actor,
  actorId,
  subject,
}: Pick<LogEntry, "action" | "actorId" | "subject"> & {
  /** What the actor is called; null where they are no member any more, or the service itself acted. */
  actor: string | null;
}): string {
  const what = verbs[action] ?? action.replaceAll(/[._]/g, " ");
  if (action.startsWith("member.")) {
    return `${subject ?? "Someone"} ${what} (by ${actor ?? (actorId ? "a former member" : "the service")})`;
  }
  return `${actor ?? (actorId ? "A former member" : "The service")} ${what} ${subject ?? ""}`.trim();
}
