import type { AppLoadContext } from "@remix-run/node";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { decodeIssuedClaims, sessionIdOf } from "#shared/claims.ts";
import { logWarning } from "#shared/log.ts";
import type { Env } from "../config/env.server.ts";
import type { CookieJar } from "../http/cookies.ts";
import { problem } from "../http/problem.ts";
import { createFetchWithTimeout } from "../supabase/backend-fetch.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { readAdditions, settleAdditions, writeAddition } from "./addition-cookies.ts";
import { readApprovalProof } from "./approval-proof.ts";
import {
  clearApprovalCookie,
  clearSessionCookie,
  type Device,
  hasSessionCookie,
  isSameSession,
  readDeviceCookie,
  readSessionCookie,
  type SessionCookieScope,
  type StoredSession,
  sessionCookieScope,
  storedSession,
  writeApprovalCookie,
  writeDeviceCookie,
  writeSessionCookie,
} from "./cookies.ts";
import type { EdgeProxy, RequestAuth } from "./edge-proxy.ts";
import type { SessionRefresher } from "./refresh.ts";
import { fetchSessionState, type SessionState, type WorkspaceQuery } from "./session-state.ts";
import {
  type Account,
  computeSessionTag,
  type DeviceView,
  retryOnce,
  type Vault,
  type VaultEntry,
  VaultUnavailable,
} from "./vault.ts";

export const authCallTimeoutMs = 8_000;

/** The session of one request. It is read once, and routes get it through the load context. */
export interface RequestSession {
  readonly auth: RequestAuth;
  /** The browser, if it is known, and its accounts at the beginning of this request. */
  readonly device: { device: Device; view: DeviceView } | null;
  /** The accounts of this browser, the active one first. For display only. */
  readonly accounts: readonly Account[];
  /** Returns the session's state in the database, read at most once per request. */
  state(): Promise<SessionState>;
  /** Reads the database's state of a session that the identity backend returned during this request. */
  stateOf(session: StoredSession): Promise<SessionState>;
  /**
   * Returns a fresh proof that the browser holds the session's mobile approval. Returns null if the browser holds no
   * approval, or if the request has a bearer token.
   */
  approvalProof(): string | null;
  /** Removes the session, in every variant of its cookie, and its mobile approval from the browser. */
  clear(): void;
  /** The browser's session after this response. Also null if the session was too large for a cookie. */
  readonly stored: StoredSession | null;
  /** The browser's device according to its cookie, whether or not the database knows it. */
  readonly deviceCookie: Device | null;
  /** Stores a session of the identity backend in the browser. */
  store(session: StoredSession): void;
  /**
   * Sets the cookie of the approval that a phone gave to a session, because that session becomes the active one. Does
   * nothing without an approval.
   */
  restoreApproval(entry: Pick<VaultEntry, "sessionId" | "approvedUntil">): void;
  /** Stores the device in the browser's cookie, with its current secret. */
  storeDevice(device: Device): void;
  /** Stores an added account in a cookie. The account joins the browser's others when the cookie is sent. */
  storeAddition(addition: Device): void;
  /** Refreshes a session at the identity backend, once for concurrent calls. */
  refresh: (refreshToken: string) => ReturnType<SessionRefresher>;
  readonly vault: Vault;
  /**
   * Completes the request's changes to its session. A session that the identity backend rotated during the request, for
   * example for a second factor, is stored in the vault before the browser gets it.
   */
  settle(): Promise<void>;
  /**
   * Returns a client of the identity backend that acts with the request's session, for example to verify a second
   * factor. A session that the backend rotates is stored in the browser.
   */
  sessionClient(): SupabaseClient;
  /**
   * Returns a client of the identity backend without a session, for sign-ins and for calls that send an email. It stores
   * nothing: a new session reaches the browser when its sign-in completes.
   */
  anonymousClient(): SupabaseClient;
}

/** The services that a process uses to check the session of each request. */
export interface SessionServices {
  proxy: EdgeProxy;
  refreshSession: SessionRefresher;
  vault: Vault;
}

export interface OpenRequestSessionOptions {
  env: Env;
  services: SessionServices;
  jar: CookieJar;
  /** The configured origin that the browser used for this request. */
  origin: string;
  authorization: string | null;
  /** Whether the session is only checked. It is unavailable if it would have to be renewed. */
  isPrefetch?: boolean;
  /** The workspace to read together with the session's state. */
  workspace?: WorkspaceQuery | null;
  clientAddress: string;
}

