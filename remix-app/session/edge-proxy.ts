import { type Claims, type ClaimsVerifier, createClaimsVerifier, expiryOf } from "#shared/claims.ts";
import type { Env } from "../config/env.server.ts";
import { bearerToken } from "../http/authorization.ts";
import { type Device, deriveSuccessor, isSameSession, type StoredSession } from "./cookies.ts";
import { createSessionRefresher, refreshMarginSeconds, type SessionRefresher } from "./refresh.ts";
import type { SessionServices } from "./request-session.ts";
import {
  type DeviceSessionState,
  fetchDeviceSessionState,
  type SessionState,
  type WorkspaceQuery,
} from "./session-state.ts";
import {
  computeSessionTag,
  type DeviceView,
  openVault,
  type Vault,
  type VaultEntry,
  VaultUnavailable,
} from "./vault.ts";

/**
 * Maximum number of times that a request reads its session from the vault. The request reads again if the session has
 * changed or was refused.
 */
const maxVaultReads = 4;

/**
 * How a request authenticates. `unavailable` means that its session could not be verified. The browser then keeps its
 * cookies.
 */
export type RequestAuth =
  | { status: "anonymous" }
  | { status: "authenticated"; via: "cookie" | "bearer"; accessToken: string; claims: Claims }
  | { status: "unavailable" };

interface Decision {
  auth: RequestAuth;
  /** The session's state in the database, if it was read. */
  state?: SessionState;
  /** The browser, if its cookie is one of ours and the database knows it. */
  device: { device: Device; view: DeviceView } | null;
}

export interface Verdict extends Decision {
  /** The session that the browser holds from now on. */
  session: StoredSession | null;
  /** The device to write to the browser's cookie; null leaves the cookie unchanged. */
  deviceCookie: Device | null;
  /**
   * The browser's device, once the sign-ins in the request's cookies are merged into its accounts. Null if the device is
   * unknown or could not be checked.
   */
  mergedDevice: Device | null;
}

/** What is known while a browser's session is decided about. */
interface Progress {
  /** The session that the browser keeps. */
  session: StoredSession | null;
  /** Tokens refused before their expiry. The backend decides whether their sessions are still active. */
  refusedTokens: readonly string[];
  isRefreshed: boolean;
  vaultReads: number;
}

/**
 * The states of a decision about a browser's session. A decision begins with `check` if the cookie's access token is
 * still usable, and otherwise with `read-vault`. `check` leads to `done`, or to `read-vault` if the token was refused or
 * its session is not the device's active one. `read-vault` leads to `check` with the vault's session, to itself if the
 * vault's entry has changed meanwhile, or to `done`.
 */
type ProxyState = Progress &
  (
    | { step: "check"; owner: Device; candidate: StoredSession }
    | { step: "read-vault"; owner: Device }
    | { step: "done"; decision: Decision }
  );
type StateAt<Name extends ProxyState["step"]> = Extract<ProxyState, { step: Name }>;
type Done = StateAt<"done">;

const done = (progress: Progress, decision: Decision): Done => ({ ...progress, step: "done", decision });

export interface EdgeProxyOptions {
  verifyClaims: ClaimsVerifier;
  refreshSession: SessionRefresher;
  vault: Vault;
  /** Fetches the state of a session and of its browser in one call. */
  fetchState: (
    accessToken: string,
    options: { device: Device; approvalProof: string | null; workspace: WorkspaceQuery | null },
  ) => Promise<DeviceSessionState>;
  now?: () => number;
}

export interface RequestCredentials {
  authorization: string | null;
  session: StoredSession | null;
  device: Device | null;
  /** Returns a proof that the browser holds the mobile approval of a session, or null if it does not. */
  approvalProof: (sessionId: string) => string | null;
  /** Sets the cookie of the mobile approval of the vault's session if the browser held another session. */
  restoreApproval: (entry: VaultEntry) => void;
  /** The secrets of additions: sign-ins that are not yet merged into the device's accounts. */
  additions: readonly string[];
  /** Whether the visitor may never see the answer. Nothing is then renewed or recorded. */
  isPrefetch: boolean;
  /** The workspace to read together with the session's state. */
  workspace: WorkspaceQuery | null;
  /** Headers for calls to the identity backend on behalf of this visitor. */
  identityHeaders: Record<string, string>;
}

export type EdgeProxy = (credentials: RequestCredentials) => Promise<Verdict>;

const anonymous = { status: "anonymous" } as const;
const unavailable = { status: "unavailable" } as const;

function rethrowUnlessUnavailable(error: unknown): "unavailable" {
  if (error instanceof VaultUnavailable) return "unavailable";
  throw error;
}

