import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { AppLoadContext, ServerBuild } from "@remix-run/server-runtime";
import { type Context, Hono } from "hono";
import { isGatewayCredential } from "./gateway/credential-syntax.ts";
import { refuseForGateway } from "./gateway/gateway-refusal.ts";
import { asksForPage } from "./http/asks-for-page.ts";
import { basicChallenge, basicCredentials } from "./http/basic.ts";
import { bearerToken } from "./http/bearer.ts";
import { readLimitedBody } from "./http/body-limit.ts";
import { type ProblemCode, type ProblemOptions, problem } from "./http/problem.ts";
import { requestForRemix } from "./http/request-for-remix.ts";
import { requestLogLine } from "./http/request-log.ts";
import { createRouteHandlers } from "./http/route-handlers.ts";
import { createRouteTable, manifestPath, type RouteVerdict } from "./http/route-table.ts";
import { isSafe, isServer, originAllowed } from "./http/same-origin.ts";
import { securityHeaders } from "./http/security-headers.ts";
import { staticFiles } from "./http/static-files.ts";
import { nobody, openContext } from "./open-context.ts";
import { factsOf, type RequestFacts } from "./request-facts.ts";
import type { Runtime } from "./runtime.ts";

export interface AppOptions {
  runtime: Runtime;
  /** The current build; in development it changes. */
  build: () => Promise<ServerBuild>;
  /** Directory of the client build, served here; absent where Vite serves it. */
  clientDir?: string;
  /** True once the process has been told to stop. */
  draining: () => boolean;
  log: (line: string) => void;
}

/** In the log only, as nginx has it: nobody was there to be answered. */
const visitorLeft = 499;

/** Of a limit of the identity backend's own, which does not say how long. */
const unsaidRetryAfterSeconds = 60;

type Bindings = { Bindings: HttpBindings; Variables: { request: RequestFacts } };

/** What a request is to Remix; `routeId` is null for what Remix answers by itself. */
type Routed = { context: AppLoadContext; routeId: string | null; current: ServerBuild };

