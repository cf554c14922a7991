import { createRequestHandler, type RequestHandler, type ServerBuild } from "@remix-run/node";

type Routes = ServerBuild["routes"];
type Route = NonNullable<Routes[string]>;
type Build = Pick<ServerBuild, "routes" | "assets">;

export const notFoundPath = "*";

/**
 * Divides a build by the first segment of its routes' paths and by their number of segments, because Remix 2 compiles
 * all routes of a handler several times for each request. A part has the routes of one segment and number with their
 * layouts, and the not-found route.
 * @param open makes what each part is needed for
 * @returns a function that finds the part of a path. A path without a part belongs to that of the home page.
 * @throws Error if a path begins with a parameter, or has an optional segment or a splat, because its route would belong
 * to several parts
 */
export function divideRoutes<Whole extends Build, Opened>(
  build: Whole,
  open: (part: Whole) => Opened,
): (pathname: string) => Opened {
  const all = Object.values(build.routes).filter((route) => route !== undefined);
  const notFound = all.find(({ path }) => path === notFoundPath);
  const parts = new Map<string, Set<string>>();
  for (const route of all) {
    // Matches end at routes with a path, and at index routes. Others are layouts.
    if (route.path === undefined && !route.index) continue;
    const line = getRouteChain(build.routes, route);
    const segments = route === notFound ? [] : segmentsOf(line);
    if (segments[0]?.startsWith(":") || segments.some((segment) => /[*?]$/.test(segment))) {
      throw new Error(`The path of ${route.id} must begin with a fixed segment and have a fixed number of segments.`);
    }
    const key = keyOf(segments);
    const ids = parts.get(key) ?? new Set(notFound && getRouteChain(build.routes, notFound).map(({ id }) => id));
    parts.set(key, ids);
    for (const { id } of line) ids.add(id);
  }
  const opened = new Map([...parts].map(([key, ids]) => [key, open(filterRoutes(build, ids))]));
  // The root's own path is empty.
  const home = opened.get(keyOf([])) as Opened;
  return (pathname) => opened.get(keyAt(pathname)) ?? home;
}

/** Returns Remix's handler of a build. For each request, it matches only the routes of one part. */
export function createHandler(build: ServerBuild, mode: string): RequestHandler {
  const handlerAt = divideRoutes(build, (part) => createRequestHandler(part, mode));
  return (request, context) => handlerAt(new URL(request.url).pathname)(request, context);
}

/**
 * Rebuilds a request for Remix with our configured origin in its URL. Its body is read only when the route reads it.
 * Drops the Origin header, because Remix would compare it with the Host header instead of the configured origins.
 */
export function rewriteRequestOrigin(
  request: Request,
  { origin, pathname }: { origin: string; pathname: string },
): Request {
  const url = new URL(new URL(request.url).search, origin);
  url.pathname = pathname;
  // Remix logs an error for this parameter of its older data requests.
  if (url.searchParams.has("_data")) url.searchParams.delete("_data");
  const headers = new Headers(request.headers);
  headers.delete("origin");
  const { method, signal } = request;
  // Accessing `body` makes Hono turn its lightweight request into a real one.
  const hasBody = method !== "GET" && method !== "HEAD";
  return new Request(url, { method, headers, signal, ...(hasBody && { body: request.body, duplex: "half" }) });
}

/**
 * Encodes a `.data` at the end of a path below `/api/`, which has no pages, because Remix takes a path with this ending
 * as a request for the data of the page without it. There, it is the end of an ID.
 */
export function encodeApiSuffix(pathname: string): string {
  const isApi = pathname.endsWith(".data") && firstOf(pathname)?.toLowerCase() === "api";
  return isApi ? pathname.replace(/\.data$/, "%2Edata") : pathname;
}

/** Keeps the order of the routes, which decides between equal paths. */
function filterRoutes<Whole extends Build>(build: Whole, ids: ReadonlySet<string>): Whole {
  const take = <Each>(routes: Record<string, Each>): Record<string, Each> =>
    Object.fromEntries(Object.entries(routes).filter(([id]) => ids.has(id)));
  return { ...build, routes: take(build.routes), assets: { ...build.assets, routes: take(build.assets.routes) } };
}

/** Returns a route after the layouts around it. */
function getRouteChain(routes: Routes, route: Route): Route[] {
  const parent = routes[route.parentId ?? ""];
  return parent ? [...getRouteChain(routes, parent), route] : [route];
}

function segmentsOf(line: readonly Route[]): string[] {
  return line.flatMap(({ path = "" }) => path.split("/")).filter((segment) => segment !== "");
}

function keyOf([first = "", ...others]: readonly string[]): string {
  return `${first.toLowerCase()} ${others.length}`;
}

/** Reads a URL's path as the router does. `/_root.data` is the home page's data. */
function keyAt(pathname: string): string {
  const path = pathname.replace(/\.data$/, "").replace(/\/+$/, "");
  const first = firstOf(path);
  return keyOf(first === null ? [] : [first, ...path.split("/").slice(2)]);
}

/** Returns the decoded first segment of a path, or null if its escapes are malformed. */
function firstOf(pathname: string): string | null {
  try {
    return decodeURIComponent(pathname.split("/", 2)[1] ?? "");
  } catch {
    return null;
  }
}
