import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { deviceName } from "../activity/device-name.ts";
import { recordEvent } from "../activity/record-event.ts";
import { buildPage, type Position, parseCursor, readCursor, writeCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { callFunction, createServiceClient } from "../supabase/data-api.ts";
import type { User } from "./user.ts";

export const sessionRows = z.array(
  z.object({
    id: z.uuid(),
    created_at: z.coerce.date(),
    last_seen_at: z.coerce.date(),
    ip: z.string().nullable(),
    user_agent: z.string().nullable(),
    device: z.string().nullable(),
    place: z.string().nullable(),
    method: z.string().nullable(),
    aal: z.string().nullable(),
    /** The time that sessions are sorted by, to the microsecond. */
    refreshed_at: z.string(),
  }),
);

const listedSession = z.object({
  id: z.uuid(),
  /** Whether this is the requesting session. */
  current: z.boolean(),
  createdAt: z.iso.datetime(),
  lastSeenAt: z.iso.datetime(),
  ip: z.string().nullable(),
  /** The city and country of the sign-in, according to a trusted proxy: "Porto, Portugal". */
  place: z.string().nullable(),
  userAgent: z.string().nullable(),
  aal: z.string(),
});

/** A page of an account's sessions, as returned by the API. */
export const sessionList = z.object({
  sessions: z.array(listedSession),
  /** The cursor of the next page, or null at the end. */
  nextCursor: z.string().nullable(),
});
export type SessionList = z.output<typeof sessionList>;

export interface AccountSession extends z.output<typeof listedSession> {
  /** A readable name: "Chrome on macOS". */
  device: string;
  method: string | null;
}

/**
 * The list position right after the requesting session. The requesting session always comes first. All other sessions
 * follow, regardless of when they were seen.
 */
const positionAfterCurrent: Position = {
  createdAt: "9999-12-31T23:59:59Z",
  id: "ffffffff-ffff-ffff-ffff-ffffffffffff",
};

type SessionOwner = Pick<User, "id" | "sessionId">;
type SessionQuery = { user: SessionOwner; limit: number; cursor?: string | undefined };

/**
 * Returns a page of a user's sessions: the current one first, then the most recently seen.
 * @param options.limit page size, at most 100
 * @param options.cursor an earlier `nextCursor`
 * @throws Response 400 INVALID_REQUEST if the cursor is not ours, 503 UNAVAILABLE if the database did not answer
 */
export async function listSessions(
  context: AppLoadContext,
  { user, limit, cursor }: SessionQuery,
): Promise<{ sessions: AccountSession[]; nextCursor: string | null }> {
  const found = await callFunction(context, {
    name: "private.account_sessions",
    args: {
      subject_id: user.id,
      first_session_id: user.sessionId,
      before: sessionPosition(context, cursor),
      page_size: limit + 1,
    },
    schema: sessionRows,
  });
  return sessionPage(found, { user, limit });
}

/**
 * Returns the position at which a page of sessions begins. @throws Response 400 INVALID_REQUEST if the cursor is not ours
 */
export function sessionPosition({ requestId }: Pick<AppLoadContext, "requestId">, cursor: string | undefined) {
  return parseCursor(cursor, { read: readCursor, requestId });
}

/** Returns the first `limit` of the given sessions, and the cursor of the next page if there are more. */
export function sessionPage(
  found: z.output<typeof sessionRows>,
  { user, limit }: Omit<SessionQuery, "cursor">,
): { sessions: AccountSession[]; nextCursor: string | null } {
  const { records, nextCursor } = buildPage(found, {
    limit,
    cursorOf: ({ id, refreshed_at }) =>
      writeCursor(id === user.sessionId ? positionAfterCurrent : { createdAt: refreshed_at, id }),
  });
  const sessions = records.map((session) => ({
    id: session.id,
    current: session.id === user.sessionId,
    createdAt: session.created_at.toISOString(),
    lastSeenAt: session.last_seen_at.toISOString(),
    ip: session.ip,
    userAgent: session.user_agent,
    device: session.device ?? deviceName(session.user_agent ?? ""),
    place: session.place,
    method: session.method,
    aal: session.aal ?? "aal1",
  }));
  // Pages are ordered by time of refresh. Within a page, sessions are sorted by last use.
  sessions.sort((a, b) => Number(b.current) - Number(a.current) || b.lastSeenAt.localeCompare(a.lastSeenAt));
  return { sessions, nextCursor };
}

/**
 * Ends one session of a user.
 * @returns false if no session with that id is active
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function endSession(
  context: AppLoadContext,
  { user, sessionId }: { user: User; sessionId: string },
): Promise<boolean> {
  if (!z.uuid().safeParse(sessionId).success) return false;
  const query = { user: { id: user.id, sessionId }, limit: 1 };
  const session = (await listSessions(context, query)).sessions.find(({ id }) => id === sessionId);
  const { data, error } = await createServiceClient(context.env)
    .schema("private")
    .rpc("end_account_session", { subject_id: user.id, target_id: sessionId });
  if (error) throw unavailable(context, error.code);
  if (data !== true) return false;
  const current = sessionId === user.sessionId;
  await recordEvent(context, {
    userId: user.id,
    kind: current ? "sign_out" : "session_revoked",
    ...(session && !current ? { details: { device: session.device } } : {}),
  });
  return true;
}

/**
 * Ends every session of a user except the current one, and the access of every app, device and coding agent that does
 * not end with the current one.
 * @throws Response 503 UNAVAILABLE if the database did not answer; nothing has ended then
 */
export async function endOtherSessions(context: AppLoadContext, user: User): Promise<void> {
  const args = { subject_id: user.id, actor_session_id: user.sessionId };
  const count = await callFunction(context, { name: "private.end_other_sessions", args, schema: z.number() });
  if (count > 0) await recordEvent(context, { userId: user.id, kind: "other_sessions_revoked" });
}

/**
 * Signs a user out of every device, app and coding agent, including the current session.
 * @throws Response 503 UNAVAILABLE if the database does not answer
 */
export async function signOutEverywhere(context: AppLoadContext, user: User): Promise<void> {
  const args = { subject_id: user.id, actor_session_id: user.sessionId };
  const count = await callFunction(context, { name: "private.sign_out_everywhere", args, schema: z.number() });
  if (count > 0) await recordEvent(context, { userId: user.id, kind: "all_sessions_revoked" });
}

function unavailable({ requestId }: AppLoadContext, code: string): Response {
  logError(`the account's sessions could not be reached: ${code}`, { requestId });
  return problem("UNAVAILABLE", { requestId });
}
