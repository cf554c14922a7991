import { createRequire } from "node:module";
import { type AppLoadContext, createRequestHandler, redirect, type ServerBuild } from "@remix-run/node";
import { createElement } from "react";
import { describe, expect, test, vi } from "vitest";
import type { PageBrand } from "../ui/brand.ts";
import type { Site } from "../ui/site.ts";
import { createHandler, divideRoutes } from "./route-parts.ts";

// As Node loads them for the server, so that the build and this file share React Router's contexts.
const require = createRequire(import.meta.url);
const built: ServerBuild = require("../../build/server/index.js");
const { matchRoutes, Outlet, useMatches } = require("@remix-run/react") as typeof import("@remix-run/react");

type Route = NonNullable<ServerBuild["routes"][string]>;
type LoaderArgs = { request: Request; params: object };

const origin = "https://app.example.com";
const brand: PageBrand = {
  name: "Gatehouse",
  mark: null,
  icon: { href: "/i", type: "image/png" },
  accent: null,
  support: null,
};
const site: Site = {
  theme: "system",
  requestId: "id",
  brand,
  account: "",
  session: "",
  prefetchedAt: null,
  user: null,
  accounts: [],
};
const context = { brand, nonce: "nonce", requestId: "id" } as AppLoadContext;

/** Does what the request asks of this route. */
function act(id: string, { request }: LoaderArgs): void {
  const behavior = new URL(request.url).searchParams.get(id);
  if (behavior === "throw") throw new Error(`thrown by ${id}`);
  if (behavior === "refuse") throw Response.json({ id }, { status: 409, headers: { Allow: "GET" } });
  if (behavior === "redirect") throw redirect("/workspaces?from=elsewhere", { headers: { "Set-Cookie": "a=b" } });
}

function Page({ id }: { id: string }) {
  return createElement("div", { id }, JSON.stringify(useMatches()), createElement(Outlet));
}

/**
 * Returns a route whose module has the same exports as the built one, but answers with the route, its parameters and
 * its matches. The root is the real one, with a visitor's data.
 */
function probe(route: Route): Route {
  const { id, module } = route;
  const answer = (args: LoaderArgs) => {
    act(id, args);
    const routeData = { id, params: args.params };
    if (id === "root") return site;
    return module.default ? routeData : Response.json(routeData);
  };
  const probed = {
    ...module,
    ...(module.loader && { loader: answer }),
    ...(module.action && { action: answer }),
    ...(id !== "root" && {
      meta: undefined,
      headers: undefined,
      ...(module.default && { default: () => createElement(Page, { id }) }),
    }),
  };
  return { ...route, module: probed as Route["module"] };
}

const routes = Object.values(built.routes).filter((route) => route !== undefined);
const build: ServerBuild = { ...built, routes: Object.fromEntries(routes.map((route) => [route.id, probe(route)])) };
const whole = createRequestHandler(build, "production");
const parts = createHandler(build, "production");

const lineOf = (route: Route): Route[] => {
  const parent = built.routes[route.parentId ?? ""];
  return parent ? [...lineOf(parent), route] : [route];
};
/** The path of each route at which a match can end, with values for its parameters. */
const ends = routes
  .filter(({ path, index }) => path !== undefined || index)
  .map((route) => {
    const path = lineOf(route).map((each) => each.path ?? "");
    const filled = path.filter(Boolean).join("/").replaceAll(/:\w+/g, "7f3a").replace("*", "no/such/page");
    return { route, line: lineOf(route), path: `/${filled}` };
  });
type End = (typeof ends)[number];
/** One path for each part, kind of module and number of layouts and segments, since the rest would only repeat it. */
const kindsOfEnds = [
  ...new Map(
    ends.map((end) => {
      const { default: page, loader, action } = end.route.module;
      const [first, ...others] = end.path.split("/").slice(1);
      return [[first, others.length, end.line.length, !page, !loader, !action].join(), end];
    }),
  ).values(),
];

async function answersOf(handler: typeof whole, requests: { url: string; init?: RequestInit }[]) {
  const answers: unknown[] = [];
  for (const { url, init } of requests) {
    const response = await handler(new Request(new URL(url, origin), init), context);
    const { status, headers } = response;
    answers.push({ url, status, headers: [...headers].toSorted(), body: await response.text() });
  }
  return answers;
}

const dataOf = (path: string) => (path === "/" ? "/_root.data" : `${path}.data`);
const form = (): RequestInit => ({ method: "POST", body: new URLSearchParams({ a: "b" }) });

