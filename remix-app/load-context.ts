import type { Env } from "./env.server.ts";
import type { CookieJar } from "./http/cookies.ts";
import type { TokenBearer } from "./identity/edge-proxy.ts";
import type { RequestSession } from "./identity/request-session.ts";
import type { Satellite } from "./satellites/own/satellite-context.ts";

/** What the server hands to every loader and action of a request. */
export interface RequestContext {
  env: Env;
  requestId: string;
  /** For scripts of this answer, in its Content-Security-Policy. */
  nonce: string;
  clientAddress: string;
  /** As the visitor's program names itself, cut to 512 characters; empty where it does not. */
  userAgent: string;
  /** Our origin as the browser names it, from the configured list. */
  origin: string;
  /** APIs answer problems as JSON, pages as pages. */
  surface: "page" | "api";
  jar: CookieJar;
  /** Settled once `session` is there. A loader that is called before that says so (`RouteHandle.early`). */
  opened: Promise<void>;
  /** Whose token a cookie brought, as soon as its signature is verified; null where none did. */
  bearer: Promise<TokenBearer | null>;
  session: RequestSession;
  /** On a satellite alone, where `env` is not to be had and `session` is nobody's. */
  satellite?: Satellite;
  /** The server's own refusal of this request, for the page that shows it. */
  refusal: Response | null;
  /** Lets this page's forms lead to another origin, such as an identity provider's. */
  allowFormTarget(origin: string): void;
  /** Lets this page run a script of another origin, and show frames of it, such as the bot challenge's. */
  allowWidget(origin: string): void;
  /** Gives an answer without a body its text: the server sends that as it is, which takes a third less than a body. */
  giveText(answer: Response, text: string): void;
  /** Says in the answer's Retry-After when to come back; the longest wait of a request holds. */
  retryAfter(seconds: number): void;
}

declare module "@remix-run/server-runtime" {
  interface AppLoadContext extends RequestContext {}
}
