import { type Claims, type ClaimsVerifier, expiryOf } from "#shared/claims.ts";
import { type Device, readDeviceCookie, successorOf, writeDeviceCookie } from "../accounts/device-cookie.ts";
import type { DeviceView } from "../accounts/device-view.ts";
import { tagOf } from "../accounts/seal.ts";
import { isVaultUnavailable, type Vault, type VaultEntry } from "../accounts/vault.ts";
import { bearerToken } from "../http/bearer.ts";
import type { CookieJar } from "../http/cookies.ts";
import { maxVerdicts, refreshMarginSeconds } from "./limits.ts";
import type { SessionRefresher } from "./refresh.ts";
import {
  clearSessionCookie,
  hasSessionCookie,
  readSessionCookie,
  type SessionCookieScope,
  type StoredSession,
  writeSessionCookie,
} from "./session-cookie.ts";
import type { DeviceSessionState, SessionState } from "./session-state.ts";

/**
 * Who a request comes from. `unavailable`: it brought a session that nobody could judge; its cookies stay.
 */
export type RequestAuth =
  | { status: "anonymous" }
  | { status: "authenticated"; via: "cookie" | "bearer"; accessToken: string; claims: Claims }
  | { status: "unavailable" };

/** Whom a token names whose signature holds. Whether its session lives, and may do anything, is another question. */
export type TokenBearer = { userId: string; sessionId: string; accessToken: string };

/** The edge proxy's word on a request. */
export interface Verdict {
  auth: RequestAuth;
  /** What the database says of the session, where it was asked already. */
  state?: SessionState;
  /** The browser, where its cookie is one of ours and the database knows it. */
  device: { device: Device; view: DeviceView } | null;
}

export interface EdgeProxyOptions {
  verifyClaims: ClaimsVerifier;
  refreshSession: SessionRefresher;
  vault: Vault;
  /** Asks for a session's state and its browser's at once. */
  fetchState: (accessToken: string, device: Device) => Promise<DeviceSessionState>;
  now?: () => number;
}

export interface RequestCredentials {
  authorization: string | null;
  jar: CookieJar;
  /** Our origin as the browser names it, from the configured list. */
  origin: string;
  scope: SessionCookieScope;
  /** Headers for calls to the identity backend on behalf of this visitor. */
  identityHeaders: Record<string, string>;
  /** Hears whose token a cookie brought, before the database is asked whether its session lives. */
  onVerified?: (bearer: TokenBearer) => void;
}

export type EdgeProxy = (credentials: RequestCredentials) => Promise<Verdict>;

const anonymous = { status: "anonymous" } as const;
const unavailable = { status: "unavailable" } as const;

/**
 * Makes the edge proxy: judges a request's session once, refreshes it in time, and leaves in the jar what the answer has
 * to set. A request with an Authorization header never falls back to its cookies.
 *
 * A cookie's session counts where the browser's device says so, and no other does: one that is late, older than what
 * the vault has, or planted is put right from the vault, or dropped.
 */
