import { z } from "zod";
import { noRequestedClaims, type RequestedClaims, readRequestedClaims } from "./requested-claims.ts";
import { maxRequestLength } from "./stored-request.ts";

/** An error that the client receives (RFC 6749 section 4.1.2.1, OpenID Connect Core 1.0 section 3.1.2.6). */
export interface AuthorizationError {
  error:
    | "access_denied"
    | "consent_required"
    | "interaction_required"
    | "invalid_request"
    | "invalid_scope"
    | "invalid_target"
    | "login_required"
    | "registration_not_supported"
    | "request_not_supported"
    | "request_uri_not_supported"
    | "temporarily_unavailable"
    | "unmet_authentication_requirements"
    | "unsupported_response_type";
  description: string;
}

const prompts = ["none", "login", "consent", "select_account"] as const;
export type Prompt = (typeof prompts)[number];

/** A valid request of the authorization endpoint. */
export interface AuthorizationRequest {
  scopes: string[];
  nonce: string | null;
  /** Null without PKCE, which only some clients with a secret may leave out. */
  codeChallenge: string | null;
  prompt: ReadonlySet<Prompt>;
  /** The maximum age of the sign-in in seconds, or null if any age will do. */
  maxAge: number | null;
  idTokenHint: string | null;
  /** The canonical URL of the app that the tokens are for (RFC 8707); null if they are for the platform. */
  resource: string | null;
  claims: RequestedClaims;
}

/** Where an authorization request is answered. */
export interface ResponseTarget {
  clientId: string;
  redirectUri: string;
  state: string | null;
}

const parameters = [
  "client_id",
  "redirect_uri",
  "response_type",
  "response_mode",
  "scope",
  "state",
  "nonce",
  "code_challenge",
  "code_challenge_method",
  "prompt",
  "max_age",
  "id_token_hint",
  "login_hint",
  // An account with a second factor always proves it, so acr_values changes nothing.
  "acr_values",
  "resource",
  "claims",
  "request",
  "request_uri",
  "registration",
] as const;

/** Marks an authorization request to which a person returns from one of our own pages, such as the sign-in page. */
const resumedParameter = "resumed";

/** Returns a request's parameters, without those that we don't know. */
export function knownParameters(query: URLSearchParams): URLSearchParams {
  return new URLSearchParams(parameters.flatMap((name) => query.getAll(name).map((value) => [name, value])));
}

/** Returns the path of a stored request. */
export function storedRequestPath(
  { clientId, requestUri }: { clientId: string; requestUri: string },
  { resumed }: { resumed: boolean },
): string {
  const query = new URLSearchParams({ client_id: clientId, request_uri: requestUri });
  if (resumed) query.set(resumedParameter, "");
  return `/oauth/authorize?${query}`;
}

