import { accountMenuScript } from "./account-menu.ts";
import { type CentralApi, createCentralApi } from "./central-api.ts";
import type { CookieSink } from "./cookies.ts";
import { CrossOriginError, SignInRequiredError } from "./errors.ts";
import { isSameOrigin, problemResponse, Refusal, readBody } from "./http.ts";
import { createIntrospectionCache } from "./introspection-cache.ts";
import { createLogoutTokenVerifier, LogoutTokenError } from "./logout-token.ts";
import { readSettings, type SatelliteOptions } from "./options.ts";
import { createPlatformClient } from "./platform-client.ts";
import { returnPath } from "./return-path.ts";
import {
  getPageAfterSignIn,
  isUnavailable,
  openRequestSession,
  type RequestSession,
  type SatelliteUser,
} from "./sessions.ts";
import { confirmPage, expiredPage, signingInPage } from "./verify-page.ts";

export interface Satellite {
  readonly appName: string;
  readonly origin: string;
  /**
   * Answers the sign-in, sign-out and logout endpoints. Returns null for any other path. Does not throw during an
   * outage.
   */
  handle(request: Request): Promise<Response | null>;
  /** Returns the signed-in person, or null. @throws PlatformUnavailableError; the cookies are kept */
  getUser(request: Request): Promise<SatelliteUser | null>;
  /** @throws SignInRequiredError, whose `response` leads to the platform and back; CrossOriginError; PlatformUnavailableError */
  requireUser(request: Request): Promise<SatelliteUser>;
  /** Returns the central API. Its calls act as the person who sent the request. */
  central(request: Request): CentralApi;
  /** Ends this browser's session here and on the platform. */
  signOut(request: Request): Promise<void>;
  /**
   * Adds the cookies of the request's session to a response. Call this for every response that your own code creates.
   */
  commit(request: Request, response: Response): Response;
  /**
   * Opens a request's session. `setCookie` is the adapter's own way to set cookies, or null if it cannot set any.
   * Adapters call this before anything else.
   */
  attach(request: Request, options: { setCookie: CookieSink | null }): void;
  /** Answers an error of this package with the sign-in redirect or 503, or returns null for any other error. */
  errorResponse(error: unknown, request: Request): Response | null;
}

type Endpoint = (request: Request, session: RequestSession) => Promise<Response> | Response;

const maxTokenLength = 512;
const maxStateLength = 128;

/**
 * Creates the satellite of this app.
 * @throws SatelliteConfigError with one line for each fault of the options and the environment
 */