/** Returns the edge proxy's verdict on a request's session, with the methods that act on the session. */
export async function openRequestSession(options: OpenRequestSessionOptions): Promise<RequestSession> {
  const { env, services, jar, origin, authorization, isPrefetch = false, workspace = null, clientAddress } = options;
  const { proxy, refreshSession, vault } = services;
  const scope: SessionCookieScope = sessionCookieScope({
    supabaseUrl: env.SUPABASE_URL,
    parentDomain: env.PARENT_DOMAIN,
    origin,
  });
  const headers = identityHeaders(env, clientAddress);
  const byCookie = authorization === null;
  const cookieSession = byCookie ? await readSessionCookie(jar, scope) : null;
  let deviceCookie = byCookie ? readDeviceCookie(jar, { origin, cookie: vault.keys.cookie }) : null;
  const approvalProof = (sessionId: string) => (byCookie ? readApprovalProof({ env, jar, origin }, sessionId) : null);
  const additionContext = { jar, origin, cookie: vault.keys.cookie };
  const additions = deviceCookie ? readAdditions(additionContext, deviceCookie) : [];
  const cookieSecret = deviceCookie?.secret;
  const verdict = await proxy({
    authorization,
    session: cookieSession,
    device: deviceCookie,
    approvalProof,
    restoreApproval: (entry) => {
      // A browser that lost only the approval's cookie does not get it back: the session was active before.
      if (cookieSession && sessionIdOf(cookieSession.access_token) !== entry.sessionId) restoreApproval(entry);
    },
    additions,
    isPrefetch,
    workspace,
    identityHeaders: headers,
  });
  const { auth, device } = verdict;
  const verifiedSession = verdict.session;
  let stored = verifiedSession;
  if (stored && stored !== cookieSession) setSession(stored);
  if (verdict.deviceCookie) storeDevice(verdict.deviceCookie);
  // Keeps the cookies of sign-ins that have yet to join the browser's accounts if the device's secret is unknown. The
  // browser may not have received its new secret yet.
  if (verdict.mergedDevice || (byCookie && !deviceCookie)) {
    settleAdditions(additionContext, { device: verdict.mergedDevice, cookieSecret, merged: additions });
  }
  // Also clears cookie chunks that do not form a session.
  if (byCookie && auth.status === "anonymous" && hasSessionCookie(jar, scope)) setSession(null);
  const fetchState = (accessToken: string, of: WorkspaceQuery | null) =>
    fetchSessionState(accessToken, {
      supabaseUrl: env.SUPABASE_URL,
      publishableKey: env.SUPABASE_PUBLISHABLE_KEY,
      approvalProof: approvalProof(decodeIssuedClaims(accessToken).session_id),
      workspace: of,
    });
  let state: Promise<SessionState> | undefined = verdict.state && Promise.resolve(verdict.state);

  function setSession(session: StoredSession | null): void {
    if (session) stored = writeSessionCookie(jar, scope, storedSession.parse(session));
    else {
      stored = null;
      clearSessionCookie(jar, scope);
    }
  }

  function storeDevice(device: Device): void {
    deviceCookie = device;
    writeDeviceCookie(jar, { origin, cookie: vault.keys.cookie, device });
  }

  function restoreApproval({ sessionId, approvedUntil: validUntil }: Pick<VaultEntry, "sessionId" | "approvedUntil">) {
    if (validUntil) writeApprovalCookie({ env, jar, origin }, { sessionId, validUntil });
  }

  async function settle(): Promise<void> {
    const session = stored;
    if (!verifiedSession || !session || auth.status !== "authenticated" || !device) return;
    if (isSameSession(session, verifiedSession)) return;
    // A session with another id comes from a new sign-in, which adds the session to the vault when it completes.
    if (decodeIssuedClaims(session.access_token).session_id !== auth.claims.session_id) return;
    const { sub: userId, session_id: sessionId } = auth.claims;
    const replace = (tag: string) => {
      const entry = { userId, sessionId, tag };
      return retryOnce(() => vault.keep({ device: device.device, entry, session }));
    };
    try {
      const outcome = await replace(computeSessionTag(verifiedSession, vault.keys));
      // Another tab has refreshed the same session meanwhile, without the factor that this request has proven.
      const current = outcome.kept ? null : outcome.current;
      if (current?.sessionId === sessionId && current.tag !== null) await replace(current.tag);
    } catch (error) {
      if (!(error instanceof VaultUnavailable)) throw error;
      logWarning(`a rotated session was not kept: ${error.message}`);
    }
  }

  return {
    auth,
    device,
    accounts: device?.view.accounts ?? [],
    state: () => {
      state ??=
        auth.status === "authenticated"
          ? fetchState(auth.accessToken, workspace)
          : Promise.resolve<SessionState>({ status: "over" });
      return state;
    },
    get stored() {
      return stored;
    },
    get deviceCookie() {
      return deviceCookie;
    },
    approvalProof: () => (auth.status === "authenticated" ? approvalProof(auth.claims.session_id) : null),
    stateOf: ({ access_token }) => fetchState(access_token, null),
    clear: () => {
      setSession(null);
      clearApprovalCookie({ env, jar, origin });
    },
    store: setSession,
    restoreApproval,
    storeDevice,
    storeAddition: (addition) => writeAddition(additionContext, addition),
    refresh: (refreshToken) => refreshSession(refreshToken, { identityHeaders: headers }),
    vault,
    settle,
    sessionClient: () => createAuthClient({ env, clientAddress, session: { get: () => stored, set: setSession } }),
    anonymousClient: () => createAuthClient({ env, clientAddress }),
  };
}

