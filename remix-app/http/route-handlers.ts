import {
  type AppLoadContext,
  createRequestHandler,
  type RequestHandler,
  type ServerBuild,
} from "@remix-run/server-runtime";
import { settled } from "./late-data.ts";
import { lineOf, segmentsOf } from "./route-finder.ts";
import type { RouteHandle } from "./route-table.ts";
import { hideData } from "./shown-data.ts";

type Routes = ServerBuild["routes"];
type RouteModule = NonNullable<Routes[string]>["module"];

/**
 * Makes a request handler of Remix's own for each route, when it is first asked for, on a build of that route alone.
 * Remix goes through all routes of its build some ten times a request, to match a path that the route table has matched
 * already, and to make objects that are thrown away: with a hundred routes that costs more than everything else.
 *
 * A handler takes a request whose session is still being opened: its loaders and actions wait for that, the rest does not.
 * @param options.documents for requests of documents alone: a page that no script takes over is a build of its own route
 *   and those around it, and what their loaders find is for that page and no further
 * @returns the handler of a route; for null that of the whole build
 */
export function createRouteHandlers(
  build: ServerBuild,
  { mode, documents = false }: { mode: "development" | "production"; documents?: boolean },
): (routeId: string | null) => RequestHandler {
  const handlers = new Map<string | null, RequestHandler>();
  const waiting = { ...build, routes: withModules(build.routes, waitingModule) };
  function buildFor(routeId: string | null): ServerBuild {
    if (routeId === null) return waiting;
    const own = buildOfRoute(waiting, routeId);
    if (!isUnscripted(own, routeId)) return own;
    if (!documents) return { ...own, routes: withModules(own.routes, settlingModule) };
    const alone = pickRoutes(waiting, new Set(lineOf(waiting.routes, routeId)));
    return { ...alone, routes: withModules(alone.routes, hidingModule) };
  }
  return (routeId) => {
    const known = handlers.get(routeId);
    if (known) return known;
    const handler = createRequestHandler(buildFor(routeId), mode);
    handlers.set(routeId, handler);
    return handler;
  };
}

/**
 * The build as far as one route needs it: the route, those around it, and those at the beginnings of its path, which
 * Remix names in each page so that its client can go there.
 */
export function buildOfRoute(build: ServerBuild, routeId: string): ServerBuild {
  const { routes } = build;
  const path = segmentsOf(routes, routeId);
  const kept = Object.keys(routes)
    .filter((id) => id === routeId || leadsTo(segmentsOf(routes, id), path))
    .flatMap((id) => lineOf(routes, id));
  return pickRoutes(build, new Set(kept));
}

function pickRoutes({ routes, assets, ...build }: ServerBuild, kept: ReadonlySet<string>): ServerBuild {
  return { ...build, routes: pick(routes, kept), assets: { ...assets, routes: pick(assets.routes, kept) } };
}

function leadsTo(segments: string[], path: string[]): boolean {
  return segments.length < path.length && segments.every((segment, index) => segment === path[index]);
}

function pick<Value>(all: Record<string, Value>, kept: ReadonlySet<string>): Record<string, Value> {
  return Object.fromEntries(Object.entries(all).filter(([id]) => kept.has(id)));
}

function withModules(routes: Routes, change: (module: RouteModule) => RouteModule): Routes {
  return Object.fromEntries(
    Object.entries(routes).map(([id, route]) => [id, route && { ...route, module: change(route.module) }]),
  );
}

/** Whether a route has a page that no script takes over, which it or one around it says. */
function isUnscripted({ routes }: ServerBuild, routeId: string): boolean {
  const handles = lineOf(routes, routeId).map((id) => routes[id]?.module.handle as RouteHandle | undefined);
  return routes[routeId]?.module.default !== undefined && handles.some((handle) => handle?.hydrate === false);
}

function hidingModule({ loader, ...module }: RouteModule): RouteModule {
  return { ...module, loader: loader && (async (args) => hideData(await loader(args))) };
}

/** What goes to a script is all there. */
function settlingModule({ loader, ...module }: RouteModule): RouteModule {
  return { ...module, loader: loader && (async (args) => settled(await loader(args))) };
}

/** A route's module whose loader and action are called once the request's session is open. */
function waitingModule(module: RouteModule): RouteModule {
  const { loader, action } = module;
  const { early } = (module.handle as RouteHandle | undefined) ?? {};
  return {
    ...module,
    ...(loader && !early ? { loader: onceOpen(loader) } : {}),
    ...(action ? { action: onceOpen(action) } : {}),
  };
}

function onceOpen<Args extends { context: AppLoadContext }, Answer>(answer: (args: Args) => Answer) {
  return async (args: Args) => {
    await args.context.opened;
    return answer(args);
  };
}