export function createSatellite(options: SatelliteOptions = {}): Satellite {
  const settings = readSettings(options);
  const { appName, origin, log } = settings;
  const platform = createPlatformClient(settings);
  const introspections = createIntrospectionCache(platform, { seconds: settings.introspectionCacheSeconds });
  const verifyLogoutToken = createLogoutTokenVerifier(settings);
  const context = { settings, platform, introspections };
  const sessions = new WeakMap<Request, RequestSession>();

  function sessionOf(request: Request): RequestSession {
    const known = sessions.get(request);
    if (known) return known;
    const opened = openRequestSession(request, { context });
    sessions.set(request, opened);
    return opened;
  }

  const endpointOf = (pathname: string) => {
    // Some clients append a slash.
    const path = pathname.replace(/(?<!\/)\/+$/, "");
    return Object.hasOwn(endpoints, path) ? endpoints[path] : undefined;
  };
  const isOwnEndpoint = (pathname: string) => endpointOf(pathname) !== undefined || pathname.startsWith("/api/");
  const safePath = (input: unknown) => returnPath(input, origin, isOwnEndpoint);

  async function showVerifyPage(request: Request, { cookies }: RequestSession): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const token = tokenIn(searchParams);
    const state = searchParams.get("state") ?? "";
    const nextUrl = safePath(searchParams.get("nextUrl"));
    // Only previews the token, so that a scanner that opens the link doesn't use it up.
    if (token && cookies.stateMatches(state)) return signingInPage({ token, nextUrl, state });
    const person = token ? await platform.preview(token) : null;
    return person ? confirmPage({ token, nextUrl, person }) : expiredPage({ status: 200 });
  }

  async function finishByForm(request: Request, session: RequestSession): Promise<Response> {
    const form = new URLSearchParams(await readBody(request));
    const token = tokenIn(form);
    const done = token && (await session.finishSignIn({ token, state: form.get("state") ?? undefined }));
    return done ? redirect(safePath(form.get("nextUrl"))) : expiredPage({ status: 401 });
  }

  async function finishByScript(request: Request, session: RequestSession): Promise<Response> {
    const done = await session.finishSignIn(parseVerifyRequest(request, await readBody(request)));
    if (!done) throw new Refusal("UNAUTHENTICATED");
    return json(done);
  }

  /**
   * Receives a back-channel logout (OpenID Connect Back-Channel Logout 1.0 §2.5). The token authenticates the request.
   */
  async function receiveLogout(request: Request): Promise<Response> {
    const token = new URLSearchParams(await readBody(request)).get("logout_token") ?? "";
    try {
      introspections.dropLogin(await verifyLogoutToken(token));
      return json({});
    } catch (error) {
      if (!(error instanceof LogoutTokenError)) throw error;
      log(`warning a logout token was rejected: ${error.message}`);
      return json({ error: "invalid_request", error_description: error.message }, 400);
    }
  }

  const endpoints: Record<string, { GET?: Endpoint; POST?: Endpoint; fromServers?: true }> = {
    "/sign-in": {
      GET: (request, session) => session.startSignIn(safePath(new URL(request.url).searchParams.get("returnTo"))),
    },
    "/verify-token": { GET: showVerifyPage, POST: finishByForm },
    "/api/auth/verify-app-token": { POST: finishByScript },
    "/api/auth/user": { GET: async (_, session) => json({ user: await session.user() }) },
    "/api/auth/backchannel-logout": { POST: receiveLogout, fromServers: true },
    "/sign-out": {
      async POST(_, session) {
        await session.signOut();
        return redirect("/");
      },
    },
    "/account-menu.js": {
      GET: () =>
        new Response(accountMenuScript, {
          headers: { "Content-Type": "text/javascript; charset=utf-8", "Cache-Control": "public, max-age=3600" },
        }),
    },
  };

  function errorResponse(error: unknown, request: Request): Response | null {
    if (error instanceof SignInRequiredError) return commit(request, error.response);
    if (error instanceof CrossOriginError) return problemResponse(new Refusal("CSRF_REJECTED"), request);
    if (error instanceof Refusal) return problemResponse(error, request);
    if (!isUnavailable(error)) return null;
    log(`error ${error.message}`);
    return problemResponse(new Refusal("AUTH_UNAVAILABLE", { "Retry-After": "5" }), request);
  }

  function commit(request: Request, response: Response): Response {
    const pending = sessions.get(request)?.pending.splice(0) ?? [];
    if (pending.length === 0) return response;
    const headers = new Headers(response.headers);
    for (const cookie of pending) headers.append("Set-Cookie", cookie);
    if (!headers.has("Cache-Control")) headers.set("Cache-Control", "private, no-store");
    const { status, statusText } = response;
    return new Response(response.body, { status, statusText, headers });
  }

  async function answer(request: Request): Promise<Response | null> {
    const endpoint = endpointOf(new URL(request.url).pathname);
    if (!endpoint) return null;
    const method = request.method === "HEAD" ? "GET" : request.method;
    const run = method === "GET" || method === "POST" ? endpoint[method] : undefined;
    if (!run) {
      const allow = [...(endpoint.GET ? ["GET", "HEAD"] : []), ...(endpoint.POST ? ["POST"] : [])].join(", ");
      throw new Refusal("METHOD_NOT_ALLOWED", { Allow: allow });
    }
    if (!endpoint.fromServers && !isSameOrigin(request, origin)) throw new Refusal("CSRF_REJECTED");
    return run(request, sessionOf(request));
  }

  return {
    appName,
    origin,
    async handle(request) {
      try {
        const response = await answer(request);
        return response && commit(request, response);
      } catch (error) {
        const response = errorResponse(error, request);
        if (response) return response;
        throw error;
      }
    },
    getUser: (request) => sessionOf(request).user(),
    requireUser: (request) => sessionOf(request).requireUser(safePath(getPageAfterSignIn(request))),
    central: (request) => createCentralApi((path, init) => sessionOf(request).centralFetch(path, init)),
    signOut: (request) => sessionOf(request).signOut(),
    commit,
    attach(request, { setCookie }) {
      sessions.set(request, openRequestSession(request, { context, sink: setCookie }));
    },
    errorResponse,
  };
}

const isText = (value: unknown, { max }: { max: number }): value is string =>
  typeof value === "string" && value.length <= max;

/** Returns the cross-app token; empty if it is missing or longer than any that the platform issues. */
function tokenIn(parameters: URLSearchParams): string {
  const token = parameters.get("token");
  return isText(token, { max: maxTokenLength }) ? token : "";
}

function parseVerifyRequest(request: Request, text: string): { token: string; state?: string | undefined } {
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get("content-type") ?? ""))
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE");
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new Refusal("INVALID_REQUEST");
  }
  if (typeof body !== "object" || body === null) throw new Refusal("INVALID_REQUEST");
  const { token, state, ...rest } = body as Record<string, unknown>;
  const isValid = isText(token, { max: maxTokenLength }) && token !== "" && Object.keys(rest).length === 0;
  if (!isValid || (state !== undefined && !isText(state, { max: maxStateLength })))
    throw new Refusal("INVALID_REQUEST");
  return { token, state };
}

function redirect(path: string): Response {
  return new Response(null, { status: 303, headers: { Location: path, "Cache-Control": "no-store" } });
}

function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: {
      "Content-Type": "application/json",
      "Cache-Control": "no-store",
      "X-Request-Id": crypto.randomUUID(),
    },
  });
}
