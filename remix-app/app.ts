import type { HttpBindings } from "@hono/node-server";
import type { AppLoadContext, ServerBuild } from "@remix-run/node";
import { type Context, Hono } from "hono";
import { logError } from "#shared/log.ts";
import { formatProcesses } from "#shared/metrics-text.ts";
import { createBrandFiles } from "./brand-files.ts";
import { brandOf } from "./config/brand.ts";
import { isGatewayCredential, refuseForGateway } from "./gateway/gateway-refusal.ts";
import { basicChallenge, basicCredentials, isBearer } from "./http/authorization.ts";
import { cookies } from "./http/cookie-table.ts";
import { createCookieJar, readCookie } from "./http/cookies.ts";
import { allowAnyOrigin, preflightResponse } from "./http/cross-origin.ts";
import { type ProblemCode, type ProblemOptions, problem } from "./http/problem.ts";
import { acceptsHtml, forwardedEntries, isPrefetch, isPrerender } from "./http/request-facts.ts";
import { logRequest } from "./http/request-log.ts";
import { createHandler, rewriteRequestOrigin } from "./http/route-parts.ts";
import { createRouteTable, type DocumentLoader, type RouteMatch } from "./http/route-table.ts";
import { isAllowedOrigin, isSafe, isServerRequest } from "./http/same-origin.ts";
import { securityHeaders } from "./http/security-headers.ts";
import { staticFiles } from "./http/static-files.ts";
import { describeRoute, type MeasuredRoute } from "./monitoring/measured-route.ts";
import { createRequestState, type RequestState } from "./request-context.ts";
import type { RequestCredentials, Runtime } from "./runtime.ts";
import { workspaceOf } from "./session/session-state.ts";

export interface AppOptions {
  runtime: Runtime;
  build: ServerBuild;
  /** Directory of the client build, served here; absent if Vite serves it. */
  clientDir?: string;
  /** Whether the process is shutting down. */
  draining: () => boolean;
}

/** nginx's status for a client that closed the connection; only for the log. */
const clientClosedRequest = 499;

/**
 * How long to wait if a response does not say it: for a rate limit of the identity backend, and for an outage, which a
 * database that restarts or is replaced ends within seconds.
 */
const defaultRetryAfterSeconds: Partial<Record<number, number>> = { 429: 60, 503: 5 };

type Bindings = {
  Bindings: HttpBindings;
  Variables: { request: RequestState; route?: MeasuredRoute };
};

/** Paths for probes and scrapers. They are neither logged nor counted. */
const probedPaths = ["/healthz", "/metrics", "/metrics/deployment"];
const assetsPath = "/assets/";

