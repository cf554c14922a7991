import type { PostgrestClient } from "@supabase/postgrest-js";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { buildPage, parseCursor, readCursor, writeCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { type EventGroup, eventGroups } from "./event-kinds.ts";

const eventRowSchema = z.object({
  id: z.uuid(),
  kind: z.string(),
  method: z.string().nullable(),
  session_id: z.uuid().nullable(),
  ip: z.string().nullable(),
  user_agent: z.string().nullable(),
  device: z.string().nullable(),
  place: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  created_at: z.string(),
});
const eventRowsSchema = z.array(eventRowSchema);

const activityEvent = z.object({
  id: z.uuid(),
  kind: z.string(),
  method: z.string().nullable(),
  sessionId: z.uuid().nullable(),
  ip: z.string().nullable(),
  userAgent: z.string().nullable(),
  device: z.string().nullable(),
  /** City and country as reported by a trusted proxy: "Porto, Portugal". */
  place: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  createdAt: z.iso.datetime(),
});

export type ActivityEvent = z.output<typeof activityEvent>;

export const activityPage = z.object({
  events: z.array(activityEvent),
  /** Cursor of the next page; null on the last one. */
  nextCursor: z.string().nullable(),
});
export type ActivityPage = z.output<typeof activityPage>;

/**
 * Returns the user's own log, newest first. Row-level security limits it to the signed-in account.
 * @param options.limit at most 100
 * @param options.cursor the `nextCursor` of an earlier page
 * @param options.group limits the list to one group of kinds
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE if the Data API did not answer
 */
export async function listEvents(
  { data }: { data: PostgrestClient },
  options: { limit: number; cursor?: string | null; group?: EventGroup | null; requestId: string },
): Promise<ActivityPage> {
  const { limit, cursor, group, requestId } = options;
  let query = data
    .from("security_events")
    .select("id, kind, method, session_id, ip, user_agent, device, place, details, created_at")
    .order("created_at", { ascending: false })
    .order("id", { ascending: false })
    .limit(limit + 1);
  if (group) query = query.in("kind", eventGroups[group].kinds);
  const before = parseCursor(cursor || null, { read: readCursor, requestId });
  if (before) {
    const { createdAt, id } = before;
    query = query.or(`created_at.lt.${createdAt},and(created_at.eq.${createdAt},id.lt.${id})`);
  }
  const { data: rows, error } = await query;
  if (error) {
    logError(`the activity could not be read: ${error.code}`, { requestId });
    throw problem("UNAVAILABLE", { requestId });
  }
  const cursorOf = ({ created_at, id }: z.infer<typeof eventRowSchema>) => writeCursor({ createdAt: created_at, id });
  const { records, nextCursor } = buildPage(eventRowsSchema.parse(rows), { limit, cursorOf });
  return {
    events: records.map((event) => ({
      id: event.id,
      kind: event.kind,
      method: event.method,
      sessionId: event.session_id,
      ip: event.ip,
      userAgent: event.user_agent,
      device: event.device,
      place: event.place,
      details: event.details,
      createdAt: new Date(event.created_at).toISOString(),
    })),
    nextCursor,
  };
}