/** Returns whether the person comes back from one of our pages, such as the sign-in page. */
export function isResumed(query: URLSearchParams): boolean {
  return query.has(resumedParameter);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: no identifier has them, and the database refuses NUL
const plainText = /^[^\x00-\x1f\x7f]{1,2000}$/;

/** Reads the client id and redirect URI; null if either is missing, repeated or malformed. */
export function readResponseTarget(query: URLSearchParams): ResponseTarget | null {
  const [clientId, redirectUri] = [readSingle(query, "client_id"), readSingle(query, "redirect_uri")];
  if (!clientId || !redirectUri || !plainText.test(clientId) || !plainText.test(redirectUri)) return null;
  return { clientId, redirectUri, state: readSingle(query, "state") };
}

const scopeToken = /^[\x21\x23-\x5b\x5d-\x7e]{1,64}$/;
const maxScopes = 20;
const requestSchema = z.object({
  nonce: z.string().max(512).regex(plainText).nullable(),
  max_age: z
    .string()
    .regex(/^\d{1,9}$/)
    .transform(Number)
    .nullable(),
  id_token_hint: z.string().min(1).nullable(),
});

/** Reads all parameters except the client id and redirect URI. Errors in them are returned to the client. */
export function readAuthorizationRequest(query: URLSearchParams): AuthorizationRequest | AuthorizationError {
  if (`${query}`.length > maxRequestLength) {
    return createInvalidRequest(`The authorization request has more than ${maxRequestLength} characters`);
  }
  const repeated = parameters.find((name) => query.getAll(name).length > 1);
  if (repeated) return createInvalidRequest(`${repeated} must not be repeated`);
  for (const name of ["request", "request_uri", "registration"] as const) {
    if (query.has(name)) return { error: `${name}_not_supported`, description: `${name} is not supported` };
  }
  const responseType = readSingle(query, "response_type");
  if (responseType === null) return createInvalidRequest("response_type is required");
  if (responseType !== "code") {
    return { error: "unsupported_response_type", description: "response_type must be code" };
  }
  if ((readSingle(query, "response_mode") ?? "query") !== "query")
    return createInvalidRequest("response_mode must be query");
  const codeChallenge = readSingle(query, "code_challenge");
  if (codeChallenge !== null) {
    if (!/^[A-Za-z0-9_-]{43}$/.test(codeChallenge))
      return createInvalidRequest("code_challenge must have 43 base64url characters");
    if (readSingle(query, "code_challenge_method") !== "S256")
      return createInvalidRequest("code_challenge_method must be S256");
  }
  const resourceParameter = readSingle(query, "resource");
  const resource = resourceParameter === null ? null : canonicalResource(resourceParameter);
  if (resourceParameter !== null && resource === null) {
    return { error: "invalid_target", description: "resource must be the URL of an app, without a fragment" };
  }
  // MCP clients may leave out the scope (RFC 6749 section 3.3).
  const scopes = resource !== null && !query.has("scope") ? ["openid"] : [...new Set(readList(query, "scope"))];
  if (scopes.length === 0 || scopes.length > maxScopes || !scopes.every((scope) => scopeToken.test(scope))) {
    return { error: "invalid_scope", description: "scope must name 1 to 20 scopes, such as openid" };
  }
  const prompt = readList(query, "prompt");
  if (!prompt.every(isPrompt)) return createInvalidRequest(`prompt must be of ${prompts.join(", ")}`);
  if (prompt.includes("none") && prompt.length > 1) return createInvalidRequest("prompt=none must not be combined");
  const rest = requestSchema.safeParse({
    nonce: readSingle(query, "nonce"),
    max_age: readSingle(query, "max_age"),
    id_token_hint: readSingle(query, "id_token_hint"),
  });
  if (!rest.success) return createInvalidRequest(`${rest.error.issues[0]?.path.join(".")} is invalid`);
  const claimsText = readSingle(query, "claims");
  const claims = claimsText === null ? noRequestedClaims : readRequestedClaims(claimsText);
  if (!claims) return createInvalidRequest("claims must be JSON as in OpenID Connect Core 1.0 section 5.5");
  const { nonce, max_age: maxAge, id_token_hint: idTokenHint } = rest.data;
  return { scopes, nonce, codeChallenge, prompt: new Set(prompt), maxAge, idTokenHint, resource, claims };
}

/**
 * Returns a resource's URL as it is registered: with a lower-case scheme and host, and without a root path or default
 * port. Null for a text that is not such a URL (RFC 8707 section 2).
 */
export function canonicalResource(text: string): string | null {
  const url = plainText.test(text) ? URL.parse(text) : null;
  if (!url || !/^https?:$/.test(url.protocol) || text.includes("#") || url.username || url.password) return null;
  return url.pathname === "/" && !url.search ? url.origin : url.href;
}

/** The error of a request without PKCE, for a client that needs it. Names the settings of common clients. */
export const pkceRequired: AuthorizationError = createInvalidRequest(
  "PKCE is required: the request has no code_challenge. Switch it on in the client, such as " +
    "code_challenge_method=S256 (oauth2-proxy, Authlib), OIDC_USE_PKCE=True (mozilla-django-oidc), " +
    "OAUTH_PKCE_ENABLED=True (django-allauth), checks: [pkce] (Auth.js) or use_pkce=true (Grafana). " +
    "A confidential client whose library has no PKCE, such as passport-openidconnect, can be registered without it",
);

function isPrompt(value: string): value is Prompt {
  return (prompts as readonly string[]).includes(value);
}

function createInvalidRequest(description: string): AuthorizationError {
  return { error: "invalid_request", description };
}

/** Returns the single value of a parameter. An empty value counts as absent (RFC 6749 section 3.1). */
function readSingle(query: URLSearchParams, name: (typeof parameters)[number]): string | null {
  const values = query.getAll(name);
  return values.length === 1 && values[0] ? values[0] : null;
}

function readList(query: URLSearchParams, name: (typeof parameters)[number]): string[] {
  return (readSingle(query, name) ?? "").split(" ").filter(Boolean);
}

/**
 * Returns the URL that answers a client with a code.
 * @param issuer our issuer, which protects the client against mix-up attacks (RFC 9207)
 */
export function buildCodeResponseUrl(
  target: ResponseTarget,
  { code, issuer }: { code: string; issuer: string },
): string {
  return buildResponseUrl(target, { code, iss: issuer });
}

/** Returns the URL that answers a client with an error. */
export function buildErrorResponseUrl(
  target: ResponseTarget,
  { error: { error, description }, issuer }: { error: AuthorizationError; issuer: string },
): string {
  return buildResponseUrl(target, { error, error_description: description, iss: issuer });
}

/** Appends the query as text, because parsing a redirect URI could change its registered spelling. */
function buildResponseUrl({ redirectUri, state }: ResponseTarget, answer: Record<string, string>): string {
  const query = new URLSearchParams({ ...answer, ...(state !== null && { state }) });
  return `${redirectUri}${redirectUri.includes("?") ? "&" : "?"}${query}`;
}