/** Composes the web server around Remix: everything that applies to each request, regardless of its route. */
export function createApp({ runtime, build, clientDir, draining }: AppOptions): Hono<Bindings> {
  const { settings } = runtime;
  const development = settings.NODE_ENV === "development";
  const origins: [string, ...string[]] = [settings.BASE_URL, ...(settings.WEB_ALLOWED_ORIGINS ?? [])];
  const { matchRequest, isPage } = createRouteTable(build);
  const handle = createHandler(build, development ? "development" : "production");
  const brand = createBrandFiles(brandOf(settings));
  const { metrics, traces } = runtime;
  const app = new Hono<Bindings>();

  app.use(async (c, next) => {
    const { path } = c.req;
    if (!(metrics || traces) || probedPaths.includes(path)) return next();
    const started = performance.now();
    const endRequest = metrics?.process.beginRequest();
    const { method, signal } = c.req.raw;
    const describe = () => ({
      method,
      route: c.get("route")?.pattern,
      status: statusOf(c, signal),
      requestId: idOf(c),
    });
    await (traces && !path.startsWith(assetsPath) ? traces.trace(next, describe) : next());
    const kind = c.get("route")?.kind ?? "asset";
    endRequest?.({ kind, status: statusOf(c, signal), durationMs: performance.now() - started });
  });
  app.use(async (c, next) => {
    const started = performance.now();
    // Reads the signal first, because Hono aborts only a signal that was read before the client disconnected.
    const { signal } = c.req.raw;
    const state = createRequestState(c.req.raw, {
      remoteAddress: c.env.incoming.socket.remoteAddress ?? "",
      trustedProxyHops: settings.TRUSTED_PROXY_HOPS,
      origins,
      placeHeaders: { city: settings.VISITOR_CITY_HEADER, country: settings.VISITOR_COUNTRY_HEADER },
    });
    c.set("request", state);
    await next();
    await state.session?.settle();
    const { nonce, formTargets, widgets, requestId, origin, jar, retryAfterSeconds } = state;
    const https = origin.startsWith("https:");
    // Sets the header on a copy, because the headers of the original response may be immutable.
    c.header("X-Request-Id", requestId);
    const { headers } = c.res;
    for (const [name, value] of Object.entries(securityHeaders({ nonce, formTargets, widgets, https, development }))) {
      // A download may have a stricter policy than pages.
      if (name !== "Content-Security-Policy" || !headers.has(name)) headers.set(name, value);
    }
    const defaultSeconds = headers.has("Retry-After") ? undefined : defaultRetryAfterSeconds[c.res.status];
    const retryAfter = retryAfterSeconds || defaultSeconds;
    if (retryAfter) headers.set("Retry-After", String(retryAfter));
    // A caller with an Authorization header is not a browser, so it gets no cookies.
    // The visitor may never open a prefetched page, so it must not change what the browser holds.
    const takesCookies = !c.req.raw.headers.has("authorization") && !isPrefetch(c.req.raw);
    const setCookies = takesCookies ? jar.setCookieHeaders() : [];
    if (state.personal || setCookies.length > 0 || !headers.has("Cache-Control")) {
      headers.set("Cache-Control", "private, no-store");
    }
    for (const cookie of setCookies) headers.append("Set-Cookie", cookie);
    // Pages that were prefetched before a change may show the account or the data of before.
    if (setCookies.length > 0 || (state.personal && !isSafe(c.req.method))) {
      headers.set("Clear-Site-Data", '"prefetchCache", "prerenderCache"');
    }
    if (draining()) headers.set("Connection", "close");
    const { pathname } = new URL(c.req.url);
    if (probedPaths.includes(pathname) || pathname.startsWith(assetsPath)) return;
    logRequest({
      method: c.req.method,
      pathname,
      route: c.get("route")?.pattern,
      status: statusOf(c, signal),
      durationMs: performance.now() - started,
      requestId,
      clientAddress: state.clientAddress,
    });
  });

  app.get("/healthz", (c) =>
    draining()
      ? c.json({ status: "stopping" }, 503)
      : c.json({ status: "ok", app: settings.APP_NAME, forwarded: forwardedEntries(c.req.raw.headers).length }),
  );
  for (const [path, respond] of metrics ? listMetricsPages(metrics) : []) {
    app.get(path, (c) => {
      const { clientAddress: address, requestId } = c.get("request");
      const access = metrics?.access({ authorization: c.req.raw.headers.get("authorization"), address });
      if (access === "allowed") return catchResponse(() => respond(requestId));
      if (access === "off") return refuse(c, "NOT_FOUND");
      return refuse(c, "UNAUTHENTICATED", { headers: { "WWW-Authenticate": "Bearer" } });
    });
  }
  app.route("/", brand.files);
  if (clientDir) app.route("/", staticFiles(clientDir));

  /** Opens the session of a request, which is anonymous without credentials, and builds Remix's load context. */
  async function openContext(
    state: RequestState,
    credentials: Pick<RequestCredentials, "authorization" | "jar" | "isPrefetch" | "workspace"> = {
      authorization: null,
      jar: createCookieJar(null),
    },
  ): Promise<AppLoadContext> {
    const { formTargets, widgets, ...facts } = state;
    const { origin, clientAddress } = facts;
    const session = await runtime.openSession({ ...credentials, origin, clientAddress });
    state.session = session;
    return {
      ...facts,
      env: settings,
      schedule: runtime.schedule,
      countAttempt: metrics?.process.attempt,
      brand: brand.page,
      session,
      isPage,
      refusal: null,
      allowFormTarget: (target) => formTargets.add(target),
      allowWidget: (widget) => widgets.add(widget),
      retryAfter: (seconds) => {
        state.retryAfterSeconds = Math.max(state.retryAfterSeconds, seconds);
      },
    };
  }

  async function answer(
    request: Request,
    { pathname, document, context }: { pathname: string; document?: DocumentLoader; context: AppLoadContext },
  ): Promise<Response> {
    const response = document
      ? await catchResponse(() => document({ request, context, params: {} }))
      : await handle(rewriteRequestOrigin(request, { ...context, pathname }), context);
    const type = response.headers.get("content-type") ?? "";
    const isProblem = type === "application/problem+json";
    // Routes without a page, such as files and form targets, refuse a request with problem JSON. A browser that asked
    // for a page gets the refusal as a page.
    if (context.surface === "page") return isProblem && acceptsHtml(request) ? asPage(response, context) : response;
    // The framework's own errors are neither problems nor JSON.
    const isOurs = isProblem || type.startsWith("application/json");
    return response.status >= 500 && !isOurs ? problem("INTERNAL", { requestId: context.requestId }) : response;
  }

  /** Shows a refusal as a page of the site. */
  function asPage(refusal: Response, context: AppLoadContext): Promise<Response> {
    return handle(new Request(new URL("/refused", context.origin)), { ...context, refusal });
  }

  /** Turns a refusal of this module into an answer: a page if a browser asks for one, else problem JSON. */
  async function refuse(c: Context<Bindings>, code: ProblemCode, options: Omit<ProblemOptions, "requestId"> = {}) {
    const state = c.get("request");
    const refusal = problem(code, { ...options, requestId: state.requestId });
    if (state.surface === "api" || !acceptsHtml(c.req.raw)) return refusal;
    return asPage(refusal, await openContext(state));
  }

  /**
   * Answers clients of the AI gateway. Makes the same checks in the same order as for other callers, but uses the
   * gateway's error format.
   */
  async function answerForGateway(c: Context<Bindings>, verdict: Exclude<RouteMatch, { status: "not-found" }>) {
    const state = c.get("request");
    const request = c.req.raw;
    const gatewayRefusal = { requestId: state.requestId, aiUrl: settings.AI_URL };
    if (verdict.status === "method") {
      const allow = verdict.allow.join(", ");
      const message = methodDetail(verdict.allow);
      return refuseForGateway("invalid_request", { ...gatewayRefusal, status: 405, message, headers: { allow } });
    }
    if (!isGatewayCredential(request.headers.get("authorization"))) {
      return refuseForGateway("invalid_api_key", { ...gatewayRefusal, headers: { "www-authenticate": "Bearer" } });
    }
    // Skips the origin check. The context ignores cookies, so a cross-site request gains nothing.
    const context = await openContext(state);
    const response = await handle(rewriteRequestOrigin(request, { ...state, pathname: verdict.pathname }), context);
    const isJson = response.headers.get("content-type")?.startsWith("application/json");
    return isJson ? response : refuseForGateway("internal_error", gatewayRefusal);
  }

  /**
   * Answers OAuth clients, which are servers and browsers of any origin. Reads no cookie. The route authenticates the
   * client.
   */
  async function answerForClient(c: Context<Bindings>, verdict: Exclude<RouteMatch, { status: "not-found" }>) {
    const state = c.get("request");
    const request = c.req.raw;
    if (verdict.status === "method") {
      const allow = [...verdict.allow, "OPTIONS"].join(", ");
      if (request.method === "OPTIONS") return preflightResponse(allow);
      return allowAnyOrigin(
        refuse(c, "METHOD_NOT_ALLOWED", { detail: methodDetail(verdict.allow), headers: { allow } }),
      );
    }
    return allowAnyOrigin(answer(request, { ...verdict, context: await openContext(state) }));
  }

  app.all("*", async (c) => {
    const state = c.get("request");
    const request = c.req.raw;
    const { pathname } = new URL(request.url);
    const verdict = matchRequest({ pathname, method: request.method });
    c.set("route", describeRoute(verdict));
    if (verdict.status === "not-found") return refuse(c, "NOT_FOUND");
    if (verdict.authorization === "gateway") return answerForGateway(c, verdict);
    if (verdict.authorization === "client") return answerForClient(c, verdict);
    if (verdict.status === "method") {
      const allow = verdict.allow.join(", ");
      return refuse(c, "METHOD_NOT_ALLOWED", { detail: methodDetail(verdict.allow), headers: { Allow: allow } });
    }
    const authorization = request.headers.get("authorization");
    const forApps = verdict.authorization === "basic";
    if (forApps && basicCredentials(authorization) === null) {
      return refuse(c, "UNAUTHENTICATED", { headers: { "WWW-Authenticate": basicChallenge } });
    }
    if (!forApps && authorization !== null && !isBearer(authorization)) {
      return refuse(c, "UNAUTHENTICATED", { headers: { "WWW-Authenticate": "Bearer" } });
    }
    const isForeignForm = verdict.takesForeignForms && !isSafe(request.method);
    const isOurs = isForeignForm || (forApps && isServerRequest(request)) || isAllowedOrigin(request, origins);
    if (!isOurs) return refuse(c, "CSRF_REJECTED");
    // A page that takes a saved form shows it only once. A prerendered page would confirm its session before it is shown.
    const isPrefetchable =
      verdict.takesPrefetch &&
      !isPrerender(request) &&
      !readCookie({ jar: state.jar, origin: state.origin }, cookies.savedForm);
    if (isPrefetch(request) && !isPrefetchable) return c.body(null, 503);
    if (authorization !== null && state.surface === "page" && !isSafe(request.method)) {
      return refuse(c, "FORBIDDEN", { detail: "Forms are for browsers. With a bearer token, use the API." });
    }
    state.personal = !forApps && !isForeignForm && !verdict.document;
    state.routePattern = verdict.pattern;
    const workspace = isSafe(request.method) ? workspaceOf(verdict) : null;
    const visitor = { authorization, jar: state.jar, isPrefetch: isPrefetch(request), workspace };
    const context = await openContext(state, state.personal ? visitor : undefined);
    return answer(request, { ...verdict, context });
  });

  app.onError((error, c) => {
    const requestId = c.get("request")?.requestId ?? crypto.randomUUID();
    if (!c.req.raw.signal.aborted) logError(error.stack ?? error.message, { requestId });
    return problem("INTERNAL", { requestId });
  });
  return app;
}

function listMetricsPages({ gather, deployment }: NonNullable<Runtime["metrics"]>) {
  return [
    ["/metrics", async () => formatProcesses(await gather())],
    ["/metrics/deployment", deployment.respond],
  ] as const;
}

/** Returns the status for the log and the metrics. */
function statusOf(c: Context<Bindings>, signal: AbortSignal): number {
  return signal.aborted ? clientClosedRequest : c.res.status;
}

const idOf = (c: Context<Bindings>) => c.get("request")?.requestId;

/** Returns a response that may be thrown. */
async function catchResponse(respond: () => Response | Promise<Response>): Promise<Response> {
  try {
    return await respond();
  } catch (error) {
    if (error instanceof Response) return error;
    throw error;
  }
}

/** Says which method to send. HEAD is implied if GET is allowed. */
function methodDetail(allow: readonly string[]): string {
  const named = allow.filter((method) => method !== "HEAD");
  return `Send a ${new Intl.ListFormat("en-GB", { type: "disjunction" }).format(named)} request.`;
}