export function createEdgeProxy(options: EdgeProxyOptions): EdgeProxy {
  const { verifyClaims, refreshSession, vault, fetchState, now = Date.now } = options;

  async function fromBearer(authorization: string, identityHeaders: Record<string, string>): Promise<Verdict> {
    const accessToken = bearerToken(authorization);
    if (accessToken === null) return { auth: anonymous, device: null };
    const result = await verifyClaims(accessToken, { identityHeaders });
    if (result.status === "valid") {
      return { auth: { status: "authenticated", claims: result.claims, via: "bearer", accessToken }, device: null };
    }
    return { auth: result.status === "refused" ? anonymous : unavailable, device: null };
  }

  async function fromCookie(credentials: RequestCredentials): Promise<Verdict> {
    const { jar, origin, scope, identityHeaders, onVerified } = credentials;
    const device = readDeviceCookie(jar, { origin, cookie: vault.keys.cookie });
    const brought = await readSessionCookie(jar, scope);
    /** Tokens that were refused before their end: the backend decides whether their session lives on. */
    const refused = new Set<string>();
    let renewed = false;

    function nobody(view: DeviceView | null): Verdict {
      if (hasSessionCookie(jar, scope)) clearSessionCookie(jar, scope);
      return { auth: anonymous, device: device && view ? { device, view } : null, state: { status: "over" } };
    }

    /** @returns null where the vault has to say more */
    async function judge(session: StoredSession, owner: Device): Promise<Verdict | null> {
      const { access_token: accessToken } = session;
      const result = await verifyClaims(accessToken, { identityHeaders });
      if (result.status === "unavailable") return { auth: unavailable, device: null };
      if (result.status === "refused") {
        refused.add(accessToken);
        return null;
      }
      const { claims } = result;
      const asked = fetchState(accessToken, owner);
      onVerified?.({ userId: claims.sub, sessionId: claims.session_id, accessToken });
      const { state, device: view } = await asked;
      const auth = { status: "authenticated", via: "cookie", accessToken, claims } as const;
      if (state.status === "refused") refused.add(accessToken);
      if (view === undefined) return state.status === "refused" ? null : { auth, device: null, state };
      if (!view?.active) return nobody(view);
      const { active } = view;
      const agrees =
        active.userId === claims.sub &&
        active.sessionId === claims.session_id &&
        active.tag === tagOf(session, vault.keys);
      if (!agrees || state.status === "refused") return null;
      if (state.status === "over") return nobody(view);
      return { auth, device: { device: owner, view }, state };
    }

    /** The active account's session as the vault has it, fresh enough to use. @returns a verdict where there is none */
    async function fromVault(owner: Device): Promise<StoredSession | Verdict | "again"> {
      const opened = await vault.open(owner);
      if (!opened?.active || !opened.vault) return nobody(opened);
      const entry = opened.vault;
      const session = await vault.unseal(owner, entry);
      if (!session) {
        return (await vault.lose(owner, { entry, listed: false })) ? nobody(opened) : "again";
      }
      const secondsLeft = (expiryOf(session.access_token) ?? 0) - now() / 1000;
      if (secondsLeft > refreshMarginSeconds && !refused.has(session.access_token)) {
        await reseal(owner, { entry, session });
        return session;
      }
      const result = await refreshSession(session.refresh_token, { identityHeaders });
      if (result.status === "refused") {
        return (await vault.lose(owner, { entry, listed: true })) ? nobody(opened) : "again";
      }
      if (result.status === "refreshed") {
        // Written before anybody has it: a rotation that is not in the vault is in no browser either.
        renewed = (await vault.keep({ device: owner, entry, session: result.session })).kept;
        return renewed ? result.session : "again";
      }
      return secondsLeft > 0 && !refused.has(session.access_token)
        ? session
        : { auth: unavailable, device: { device: owner, view: opened } };
    }

    /** Brings an entry of an earlier key under the current one. */
    async function reseal(owner: Device, { entry, session }: { entry: VaultEntry; session: StoredSession }) {
      const { current } = vault.keys.vault;
      if (entry.keyId !== current.id) await vault.keep({ device: owner, entry, session });
    }

    if (!device) return nobody(null);
    const expiry = brought && expiryOf(brought.access_token);
    const usable = brought && expiry !== null && expiry - now() / 1000 > refreshMarginSeconds ? brought : null;
    let verdict = usable && (await judge(usable, device));
    for (let tries = 0; !verdict && tries < maxVerdicts; tries += 1) {
      const session = await fromVault(device);
      if (session === "again") continue;
      if ("auth" in session) return session;
      if (session.refresh_token !== brought?.refresh_token || session.access_token !== brought.access_token) {
        writeSessionCookie(jar, scope, session);
      }
      verdict = await judge(session, device);
    }
    // Its expiry slides, seldom: a late answer that sets a secret of before would undo a sign-in's.
    if (renewed && verdict?.device?.view.old) {
      writeDeviceCookie(jar, { origin, cookie: vault.keys.cookie, device });
    }
    return verdict ?? { auth: unavailable, device: null };
  }

  /** Sees to the device's own cookie: what a browser has yet to get, and what it has got for the first time. */
  function settleSecret({ jar, origin }: RequestCredentials, { device }: Verdict): void {
    if (!device) return;
    const { view } = device;
    if (view.secret === "previous") {
      const { cookie } = vault.keys;
      device.device = successorOf(device.device, vault.keys);
      writeDeviceCookie(jar, { origin, cookie, device: device.device });
    } else if (!view.arrived) void vault.noteArrival(device.device);
  }

  return async (credentials) => {
    if (credentials.authorization !== null) return fromBearer(credentials.authorization, credentials.identityHeaders);
    try {
      const verdict = await fromCookie(credentials);
      settleSecret(credentials, verdict);
      return verdict;
    } catch (error) {
      if (isVaultUnavailable(error)) return { auth: unavailable, device: null };
      throw error;
    }
  };
}
