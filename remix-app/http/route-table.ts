import type { ServerBuild } from "@remix-run/server-runtime";
import { createRouteFinder } from "./route-finder.ts";

/** What the route table says of a request before anything else is looked at. */
export type RouteVerdict =
  /** `pathname` is what Remix knows it by; `routeId` is null for what Remix answers by itself. */
  | { status: "found"; authorization: Authorization; pathname: string; routeId: string | null }
  | { status: "not-found" }
  | { status: "method"; allow: string[]; authorization: Authorization };

/**
 * By what a route's callers say who they are. `bearer`: a session of the platform, or its cookies. `basic`: servers of
 * apps, which prove themselves with Basic credentials. `gateway`: credentials of the gateway, which judges them. But for
 * `bearer`, no session is looked at.
 */
export type Authorization = "bearer" | "basic" | "gateway";

/** The platform and its satellites are one build; each answers its own routes. */
export type Side = "platform" | "satellite";

/** A route's own word on its methods, in its `handle`; without it, GET for a loader or page and POST for an action. */
export interface RouteHandle {
  methods?: readonly string[];
  /** Whose route it is; without it, the platform's. */
  side?: Side | "both";
  /** Without it, `bearer`. */
  authorization?: Exclude<Authorization, "bearer">;
  /** False: the page works as it comes, and ships no script of the framework. */
  hydrate?: boolean;
  /**
   * True: the loader is called before the request's session is open, and begins with what awaits it: `requireUser`, after
   * the readings that it begins meanwhile (`beginReading`).
   */
  early?: boolean;
  /** True: a file, answered as it is read, for its own address alone: the framework's spelling of it would hold all of it. */
  file?: boolean;
}

type Judge = (options: { pathname: string; method: string }) => RouteVerdict;

/** Where Remix's client asks which modules a path needs: the same answer for everyone. */
export const manifestPath = "/__manifest";
const manifestMethods = ["GET", "HEAD"];
const notFoundPath = "*";
/** One build has one `/`, which is the platform's: a satellite's start page is this route, shown at `/`. */
const satelliteStartPath = "/satellite";

/** Compiles the routes of a build into a judge of paths and methods, for one side. */
export function createRouteTable(build: Pick<ServerBuild, "routes">, side: Side): Judge {
  const find = createRouteFinder(build.routes);
  return ({ pathname: asked, method }) => {
    // Nothing has a name with NUL in it, and the database refuses to look for one.
    if (asked.includes("%00")) return { status: "not-found" };
    if (side === "satellite" && asked === satelliteStartPath) return { status: "not-found" };
    const pathname = side === "satellite" && asked === "/" ? satelliteStartPath : asked;
    const path = pathname === "/_root.data" ? "/" : pathname.replace(/\.data$/, "");
    if (path === manifestPath && side === "platform") {
      return judged({ method, pathname, routeId: null, allow: manifestMethods });
    }
    const routeId = find(path);
    const route = routeId === null ? undefined : build.routes[routeId];
    if (!route || route.path === notFoundPath) return { status: "not-found" };
    const { loader, action, default: page, handle } = route.module;
    const { methods, authorization, file, side: owner = "platform" } = (handle as RouteHandle | undefined) ?? {};
    if (owner !== side && owner !== "both") return { status: "not-found" };
    // Servers ask for the URL itself; the framework's own spelling of it would wrap the answer.
    if ((authorization || file) && path !== pathname) return { status: "not-found" };
    const allow = methods ?? [...(loader || page ? ["GET", "HEAD"] : []), ...(action ? ["POST"] : [])];
    return judged({ method, pathname, routeId, allow, ...(authorization ? { authorization } : {}) });
  };
}

function judged(options: {
  method: string;
  pathname: string;
  routeId: string | null;
  allow: readonly string[];
  authorization?: Authorization;
}): RouteVerdict {
  const { method, pathname, routeId, allow, authorization = "bearer" } = options;
  return allow.includes(method)
    ? { status: "found", authorization, pathname, routeId }
    : { status: "method", allow: [...allow], authorization };
}
