import { matchRoutes } from "@remix-run/react";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createRouteFinder } from "./route-finder.ts";
import { buildOfRoute } from "./route-handlers.ts";

const patterns = [
  "login",
  "Login/again",
  "items",
  "items/:id",
  "items/new",
  "items/:id/parts",
  "items/:id/parts.csv",
  "items/:id/:step",
  ":language/about",
  "pages/:name?",
  "files/*",
  "files/:name.csv",
  ".well-known/thing",
  "*",
];
const children = [
  { id: "home", index: true },
  ...patterns.map((path) => ({ id: path, path })),
  { id: "exact", path: "Exact", caseSensitive: true },
];
const tree = [{ id: "root", path: "", children }];
const routes = Object.fromEntries([
  ["root", { id: "root", path: "", module: {} }],
  ...children.map((route) => [route.id, { ...route, parentId: "root", module: {} }] as const),
]) as unknown as Parameters<typeof createRouteFinder>[0];
const find = createRouteFinder(routes);

const segment = fc.oneof(
  fc.constantFrom("login", "LOGIN", "again", "items", "new", "7", "parts", "parts.csv", "about", "pages", "files"),
  fc.constantFrom(
    "exact",
    "Exact",
    "",
    "7.csv",
    "%69tems",
    "a%2Fb",
    "é",
    ":id",
    "*",
    "..",
    ".well-known",
    "thing",
    "items;x",
  ),
  fc.string({ maxLength: 3 }).filter((text) => !/[#?%]/.test(text)),
);

test("any path has the route that Remix finds among all", () => {
  fc.assert(
    fc.property(fc.array(segment, { maxLength: 5 }), fc.boolean(), (segments, slash) => {
      const pathname = `/${segments.join("/")}${slash ? "/" : ""}`;
      expect(find(pathname)).toBe(matchRoutes(tree as never, pathname)?.at(-1)?.route.id ?? null);
    }),
    { numRuns: 4_000 },
  );
});

test.each([
  ["/", "home"],
  ["/items/7", "items/:id"],
  ["/items/new/", "items/new"],
  ["/ITEMS/7/parts", "items/:id/parts"],
  ["/%69tems/7", "items/:id"],
  ["/pages", "pages/:name?"],
  ["/files/a/b/c", "files/*"],
  ["/files/7.csv", "files/:name.csv"],
  ["/files/7", "files/*"],
  ["/en/about", ":language/about"],
  ["/exact", "*"],
])("%s is %s", (pathname, id) => {
  expect(find(pathname)).toBe(id);
});

test("a route's own build has the routes at the beginnings of its path beside it, and no other", () => {
  const build = { routes, assets: { routes, version: "7" } } as unknown as Parameters<typeof buildOfRoute>[0];
  const own = buildOfRoute(build, "items/:id/parts");
  const ids = ["root", "home", "items", "items/:id", "items/:id/parts"];
  expect(Object.keys(own.routes)).toEqual(ids);
  expect(Object.keys(own.assets.routes)).toEqual(ids);
  expect(own.assets.version).toBe("7");
  expect(Object.keys(buildOfRoute(build, "home").routes)).toEqual(["root", "home"]);
});