/** Returns the refusal of a session that is too large for a cookie: 403 FORBIDDEN. */
export function tooLargeForCookie({ requestId }: Pick<AppLoadContext, "requestId">): Response {
  const detail = "This account’s profile data is too large for a browser session. Contact support to have it reduced.";
  return problem("FORBIDDEN", { requestId, detail });
}

/**
 * Returns the headers of a call to the identity backend for one visitor. They contain the visitor's address, so that
 * visitors do not share our server's limits. Supabase's API gateway trusts this address only if `apikey` is the secret
 * key. `Authorization` never contains the secret key, which would skip the bot challenge.
 */
export function identityHeaders(env: Env, clientAddress: string): Record<string, string> {
  return {
    apikey: env.SUPABASE_SECRET_KEY,
    Authorization: `Bearer ${env.SUPABASE_PUBLISHABLE_KEY}`,
    "Sb-Forwarded-For": clientAddress,
  };
}

export interface AuthClientOptions {
  env: Env;
  clientAddress: string;
  /** Reads and replaces the request's session; null signs out. Absent for a client without a session. */
  session?: { get: () => StoredSession | null; set: (session: StoredSession | null) => void };
}

const sessionKey = "session";

/**
 * Creates a client of the identity backend. It sends no PKCE challenge, because our emails carry a token that the server
 * redeems itself. So the browser needs no verifier.
 */
export function createAuthClient({ env, clientAddress, session }: AuthClientOptions): SupabaseClient {
  const { Authorization: _, ...headers } = identityHeaders(env, clientAddress);
  return createClient(env.SUPABASE_URL, env.SUPABASE_PUBLISHABLE_KEY, {
    auth: {
      flowType: "implicit",
      storageKey: sessionKey,
      ...(session ? { persistSession: true, storage: storageOf(session) } : { persistSession: false }),
      autoRefreshToken: false,
      detectSessionInUrl: false,
      skipAutoInitialize: true,
      // Older auth-js versions need this option for passkeys. Newer versions ignore it.
      experimental: { passkey: true },
    },
    global: { headers, fetch: createFetchWithTimeout(authCallTimeoutMs) },
  });
}

function storageOf(session: NonNullable<AuthClientOptions["session"]>) {
  return {
    isServer: true,
    getItem: (key: string) => (key === sessionKey && session.get() ? JSON.stringify(session.get()) : null),
    // Keeps only the fields of storedSession. auth-js passes everything that the backend returned.
    setItem: (key: string, value: string) => {
      if (key === sessionKey) session.set(storedSession.parse(JSON.parse(value)));
    },
    removeItem: (key: string) => {
      if (key === sessionKey) session.set(null);
    },
  };
}

/**
 * Ends a session that this server created but never handed out, such as one created to check a password. The session
 * does not appear as a sign-in in the account's activity. Never throws. Logs a session that may still be active.
 */
export async function discardSession(
  { env, requestId, session }: AppLoadContext,
  { access_token }: { access_token: string },
): Promise<void> {
  const { sub, session_id } = decodeIssuedClaims(access_token);
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("discard_session", { subject_id: sub, target_id: session_id });
  if (!error) return;
  // The identity backend can still end the session while the Data API is down.
  const { error: failure } = await session.anonymousClient().auth.admin.signOut(access_token, "local");
  if (failure) logWarning(`a session was not ended: ${failure.code ?? "no answer"}`, { requestId });
}
