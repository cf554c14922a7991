import type { AppLoadContext } from "@remix-run/server-runtime";
import type { SupabaseClient } from "@supabase/supabase-js";
import { type Claims, claimsOfIssued } from "#shared/claims.ts";
import type { Env } from "../env.server.ts";
import type { CookieJar } from "../http/cookies.ts";
import { problem } from "../http/problem.ts";
import { clearApprovalCookie } from "./approval-cookie.ts";
import { createAuthClient, createMailClient, identityHeaders } from "./clients.ts";
import type { EdgeProxy, RequestAuth } from "./edge-proxy.ts";
import {
  clearSessionCookie,
  readSessionCookie,
  type SessionCookieScope,
  type StoredSession,
  sessionCookieScope,
  storedSession,
  writeSessionCookie,
} from "./session-cookie.ts";
import { fetchSessionState, type SessionState } from "./session-state.ts";

/** Everything that one request knows of its session. Read once; routes get it through the load context. */
export interface RequestSession {
  readonly auth: RequestAuth;
  /** What the database says of the session now; asked at most once a request, never kept longer. */
  state(): Promise<SessionState>;
  /** What the database says of the session that this request's answer leaves in the browser; asked anew. */
  issuedState(): Promise<SessionState>;
  /** Takes the session from the browser, in every variant of its cookie, and the approval that it may hold. */
  clear(): void;
  /** The session that the request, or what was done with it, leaves in the browser. */
  stored(): Promise<StoredSession | null>;
  /** Puts a session of the identity backend into the browser. */
  store(session: StoredSession): void;
  /** For the identity backend, with the request's session. */
  authClient(): SupabaseClient;
  /** For the identity backend, without a session: for what asks for a mail. */
  mailClient(): SupabaseClient;
}

export interface OpenRequestSessionOptions {
  env: Env;
  proxy: EdgeProxy;
  jar: CookieJar;
  /** Our origin as the browser names it, from the configured list. */
  origin: string;
  authorization: string | null;
  clientAddress: string;
}

/** Reads the session of one request: the edge proxy's verdict, and the means to act on it. */
export async function openRequestSession(options: OpenRequestSessionOptions): Promise<RequestSession> {
  const { env, proxy, jar, origin, authorization, clientAddress } = options;
  const scope: SessionCookieScope = sessionCookieScope({
    supabaseUrl: env.SUPABASE_URL,
    parentDomain: env.PARENT_DOMAIN,
    origin,
  });
  let auth = await proxy({ authorization, jar, scope, identityHeaders: identityHeaders(env, clientAddress) });
  const ask = (accessToken: string) =>
    fetchSessionState(accessToken, {
      supabaseUrl: env.SUPABASE_URL,
      publishableKey: env.SUPABASE_PUBLISHABLE_KEY,
    });
  let asked: Promise<SessionState> | undefined;
  function state(): Promise<SessionState> {
    asked ??=
      auth.status === "authenticated" ? ask(auth.accessToken) : Promise.resolve<SessionState>({ status: "over" });
    return asked;
  }
  // A refresh's result is kept for a while: a late request must not bring back a session that was signed out since.
  if (auth.status === "authenticated" && auth.refreshed && (await state()).status === "over") {
    clearSessionCookie(jar, scope);
    auth = { status: "anonymous" };
  }
  return {
    auth,
    state,
    issuedState: async () => {
      const issued = await readSessionCookie(jar, scope);
      return issued ? ask(issued.access_token) : { status: "over" };
    },
    clear: () => {
      clearSessionCookie(jar, scope);
      clearApprovalCookie({ env, jar, origin });
    },
    stored: () => readSessionCookie(jar, scope),
    store: (stored) => writeSessionCookie(jar, scope, storedSession.parse(stored)),
    mailClient: () => createMailClient({ env, clientAddress }),
    authClient: () => createAuthClient({ env, jar, scope, clientAddress }),
  };
}

/**
 * After a sign-in: makes sure that its session is in the browser's cookie.
 * @returns what the new session's token says
 * @throws Response 403 FORBIDDEN where the session was too large for one
 */
export async function requireKeptSession({ session, requestId }: AppLoadContext): Promise<Claims> {
  const stored = await session.stored();
  if (stored) return claimsOfIssued(stored.access_token);
  const detail =
    "This account carries more profile data than a browser can send with each request. Ask for its removal.";
  throw problem("FORBIDDEN", { requestId, detail });
}
