import { z } from "zod";
import type { FoundRoute } from "../http/route-table.ts";
import { createFetchWithTimeout } from "../supabase/backend-fetch.ts";
import { policyTimeoutMs, setApprovalProof } from "../supabase/data-api.ts";
import { consoleRoleSchema } from "./console-role.ts";
import type { Device } from "./cookies.ts";
import { type DeviceView, deviceView } from "./vault.ts";

const sessionFactsSchema = z.object({
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
    /** The Unix time from which required MFA accepts proofs. Null if MFA is optional, absent from an older database. */
    since: z.number().nullable().default(null),
    satisfied: z.boolean(),
  }),
  /**
   * Whether the session began with a password that is easy to guess. Absent if the database is older than this server.
   */
  mustReplacePassword: z.boolean().default(false),
  consoleRole: consoleRoleSchema,
});
/** Defined once, because a schema compiles itself when it first parses. */
const responseBody = z.looseObject({});
const deviceState = z.object({ device: deviceView.nullable() });
const sessionState = z.union([
  z.object({ alive: z.literal(false) }),
  sessionFactsSchema.extend({ alive: z.literal(true), workspaceRead: z.unknown().optional() }),
]);

/** The result of `public.session_state` for an active session. */
export type SessionFacts = z.infer<typeof sessionFactsSchema>;

/**
 * A session's current state in the database. `over` means that the session has ended, or that its user is banned or
 * deleted. `refused` means that the token itself was rejected. `unavailable` means that the state could not be read.
 */
export type SessionState =
  | { status: "alive"; facts: SessionFacts; workspace?: WorkspaceRead }
  | { status: "over" }
  | { status: "refused" }
  | { status: "unavailable" };

/** The workspace to read together with a session's state, because the request is about it. */
export interface WorkspaceQuery {
  /** A UUID. */
  id: string;
  /** Whether to read also what surrounds the workspace's pages. */
  withFrame: boolean;
}

const anyId = z.uuid();

/** Returns the workspace that a page or endpoint is about, to read it together with the session's state. */
export function workspaceOf({ pattern, params, takesPrefetch }: FoundRoute): WorkspaceQuery | null {
  const { success, data: id } = anyId.safeParse(params.workspaceId);
  if (!success || !/^(api\/v1\/)?workspaces\//.test(pattern)) return null;
  return { id, withFrame: takesPrefetch === true };
}

/** The result of `public.read_workspace` for the session's user, not yet parsed. */
export interface WorkspaceRead extends WorkspaceQuery {
  read: unknown;
}

/** A session's state, and the state of its browser's device; `undefined` if the device's state could not be read. */
export interface DeviceSessionState {
  state: SessionState;
  /** Null if the device is unknown. */
  device?: DeviceView | null;
}

export interface SessionStateOptions {
  supabaseUrl: string;
  publishableKey: string;
  /**
   * Proves that the browser sent the cookie of the session's mobile approval. Null if the browser has no such cookie.
   */
  approvalProof: string | null;
  workspace: WorkspaceQuery | null;
  fetch?: typeof globalThis.fetch;
}

/**
 * Calls `public.session_state` through the Data API with the user's own token. Only the database knows whether the
 * session's row exists and the user is not banned.
 */
export async function fetchSessionState(accessToken: string, options: SessionStateOptions): Promise<SessionState> {
  const body = await callStateFunction(accessToken, { ...options, name: "session_state", args: {} });
  return typeof body === "string" ? { status: body } : stateOf(body, options);
}

/** Fetches the state of the session and of the browser's device in one call, `public.device_session_state`. */
export async function fetchDeviceSessionState(
  accessToken: string,
  { device, ...options }: SessionStateOptions & { device: Device },
): Promise<DeviceSessionState> {
  const args = { device_id: device.id, device_secret: device.secret };
  const body = await callStateFunction(accessToken, { ...options, name: "device_session_state", args });
  if (typeof body === "string") return { state: { status: body } };
  const view = deviceState.safeParse(body);
  return view.success
    ? { state: stateOf(body, options), device: view.data.device }
    : { state: { status: "unavailable" } };
}

/** How long a state may take that is read together with a workspace. The rest is for the state alone. */
const workspaceStateTimeoutMs = 1_200;
const fetchState = /* @__PURE__ */ createFetchWithTimeout(policyTimeoutMs);

/**
 * Calls the function, or the one that also reads the workspace. If that one fails, the state is read alone, because a
 * page without its workspace must not look like a session that cannot be checked.
 */
async function callStateFunction(
  accessToken: string,
  options: SessionStateOptions & { name: string; args: Record<string, string> },
): Promise<object | "refused" | "unavailable"> {
  const { supabaseUrl, publishableKey, approvalProof, workspace, fetch = fetchState } = options;
  const headers = new Headers({
    apikey: publishableKey,
    Authorization: `Bearer ${accessToken}`,
    "Content-Type": "application/json",
    Accept: "application/json",
  });
  setApprovalProof(headers, approvalProof);
  async function call(name: string, args: object, timeoutMs: number) {
    try {
      const response = await fetch(`${supabaseUrl}/rest/v1/rpc/${name}`, {
        method: "POST",
        headers,
        body: JSON.stringify(args),
        signal: AbortSignal.timeout(timeoutMs),
      });
      if (response.status === 401) return "refused";
      if (!response.ok) return "unavailable";
      return responseBody.parse(await response.json());
    } catch {
      return "unavailable";
    }
  }

  const { name, args } = options;
  if (!workspace) return call(name, args, policyTimeoutMs);
  const workspaceArgs = { ...args, workspace_id: workspace.id, with_frame: workspace.withFrame };
  const answer = await call("workspace_session_state", workspaceArgs, workspaceStateTimeoutMs);
  return answer === "unavailable" ? call(name, args, policyTimeoutMs - workspaceStateTimeoutMs) : answer;
}

function stateOf(body: object, { workspace }: Pick<SessionStateOptions, "workspace">): SessionState {
  const { data: state } = sessionState.safeParse(body);
  if (!state) return { status: "unavailable" };
  if (!state.alive || state.user.banned || state.user.deleted) return { status: "over" };
  // An unreadable policy doesn't tell whether the session needs a second factor.
  if (state.policy.state === "malformed") return { status: "unavailable" };
  const { workspaceRead: read, ...sessionFacts } = state;
  const isRead = workspace && "workspaceRead" in body;
  return { status: "alive", facts: sessionFacts, ...(isRead && { workspace: { ...workspace, read } }) };
}
