import type { AppLoadContext } from "@remix-run/node";
import { countAttempt } from "../apps/app-client.ts";
import { hashToBytea } from "../apps/opaque-tokens.ts";
import { basicCredentials } from "../http/authorization.ts";
import { readBody } from "../http/body-limit.ts";
import { oauthError } from "./oauth-error.ts";

/** The client that a request claims to come from. Each database function authenticates the client. */
export interface OpenidClient {
  id: string;
  /**
   * The SHA-256 of the client's secret, in the format that the Data API takes for a bytea. Null if the client sent no
   * secret, as public clients do.
   */
  secretHash: string | null;
  /** How the client authenticates (RFC 8414 section 2, `token_endpoint_auth_methods_supported`). */
  method: "client_secret_basic" | "client_secret_post" | "none";
}

export interface ClientRequest {
  client: OpenidClient;
  /** The form's parameters except `client_secret`. A parameter without a value is absent (RFC 6749 section 3.2). */
  form: ReadonlyMap<string, string>;
}

const maxParameters = 50;
const formType = /^application\/x-www-form-urlencoded\s*(;|$)/i;

/**
 * Reads the form that a client posts, and the identity that the client claims.
 * @throws Response an OAuth error: invalid_request, or invalid_client without usable credentials; 413 for a body above
 * 64 KiB
 */
export async function readClientRequest(
  request: Request,
  context: Pick<AppLoadContext, "env" | "requestId">,
): Promise<ClientRequest> {
  const form = await readClientForm(request, context);
  return identifyClient(form, { authorization: request.headers.get("authorization"), context });
}

/**
 * Returns the identity that a client claims in a form and its Authorization header, and the form's other parameters.
 * @throws Response an OAuth error: invalid_request, or invalid_client without usable credentials
 */
export function identifyClient(
  form: ReadonlyMap<string, string>,
  { authorization, context }: { authorization: string | null; context: Pick<AppLoadContext, "env"> },
): ClientRequest {
  const client = clientOf(form, { authorization, context });
  return { client, form: new Map([...form].filter(([name]) => name !== "client_secret")) };
}

/**
 * Returns the answer for a client that failed to authenticate, because it is unknown or disabled or its secret is
 * wrong. Counts the attempt. An address with too many failed attempts gets 429.
 */
export async function refuseClient(
  context: AppLoadContext,
  { method }: { method: OpenidClient["method"] | "private_key_jwt" },
): Promise<Response> {
  const attempt = await countAttempt(context, { action: "app_secret" });
  if (!attempt.allowed) {
    return oauthError("temporarily_unavailable", {
      status: 429,
      description: "Too many failed attempts. Wait, then try again",
      headers: { "Retry-After": String(attempt.retryAfterSeconds) },
    });
  }
  return createUnknownClientError(context, method === "client_secret_basic");
}

/**
 * Reads the parameters that a client posts. A parameter without a value is absent (RFC 6749 section 3.2).
 * @throws Response an OAuth error: invalid_request; 413 for a body above 64 KiB
 */
export async function readClientForm(
  request: Request,
  context: Pick<AppLoadContext, "requestId">,
): Promise<Map<string, string>> {
  if (!formType.test(request.headers.get("content-type") ?? "")) {
    throw oauthError("invalid_request", {
      description: "Send the parameters as a form, with Content-Type: application/x-www-form-urlencoded",
    });
  }
  const parameters = [...new URLSearchParams(new TextDecoder().decode(await readBody(request, context)))];
  const names = new Set(parameters.map(([name]) => name));
  if (names.size < parameters.length) {
    throw oauthError("invalid_request", { description: "Send each parameter once" });
  }
  // Text in the database can't contain NUL.
  if (parameters.length > maxParameters || parameters.some(([name, value]) => `${name}${value}`.includes("\0"))) {
    throw oauthError("invalid_request", { description: "The form could not be read" });
  }
  return new Map(parameters.filter(([, value]) => value !== ""));
}

function clientOf(
  form: ReadonlyMap<string, string>,
  { authorization, context }: { authorization: string | null; context: Pick<AppLoadContext, "env"> },
): OpenidClient {
  const [id, secret] = [form.get("client_id"), form.get("client_secret")];
  if (form.has("client_assertion") || form.has("client_assertion_type")) {
    throw oauthError("invalid_client", { description: "Client assertions are for service accounts only" });
  }
  if (authorization !== null) {
    const basic = decodeCredentials(authorization);
    if (!basic) throw createUnknownClientError(context, true);
    // RFC 6749 section 2.3 allows one authentication method per request.
    if (secret !== undefined || (id !== undefined && id !== basic.id)) {
      throw oauthError("invalid_request", { description: "Authenticate the client once" });
    }
    return { id: basic.id, secretHash: hashToBytea(basic.secret), method: "client_secret_basic" };
  }
  if (id === undefined) throw createUnknownClientError(context, false);
  return secret === undefined
    ? { id, secretHash: null, method: "none" }
    : { id, secretHash: hashToBytea(secret), method: "client_secret_post" };
}

/** Returns the id and secret in Basic credentials, where both are form-encoded (RFC 6749 section 2.3.1). */
function decodeCredentials(authorization: string): { id: string; secret: string } | null {
  const basic = basicCredentials(authorization);
  if (!basic) return null;
  try {
    const [id, secret] = [decodeFormValue(basic.name), decodeFormValue(basic.secret)];
    return id.includes("\0") ? null : { id, secret };
  } catch {
    return null;
  }
}

/** @throws URIError if the text is not form-encoded */
function decodeFormValue(text: string): string {
  return decodeURIComponent(text.replaceAll("+", " "));
}

/** RFC 6749 section 5.2: a client that used the Authorization header gets a challenge for the same scheme. */
function createUnknownClientError({ env }: Pick<AppLoadContext, "env">, isBasic: boolean): Response {
  return oauthError("invalid_client", {
    description: "No enabled client has these credentials",
    ...(isBasic && { headers: { "WWW-Authenticate": `Basic realm="${env.BASE_URL}", charset="UTF-8"` } }),
  });
}
