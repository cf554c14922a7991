import { type CookieSink, openJar } from "./cookies.ts";
import { CrossOriginError, PlatformUnavailableError, SatelliteError, SignInRequiredError } from "./errors.ts";
import { isSameOrigin } from "./http.ts";
import type { IntrospectionCache } from "./introspection-cache.ts";
import type { Settings } from "./options.ts";
import type { PlatformClient } from "./platform-client.ts";
import { openSessionCookies, type SessionCookies } from "./session-cookies.ts";

/** A session is refreshed this long before it expires. */
const refreshMarginSeconds = 60 * 60;

/** The signed-in person. Name and email need the scope `profile`. */
export interface SatelliteUser {
  id: string;
  name: string | null;
  email: string | null;
}

export interface SessionContext {
  settings: Settings;
  platform: PlatformClient;
  introspections: IntrospectionCache;
}

export interface RequestSession {
  cookies: SessionCookies;
  /** The `Set-Cookie` values to add to the response. Empty if a sink receives the values instead. */
  pending: string[];
  /** Returns null for a request that changes state and comes from another origin. */
  user(): Promise<SatelliteUser | null>;
  /** @throws CrossOriginError, SignInRequiredError */
  requireUser(returnTo: string): Promise<SatelliteUser>;
  /**
   * Signs this browser in with a cross-app token and ends its earlier session. Returns null if the token or state is
   * invalid.
   */
  finishSignIn(handoff: {
    token: string;
    state?: string | undefined;
  }): Promise<{ userId: string; expiresAt: string } | null>;
  signOut(): Promise<void>;
  /** Calls the central API; refreshes the session once after a 401. @throws SignInRequiredError */
  centralFetch(path: string, init?: RequestInit): Promise<Response>;
  /** Redirects to the platform's sign-in, with a new state. */
  startSignIn(returnTo: string): Response;
}

/**
 * Opens the session of a request.
 * @param options.sink takes `Set-Cookie` values as they are set; null if this request cannot set cookies
 */
export function openRequestSession(
  request: Request,
  { context, sink }: { context: SessionContext; sink?: CookieSink | null | undefined },
): RequestSession {
  const { settings, platform, introspections } = context;
  const pending: string[] = [];
  const secure = settings.origin.startsWith("https:");
  const jar = openJar(request.headers.get("cookie"), { secure, sink: sink ?? ((header) => void pending.push(header)) });
  const cookies = openSessionCookies(jar, { secure });
  const canSetCookies = sink !== null;
  const isOwn = isSameOrigin(request, settings.origin);
  let known: Promise<SatelliteUser | null> | undefined;

  function user(): Promise<SatelliteUser | null> {
    known ??= isOwn ? findUser() : Promise.resolve(null);
    return known;
  }

  async function findUser(): Promise<SatelliteUser | null> {
    const { app, central } = await cookies.read();
    if (!app) {
      // The session cookies are missing or don't match their seal.
      cookies.forget();
      return null;
    }
    const session = await introspections.read(app);
    if (!session.active) {
      cookies.forget();
      return null;
    }
    if (canSetCookies && session.exp - Date.now() / 1000 < refreshMarginSeconds) {
      const [nextApp, nextCentral] = await Promise.all([
        platform.refresh(app),
        central ? platform.refresh(central) : null,
      ]);
      await cookies.keep({ app: nextApp, central: nextCentral });
    }
    return { id: session.sub, name: session.name, email: session.email };
  }

  async function revoke(token: string): Promise<void> {
    introspections.drop(token);
    await platform.revoke(token).catch((error: unknown) => {
      settings.log(`warning an app session was not revoked: ${String(error)}`);
    });
  }

  function startSignIn(returnTo: string): Response {
    const query = new URLSearchParams({ returnUrl: `${settings.origin}${returnTo}`, state: cookies.sendState() });
    const headers = { Location: `${settings.platformUrl}/login?${query}`, "Cache-Control": "no-store" };
    return new Response(null, { status: request.method === "GET" || request.method === "HEAD" ? 302 : 303, headers });
  }

  return {
    cookies,
    pending,
    user,
    async requireUser(returnTo) {
      if (!isOwn) throw new CrossOriginError();
      const found = await user();
      if (found) return found;
      throw new SignInRequiredError(startSignIn(returnTo));
    },
    async finishSignIn({ token, state }) {
      if (state !== undefined && !cookies.stateMatches(state)) return null;
      const before = await cookies.read();
      const opened = await platform.redeem(token);
      if (!opened) return null;
      if (before.app) await revoke(before.app);
      await cookies.replace({ app: opened.appSession, central: opened.centralSession ?? null });
      cookies.forgetState();
      known = undefined;
      return { userId: opened.userId, expiresAt: opened.appSession.expiresAt };
    },
    async signOut() {
      const { app } = await cookies.read();
      if (app) await revoke(app);
      cookies.forget();
      known = Promise.resolve(null);
    },
    async centralFetch(path, init) {
      if (!isOwn) throw new CrossOriginError();
      const { central } = await cookies.read();
      if (central) {
        const response = await platform.fetch(path, { token: central, init });
        if (response.status !== 401) return response;
        const next = canSetCookies ? await platform.refresh(central) : null;
        if (next) {
          await cookies.keep({ central: next });
          const again = await platform.fetch(path, { token: next.token, init });
          if (again.status !== 401) return again;
        }
      }
      cookies.forget();
      throw new SignInRequiredError(startSignIn(getPageAfterSignIn(request)));
    },
    startSignIn,
  };
}

/**
 * Returns the page to open after a sign-in, which is the request's own URL unless the request was a form submission.
 */
export function getPageAfterSignIn(request: Request): string {
  const { pathname, search } = new URL(request.url);
  return request.method === "GET" || request.method === "HEAD" ? `${pathname}${search}` : "/";
}

/** Returns whether an error means that the platform could not be reached. */
export function isUnavailable(error: unknown): error is SatelliteError {
  return error instanceof PlatformUnavailableError || (error instanceof SatelliteError && error.status === 503);
}
