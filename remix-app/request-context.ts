import { randomBytes } from "node:crypto";
import type { Env } from "./config/env.server.ts";
import { type CookieJar, createCookieJar } from "./http/cookies.ts";
import { type ClientAddressOptions, clientAddress, readRequestId, requestOrigin } from "./http/request-facts.ts";
import { type PlaceHeaders, visitorPlace } from "./http/visitor-place.ts";
import type { WebMetrics } from "./monitoring/web-metrics.ts";
import type { Schedule } from "./schedule/schedule.ts";
import type { RequestSession } from "./session/request-session.ts";
import type { PageBrand } from "./ui/brand.ts";

/** A request before its session is opened. */
interface RequestFacts {
  requestId: string;
  /** The nonce in this response's scripts and in its Content-Security-Policy header. */
  nonce: string;
  clientAddress: string;
  /** City and country of the visitor, if a trusted proxy names them. */
  place: string | null;
  /** The User-Agent header, cut to 512 characters; empty if absent. */
  userAgent: string;
  /** The configured origin that the browser used for this request. */
  origin: string;
  /** APIs return problems as JSON, pages as HTML. */
  surface: "page" | "api";
  /** The path of the request's route, such as `workspaces/:workspaceId`; empty before the route is found. */
  routePattern: string;
  jar: CookieJar;
}

/** The context that every loader and action receives. */
export interface RequestContext extends RequestFacts {
  env: Env;
  session: RequestSession;
  brand: PageBrand;
  /** The scheduled tasks of this process. */
  schedule: Schedule;
  /** Counts how an attempt ended, if metrics are on. */
  countAttempt?: WebMetrics["attempt"];
  /** Returns whether a path leads to a page that people can land on. */
  isPage(pathname: string): boolean;
  /** The server's refusal of this request, which the error page shows. */
  refusal: Response | null;
  /** Allows this page's forms to lead to another origin, such as an identity provider's. */
  allowFormTarget(origin: string): void;
  /** Allows this page to run a script of another origin and to show its frames, such as the bot challenge's. */
  allowWidget(origin: string): void;
  /** Sets the response's Retry-After. If called more than once, the longest wait wins. */
  retryAfter(seconds: number): void;
}

declare module "@remix-run/node" {
  interface AppLoadContext extends RequestContext {}
}

/** A request being processed: its facts and what its response needs. */
export interface RequestState extends RequestFacts {
  formTargets: Set<string>;
  widgets: Set<string>;
  retryAfterSeconds: number;
  /** Whether the response is for this visitor only, because their session was read. */
  personal: boolean;
  /** Null until the session is opened. */
  session: RequestSession | null;
}

const maxUserAgentLength = 512;
/** 128 bits, as CSP Level 3 asks for (section 7.1). */
const nonceBytes = 16;

/** Reads a request's URL and headers. */
export function createRequestState(
  { headers, url }: Request,
  {
    origins,
    placeHeaders,
    ...peer
  }: ClientAddressOptions & { origins: readonly [string, ...string[]]; placeHeaders: PlaceHeaders },
): RequestState {
  return {
    requestId: readRequestId(headers),
    nonce: randomBytes(nonceBytes).toString("base64"),
    clientAddress: clientAddress(headers, peer),
    place: visitorPlace(headers, placeHeaders),
    userAgent: (headers.get("user-agent") ?? "").slice(0, maxUserAgentLength),
    origin: requestOrigin(headers.get("host"), origins),
    surface: new URL(url).pathname.startsWith("/api/") ? "api" : "page",
    routePattern: "",
    jar: createCookieJar(headers.has("authorization") ? null : headers.get("cookie")),
    formTargets: new Set(),
    widgets: new Set(),
    retryAfterSeconds: 0,
    personal: false,
    session: null,
  };
}