const kinds: [string, (end: End) => { url: string; init?: RequestInit }[]][] = [
  ["GET", ({ path }) => [{ url: `${path}?a=b` }]],
  ["data", ({ path }) => [{ url: dataOf(path) }]],
];
const furtherKinds: typeof kinds = [
  ["HEAD", ({ path }) => [{ url: path, init: { method: "HEAD" } }]],
  ["data of one route", ({ path, route }) => [{ url: `${dataOf(path)}?_routes=${route.id}` }]],
  ["POST", ({ path }) => [{ url: path, init: form() }]],
  ["POST for data", ({ path }) => [{ url: dataOf(path), init: form() }]],
  [
    "a redirect into another part",
    ({ path, route }) => [
      { url: `${path}?${route.id}=redirect` },
      { url: `${dataOf(path)}?${route.id}=redirect` },
      { url: `${dataOf(path)}?${route.id}=redirect`, init: form() },
    ],
  ],
  [
    "an error or a refusal at each boundary",
    ({ path, line }) =>
      line.flatMap(({ id }) => [{ url: `${path}?${id}=throw` }, { url: `${dataOf(path)}?${id}=refuse` }]),
  ],
];

describe("the parts of the build", () => {
  test.each([
    ...kinds.map(([name, urlsOf]) => [name, "every route", ends.flatMap(urlsOf)] as const),
    ...furtherKinds.map(([name, urlsOf]) => [name, "each kind of route", kindsOfEnds.flatMap(urlsOf)] as const),
  ])("answer %s of %s as the whole build does", async (_name, _of, requests) => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const expected = await answersOf(whole, requests);
    expect(await answersOf(parts, requests)).toEqual(expected);
    vi.restoreAllMocks();
  });

  test("answer with every page's route, which shows that the comparison reaches it", async () => {
    for (const { route, path } of ends.filter((end) => end.route.module.default && end.route.id !== "root")) {
      const [{ status, body }] = (await answersOf(parts, [{ url: path }])) as [{ status: number; body: string }];
      expect([status, body.includes(`<div id="${route.id}"`)], path).toEqual([200, true]);
    }
  });

  const matcherOf = ({ routes: some }: Pick<ServerBuild, "routes">) => {
    const childrenOf = (id?: string): object[] =>
      Object.values(some)
        .filter((route) => route !== undefined && route.parentId === id)
        .map((route) => ({ ...route, ...(route?.index ? {} : { children: childrenOf(route?.id) }) }));
    const tree = childrenOf();
    return (path: string) => matchRoutes(tree as never, path)?.map(({ route, params }) => ({ id: route.id, params }));
  };
  const matchWhole = matcherOf(built);
  const matcherAt = divideRoutes(built, matcherOf);

  const spellings: [string, (path: string) => string][] = [
    ["as it is", (path) => path],
    ["in capitals", (path) => path.toUpperCase()],
    [
      "with an encoded first letter",
      (path) => path.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
    ],
    [
      "with an encoded capital",
      (path) => path.replace(/[a-z]/, (letter) => `%${letter.toUpperCase().charCodeAt(0).toString(16)}`),
    ],
    ["with an encoded slash", (path) => `/${path.slice(1).replace("/", "%2F")}%2f`],
    ["with an encoded first slash", (path) => `/%2F${path.slice(1)}`],
    ["with slashes at the end", (path) => `${path}//`],
    ["with two slashes at the beginning", (path) => `/${path}`],
    ["with two slashes inside", (path) => path.replace(/(.)\//, "$1//")],
    ["with a malformed escape at the end", (path) => `${path}/%zz`],
    ["with a malformed escape at the beginning", (path) => `/%e0${path.slice(1)}`],
    ["with letters that become ASCII in lower case", (path) => path.replace("k", "\u212a").replace("i", "\u0130")],
    ["with .data inside", (path) => path.replace(/(.)(\/|$)/, "$1.data$2")],
    ["with another segment", (path) => `${path}/x`],
    ["without its last letter", (path) => path.slice(0, -1)],
  ];

  test.each(spellings)("find the route of each path %s as the whole build does", (name, spell) => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    for (const { path } of name === "as it is" ? ends : kindsOfEnds) {
      const { pathname } = new URL(`${origin}${spell(path)}`);
      for (const url of [pathname, `${pathname}.data`]) {
        // Remix and the route table cut off the ending before they match.
        const matched = url === "/_root.data" ? "/" : url.replace(/\.data$/, "");
        expect(matcherAt(url)(matched), url).toEqual(matchWhole(matched));
      }
    }
    vi.restoreAllMocks();
  });

  test("share the manifest's URL and version, and have the same routes on the server and in the manifest", () => {
    const all: ServerBuild[] = [];
    divideRoutes(built, (part) => all.push(part));
    expect(new Set(all.flatMap(({ routes: some }) => Object.keys(some))).size).toBe(routes.length);
    for (const { routes: some, assets } of all) {
      expect(Object.keys(some).toSorted()).toEqual(Object.keys(assets.routes).toSorted());
      expect([assets.url, assets.version]).toEqual([built.assets.url, built.assets.version]);
      expect(Object.keys(some).length).toBeLessThan(routes.length / 2);
    }
  });
});
