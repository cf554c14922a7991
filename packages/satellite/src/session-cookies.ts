import type { CookieJar } from "./cookies.ts";
import { encodeBase64Url, randomToken } from "./encoding.ts";
import type { IssuedSession } from "./platform-client.ts";

const appSession = "platform_app_session";
const centralSession = "platform_central_session";
/** Only limits how long the browser keeps the cookie; the platform decides when a session ends. */
const sessionMaxAgeSeconds = 30 * 24 * 60 * 60;
const stateMaxAgeSeconds = 10 * 60;
/** Matches every token that the platform issues. The platform answers longer texts and NUL with 400. */
const tokenShape = /^[\x21-\x7e]{1,4096}$/;

export interface SessionTokens {
  app?: string;
  central?: string;
}

/** The sessions and the sign-in state that one browser holds in cookies. */
export interface SessionCookies {
  /** Returns the browser's session tokens, or none if they don't match their seal or can't be the platform's. */
  read(): Promise<SessionTokens>;
  /** Sets new tokens. A session that is left out keeps its token. */
  keep(sessions: { app?: IssuedSession | null; central?: IssuedSession | null }): Promise<void>;
  /** Sets the tokens of a new sign-in, replacing any earlier ones. */
  replace(sessions: { app: IssuedSession; central: IssuedSession | null }): Promise<void>;
  forget(): void;
  /** Issues a state that only this browser holds, which later proves that a sign-in was started in this browser. */
  sendState(): string;
  stateMatches(state: string | null | undefined): boolean;
  forgetState(): void;
}

/**
 * Opens the session cookies of a request. On https, a `__Host-` cookie seals the two session cookies together, because
 * a sibling host could plant them (RFC 6265bis §4.1.3.2).
 */
export function openSessionCookies(jar: CookieJar, { secure }: { secure: boolean }): SessionCookies {
  const seal = secure ? "__Host-platform_session_seal" : "platform_session_seal";
  const stateName = secure ? "__Host-platform_sign_in_state" : "platform_sign_in_state";
  async function keep({ app, central }: Parameters<SessionCookies["keep"]>[0]): Promise<void> {
    if (app) jar.set(appSession, app.token, sessionMaxAgeSeconds);
    if (central) jar.set(centralSession, central.token, sessionMaxAgeSeconds);
    if (secure) jar.set(seal, await sealOf(jar.get(appSession), jar.get(centralSession)), sessionMaxAgeSeconds);
  }

  return {
    async read() {
      const [app, central] = [jar.get(appSession), jar.get(centralSession)];
      if (!tokenShape.test(app) || (central && !tokenShape.test(central))) return {};
      if (secure && jar.get(seal) !== (await sealOf(app, central))) return {};
      return { app, ...(central ? { central } : {}) };
    },
    keep,
    async replace(sessions) {
      if (!sessions.central) jar.clear(centralSession);
      await keep(sessions);
    },
    forget() {
      for (const name of [appSession, centralSession, seal]) jar.clear(name);
    },
    sendState() {
      const state = randomToken();
      jar.set(stateName, state, stateMaxAgeSeconds);
      return state;
    },
    stateMatches: (state) => jar.get(stateName) !== "" && jar.get(stateName) === state,
    forgetState: () => jar.clear(stateName),
  };
}

async function sealOf(app: string, central: string): Promise<string> {
  const pair = new TextEncoder().encode(JSON.stringify([app, central || null]));
  return encodeBase64Url(new Uint8Array(await crypto.subtle.digest("SHA-256", pair)));
}