/** Composes the web server around Remix: everything that holds for each request, whatever its route. */
export function createApp({ runtime, build, clientDir, draining, log }: AppOptions): Hono<Bindings> {
  const { settings, side } = runtime;
  const development = settings.NODE_ENV === "development";
  const origins: [string, ...string[]] = [settings.BASE_URL, ...(settings.WEB_ALLOWED_ORIGINS ?? [])];
  const app = new Hono<Bindings>();

  app.use(async (c, next) => {
    const started = performance.now();
    const facts = factsOf(c.req.raw, {
      remoteAddress: c.env.incoming.socket.remoteAddress ?? "",
      trustedProxyHops: settings.TRUSTED_PROXY_HOPS,
      origins,
    });
    c.set("request", facts);
    await next();
    await facts.settle();
    const { nonce, formTargets, widgets, requestId, origin, jar, retryAfterSeconds } = facts;
    const https = origin.startsWith("https:");
    const { headers } = changeable(c);
    headers.set("X-Request-Id", requestId);
    for (const [name, value] of Object.entries(securityHeaders({ nonce, formTargets, widgets, https, development }))) {
      headers.set(name, value);
    }
    const unsaid = c.res.status === 429 && !headers.has("Retry-After");
    const retryAfter = retryAfterSeconds || (unsaid ? unsaidRetryAfterSeconds : 0);
    if (retryAfter > 0) headers.set("Retry-After", String(retryAfter));
    // A caller who names their own authorization is no browser: no session of one is made, renewed or ended by it.
    const setCookies = c.req.raw.headers.has("authorization") ? [] : jar.setCookieHeaders();
    if (facts.personal || setCookies.length > 0 || !headers.has("Cache-Control")) {
      headers.set("Cache-Control", "private, no-store");
    }
    for (const cookie of setCookies) headers.append("Set-Cookie", cookie);
    if (draining()) headers.set("Connection", "close");
    const text = facts.texts.get(c.res);
    if (text !== undefined) sendText(c, text);
    const { pathname } = new URL(c.req.url);
    if (pathname === "/healthz" || pathname.startsWith("/assets/")) return;
    log(
      requestLogLine({
        method: c.req.method,
        pathname,
        status: c.req.raw.signal.aborted ? visitorLeft : c.res.status,
        durationMs: performance.now() - started,
        requestId,
        clientAddress: facts.clientAddress,
      }),
    );
  });

  app.get("/healthz", (c) =>
    draining() ? c.json({ status: "stopping" }, 503) : c.json({ status: "ok", app: settings.APP_NAME }),
  );
  if (clientDir) app.route("/", staticFiles(clientDir));

  const judgeOf = oncePerBuild((current) => createRouteTable(current, side));
  const mode = development ? "development" : "production";
  const handlersOf = oncePerBuild((current) => createRouteHandlers(current, { mode }));
  const documentsOf = oncePerBuild((current) => createRouteHandlers(current, { mode, documents: true }));

  async function remix(request: Request, { context, routeId, current }: Routed): Promise<Response> {
    const handlers = new URL(request.url).pathname.endsWith(".data") ? handlersOf(current) : documentsOf(current);
    // What the session's opening leaves in the jar is for every answer, also for one that did not wait for it.
    const [response] = await Promise.all([handlers(routeId)(request, context), context.opened]);
    const type = response.headers.get("content-type") ?? "";
    const isProblem = type === "application/problem+json";
    // Routes without a page, such as files and what settings post to, refuse by it all the same.
    if (context.surface === "page") return isProblem && asksForPage(request) ? asPage(response, context) : response;
    // An error of the framework's own is in neither.
    const isOurs = isProblem || type.startsWith("application/json");
    return response.status >= 500 && !isOurs ? problem("INTERNAL", { requestId: context.requestId }) : response;
  }

  /** A refusal in the site's own dress, for a context whose session is open. */
  async function asPage(refusal: Response, context: AppLoadContext): Promise<Response> {
    const handle = handlersOf(await build())(null);
    return handle(new Request(new URL("/refused", context.origin)), { ...context, refusal });
  }

  /** Answers a refusal of our own: to a browser that asks for a page as one, in the site's own dress. */
  async function refuse(c: Context<Bindings>, code: ProblemCode, options: Omit<ProblemOptions, "requestId"> = {}) {
    const facts = c.get("request");
    const refusal = problem(code, { ...options, requestId: facts.requestId });
    if (facts.surface === "api" || !asksForPage(c.req.raw)) return refusal;
    const context = openContext(runtime, { facts, ...nobody() });
    await context.opened;
    return asPage(refusal, context);
  }

  /** Answers what the AI gateway's clients ask of this server: in the same order, in that gateway's shape of errors. */
  async function answerForGateway(
    c: Context<Bindings>,
    { verdict, current }: { verdict: Exclude<RouteVerdict, { status: "not-found" }>; current: ServerBuild },
  ) {
    const facts = c.get("request");
    const request = c.req.raw;
    const { requestId, origin } = facts;
    const told = { requestId, aiUrl: runtime.given.env.AI_URL };
    if (verdict.status === "method") {
      const allow = verdict.allow.join(", ");
      const message = "This method is not allowed here.";
      return refuseForGateway("invalid_request", { ...told, status: 405, message, headers: { allow } });
    }
    if (!isGatewayCredential(request.headers.get("authorization"))) {
      return refuseForGateway("invalid_api_key", { ...told, headers: { "www-authenticate": "Bearer" } });
    }
    const body = await readLimitedBody(request);
    if (body === null) return refuseForGateway("payload_too_large", { ...told, headers: { connection: "close" } });
    // Whoever sends an Authorization header is asked for no origin, and no cookie of theirs is looked at.
    const context = openContext(runtime, { facts, ...nobody() });
    const asked = requestForRemix(request, { origin, pathname: verdict.pathname, body });
    const answer = await handlersOf(current)(verdict.routeId)(asked, context);
    const isJson = answer.headers.get("content-type")?.startsWith("application/json");
    return isJson ? answer : refuseForGateway("internal_error", told);
  }

  // The cheapest comes first.
  app.all("*", async (c) => {
    const facts = c.get("request");
    const request = c.req.raw;
    const { pathname } = new URL(request.url);
    const current = await build();
    const verdict = judgeOf(current)({ pathname, method: request.method });
    if (verdict.status === "not-found") return refuse(c, "NOT_FOUND");
    if (verdict.authorization === "gateway") return answerForGateway(c, { verdict, current });
    if (verdict.status === "method") {
      const allow = verdict.allow.join(", ");
      return refuse(c, "INVALID_REQUEST", { status: 405, detail: `This takes ${allow}.`, headers: { Allow: allow } });
    }
    const authorization = request.headers.get("authorization");
    const forApps = verdict.authorization === "basic";
    if (forApps && basicCredentials(authorization) === null) {
      return refuse(c, "UNAUTHENTICATED", { headers: { "WWW-Authenticate": basicChallenge } });
    }
    if (!forApps && authorization !== null && bearerToken(authorization) === null) {
      return refuse(c, "UNAUTHENTICATED", { headers: { "WWW-Authenticate": "Bearer" } });
    }
    const body = await readLimitedBody(request);
    if (body === null) return refuse(c, "PAYLOAD_TOO_LARGE", { headers: { Connection: "close" } });
    if (!(forApps && isServer(request)) && !originAllowed(request, origins)) return refuse(c, "CSRF_REJECTED");
    if (authorization !== null && facts.surface === "page" && !isSafe(request.method)) {
      return refuse(c, "FORBIDDEN", { detail: "Forms are for browsers. With a bearer token, use the API." });
    }
    facts.personal = pathname !== manifestPath && !forApps;
    const context = openContext(runtime, { facts, ...(facts.personal ? { authorization, jar: facts.jar } : nobody()) });
    // The database is asked about the session before anything else is done, so that the rest is done meanwhile.
    await context.bearer;
    const { pathname: asked, routeId } = verdict;
    const forRemix = requestForRemix(request, { origin: facts.origin, pathname: asked, body });
    return remix(forRemix, { context, routeId, current });
  });

  app.onError((error, c) => {
    const requestId = c.get("request")?.requestId ?? crypto.randomUUID();
    // A visitor who left is nobody's error.
    if (!c.req.raw.signal.aborted) log(`error request=${requestId} ${error.stack ?? error.message}`);
    return problem("INTERNAL", { requestId });
  });
  return app;
}

/** The answer, with headers that can be set: Hono makes those anew that cannot, as of a `fetch` or a redirect. */
function changeable(c: Context<Bindings>): Response {
  try {
    c.res.headers.delete("X-Request-Id");
  } catch {
    c.header("X-Request-Id", "");
  }
  return c.res;
}

/** Sends an answer that has no body with this text, past the streams that a body would go through. */
function sendText({ res, env }: Context<Bindings>, text: string): void {
  env.outgoing.statusCode = res.status;
  env.outgoing.setHeaders(res.headers).end(Buffer.from(text));
  for (const [name, value] of RESPONSE_ALREADY_SENT.headers) res.headers.set(name, value);
}

/** Derives something from a build, once; in development the build changes. */
function oncePerBuild<Derived>(derive: (build: ServerBuild) => Derived): (build: ServerBuild) => Derived {
  const derived = new WeakMap<ServerBuild, Derived>();
  return (build) => {
    const known = derived.get(build) ?? derive(build);
    derived.set(build, known);
    return known;
  };
}
