import { AppRejectedError, PlatformUnavailableError, SatelliteConfigError } from "./errors.ts";
import { createIntrospectionCache } from "./introspection-cache.ts";
import { readSettings, type SatelliteOptions, type Settings } from "./options.ts";
import { createTokenVerifier, InvalidTokenError } from "./token-verifier.ts";

/** Options of a resource. The satellite's own options apply, except that `origin` is that of the resource's URL. */
export interface ResourceOptions extends Omit<SatelliteOptions, "origin"> {
  /** The URL at which clients call the resource, exactly as registered (`RESOURCE_URL`). */
  resourceUrl?: string | undefined;
  /** The scopes that every caller needs. Defaults to `openid`, which identifies the person by id. */
  scopes?: readonly ("openid" | "profile" | "email")[] | undefined;
  /** How long an answer of the platform is kept, 0 to 60 seconds. Defaults to 0: each call asks the platform. */
  introspectionCacheSeconds?: number | undefined;
}

/** The person that a client acts for, and the client. Name and email need the scopes `profile` and `email`. */
export interface ResourceCaller {
  id: string;
  clientId: string;
  scopes: readonly string[];
  /** Identifies the login, which is the person's connection to the client. */
  sid: string;
  /** When the access token expires, in seconds since 1970. */
  expiresAt: number;
  name: string | null;
  email: string | null;
}

/** An MCP server or API that clients call with access tokens of the platform. */
export interface Resource {
  /** The URL of the metadata, which refusals name. */
  readonly metadataUrl: string;
  /** Answers requests for the resource's metadata (RFC 9728). Returns null for any other path. */
  handle(request: Request): Response | null;
  /**
   * Returns the caller of a request, or the response that refuses it: 401, which tells the client where to sign the
   * person in, 403 if the token lacks a scope, or 503 if the platform does not answer.
   */
  authenticate(request: Request): Promise<ResourceCaller | Response>;
}

const metadataPath = "/.well-known/oauth-protected-resource";
const callTimeoutMs = 5_000;
/** Longer than any token of the platform. */
const maxTokenLength = 4_096;
const bearer = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$/i;

interface LiveToken {
  active: true;
  sub: string;
  exp: number;
  sid: string;
  clientId: string;
  scopes: readonly string[];
  name: string | null;
  email: string | null;
}
type TokenState = LiveToken | { active: false };

/**
 * Creates the resource at `resourceUrl`.
 * @throws SatelliteConfigError with one line for each fault of the options and the environment
 */
