import { z } from "zod";
import { dataTimeoutMs } from "./limits.ts";

const facts = z.object({
  sessionId: z.uuid(),
  aal: z.enum(["aal1", "aal2", "aal3"]),
  user: z.object({
    id: z.uuid(),
    email: z.string().nullable(),
    displayName: z.string().nullable(),
    avatarUrl: z.string().nullable(),
    banned: z.boolean(),
    deleted: z.boolean(),
  }),
  hasVerifiedFactor: z.boolean(),
  policy: z.object({
    state: z.enum(["optional", "required", "recovery_in_progress", "malformed"]),
    required: z.boolean(),
    satisfied: z.boolean(),
    /** By a mobile approval alone, which a browser has to bring the cookie of as well. */
    byApproval: z.boolean(),
  }),
  infrastructureAdmin: z.boolean(),
});
const answer = z.union([z.object({ alive: z.literal(false) }), facts.extend({ alive: z.literal(true) })]);

/** The answer of `public.session_state` about a session that is alive. */
export type SessionFacts = z.infer<typeof facts>;

/**
 * What the database says of a session at this moment. `over`: the session has ended or its user may not be here.
 * `refused`: the token itself was not taken. `unavailable`: it could not be asked; nothing is concluded.
 */
export type SessionState =
  | { status: "alive"; facts: SessionFacts }
  | { status: "over" }
  | { status: "refused" }
  | { status: "unavailable" };

export interface SessionStateOptions {
  supabaseUrl: string;
  publishableKey: string;
  fetch?: typeof globalThis.fetch;
}

/**
 * Asks `public.session_state` through the Data API with the user's own token: the authority on whether the session's
 * row is alive and the user not banned, which a token cannot tell.
 */
export async function fetchSessionState(accessToken: string, options: SessionStateOptions): Promise<SessionState> {
  const { supabaseUrl, publishableKey, fetch = globalThis.fetch } = options;
  try {
    const response = await fetch(`${supabaseUrl}/rest/v1/rpc/session_state`, {
      method: "POST",
      headers: {
        apikey: publishableKey,
        Authorization: `Bearer ${accessToken}`,
        "Content-Type": "application/json",
        Accept: "application/json",
      },
      body: "{}",
      signal: AbortSignal.timeout(dataTimeoutMs),
    });
    if (response.status === 401) return { status: "refused" };
    if (!response.ok) return { status: "unavailable" };
    const state = answer.parse(await response.json());
    if (!state.alive || state.user.banned || state.user.deleted) return { status: "over" };
    // A policy that nobody can read is never satisfied and never optional (design.md, Required MFA).
    return state.policy.state === "malformed" ? { status: "unavailable" } : { status: "alive", facts: state };
  } catch {
    return { status: "unavailable" };
  }
}
