import { type Claims, type ClaimsVerifier, createClaimsVerifier, expiryOf } from "#shared/claims.ts";
import type { Env } from "../config/env.server.ts";
import { bearerToken } from "../http/authorization.ts";
import { type Device, type StoredSession, successorOf } from "./cookies.ts";
import { createSessionRefresher, refreshMarginSeconds, type SessionRefresher } from "./refresh.ts";
import type { SessionServices } from "./request-session.ts";
import { type DeviceSessionState, fetchDeviceSessionState, type SessionState } from "./session-state.ts";
import { type DeviceView, openVault, tagOf, type Vault, type VaultEntry, VaultUnavailable } from "./vault.ts";

/** How often a request that loses a race for its session looks again before it gives up. */
const maxVerdicts = 4;

/**
 * Who a request comes from. `unavailable`: it brought a session that nobody could judge; its cookies stay.
 */
export type RequestAuth =
  | { status: "anonymous" }
  | { status: "authenticated"; via: "cookie" | "bearer"; accessToken: string; claims: Claims }
  | { status: "unavailable" };

interface Judgement {
  auth: RequestAuth;
  /** The session's state in the database, if it was read. */
  state?: SessionState;
  /** The browser, if its cookie is one of ours and the database knows it. */
  device: { device: Device; view: DeviceView } | null;
}

/** The edge proxy's verdict on a request. */
export interface Verdict extends Judgement {
  /** The session that the browser holds from now on. */
  session: StoredSession | null;
  /** The device that the browser's cookie has to be set to; null if the cookie stays. */
  deviceCookie: Device | null;
  /** The device that the shown additions led to; null if they led to none or could not be judged. */
  taken: Device | null;
}

export interface EdgeProxyOptions {
  verifyClaims: ClaimsVerifier;
  refreshSession: SessionRefresher;
  vault: Vault;
  /** Asks for a session's state and its browser's at once. */
  fetchState: (
    accessToken: string,
    options: { device: Device; approvalProof: string | null },
  ) => Promise<DeviceSessionState>;
  now?: () => number;
}

export interface RequestCredentials {
  authorization: string | null;
  /** What the cookies bring. */
  session: StoredSession | null;
  device: Device | null;
  /** Proves that the browser holds the mobile approval of a session; null if it does not. */
  approvalProof: (sessionId: string) => string | null;
  /** The secrets of accounts that were added to the device and have yet to join the others. */
  additions: readonly string[];
  /** Headers for calls to the identity backend on behalf of this visitor. */
  identityHeaders: Record<string, string>;
}

export type EdgeProxy = (credentials: RequestCredentials) => Promise<Verdict>;

const anonymous = { status: "anonymous" } as const;
const unavailable = { status: "unavailable" } as const;

function unanswered(error: unknown): "unavailable" {
  if (error instanceof VaultUnavailable) return "unavailable";
  throw error;
}

/**
 * Makes the edge proxy: judges a request's session once, refreshes it in time, and says what the browser holds from then
 * on. A request with an Authorization header never falls back to its cookies.
 *
 * A cookie's session counts where the browser's device says so, and no other does: one that is late, older than what
 * the vault has, or planted is put right from the vault, or dropped.
 */
