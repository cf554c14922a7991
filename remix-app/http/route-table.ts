import type { LoaderFunctionArgs, ServerBuild } from "@remix-run/node";
import { matchRoutes } from "@remix-run/react";
import { divideRoutes, encodeApiSuffix, notFoundPath } from "./route-parts.ts";

/** A route that takes a request. */
export interface FoundRoute {
  status: "found";
  authorization: RouteAuthentication;
  /** The path to give to Remix. */
  pathname: string;
  takesForeignForms?: boolean;
  /** The loader of a document, which is called without Remix. */
  document?: DocumentLoader;
  /** Whether a browser may load the page in advance: its loaders change nothing. True for pages in a frame. */
  takesPrefetch?: boolean;
  /** The route's path, such as `workspaces/:workspaceId`. */
  pattern: string;
  /** The parameters in the request's path. */
  params: Readonly<Record<string, string | undefined>>;
}

/** The route table's verdict on a request, before anything else is checked. */
export type RouteMatch =
  | FoundRoute
  | { status: "not-found" }
  | { status: "method"; allow: string[]; authorization: RouteAuthentication };

/**
 * How a route's callers authenticate. `bearer`: with a session of the platform, by token or cookie. `basic`: an app's
 * server, with Basic credentials. `gateway`: with a credential that the AI gateway checks. `client`: an OAuth client,
 * the holder of its token or a scheduler, from any origin. The route itself authenticates this caller. Only `bearer`
 * opens a session.
 */
export type RouteAuthentication = "bearer" | "basic" | "gateway" | "client";

export type DocumentLoader = (args: LoaderFunctionArgs) => Response | Promise<Response>;

export interface RouteHandle {
  /**
   * Defaults to GET and HEAD for a loader or page, and POST for an action. A module of several routes returns the methods
   * at a route's path.
   */
  methods?: readonly string[] | ((pattern: string) => readonly string[]);
  /** Defaults to `bearer`. */
  authorization?: RouteAuthentication;
  /** True if other sites may post forms here. No POST to such a route sees the visitor's session. */
  takesForeignForms?: boolean;
  /** True for a page that ships the framework's scripts: the playground. */
  hydrate?: boolean;
  /** True for a document that is the same for every visitor. Its loader is called directly, without a session. */
  isDocument?: boolean;
  /**
   * False for a page that only completes a flow, such as an OAuth callback. Redirects to a return URL never lead to it.
   */
  target?: false;
}

type Routes = ServerBuild["routes"];
type RouteNode = { id: string; path?: string; index?: boolean; caseSensitive?: boolean; children?: RouteNode[] };

export interface RouteTable {
  /** Returns the verdict on a request, by its path and method. */
  matchRequest: (options: { pathname: string; method: string }) => RouteMatch;
  /** Returns whether a path leads to a page that people can land on. */
  isPage: (pathname: string) => boolean;
}

/**
 * Matching takes quadratic time in the path's length. A path of slashes that filled the whole request head would take a
 * third of a second.
 */
const maxPathLength = 2_048;

/** Compiles a build's routes. */
export function createRouteTable(build: Pick<ServerBuild, "routes" | "assets">): RouteTable {
  const partAt = divideRoutes(build, ({ routes }) => ({ routes, tree: treeOf(routes) }));

  function find(requestPath: string) {
    const pathname = encodeApiSuffix(requestPath);
    // The database refuses to search for NUL, which no stored name contains.
    if (pathname.length > maxPathLength || pathname.includes("%00")) return null;
    const path = pathname === "/_root.data" ? "/" : pathname.replace(/\.data$/, "");
    const { routes, tree } = partAt(pathname);
    const match = matchRoutes(tree as never, path)?.at(-1);
    const route = routes[match?.route.id ?? ""];
    if (!match || !route || route.path === notFoundPath) return null;
    const { loader, action, default: page, handle } = route.module;
    const { methods, authorization = "bearer", target, takesForeignForms, isDocument } = (handle ?? {}) as RouteHandle;
    // Only pages and actions have `.data` URLs. Remix wraps the responses at these URLs, but clients of other routes
    // need plain responses.
    const asData = path !== pathname;
    if (asData && (authorization !== "bearer" || (!page && !action))) return null;
    const pattern = route.path ?? "";
    const listed = typeof methods === "function" ? methods(pattern) : methods;
    const allow = listed ?? [...(loader || page ? ["GET", "HEAD"] : []), ...(action ? ["POST"] : [])];
    const isPage = Boolean(page) && target !== false && !asData;
    const document = isDocument ? (loader as DocumentLoader) : undefined;
    const takesPrefetch = Boolean(page) && route.parentId !== "root" && !asData;
    const { params } = match;
    return { pathname, authorization, allow, takesForeignForms, takesPrefetch, document, pattern, params, isPage };
  }

  return {
    matchRequest({ pathname: requestPath, method }) {
      const found = find(requestPath);
      if (!found) return { status: "not-found" };
      const { pathname, authorization, allow, takesForeignForms, takesPrefetch, document, pattern, params } = found;
      const options = {
        ...(takesForeignForms && { takesForeignForms }),
        ...(takesPrefetch && { takesPrefetch }),
        ...(document && { document }),
      };
      return allow.includes(method)
        ? { status: "found", authorization, pathname, pattern, params, ...options }
        : { status: "method", allow: [...allow], authorization };
    },
    isPage(pathname) {
      const found = find(pathname);
      return Boolean(found?.isPage && found.allow.includes("GET"));
    },
  };
}

/** Nests the routes as `matchRoutes` expects them. */
function treeOf(routes: Routes, parentId?: string): RouteNode[] {
  return Object.values(routes).flatMap((route) => {
    if (!route || route.parentId !== parentId) return [];
    const { id, path, index, caseSensitive } = route;
    return [{ id, path, caseSensitive, ...(index ? { index } : { children: treeOf(routes, id) }) } as RouteNode];
  });
}
