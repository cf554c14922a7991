import { z } from "zod";
import type { User } from "../identity/user.ts";
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
 * A page of a workspace's log, the newest first; its owners alone may read it.
 * @param options.before the id of the last entry of the page before
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
