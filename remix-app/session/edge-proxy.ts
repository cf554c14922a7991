import { type Claims, type ClaimsVerifier, createClaimsVerifier, expiryOf } from "#shared/claims.ts";
import type { Env } from "../config/env.server.ts";
import { bearerToken } from "../http/authorization.ts";
import { type Device, isSameSession, type StoredSession, successorOf } from "./cookies.ts";
import { createSessionRefresher, refreshMarginSeconds, type SessionRefresher } from "./refresh.ts";
import type { SessionServices } from "./request-session.ts";
import { type DeviceSessionState, fetchDeviceSessionState, type SessionState } from "./session-state.ts";
import { type DeviceView, openVault, tagOf, type Vault, type VaultEntry, VaultUnavailable } from "./vault.ts";

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

export interface EdgeProxyOptions {
  verifyClaims: ClaimsVerifier;
  refreshSession: SessionRefresher;
  vault: Vault;
  /** Fetches the state of a session and of its browser in one call. */
  fetchState: (
    accessToken: string,
    options: { device: Device; approvalProof: string | null },
  ) => Promise<DeviceSessionState>;
  now?: () => number;
}

export interface RequestCredentials {
  authorization: string | null;
  session: StoredSession | null;
  device: Device | null;
  /** Returns a proof that the browser holds the mobile approval of a session, or null if it does not. */
  approvalProof: (sessionId: string) => string | null;
  /** The secrets of additions: sign-ins that are not yet merged into the device's accounts. */
  additions: readonly string[];
  /** Whether the visitor may never see the answer. Nothing is then renewed or recorded. */
  isPrefetch: boolean;
  /** Headers for calls to the identity backend on behalf of this visitor. */
  identityHeaders: Record<string, string>;
}

export type EdgeProxy = (credentials: RequestCredentials) => Promise<Verdict>;

const anonymous = { status: "anonymous" } as const;
const unavailable = { status: "unavailable" } as const;

