import {
  type AppLoadContext,
  createRequestHandler,
  type RequestHandler,
  type ServerBuild,
} from "@remix-run/server-runtime";
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
 * @returns the handler of a route; for null that of the whole build
 */
export function createRouteHandlers(
  build: ServerBuild,
  mode: "development" | "production",
): (routeId: string | null) => RequestHandler {
  const handlers = new Map<string | null, RequestHandler>();
  const waiting = { ...build, routes: withModules(build.routes, waitingModule) };
  return (routeId) => {
    const known = handlers.get(routeId);
    if (known) return known;
    const handler = createRequestHandler(routeId === null ? waiting : buildOfRoute(waiting, routeId), mode);
    handlers.set(routeId, handler);
    return handler;
  };
}

/** The build for documents alone: what the page of a loader shows that no script takes over is for the page alone. */
export function documentBuild(build: ServerBuild): ServerBuild {
  const hiding = ({ loader, ...module }: RouteModule): RouteModule => ({
    ...module,
    loader: loader && (async (args) => hideData(await loader(args))),
  });
  const isUnscripted = ({ handle, default: page }: RouteModule) =>
    page !== undefined && (handle as RouteHandle | undefined)?.hydrate === false;
  return { ...build, routes: withModules(build.routes, (module) => (isUnscripted(module) ? hiding(module) : module)) };
}

/**
 * The build as far as one route needs it: the route, those around it, and those at the beginnings of its path, which
 * Remix names in each page so that its client can go there.
 */
export function buildOfRoute(build: ServerBuild, routeId: string): ServerBuild {
  const { routes, assets } = build;
  const path = segmentsOf(routes, routeId);
  const kept = new Set(
    Object.keys(routes)
      .filter((id) => id === routeId || leadsTo(segmentsOf(routes, id), path))
      .flatMap((id) => lineOf(routes, id)),
  );
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
