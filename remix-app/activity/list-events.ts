import { z } from "zod";
import { offsetTime } from "#shared/utc-time.ts";
import { problem } from "../http/problem.ts";
import type { User } from "../identity/user.ts";

const row = z.object({
  id: z.uuid(),
  kind: z.string(),
  method: z.string().nullable(),
  session_id: z.uuid().nullable(),
  ip: z.string().nullable(),
  user_agent: z.string().nullable(),
  device: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  created_at: z.string(),
});

const activityEvent = z.object({
  id: z.uuid(),
  kind: z.string(),
  method: z.string().nullable(),
  sessionId: z.uuid().nullable(),
  ip: z.string().nullable(),
  userAgent: z.string().nullable(),
  device: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  createdAt: z.iso.datetime(),
});

/** One line of an account's log. */
export type ActivityEvent = z.output<typeof activityEvent>;

/** A page of it. */
export const activityPage = z.object({
  events: z.array(activityEvent),
  /** Where the next page begins; null at the end. */
  nextCursor: z.string().nullable(),
});
export type ActivityPage = z.output<typeof activityPage>;

const cursorSchema = z.tuple([offsetTime, z.uuid()]);

/**
 * The user's own log, newest first. Row-level security decides whose.
 * @param options.limit how many, at most 100
 * @param options.cursor a `nextCursor` of before
 * @throws Response 400 INVALID_REQUEST where the cursor is none of ours, 503 UNAVAILABLE where the Data API did not answer
 */
export async function listEvents(
  { data }: User,
  { limit, cursor, requestId }: { limit: number; cursor?: string | null; requestId: string },
): Promise<ActivityPage> {
  let query = data
    .from("security_events")
    .select("id, kind, method, session_id, ip, user_agent, device, details, created_at")
    .order("created_at", { ascending: false })
    .order("id", { ascending: false })
    .limit(limit + 1);
  if (cursor) {
    const position = readCursor(cursor);
    if (!position) throw problem("INVALID_REQUEST", { requestId, detail: "The cursor is none of ours." });
    const [time, id] = position;
    query = query.or(`created_at.lt.${time},and(created_at.eq.${time},id.lt.${id})`);
  }
  const { data: rows, error } = await query;
  if (error) {
    console.error(`error request=${requestId} the activity could not be read: ${error.code}`);
    throw problem("UNAVAILABLE", { requestId });
  }
  const found = z.array(row).parse(rows);
  const last = found[limit - 1];
  return {
    events: found.slice(0, limit).map((event) => ({
      id: event.id,
      kind: event.kind,
      method: event.method,
      sessionId: event.session_id,
      ip: event.ip,
      userAgent: event.user_agent,
      device: event.device,
      details: event.details,
      createdAt: new Date(event.created_at).toISOString(),
    })),
    nextCursor: found.length > limit && last ? writeCursor(last) : null,
  };
}

function writeCursor({ created_at, id }: { created_at: string; id: string }): string {
  return Buffer.from(JSON.stringify([created_at, id])).toString("base64url");
}

function readCursor(cursor: string): z.infer<typeof cursorSchema> | null {
  try {
    return cursorSchema.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
  } catch {
    return null;
  }
}
