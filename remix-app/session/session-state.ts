import { z } from "zod";
import { policyTimeoutMs, setApprovalProof } from "../supabase/data-api.ts";
import type { Device } from "./cookies.ts";
import { type DeviceView, deviceView } from "./vault.ts";

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
    /** By a mobile approval alone. One that release 0.1.0 bound has no key: we check its cookie. */
    byApproval: z.boolean(),
  }),
  /** Whether the session began with a password that is easy to guess. Absent where the database is older than this server. */
  mustReplacePassword: z.boolean().default(false),
  infrastructureAdmin: z.boolean(),
});
/** Made once: a schema compiles itself when it first parses. */
const reply = z.looseObject({});
const deviceReply = z.object({ device: deviceView.nullable() });
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

/** A session's state, and what its browser's device says; `undefined` where that could not be asked. */
export interface DeviceSessionState {
  state: SessionState;
  /** Null where the device is not known. */
  device?: DeviceView | null;
}

export interface SessionStateOptions {
  supabaseUrl: string;
  publishableKey: string;
  /** Of the session's mobile approval; null if the browser does not hold its cookie. */
  approvalProof: string | null;
  fetch?: typeof globalThis.fetch;
}

/**
 * Asks `public.session_state` through the Data API with the user's own token: the authority on whether the session's
 * row is alive and the user not banned, which a token cannot tell.
 */
export async function fetchSessionState(accessToken: string, options: SessionStateOptions): Promise<SessionState> {
  const answered = await ask(accessToken, { ...options, name: "session_state", args: {} });
  return typeof answered === "string" ? { status: answered } : stateOf(answered);
}

/** Asks for the session's state and the browser's in one call, `public.device_session_state`. */
export async function fetchDeviceSessionState(
  accessToken: string,
  { device, ...options }: SessionStateOptions & { device: Device },
): Promise<DeviceSessionState> {
  const args = { device_id: device.id, device_secret: device.secret };
  const answered = await ask(accessToken, { ...options, name: "device_session_state", args });
  if (typeof answered === "string") return { state: { status: answered } };
  const view = deviceReply.safeParse(answered);
  return view.success ? { state: stateOf(answered), device: view.data.device } : { state: { status: "unavailable" } };
}

async function ask(
  accessToken: string,
  options: SessionStateOptions & { name: string; args: Record<string, string> },
): Promise<object | "refused" | "unavailable"> {
  const { supabaseUrl, publishableKey, approvalProof, fetch = globalThis.fetch, name, args } = options;
  const headers = new Headers({
    apikey: publishableKey,
    Authorization: `Bearer ${accessToken}`,
    "Content-Type": "application/json",
    Accept: "application/json",
  });
  setApprovalProof(headers, approvalProof);
  try {
    const response = await fetch(`${supabaseUrl}/rest/v1/rpc/${name}`, {
      method: "POST",
      headers,
      body: JSON.stringify(args),
      signal: AbortSignal.timeout(policyTimeoutMs),
    });
    if (response.status === 401) return "refused";
    if (!response.ok) return "unavailable";
    return reply.parse(await response.json());
  } catch {
    return "unavailable";
  }
}

function stateOf(answered: object): SessionState {
  const { data: state } = answer.safeParse(answered);
  if (!state) return { status: "unavailable" };
  if (!state.alive || state.user.banned || state.user.deleted) return { status: "over" };
  // A policy that nobody can read is never satisfied and never optional.
  return state.policy.state === "malformed" ? { status: "unavailable" } : { status: "alive", facts: state };
}