/**
 * Creates the edge proxy, which checks each request's session, refreshes the session before it expires, and decides
 * which session the browser keeps. A request with an Authorization header never falls back to its cookies. A cookie's
 * session is valid only if it is the active session of the browser's device. The proxy replaces any other session, such
 * as an outdated or planted one, with the session in the vault. If the vault has none, the proxy removes the cookie's
 * session.
 */
export function createEdgeProxy(options: EdgeProxyOptions): EdgeProxy {
  const { verifyClaims, refreshSession, vault, fetchState, now = Date.now } = options;

  async function fromBearer(authorization: string, identityHeaders: Record<string, string>): Promise<Decision> {
    const accessToken = bearerToken(authorization);
    if (accessToken === null) return { auth: anonymous, device: null };
    const result = await verifyClaims(accessToken, { identityHeaders });
    if (result.status === "valid") {
      return { auth: { status: "authenticated", claims: result.claims, via: "bearer", accessToken }, device: null };
    }
    return { auth: result.status === "refused" ? anonymous : unavailable, device: null };
  }

  /** Adds the sign-ins in the browser's cookies to its accounts. Makes no call if there are none. */
  async function mergeAdditions({
    device,
    additions,
    isPrefetch,
  }: RequestCredentials): Promise<Device | null | "unavailable"> {
    if (!device || additions.length === 0) return device;
    if (isPrefetch) return "unavailable";
    return vault.takeAdditions(device, additions).catch(rethrowUnlessUnavailable);
  }

  /** Decides about a browser's session. Each turn of the loop is one step of the state machine. */
  async function fromCookie(credentials: RequestCredentials): Promise<Verdict> {
    const { session, isPrefetch } = credentials;
    const mergedDevice = await mergeAdditions(credentials);
    if (mergedDevice === "unavailable") {
      return { auth: unavailable, device: null, session, deviceCookie: null, mergedDevice: null };
    }
    const device = mergedDevice ?? credentials.device;
    let state = begin(session, device);
    try {
      while (state.step !== "done") {
        state = state.step === "check" ? await check(state, credentials) : await readVault(state, credentials);
      }
    } catch (error) {
      rethrowUnlessUnavailable(error);
      state = { ...state, step: "done", decision: { auth: unavailable, device: null } };
    }
    const { decision } = state;
    const deviceCookie = isPrefetch ? null : deviceCookieFor(state, { sentSecret: credentials.device?.secret });
    const next = mergedDevice && mergedDevice.secret !== credentials.device?.secret ? mergedDevice : null;
    return { ...decision, session: state.session, deviceCookie: deviceCookie ?? next, mergedDevice };
  }

  function begin(session: StoredSession | null, owner: Device | null): ProxyState {
    const progress = { session, refusedTokens: [], isRefreshed: false, vaultReads: 0 };
    if (!owner) return signOut(progress, { owner, view: null });
    const expiry = session && expiryOf(session.access_token);
    const isUsable = expiry !== null && expiry - now() / 1000 > refreshMarginSeconds;
    return session && isUsable
      ? { ...progress, step: "check", owner, candidate: session }
      : { ...progress, step: "read-vault", owner };
  }

  function signOut(progress: Progress, { owner, view }: { owner: Device | null; view: DeviceView | null }): Done {
    const device = owner && view ? { device: owner, view } : null;
    return {
      ...progress,
      step: "done",
      session: null,
      decision: { auth: anonymous, device, state: { status: "over" } },
    };
  }

  /** Accepts the candidate if it is the active session of its device. Otherwise, the vault decides. */
  async function check(
    { candidate, owner, ...progress }: StateAt<"check">,
    { approvalProof, workspace, identityHeaders }: RequestCredentials,
  ): Promise<ProxyState> {
    const { access_token: accessToken } = candidate;
    const refused = {
      ...progress,
      refusedTokens: [...progress.refusedTokens, accessToken],
      step: "read-vault",
      owner,
    } as const;
    const result = await verifyClaims(accessToken, { identityHeaders });
    if (result.status === "unavailable") return done(progress, { auth: unavailable, device: null });
    if (result.status === "refused") return refused;
    const { claims } = result;
    const { state, device: view } = await fetchState(accessToken, {
      device: owner,
      approvalProof: approvalProof(claims.session_id),
      workspace,
    });
    const auth = { status: "authenticated", via: "cookie", accessToken, claims } as const;
    if (view === undefined) return state.status === "refused" ? refused : done(progress, { auth, device: null, state });
    if (!view?.active) return signOut(progress, { owner, view });
    if (state.status === "refused") return refused;
    const { active } = view;
    const isActive =
      active.userId === claims.sub &&
      active.sessionId === claims.session_id &&
      active.tag === computeSessionTag(candidate, vault.keys);
    if (!isActive) return { ...progress, step: "read-vault", owner };
    if (state.status === "over") return signOut(progress, { owner, view });
    return done(progress, { auth, device: { device: owner, view }, state });
  }

  /** Takes the active account's session from the vault, refreshed if it expires soon. */
  async function readVault(
    { owner, ...before }: StateAt<"read-vault">,
    { session: cookieSession, isPrefetch, restoreApproval, identityHeaders }: RequestCredentials,
  ): Promise<ProxyState> {
    if (isPrefetch || before.vaultReads >= maxVaultReads) return done(before, { auth: unavailable, device: null });
    const progress = { ...before, vaultReads: before.vaultReads + 1 };
    // The entry has changed in the meantime.
    const again = { ...progress, step: "read-vault", owner } as const;
    const use = (candidate: StoredSession, isRefreshed = progress.isRefreshed): ProxyState => {
      const session = cookieSession && isSameSession(candidate, cookieSession) ? progress.session : candidate;
      return { ...progress, session, isRefreshed, step: "check", owner, candidate };
    };
    const view = await vault.open(owner);
    if (!view?.active || !view.vault) return signOut(progress, { owner, view });
    const entry = view.vault;
    const vaultSession = await vault.unseal(owner, entry);
    if (!vaultSession) {
      const isDiscarded = await vault.discard(owner, { entry, listed: false });
      return isDiscarded ? signOut(progress, { owner, view }) : again;
    }
    restoreApproval(entry);
    const secondsLeft = (expiryOf(vaultSession.access_token) ?? 0) - now() / 1000;
    const isRefused = progress.refusedTokens.includes(vaultSession.access_token);
    if (secondsLeft > refreshMarginSeconds && !isRefused) {
      await reseal(owner, { entry, session: vaultSession });
      return use(vaultSession);
    }
    const result = await refreshSession(vaultSession.refresh_token, { identityHeaders });
    if (result.status === "refused") {
      const isDiscarded = await vault.discard(owner, { entry, listed: true });
      return isDiscarded ? signOut(progress, { owner, view }) : again;
    }
    if (result.status === "refreshed") {
      // Stores the session before using it, so that no browser gets a rotated session that the vault lacks.
      const { kept } = await vault.keep({ device: owner, entry, session: result.session });
      return kept ? use(result.session, true) : again;
    }
    return secondsLeft > 0 && !isRefused
      ? use(vaultSession)
      : done(progress, { auth: unavailable, device: { device: owner, view } });
  }

  /** Re-encrypts an entry with the current key if an earlier key encrypted it. */
  async function reseal(owner: Device, { entry, session }: { entry: VaultEntry; session: StoredSession }) {
    const { current } = vault.keys.vault;
    if (entry.keyId !== current.id) await vault.keep({ device: owner, entry, session });
  }

  /**
   * Returns the device cookie that the browser still needs. Also records the first request in which the browser sends
   * its newest secret.
   */
  function deviceCookieFor(
    { decision, isRefreshed }: Done,
    { sentSecret }: { sentSecret: string | undefined },
  ): Device | null {
    const { device: current } = decision;
    if (!current) return null;
    const { view } = current;
    if (view.secret === "previous") {
      current.device = deriveSuccessor(current.device, vault.keys);
      return current.device;
    }
    // If adding accounts gave the device a new secret, the browser has not sent that secret yet.
    const wasSent = current.device.secret === sentSecret;
    if (wasSent && !view.arrived) void vault.confirmSecret(current.device);
    // Extends the cookie's expiry only rarely, because a late response could overwrite the cookie of a newer sign-in
    // with an earlier secret.
    return isRefreshed && view.old ? current.device : null;
  }

  return async (credentials) => {
    const { authorization, identityHeaders } = credentials;
    if (authorization === null) return fromCookie(credentials);
    return {
      ...(await fromBearer(authorization, identityHeaders)),
      session: null,
      deviceCookie: null,
      mergedDevice: null,
    };
  };
}

/** Opens this process's session services. Concurrent requests share one refresh. */
export async function openSessionServices(env: Env): Promise<SessionServices> {
  const { SUPABASE_URL: supabaseUrl, SUPABASE_PUBLISHABLE_KEY: publishableKey } = env;
  const vault = await openVault(env);
  const refreshSession = createSessionRefresher({ supabaseUrl });
  const proxy = createEdgeProxy({
    verifyClaims: createClaimsVerifier({ supabaseUrl }),
    refreshSession,
    vault,
    fetchState: (accessToken, options) =>
      fetchDeviceSessionState(accessToken, { supabaseUrl, publishableKey, ...options }),
  });
  return { proxy, refreshSession, vault };
}
