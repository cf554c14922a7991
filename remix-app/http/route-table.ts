import { matchRoutes } from "@remix-run/react";
import type { ServerBuild } from "@remix-run/server-runtime";

/** What the route table says of a request before anything else is looked at. */
export type RouteVerdict =
  /** `pathname` is what Remix knows it by. */
  | { status: "found"; authorization: Authorization; pathname: string }
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
}

type Judge = (options: { pathname: string; method: string }) => RouteVerdict;
type RouteNode = { id: string; path?: string; index?: boolean; caseSensitive?: boolean; children?: RouteNode[] };

/** Where Remix's client asks which modules a path needs: the same answer for everyone. */
export const manifestPath = "/__manifest";
const manifestMethods = ["GET", "HEAD"];
const notFoundPath = "*";
/** One build has one `/`, which is the platform's: a satellite's start page is this route, shown at `/`. */
const satelliteStartPath = "/satellite";

/** Compiles the routes of a build into a judge of paths and methods, for one side. */
export function createRouteTable(build: Pick<ServerBuild, "routes">, side: Side): Judge {
  const tree = childrenOf(build.routes, undefined);
  return ({ pathname: asked, method }) => {
    if (side === "satellite" && asked === satelliteStartPath) return { status: "not-found" };
    const pathname = side === "satellite" && asked === "/" ? satelliteStartPath : asked;
    const path = pathname === "/_root.data" ? "/" : pathname.replace(/\.data$/, "");
    if (path === manifestPath && side === "platform") return judged({ method, pathname, allow: manifestMethods });
    const leaf = matchRoutes(tree as never, path)?.at(-1)?.route as RouteNode | undefined;
    const route = leaf && build.routes[leaf.id];
    if (!route || route.path === notFoundPath) return { status: "not-found" };
    const { loader, action, default: page, handle } = route.module;
    const { methods, authorization, side: owner = "platform" } = (handle as RouteHandle | undefined) ?? {};
    if (owner !== side && owner !== "both") return { status: "not-found" };
    // Servers ask for the URL itself; the framework's own spelling of it would wrap the answer.
    if (authorization && path !== pathname) return { status: "not-found" };
    const allow = methods ?? [...(loader || page ? ["GET", "HEAD"] : []), ...(action ? ["POST"] : [])];
    return judged({ method, pathname, allow, ...(authorization ? { authorization } : {}) });
  };
}

function judged(options: {
  method: string;
  pathname: string;
  allow: readonly string[];
  authorization?: Authorization;
}): RouteVerdict {
  const { method, pathname, allow, authorization = "bearer" } = options;
  return allow.includes(method)
    ? { status: "found", authorization, pathname }
    : { status: "method", allow: [...allow], authorization };
}

function childrenOf(routes: ServerBuild["routes"], parentId: string | undefined): RouteNode[] {
  return Object.values(routes).flatMap((route) =>
    route && route.parentId === parentId
      ? [
          {
            id: route.id,
            ...(route.path === undefined ? {} : { path: route.path }),
            ...(route.index ? { index: true } : { children: childrenOf(routes, route.id) }),
            ...(route.caseSensitive ? { caseSensitive: true } : {}),
          },
        ]
      : [],
  );
}