export function createResource(options: ResourceOptions = {}): Resource {
  const env = options.env ?? (typeof process === "undefined" ? {} : process.env);
  const resourceUrl = options.resourceUrl || env.RESOURCE_URL || "";
  const url = readResourceUrl(resourceUrl);
  const settings = readSettings({
    ...options,
    origin: url.origin,
    introspectionCacheSeconds: options.introspectionCacheSeconds ?? 0,
  });
  const scopes = options.scopes ?? ["openid"];
  const verify = createTokenVerifier(settings);
  const introspections = createIntrospectionCache<TokenState>(
    { introspect: (token) => introspect(token, settings) },
    { seconds: settings.introspectionCacheSeconds },
  );
  // RFC 9728 section 3.1: the path of the resource follows the well-known path.
  const path = url.pathname === "/" ? metadataPath : `${metadataPath}${url.pathname}`;
  const metadataUrl = `${url.origin}${path}`;

  function refuse(status: 401 | 403, error?: { code: string; description: string }): Response {
    const parameters = {
      ...(error && { error: error.code, error_description: error.description }),
      resource_metadata: metadataUrl,
      scope: scopes.join(" "),
    };
    const challenge = Object.entries(parameters).map(([name, value]) => `${name}="${value}"`);
    return createJsonResponse(status, error ? { error: error.code, error_description: error.description } : {}, {
      "WWW-Authenticate": `Bearer ${challenge.join(", ")}`,
    });
  }

  /** Returns the state of a token that the platform signed for this resource. @throws InvalidTokenError */
  async function readToken(token: string): Promise<LiveToken> {
    if (token.length > maxTokenLength) throw new InvalidTokenError("The token is too long");
    const claims = await verify(token, {
      typ: "at+jwt",
      audience: resourceUrl,
      requiredClaims: ["exp", "sub", "client_id", "jti"],
    });
    // jose accepts a list of audiences that contains this one. Ours are for one resource.
    if (claims.aud !== resourceUrl) throw new InvalidTokenError("The token has several audiences");
    const state = await introspections.read(token);
    if (!state.active) throw new InvalidTokenError("The connection has ended");
    if (state.sub !== claims.sub) throw new InvalidTokenError("The token is of another person");
    return state;
  }

  return {
    metadataUrl,
    handle(request) {
      const { pathname } = new URL(request.url);
      if (pathname !== path && pathname !== metadataPath) return null;
      if (request.method !== "GET" && request.method !== "HEAD") {
        return createJsonResponse(405, {}, { Allow: "GET, HEAD" });
      }
      const metadata = {
        resource: resourceUrl,
        authorization_servers: [settings.platformUrl],
        scopes_supported: scopes,
        bearer_methods_supported: ["header"],
      };
      // Clients in a browser read it from their own origin.
      return createJsonResponse(200, metadata, {
        "Access-Control-Allow-Origin": "*",
        "Cache-Control": "public, max-age=300",
      });
    },
    async authenticate(request) {
      const authorization = request.headers.get("authorization");
      if (authorization === null) return refuse(401);
      const [, token] = bearer.exec(authorization) ?? [];
      const invalid = { code: "invalid_token", description: "The access token is invalid, expired or revoked" };
      if (token === undefined) return refuse(401, invalid);
      try {
        const { active: _, sub: id, exp: expiresAt, ...caller } = await readToken(token);
        if (!scopes.every((scope) => caller.scopes.includes(scope))) {
          return refuse(403, { code: "insufficient_scope", description: "The access token lacks a scope" });
        }
        return { id, expiresAt, ...caller };
      } catch (error) {
        if (error instanceof InvalidTokenError) return refuse(401, invalid);
        if (!(error instanceof PlatformUnavailableError || error instanceof AppRejectedError)) throw error;
        settings.log(`error ${error.message}`);
        return createJsonResponse(503, {}, { "Retry-After": "5" });
      }
    },
  };
}

function createJsonResponse(status: number, body: object, headers: Record<string, string>): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "Content-Type": "application/json", "Cache-Control": "no-store", ...headers },
  });
}

/** @throws SatelliteConfigError */
function readResourceUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  const canonical = url?.pathname === "/" ? url.origin : url?.href;
  if (url && canonical === text && /^https?:$/.test(url.protocol) && !url.search && !url.hash && !url.username)
    return url;
  throw new SatelliteConfigError([
    "RESOURCE_URL is not valid: set it, or resourceUrl, to the registered URL, such as https://tools.example.com/mcp.",
  ]);
}

/**
 * Asks the platform whether a token still works, as its audience (RFC 7662).
 * @throws PlatformUnavailableError, AppRejectedError
 */
async function introspect(token: string, { appName, appSecret, platformApiUrl }: Settings): Promise<TokenState> {
  const response = await fetch(`${platformApiUrl}/oauth/introspect`, {
    method: "POST",
    redirect: "error",
    headers: { Authorization: `Basic ${btoa(`${encodeURIComponent(appName)}:${encodeURIComponent(appSecret)}`)}` },
    body: new URLSearchParams({ token }),
    signal: AbortSignal.timeout(callTimeoutMs),
  }).catch((error: unknown) => {
    throw new PlatformUnavailableError(`The platform did not answer: ${String(error)}`);
  });
  if (response.status === 401) throw new AppRejectedError(appName);
  const body: unknown = response.ok ? await response.json().catch(() => null) : null;
  if (typeof body !== "object" || body === null) {
    throw new PlatformUnavailableError(`The platform answered an introspection with ${response.status}.`);
  }
  const { active, sub, exp, sid, client_id: clientId, scope, name, email } = body as Record<string, unknown>;
  if (active === false) return { active };
  if (active !== true || typeof sub !== "string" || typeof exp !== "number" || typeof sid !== "string") {
    throw new PlatformUnavailableError("The platform sent an unexpected answer to an introspection.");
  }
  return {
    active,
    sub,
    exp,
    sid,
    clientId: String(clientId),
    scopes: String(scope ?? "").split(" "),
    name: typeof name === "string" ? name : null,
    email: typeof email === "string" ? email : null,
  };
}
