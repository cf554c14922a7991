import { AppRejectedError, PlatformUnavailableError } from "./errors.ts";
import type { Settings } from "./options.ts";

const callTimeoutMs = 5_000;
/**
 * How long repeated refreshes of a token return the first refresh's result. Equals the platform's grace period for a
 * replaced token.
 */
const refreshResultCacheMs = 30_000;

/** A session token and when it expires, as an RFC 3339 time. */
export interface IssuedSession {
  token: string;
  expiresAt: string;
}

export interface RedeemedToken {
  userId: string;
  appSession: IssuedSession;
  centralSession?: IssuedSession;
}

/** The person that a cross-app token would sign in. */
export interface SignInPreview {
  userId: string;
  name: string | null;
  email: string | null;
}

export interface ActiveSession {
  active: true;
  sub: string;
  /** Seconds since 1970. */
  exp: number;
  /** Identifies the login in logout tokens. */
  sid?: string;
  name: string | null;
  email: string | null;
}

export type Introspection = { active: false } | ActiveSession;

export interface PlatformClient {
  /** Redeems a cross-app token. Returns null if it is invalid, used or expired. */
  redeem(token: string): Promise<RedeemedToken | null>;
  /** Returns who a token would sign in, without redeeming it. */
  preview(token: string): Promise<SignInPreview | null>;
  introspect(token: string): Promise<Introspection>;
  /** Returns a new token for a session, or null if the session has ended. Concurrent callers share one call. */
  refresh(token: string): Promise<IssuedSession | null>;
  revoke(token: string): Promise<void>;
  /** Calls the central API with a central session. */
  fetch(path: string, options: { token: string; init?: RequestInit | undefined }): Promise<Response>;
}

type Json = Record<string, unknown>;

/** Creates the client. Every call goes to `platformApiUrl` and follows no redirect. */
export function createPlatformClient({ appName, appSecret, platformApiUrl }: Settings): PlatformClient {
  const authorization = `Basic ${btoa(`${appName}:${appSecret}`)}`;
  const refreshes = new Map<string, { result: Promise<IssuedSession | null>; keptUntil: number }>();

  async function send(path: string, init: RequestInit): Promise<Response> {
    const url = new URL(path, platformApiUrl);
    if (url.origin !== platformApiUrl) throw new TypeError("Pass a path of the platform, such as /api/v1/workspaces.");
    try {
      return await fetch(url, {
        ...init,
        redirect: "error",
        signal: init.signal ?? AbortSignal.timeout(callTimeoutMs),
      });
    } catch (error) {
      throw new PlatformUnavailableError(`The platform did not answer: ${String(error)}`);
    }
  }

  /** @returns undefined for 401, which means that the session or token has ended */
  async function ask(path: string, body: object): Promise<unknown> {
    const headers = { Authorization: authorization, "Content-Type": "application/json" };
    const response = await send(`/api/v1/auth/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (response.status === 401 && response.headers.has("WWW-Authenticate")) throw new AppRejectedError(appName);
    if (response.status === 401) return undefined;
    if (!response.ok) throw new PlatformUnavailableError(`The platform answered ${path} with ${response.status}.`);
    if (response.status === 204) return null;
    const text = await response.json().catch(() => undefined);
    return text === undefined ? throwUnexpectedResponse(path) : text;
  }

  async function refresh(token: string): Promise<IssuedSession | null> {
    const path = "app-sessions/refresh";
    const answer = await ask(path, { token });
    return answer === undefined ? null : issuedOf(answer, path);
  }

  return {
    async redeem(token) {
      const path = "cross-app-tokens/validate";
      const answer = await ask(path, { token });
      if (answer === undefined || answer === null) return null;
      const { userId, appSession, centralSession } = objectOf(answer, path);
      if (typeof userId !== "string") return throwUnexpectedResponse(path);
      return {
        userId,
        appSession: issuedOf(appSession, path),
        ...(centralSession === undefined ? {} : { centralSession: issuedOf(centralSession, path) }),
      };
    },
    async preview(token) {
      const path = "cross-app-tokens/validate";
      const answer = await ask(path, { token, preview: true });
      if (answer === undefined || answer === null) return null;
      const { userId, name, email } = objectOf(answer, path);
      if (typeof userId !== "string") return throwUnexpectedResponse(path);
      return { userId, name: textOf(name), email: textOf(email) };
    },
    async introspect(token) {
      const path = "app-sessions/introspect";
      const answer = await ask(path, { token });
      if (answer === undefined) return { active: false };
      const { active, sub, exp, sid, name, email } = objectOf(answer, path);
      if (active === false) return { active };
      if (active !== true || typeof sub !== "string" || typeof exp !== "number") return throwUnexpectedResponse(path);
      return {
        active,
        sub,
        exp,
        ...(typeof sid === "string" ? { sid } : {}),
        name: textOf(name),
        email: textOf(email),
      };
    },
    refresh(token) {
      const now = Date.now();
      for (const [old, { keptUntil }] of refreshes) if (keptUntil <= now) refreshes.delete(old);
      const known = refreshes.get(token);
      if (known) return known.result;
      const result = refresh(token);
      refreshes.set(token, { result, keptUntil: now + refreshResultCacheMs });
      result.catch(() => refreshes.delete(token));
      return result;
    },
    async revoke(token) {
      await ask("app-sessions/revoke", { token });
    },
    fetch(path, { token, init = {} }) {
      const headers = new Headers(init.headers);
      headers.set("Authorization", `Bearer ${token}`);
      return send(path, { ...init, headers });
    },
  };
}

function throwUnexpectedResponse(path: string): never {
  throw new PlatformUnavailableError(`The platform sent an unexpected answer to ${path}.`);
}

function objectOf(value: unknown, path: string): Json {
  return typeof value === "object" && value !== null ? (value as Json) : throwUnexpectedResponse(path);
}

function issuedOf(value: unknown, path: string): IssuedSession {
  const { token, expiresAt } = objectOf(value, path);
  return typeof token === "string" && typeof expiresAt === "string"
    ? { token, expiresAt }
    : throwUnexpectedResponse(path);
}

const textOf = (value: unknown): string | null => (typeof value === "string" ? value : null);