export function createEdgeProxy(options: EdgeProxyOptions): EdgeProxy {
  const { verifyClaims, refreshSession, vault, fetchState, now = Date.now } = options;

  async function fromBearer(authorization: string, identityHeaders: Record<string, string>): Promise<Judgement> {
    const accessToken = bearerToken(authorization);
    if (accessToken === null) return { auth: anonymous, device: null };
    const result = await verifyClaims(accessToken, { identityHeaders });
    if (result.status === "valid") {
      return { auth: { status: "authenticated", claims: result.claims, via: "bearer", accessToken }, device: null };
    }
    return { auth: result.status === "refused" ? anonymous : unavailable, device: null };
  }

  /** Adds the sign-ins that the browser shows to its accounts. Without any it makes no call. */
  async function take({ device, additions }: RequestCredentials): Promise<Device | null | "unavailable"> {
    if (!device || additions.length === 0) return device;
    return vault.takeAdditions(device, additions).catch(unanswered);
  }

  async function fromCookie(credentials: RequestCredentials): Promise<Verdict> {
    const { session: brought, approvalProof, identityHeaders } = credentials;
    const taken = await take(credentials);
    if (taken === "unavailable") {
      return { auth: unavailable, device: null, session: brought, deviceCookie: null, taken: null };
    }
    const device = taken ?? credentials.device;
    let held = brought;
    /** Tokens that were refused before their end: the backend decides whether their session lives on. */
    const refused = new Set<string>();
    let renewed = false;

    function nobody(view: DeviceView | null): Judgement {
      held = null;
      return { auth: anonymous, device: device && view ? { device, view } : null, state: { status: "over" } };
    }

    /** @returns null where the vault has to say more */
    async function judge(session: StoredSession, owner: Device): Promise<Judgement | null> {
      const { access_token: accessToken } = session;
      const result = await verifyClaims(accessToken, { identityHeaders });
      if (result.status === "unavailable") return { auth: unavailable, device: null };
      if (result.status === "refused") {
        refused.add(accessToken);
        return null;
      }
      const { claims } = result;
      const { state, device: view } = await fetchState(accessToken, {
        device: owner,
        approvalProof: approvalProof(claims.session_id),
      });
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
    async function fromVault(owner: Device): Promise<StoredSession | Judgement | "again"> {
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

    async function judgement(): Promise<Judgement> {
      if (!device) return nobody(null);
      const expiry = brought && expiryOf(brought.access_token);
      const usable = brought && expiry !== null && expiry - now() / 1000 > refreshMarginSeconds ? brought : null;
      let judged = usable && (await judge(usable, device));
      for (let tries = 0; !judged && tries < maxVerdicts; tries += 1) {
        const session = await fromVault(device);
        if (session === "again") continue;
        if ("auth" in session) return session;
        const same = session.refresh_token === brought?.refresh_token && session.access_token === brought.access_token;
        if (!same) held = session;
        judged = await judge(session, device);
      }
      return judged ?? { auth: unavailable, device: null };
    }

    /** What the browser has yet to get; notes a newest secret that it has shown for the first time. */
    function deviceCookieFor({ device: known }: Judgement): Device | null {
      if (!known) return null;
      const { view } = known;
      if (view.secret === "previous") {
        known.device = successorOf(known.device, vault.keys);
        return known.device;
      }
      // A secret that additions led to has yet to arrive.
      const shown = known.device.secret === credentials.device?.secret;
      if (shown && !view.arrived) void vault.noteArrival(known.device);
      // The expiry slides, but seldom: a late response that sets an earlier secret would undo a sign-in's.
      return renewed && view.old ? known.device : null;
    }

    const judged = await judgement().catch((error: unknown): Judgement => {
      unanswered(error);
      return { auth: unavailable, device: null };
    });
    const next = taken && taken.secret !== credentials.device?.secret ? taken : null;
    return { ...judged, session: held, deviceCookie: deviceCookieFor(judged) ?? next, taken };
  }

  return async (credentials) => {
    const { authorization, identityHeaders } = credentials;
    if (authorization === null) return fromCookie(credentials);
    return { ...(await fromBearer(authorization, identityHeaders)), session: null, deviceCookie: null, taken: null };
  };
}

/** What judges sessions in this process; its refresher lets requests at the same moment share one refresh. */
export async function openSessionServices(env: Env): Promise<SessionServices> {
  const { SUPABASE_URL: supabaseUrl, SUPABASE_PUBLISHABLE_KEY: publishableKey } = env;
  const vault = await openVault(env);
  const refreshSession = createSessionRefresher({ supabaseUrl });
  const proxy = createEdgeProxy({
    verifyClaims: createClaimsVerifier({ supabaseUrl }),
    refreshSession,
    vault,
    fetchState: (accessToken, asked) => fetchDeviceSessionState(accessToken, { supabaseUrl, publishableKey, ...asked }),
  });
  return { proxy, refreshSession, vault };
}
