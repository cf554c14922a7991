import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { deviceName } from "../activity/device-name.ts";
import { recordEvent } from "../activity/record-event.ts";
import { problem } from "../http/problem.ts";
import { callFunction, createServiceClient } from "../supabase/data-api.ts";
import type { User } from "./user.ts";

const rows = z.array(
  z.object({
    id: z.uuid(),
    created_at: z.coerce.date(),
    last_seen_at: z.coerce.date(),
    ip: z.string().nullable(),
    user_agent: z.string().nullable(),
    device: z.string().nullable(),
    method: z.string().nullable(),
    aal: z.string().nullable(),
  }),
);

const listed = z.object({
  id: z.uuid(),
  /** Whether it is the one that asks. */
  current: z.boolean(),
  createdAt: z.iso.datetime(),
  lastSeenAt: z.iso.datetime(),
  ip: z.string().nullable(),
  userAgent: z.string().nullable(),
  aal: z.string(),
});

/** Where an account is signed in, as the API lists it. */
export const sessionList = z.object({ sessions: z.array(listed) });
export type SessionList = z.output<typeof sessionList>;

/** One place where an account is signed in. */
export interface AccountSession extends z.output<typeof listed> {
  /** As people know it: "Chrome on macOS". */
  device: string;
  /** By what it was signed in, where that is known. */
  method: string | null;
}

/**
 * The places where a user is signed in, this one first, then the one seen last.
 * @throws Response 503 UNAVAILABLE where the database did not answer
 */
export async function listSessions(
  context: AppLoadContext,
  user: Pick<User, "id" | "sessionId">,
): Promise<AccountSession[]> {
  const { data, error } = await createServiceClient(context.env)
    .schema("private")
    .rpc("account_sessions", { subject_id: user.id });
  if (error) throw unavailable(context, error.code);
  return rows
    .parse(data)
    .map((session) => ({
      id: session.id,
      current: session.id === user.sessionId,
      createdAt: session.created_at.toISOString(),
      lastSeenAt: session.last_seen_at.toISOString(),
      ip: session.ip,
      userAgent: session.user_agent,
      device: session.device ?? deviceName(session.user_agent ?? ""),
      method: session.method,
      aal: session.aal ?? "aal1",
    }))
    .sort((a, b) => Number(b.current) - Number(a.current));
}

/**
 * Ends one session of a user.
 * @returns false where there is none of that id, or no longer
 * @throws Response 503 UNAVAILABLE where the database did not answer
 */
export async function endSession(
  context: AppLoadContext,
  { user, sessionId }: { user: User; sessionId: string },
): Promise<boolean> {
  if (!z.uuid().safeParse(sessionId).success) return false;
  const ended = (await listSessions(context, user)).find(({ id }) => id === sessionId);
  const { data, error } = await createServiceClient(context.env)
    .schema("private")
    .rpc("end_account_session", { subject_id: user.id, target_id: sessionId });
  if (error) throw unavailable(context, error.code);
  if (data !== true) return false;
  const current = sessionId === user.sessionId;
  await recordEvent(context, {
    userId: user.id,
    kind: current ? "sign_out" : "session_revoked",
    ...(ended && !current ? { details: { device: ended.device } } : {}),
  });
  return true;
}

/**
 * Ends every session of a user but the one that asks.
 * @throws Response 503 UNAVAILABLE where the database did not answer; nothing has ended then
 */
export async function endOtherSessions(context: AppLoadContext, user: User): Promise<void> {
  const args = { subject_id: user.id, actor_session_id: user.sessionId };
  const ended = await callFunction(context, { name: "private.end_other_sessions", args, schema: z.number() });
  if (ended > 0) await recordEvent(context, { userId: user.id, kind: "other_sessions_revoked" });
}

/**
 * Signs a user out of every device and every app, this session included.
 * @throws Response 503 UNAVAILABLE where the database did not answer; nothing has ended then
 */
export async function signOutEverywhere(context: AppLoadContext, user: User): Promise<void> {
  const args = { subject_id: user.id, actor_session_id: user.sessionId };
  const ended = await callFunction(context, { name: "private.sign_out_everywhere", args, schema: z.number() });
  if (ended > 0) await recordEvent(context, { userId: user.id, kind: "all_sessions_revoked" });
}

function unavailable({ requestId }: AppLoadContext, code: string): Response {
  console.error(`error request=${requestId} the account's sessions could not be reached: ${code}`);
  return problem("UNAVAILABLE", { requestId });
}
