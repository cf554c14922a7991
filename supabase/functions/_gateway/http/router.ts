import { isLabel, newRequestId } from "../../_shared/labels.ts";
import { anthropicErrors, usesAnthropicApi } from "./anthropic-errors.ts";
import { type ErrorShape, GatewayError, getErrorStatus, openaiErrors, toGatewayError } from "./errors.ts";

/** A call: the request, its id, the path of its URL, and the parameters captured from the path. */
export type RoutedCall = {
  request: Request;
  requestId: string;
  path: string;
  params: Record<string, string | undefined>;
};
export type Handler = (call: RoutedCall) => Promise<Response>;
export type Route = { path: RegExp; method: "GET" | "POST"; handle: Handler };

/** The data that telemetry receives about a call, whether or not it was admitted. */
export type EndedRequest = {
  method: string;
  /**
   * The pattern of the matched route. Absent if no route matched. The path itself is never included, because an unknown
   * path can contain anything.
   */
  route?: string;
  requestId: string;
  status: number;
  code?: string;
  latencyMs: number;
};

/** What a router reports to. */
type RouterServices = {
  /** Receives defects and outages, never the content of requests or answers. */
  report: (error: unknown, requestId?: string) => void;
  /** Returns the time of a monotonic clock in milliseconds. */
  now: () => number;
  telemetry: { request?: (request: EndedRequest) => void };
};

/** A 401 states how to authenticate (RFC 9110, 11.6.1). The header is the same for every caller. */
const challenge = { "www-authenticate": "Bearer" };

/**
 * Creates a handler that serves the given routes. An unknown path gets 404, and an unknown method 405 with `Allow`.
 * OPTIONS gets 204 without CORS headers, and HEAD is served as GET without a body. Each response has `x-request-id` and
 * `no-store`.
 * @param services receive the telemetry of each call, and reports of defects, which the client sees as `internal_error`
 * @param ownErrors the format of all errors, if it does not depend on the request's headers
 */
export function createRouter(
  routes: readonly Route[],
  { report, now, telemetry }: RouterServices,
  ownErrors?: ErrorShape,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const startedAt = now();
    const label = request.headers.get("x-request-id");
    const requestId = label !== null && isLabel(label) ? label : newRequestId();
    const errors = ownErrors ?? (usesAnthropicApi(request) ? anthropicErrors : openaiErrors);
    let response: Response;
    let code: string | undefined;
    try {
      response = await dispatch(routes, request, requestId);
    } catch (error) {
      const known = toGatewayError(error);
      code = known.code;
      if (known.cause !== undefined) report(known.cause, requestId);
      response = errorResponse(known, errors, requestId);
    }
    response.headers.set("x-request-id", requestId);
    if (errors.idHeader) response.headers.set(errors.idHeader, requestId);
    response.headers.set("cache-control", "private, no-store");
    telemetry.request?.({
      method: methods.has(request.method) ? request.method : "other",
      route: formatRoutePattern(routes.find(({ path }) => path.test(getPath(request)))),
      requestId,
      status: response.status,
      code,
      latencyMs: Math.round(now() - startedAt),
    });
    return response;
  };
}

const methods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/**
 * Returns the path of a call without trailing slashes, which some clients append, and without the public prefix, which
 * Supabase removes before it calls a function.
 */
function getPath({ url }: Request): string {
  return new URL(url).pathname.replace(/^\/functions\/v1(?=\/)/, "").replace(/(?<!\/)\/+$/, "");
}

/** Returns a route's pattern in readable form. */
function formatRoutePattern(route: Route | undefined): string | undefined {
  const source = route?.path.source.replace(/^\^|\$$/g, "").replaceAll("\\/", "/");
  return source?.replace(/\(\?<(\w+)>[^)]*\)/g, "{$1}");
}

function errorResponse(error: GatewayError, errors: ErrorShape, requestId: string): Response {
  const headers = { ...(error.status === 401 ? challenge : {}), ...error.headers };
  return Response.json(errors.body(error, requestId), { status: getErrorStatus(error, errors), headers });
}

async function dispatch(routes: readonly Route[], request: Request, requestId: string): Promise<Response> {
  const pathname = getPath(request);
  const matching = routes.filter(({ path }) => path.test(pathname));
  if (matching.length === 0) throw new GatewayError("not_found");
  const method = request.method === "HEAD" ? "GET" : request.method;
  const route = matching.find((each) => each.method === method);
  if (!route) return refuseMethod(matching, request);
  const response = await route.handle({
    request,
    requestId,
    path: pathname,
    params: readPathParams(route.path, pathname),
  });
  return request.method === "HEAD" ? new Response(null, response) : response;
}

/** Answers OPTIONS. @throws GatewayError 405 for any other method, 426 for a WebSocket */
function refuseMethod(matching: readonly Route[], request: Request): Response {
  const allowed = matching.flatMap((each) => (each.method === "GET" ? ["GET", "HEAD"] : [each.method]));
  const headers = { allow: [...allowed, "OPTIONS"].join(", ") };
  if (request.method === "OPTIONS") return new Response(null, { status: 204, headers });
  if (request.headers.get("upgrade")?.toLowerCase() === "websocket") {
    // Codex CLI tries a WebSocket first. After a 426 it uses HTTP. After any other status, it retries for seconds.
    throw new GatewayError("invalid_request", {
      status: 426,
      message: "WebSockets are not supported. Use HTTP.",
      headers,
    });
  }
  throw new GatewayError("invalid_request", { status: 405, message: "This method is not allowed here.", headers });
}

function readPathParams(path: RegExp, pathname: string): Record<string, string | undefined> {
  const entries = Object.entries(path.exec(pathname)?.groups ?? {});
  return Object.fromEntries(entries.map(([name, value]) => [name, value && decode(value)]));
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new GatewayError("not_found");
  }
}