function requireUnavailable(error: unknown): "unavailable" {
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
    return vault.takeAdditions(device, additions).catch(requireUnavailable);
  }

  async function fromCookie(credentials: RequestCredentials): Promise<Verdict> {
    const { session: cookieSession, approvalProof, isPrefetch, identityHeaders } = credentials;
    const mergedDevice = await mergeAdditions(credentials);
    if (mergedDevice === "unavailable") {
      return { auth: unavailable, device: null, session: cookieSession, deviceCookie: null, mergedDevice: null };
    }
    const device = mergedDevice ?? credentials.device;
    let session = cookieSession;
    /** Tokens refused before their expiry. The backend decides whether their sessions are still active. */
    const refusedTokens = new Set<string>();
    let isRefreshed = false;

    function signOut(view: DeviceView | null): Decision {
      session = null;
      return { auth: anonymous, device: device && view ? { device, view } : null, state: { status: "over" } };
    }

    /** @returns null if the vault must be read to decide */
    async function check(candidate: StoredSession, owner: Device): Promise<Decision | null> {
      const { access_token: accessToken } = candidate;
      const result = await verifyClaims(accessToken, { identityHeaders });
      if (result.status === "unavailable") return { auth: unavailable, device: null };
      if (result.status === "refused") {
        refusedTokens.add(accessToken);
        return null;
      }
      const { claims } = result;
      const { state, device: view } = await fetchState(accessToken, {
        device: owner,
        approvalProof: approvalProof(claims.session_id),
      });
      const auth = { status: "authenticated", via: "cookie", accessToken, claims } as const;
      if (state.status === "refused") refusedTokens.add(accessToken);
      if (view === undefined) return state.status === "refused" ? null : { auth, device: null, state };
      if (!view?.active) return signOut(view);
      const { active } = view;
      const isActive =
        active.userId === claims.sub &&
        active.sessionId === claims.session_id &&
        active.tag === tagOf(candidate, vault.keys);
      if (!isActive || state.status === "refused") return null;
      if (state.status === "over") return signOut(view);
      return { auth, device: { device: owner, view }, state };
    }

    /**
     * Returns the active account's session from the vault, refreshed if it expires soon.
     * @returns the session, a verdict if the session is missing or unusable, or `"again"` if the vault's entry has
     * changed meanwhile
     */
    async function fromVault(owner: Device): Promise<StoredSession | Decision | "again"> {
      const opened = await vault.open(owner);
      if (!opened?.active || !opened.vault) return signOut(opened);
      const entry = opened.vault;
      const vaultSession = await vault.unseal(owner, entry);
      if (!vaultSession) {
        return (await vault.discard(owner, { entry, listed: false })) ? signOut(opened) : "again";
      }
      const secondsLeft = (expiryOf(vaultSession.access_token) ?? 0) - now() / 1000;
      const isRefused = refusedTokens.has(vaultSession.access_token);
      if (secondsLeft > refreshMarginSeconds && !isRefused) {
        await reseal(owner, { entry, session: vaultSession });
        return vaultSession;
      }
      const result = await refreshSession(vaultSession.refresh_token, { identityHeaders });
      if (result.status === "refused") {
        return (await vault.discard(owner, { entry, listed: true })) ? signOut(opened) : "again";
      }
      if (result.status === "refreshed") {
        // Stores the session before using it, so that no browser gets a rotated session that the vault lacks.
        isRefreshed = (await vault.keep({ device: owner, entry, session: result.session })).kept;
        return isRefreshed ? result.session : "again";
      }
      return secondsLeft > 0 && !isRefused
        ? vaultSession
        : { auth: unavailable, device: { device: owner, view: opened } };
    }

    /** Re-encrypts an entry with the current key if an earlier key encrypted it. */
    async function reseal(owner: Device, { entry, session }: { entry: VaultEntry; session: StoredSession }) {
      const { current } = vault.keys.vault;
      if (entry.keyId !== current.id) await vault.keep({ device: owner, entry, session });
    }

    async function decide(): Promise<Decision> {
      if (!device) return signOut(null);
      const expiry = cookieSession && expiryOf(cookieSession.access_token);
      const isUsable = expiry !== null && expiry - now() / 1000 > refreshMarginSeconds;
      let decision = cookieSession && isUsable ? await check(cookieSession, device) : null;
      for (let tries = 0; !decision && !isPrefetch && tries < maxVaultReads; tries += 1) {
        const result = await fromVault(device);
        if (result === "again") continue;
        if ("auth" in result) return result;
        if (!cookieSession || !isSameSession(result, cookieSession)) session = result;
        decision = await check(result, device);
      }
      return decision ?? { auth: unavailable, device: null };
    }

    /**
     * Returns the device cookie that the browser still needs. Also records the first request in which the browser sends
     * its newest secret.
     */
    function deviceCookieFor({ device: current }: Decision): Device | null {
      if (!current || isPrefetch) return null;
      const { view } = current;
      if (view.secret === "previous") {
        current.device = successorOf(current.device, vault.keys);
        return current.device;
      }
      // If adding accounts gave the device a new secret, the browser has not sent that secret yet.
      const wasSent = current.device.secret === credentials.device?.secret;
      if (wasSent && !view.arrived) void vault.confirmSecret(current.device);
      // Extends the cookie's expiry only rarely, because a late response could overwrite the cookie of a newer sign-in
      // with an earlier secret.
      return isRefreshed && view.old ? current.device : null;
    }

    const decision = await decide().catch((error: unknown): Decision => {
      requireUnavailable(error);
      return { auth: unavailable, device: null };
    });
    const next = mergedDevice && mergedDevice.secret !== credentials.device?.secret ? mergedDevice : null;
    return { ...decision, session, deviceCookie: deviceCookieFor(decision) ?? next, mergedDevice };
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
