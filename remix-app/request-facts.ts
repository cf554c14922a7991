import type { AppLoadContext } from "@remix-run/server-runtime";
import { type ClientAddressOptions, clientAddress } from "./http/client-address.ts";
import { createCookieJar } from "./http/cookies.ts";
import { createNonce } from "./http/nonce.ts";
import { requestOrigin } from "./http/origin.ts";
import { requestIdOf } from "./http/request-id.ts";
import "./load-context.ts";

const maxUserAgentLength = 512;

/** What the server knows of a request before its session is looked at, and what its answer is to have. */
export type RequestFacts = Pick<
  AppLoadContext,
  "requestId" | "nonce" | "clientAddress" | "userAgent" | "origin" | "surface" | "jar"
> & {
  formTargets: Set<string>;
  widgets: Set<string>;
  /** Of answers that have no body of their own. */
  texts: WeakMap<Response, string>;
  /** 0: nothing to wait for. */
  retryAfterSeconds: number;
  /** True once the request's session has been read: the answer is for this visitor alone. */
  personal: boolean;
  /** Ends what was done with the request's session, before the answer sets its cookies. */
  settle: () => Promise<void>;
};

/** Reads what a request says of itself by its address and headers. */
export function factsOf(
  { headers, url }: Request,
  { origins, ...peer }: ClientAddressOptions & { origins: readonly [string, ...string[]] },
): RequestFacts {
  return {
    requestId: requestIdOf(headers),
    nonce: createNonce(),
    clientAddress: clientAddress(headers, peer),
    userAgent: (headers.get("user-agent") ?? "").slice(0, maxUserAgentLength),
    origin: requestOrigin(headers.get("host"), origins),
    surface: new URL(url).pathname.startsWith("/api/") ? "api" : "page",
    jar: createCookieJar(headers.has("authorization") ? null : headers.get("cookie")),
    formTargets: new Set(),
    widgets: new Set(),
    texts: new WeakMap(),
    retryAfterSeconds: 0,
    personal: false,
    settle: async () => {},
  };
}
