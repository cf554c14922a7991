import { matchRoutes } from "@remix-run/react";
import type { ServerBuild } from "@remix-run/server-runtime";

type Routes = ServerBuild["routes"];
type RouteNode = { id: string; path?: string; index?: boolean; caseSensitive?: boolean; children?: RouteNode[] };

/** Paths that say by their look which routes can be theirs: nothing to decode, no empty segment. */
const plainPath = /^(?:\/[\w.~-]+)*\/?$/;

/**
 * Finds the route of a path, as Remix's own `matchRoutes` does. That one ranks all routes and compiles a pattern for each
 * at every call, two million instructions for a hundred routes; so it is given those alone that have as many segments
 * as the path and the same ones wherever theirs are fixed.
 * @returns a function from a path to the route's id, null where no route is the path's
 */
export function createRouteFinder(routes: Routes): (pathname: string) => string | null {
  const all = treeOf(routes, () => true);
  const loose = new Set<string>();
  const places = new Map<string, { id: string; segments: string[] }[]>();
  for (const id of Object.keys(routes)) {
    const segments = segmentsOf(routes, id);
    const place = placeOfPattern(segments);
    if (place === null) loose.add(id);
    else places.set(place, [...(places.get(place) ?? []), { id, segments: segments.map((one) => one.toLowerCase()) }]);
  }
  // By the routes that they are of: as many as there are ways in which some of a place fit one path.
  const trees = new Map<string, RouteNode[]>();
  function treeFor(pathname: string): RouteNode[] {
    const path = pathname.toLowerCase().split("/").filter(Boolean);
    const fitting =
      places.get(placeOf(path[0] ?? "", path.length))?.filter(({ segments }) => fits(segments, path)) ?? [];
    const ids = fitting.map(({ id }) => id);
    const key = ids.join(" ");
    const tree = trees.get(key) ?? treeOf(routes, (id) => ids.includes(id) || loose.has(id));
    trees.set(key, tree);
    return tree;
  }
  return (pathname) => {
    const tree = plainPath.test(pathname) ? treeFor(pathname) : all;
    return matchRoutes(tree as never, pathname)?.at(-1)?.route.id ?? null;
  };
}

/** Whether a path has a pattern's segments, both in small letters and as many, wherever the pattern has fixed ones. */
function fits(pattern: string[], path: string[]): boolean {
  return pattern.every((segment, index) => segment.startsWith(":") || segment === path[index]);
}

/** The path that a route has with its parents', by segments. */
export function segmentsOf(routes: Routes, id: string): string[] {
  return lineOf(routes, id).flatMap((ancestor) => routes[ancestor]?.path?.split("/").filter(Boolean) ?? []);
}

/** A route and those around it, the outermost first. */
export function lineOf(routes: Routes, id: string): string[] {
  const { parentId } = routes[id] ?? {};
  return [...(parentId === undefined ? [] : lineOf(routes, parentId)), id];
}

/** Null where the pattern can match paths of other lengths, or of any beginning. */
function placeOfPattern(segments: string[]): string | null {
  const [first = ""] = segments;
  const fixed = !first.startsWith(":") && segments.every((segment) => segment !== "*" && !segment.endsWith("?"));
  return fixed ? placeOf(first, segments.length) : null;
}

/** Routes match whatever the case, unless they say otherwise, which `matchRoutes` still looks at. */
const placeOf = (first: string, count: number) => `${count} ${first.toLowerCase()}`;

/** The routes, nested, as far as they are taken or lead to one that is. */
function treeOf(routes: Routes, taken: (id: string) => boolean, parentId?: string): RouteNode[] {
  return Object.values(routes).flatMap((route) => {
    if (!route || route.parentId !== parentId) return [];
    const { id, path, index, caseSensitive } = route;
    const children = treeOf(routes, taken, id);
    if (children.length === 0 && !taken(id)) return [];
    return [
      {
        id,
        ...(path === undefined ? {} : { path }),
        ...(caseSensitive ? { caseSensitive } : {}),
        ...(index ? { index: true } : { children }),
      },
    ];
  });
}
