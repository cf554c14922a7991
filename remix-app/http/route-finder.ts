import { matchRoutes } from "@remix-run/react";
import type { ServerBuild } from "@remix-run/server-runtime";

type Routes = ServerBuild["routes"];
type RouteNode = { id: string; path?: string; index?: boolean; caseSensitive?: boolean; children?: RouteNode[] };

/** Paths that say by their look which routes can be theirs: nothing to decode, no empty segment. */
const plainPath = /^(?:\/[\w.~-]+)*\/?$/;

/** A route by the segments of its whole path, in small letters; `exact` where a path that has them can but be its. */
type Pattern = { id: string; segments: string[]; exact: boolean };
/** The routes that some paths may have; where all of these have the same one, it is found but once. */
type Candidates = { tree: RouteNode[]; same: boolean; found?: string | null };

/**
 * Finds the route of a path, as Remix's own `matchRoutes` does. That one ranks all routes and compiles a pattern for each
 * at every call, two million instructions for a hundred routes; so it is given those alone that have as many segments
 * as the path and the same ones wherever theirs are fixed, and is asked once for all paths that have the same.
 * @returns a function from a path to the route's id, null where no route is the path's
 */
export function createRouteFinder(routes: Routes): (pathname: string) => string | null {
  const all = treeOf(routes, () => true);
  const loose: Pattern[] = [];
  const places = new Map<string, Pattern[]>();
  for (const id of Object.keys(routes)) {
    const pattern = patternOf(routes, id);
    const place = placeOfPattern(pattern.segments);
    if (place === null) loose.push(pattern);
    else places.set(place, [...(places.get(place) ?? []), pattern]);
  }
  // By the routes that they are: as many as there are ways in which some of a place fit one path.
  const known = new Map<string, Candidates>();
  function candidatesOf(pathname: string): Candidates {
    const path = pathname.toLowerCase().split("/").filter(Boolean);
    const fixed = places.get(placeOf(path[0] ?? "", path.length))?.filter(({ segments }) => fits(segments, path)) ?? [];
    const fitting = [...fixed, ...loose.filter(({ segments }) => mayFit(segments, path))];
    const ids = fitting.map(({ id }) => id);
    const key = ids.join(" ");
    const candidates = known.get(key) ?? {
      tree: treeOf(routes, (id) => ids.includes(id)),
      same: fitting.every(({ exact }) => exact),
    };
    known.set(key, candidates);
    return candidates;
  }
  function find(tree: RouteNode[], pathname: string): string | null {
    return matchRoutes(tree as never, pathname)?.at(-1)?.route.id ?? null;
  }
  return (pathname) => {
    if (!plainPath.test(pathname)) return find(all, pathname);
    const candidates = candidatesOf(pathname);
    if (!candidates.same) return find(candidates.tree, pathname);
    if (candidates.found === undefined) candidates.found = find(candidates.tree, pathname);
    return candidates.found;
  };
}

const parameter = /^:[\w-]+$/;

function patternOf(routes: Routes, id: string): Pattern {
  const segments = segmentsOf(routes, id).map((segment) => segment.toLowerCase());
  const cased = lineOf(routes, id).some((one) => routes[one]?.caseSensitive);
  const plain = segments.every((segment) => parameter.test(segment) || !/[:*?]/.test(segment));
  return { id, segments, exact: (plain && !cased) || segments.join("/") === "*" };
}

/** Whether a path has a pattern's segments, both in small letters and as many, wherever the pattern has fixed ones. */
function fits(pattern: string[], path: string[]): boolean {
  return pattern.every((segment, index) => segment.startsWith(":") || segment === path[index]);
}

/** Whether a path may have a pattern that takes paths of other lengths, too: it has what that one begins with. */
function mayFit(pattern: string[], path: string[]): boolean {
  const end = pattern.findIndex((segment) => segment === "*" || segment.endsWith("?"));
  if (end < 0) return pattern.length === path.length && fits(pattern, path);
  return end <= path.length && fits(pattern.slice(0, end), path);
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
