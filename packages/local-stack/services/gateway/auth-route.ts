import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { bearerToken, isOpaqueKey, type KeyKind, type KeyRing } from "./api-keys.ts";
import { crossOriginHeaders, exposedHeaders } from "./cors.ts";
import { checkApiKey } from "./credentials.ts";
import { forward, forwardedHeaders } from "./forward.ts";
import type { NodeBindings } from "./node-bindings.ts";
import { invalidKey, type Refusal, unavailable } from "./refusals.ts";

export type AuthRouteOptions = { origin: string; keys: KeyRing; roleTokens: Record<KeyKind, string> };

/**
 * Paths that need no key, as on hosted Supabase. Browsers reach them by links and redirects, and verifiers of tokens
 * fetch the public keys there.
 */
const keyless = /^\/(?:authorize|callback|verify|\.well-known\/.*|sso\/saml\/.*|oauth\/.*)$/;

/** Serves `/auth/v1/*` through the identity backend. Opaque keys are translated into the backend's role tokens. */
export function authRoute(options: AuthRouteOptions) {
  return (c: Context<NodeBindings>) => {
    const url = new URL(c.req.url);
    const path = url.pathname.slice("/auth/v1".length) || "/";
    const check = checkApiKey(c.req, options.keys);
    if ("refusal" in check && !keyless.test(path)) return refuse(c, check.refusal);
    const kind = "kind" in check ? check.kind : undefined;
    const authorization = translateAuthorization(c.req.header("authorization"), kind, options);
    if (typeof authorization === "object") return refuse(c, authorization);
    if (url.searchParams.has("apikey")) url.searchParams.delete("apikey");
    const headers = forwardedHeaders(c.env.incoming);
    delete headers.apikey;
    if (kind !== "secret") delete headers["sb-forwarded-for"];
    forward(c.env.incoming, c.env.outgoing, {
      origin: options.origin,
      path: path + url.search,
      headers: authorization === undefined ? headers : { ...headers, authorization },
      crossOrigin: crossOriginHeaders(exposedHeaders.auth),
      unreachable: unavailable("identity"),
    });
    return RESPONSE_ALREADY_SENT;
  };
}

function translateAuthorization(
  authorization: string | undefined,
  kind: KeyKind | undefined,
  { keys, roleTokens }: AuthRouteOptions,
): string | undefined | Refusal {
  const bearer = bearerToken(authorization);
  if (!bearer) return kind ? `Bearer ${roleTokens[kind]}` : authorization;
  if (!isOpaqueKey(bearer)) return authorization;
  const sent = keys.identify(bearer);
  return sent ? `Bearer ${roleTokens[sent]}` : invalidKey;
}

function refuse(c: Context, { status, body, headers }: Refusal) {
  return c.json(body, status, headers);
}
