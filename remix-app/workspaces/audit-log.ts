import { z } from "zod";
import { formatDateTime } from "../http/date-text.ts";
import type { User } from "../session/user.ts";
import { formatCount, formatExactUsd } from "../ui/format-amount.ts";
import { workspaceProblem } from "./failures.ts";
import { roleLabel } from "./roles.ts";
import { planLabel } from "./workspace-facts.ts";

const row = z.object({
  id: z.number(),
  actor_id: z.uuid().nullable(),
  action: z.string(),
  subject_id: z.uuid().nullable(),
  subject: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  created_at: z.string(),
});

export interface LogEntry {
  id: number;
  actorId: string | null;
  action: string;
  subjectId: string | null;
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
    .select("id, actor_id, action, subject_id, subject, details, created_at")
    .eq("workspace_id", workspaceId)
    .order("id", { ascending: false })
    .limit(pageSize + 1);
  const { data: rows, error } = await (before === null ? query : query.lt("id", before));
  if (error) throw workspaceProblem(error, { requestId });
  const entries = z
    .array(row)
    .parse(rows)
    .map(({ actor_id, subject_id, created_at, ...entry }) => ({
      ...entry,
      actorId: actor_id,
      subjectId: subject_id,
      at: created_at,
    }));
  const page = entries.slice(0, pageSize);
  return { entries: page, next: entries.length > pageSize ? (page.at(-1)?.id ?? null) : null };
}

/** Verb phrases by the action of a log entry. {} stands for the entry's `subject`. */
const verbPhrases: Record<string, string> = {
  "workspace.created": "created the workspace “{}”",
  "workspace.changed": "changed the workspace “{}”",
  "workspace.deleted": "deleted the workspace “{}”",
  "role.created": "created the role “{}”",
  "role.changed": "changed the role “{}”",
  "role.deleted": "deleted the role “{}”",
  "invitation.sent": "invited {}",
  "invitation.accepted": "accepted the invitation sent to {}",
  "invitation.withdrawn": "withdrew the invitation to {}",
  "key.created": "created the API key “{}”",
  "key.changed": "changed the API key “{}”",
  "key.rotated": "rotated the API key “{}”",
  "key.revoked": "revoked the API key “{}”",
  "agent_access.approved": "approved coding agents for {}",
  "agent_access.declined": "declined coding agents for {}",
  "agent_access.withdrawn": "withdrew the approval of coding agents for {}",
  "provider_costs.imported": "imported provider costs: {}",
  "provider_invoice.recorded": "recorded the invoice “{}”",
  "provider_invoice.document_attached": "attached the document of the invoice “{}”",
  "run_content.read": "viewed the prompts and answers of run {}",
  "ai_policy.changed": "changed {}",
  "budget.changed": "changed the budget of “{}”",
  "envelope.opened": "set a task limit for “{}”",
  "envelope.changed": "changed the task limit of “{}”",
  "envelope.ended": "stopped the task “{}”",
  "service_account.created": "created the service account “{}”",
  "service_account.changed": "changed the service account “{}”",
  "service_account.secret_rotated": "created a new secret of the service account “{}”",
  "service_account.key_added": "added a key of the service account “{}”",
  "service_account.credential_removed": "removed a credential of the service account “{}”",
  "service_account.revoked": "revoked the service account “{}”",
};

const keySettings: Record<string, string> = {
  name: "name",
  environment: "environment",
  expiresAt: "expiry",
  allowedModels: "models",
  allowedAddresses: "IP addresses",
  strict: "strict mode",
  requestsPerMinute: "rate limit",
  tokensPerMinute: "rate limit",
};

const workspaceFields = z.object({ name: z.string(), plan: z.string() });
const workspaceChange = z.object({ before: workspaceFields, after: workspaceFields });
const roleChange = z.object({ after: z.string() });
const costImport = z.object({ provider: z.string(), file: z.string() });

const taskLimits = z.object({ limitUsd: z.string(), calls: z.number().nullable(), endsAt: z.string() });
const taskLimitChange = z.object({ before: taskLimits.optional(), after: taskLimits });

type ShownEntry = Omit<LogEntry, "id" | "at"> & {
  /** The name of the person or service account; null if they have left the workspace, or the system acted. */
  actor: string | null;
};

/** Formats a log entry as a sentence, even if this version does not know the action. */
export function formatLogEntry(entry: ShownEntry): string {
  const { action, actor, actorId, subjectId } = entry;
  const by = actor ?? (actorId ? "A former member" : "System");
  const subject = entry.subject ?? "a former member";
  const own = actorId !== null && actorId === subjectId;
  if (action === "member.joined") return `${entry.subject ?? "A former member"} joined`;
  if (action === "member.left") return own ? `${entry.subject ?? by} left` : `${by} removed ${subject}`;
  if (action === "member.role_changed") {
    const { data } = roleChange.safeParse(entry.details);
    const role = own ? "their own role" : `the role of ${subject}`;
    return `${by} changed ${role}${data ? ` to “${roleLabel(data.after)}”` : ""}`;
  }
  return `${by} ${verbPhrase(entry)}`;
}

function verbPhrase({ action, subject, details }: ShownEntry): string {
  const change = workspaceChange.safeParse(details).data;
  if (action === "workspace.changed" && change) {
    const { before, after } = change;
    const renamed = before.name === after.name ? null : `renamed the workspace to “${after.name}”`;
    const newPlan = before.plan === after.plan ? null : `changed the plan to ${planLabel(after.plan)}`;
    if (renamed || newPlan) return [renamed, newPlan].filter(Boolean).join(" and ");
  }
  const changed = new Set(Object.keys(details).flatMap((name) => keySettings[name] ?? []));
  if (action === "key.changed" && changed.size > 0) {
    return `changed the ${new Intl.ListFormat("en").format(changed)} of the API key “${subject ?? ""}”`;
  }
  const costs = costImport.safeParse(details).data;
  if (action === "provider_costs.imported" && costs) return `imported ${costs.provider} costs from “${costs.file}”`;
  const limits = taskLimitChange.safeParse(details).data;
  if (action.startsWith("envelope.") && limits) return describeTaskLimits(subject ?? "", limits);
  const phrase = verbPhrases[action] ?? `${action.replaceAll(/[._]/g, " ")} {}`;
  return phrase.replace("{}", () => subject ?? "").trim();
}

function describeTaskLimits(subject: string, { before, after }: z.infer<typeof taskLimitChange>): string {
  const calls = ({ calls }: typeof after) => (calls === null ? "unlimited" : formatCount(calls));
  if (!before) return `set a task limit of ${formatExactUsd(after.limitUsd)} for “${subject}”`;
  const changed: [string, string, string][] = [
    ["spending", formatExactUsd(before.limitUsd), formatExactUsd(after.limitUsd)],
    ["requests", calls(before), calls(after)],
    ["end", formatDateTime(before.endsAt), formatDateTime(after.endsAt)],
  ];
  const parts = changed.flatMap(([name, from, to]) => (from === to ? [] : [`${name} from ${from} to ${to}`]));
  return `changed the task limit of “${subject}”${parts.length > 0 ? `: ${parts.join(", ")}` : ""}`;
}
