import { describe, expect, test } from "vitest";
import { createRouteTable } from "./route-table.ts";

const page = () => null;
const read = () => null;
const routes = {
  root: { id: "root", path: "", module: { default: page } },
  home: { id: "home", parentId: "root", index: true, module: { default: page, loader: read } },
  frame: { id: "frame", parentId: "root", module: { default: page } },
  members: { id: "members", parentId: "frame", path: "members", module: { default: page, loader: read } },
  login: { id: "login", parentId: "root", path: "login", module: { default: page, loader: read, action: read } },
  logout: { id: "logout", parentId: "root", path: "logout", module: { action: read } },
  item: {
    id: "item",
    parentId: "root",
    path: "api/v1/items/:id",
    module: { loader: read, action: read, handle: { methods: ["GET", "HEAD", "DELETE"] } },
  },
  made: { id: "made", parentId: "root", path: "api/v1/made", module: { action: read } },
  exchange: {
    id: "exchange",
    parentId: "root",
    path: "api/v1/exchange",
    module: { action: read, handle: { authorization: "basic" } },
  },
  authorize: {
    id: "authorize",
    parentId: "root",
    path: "oauth/authorize",
    module: { default: page, loader: read, action: read, handle: { takesForeignForms: true } },
  },
  token: {
    id: "token",
    parentId: "root",
    path: "oauth/token",
    module: { action: read, handle: { methods: ["POST"], authorization: "client" } },
  },
  generate: {
    id: "generate",
    parentId: "root",
    path: "api/generate",
    module: { action: read, handle: { authorization: "gateway" } },
  },
  theme: { id: "theme", parentId: "root", path: "theme", module: { action: read } },
  callback: {
    id: "callback",
    parentId: "root",
    path: "callback",
    module: { default: page, loader: read, handle: { target: false } },
  },
  file: { id: "file", parentId: "root", path: "items.csv", module: { loader: read } },
  rest: { id: "rest", parentId: "root", path: "*", module: { default: page } },
};
const build = { routes, assets: { routes: {} } } as unknown as Parameters<typeof createRouteTable>[0];
const { matchRequest, isPage } = createRouteTable(build);

describe("the route table", () => {
  test.each([
    ["GET", "/"],
    ["GET", "/_root.data"],
    ["HEAD", "/login"],
    ["POST", "/login"],
    ["GET", "/login.data"],
    ["POST", "/logout"],
    ["DELETE", "/api/v1/items/7"],
  ])("finds the route of %s %s", (method, pathname) => {
    expect(matchRequest({ method, pathname })).toMatchObject({ status: "found", authorization: "bearer", pathname });
  });

  test.each([
    ["/api/v1/exchange", "basic"],
    ["/api/generate", "gateway"],
  ])(
    "finds the authentication scheme of %s, and finds no route for its URL with .data appended",
    (pathname, authorization) => {
      expect(matchRequest({ method: "POST", pathname })).toMatchObject({ status: "found", authorization, pathname });
      expect(matchRequest({ method: "GET", pathname })).toEqual({ status: "method", authorization, allow: ["POST"] });
      expect(matchRequest({ method: "POST", pathname: `${pathname}.data` })).toEqual({ status: "not-found" });
    },
  );

  test("finds a file's route only at the file's own URL", () => {
    expect(matchRequest({ method: "GET", pathname: "/items.csv" })).toMatchObject({ status: "found" });
    expect(matchRequest({ method: "GET", pathname: "/items.csv.data" })).toEqual({ status: "not-found" });
  });

  test.each(["/api/v1/items/7", "/API/v1/items/7", "/%61pi/v1/items/7"])(
    "takes .data at the end of %s as a part of the ID, and hides it from Remix",
    (path) => {
      const pathname = `${path}%2Edata`;
      const found = { status: "found", pathname, params: { id: "7.data" } };
      expect(matchRequest({ method: "DELETE", pathname: `${path}.data` })).toMatchObject(found);
    },
  );

  test("takes .data as a whole ID", () => {
    const verdict = matchRequest({ method: "GET", pathname: "/api/v1/items/.data" });
    expect(verdict).toMatchObject({ status: "found", params: { id: ".data" } });
  });

  test("finds an operation only at its own URL", () => {
    expect(matchRequest({ method: "POST", pathname: "/api/v1/made" })).toMatchObject({ status: "found" });
    expect(matchRequest({ method: "POST", pathname: "/api/v1/made.data" })).toEqual({ status: "not-found" });
  });

  test("finds no route for a path of more than 2,048 characters", () => {
    const longest = "/login".padEnd(2_048, "/");
    expect(matchRequest({ method: "GET", pathname: longest })).toMatchObject({ status: "found" });
    expect(matchRequest({ method: "GET", pathname: `${longest}/` })).toEqual({ status: "not-found" });
  });

  test.each(["/nothing", "/api/v1/items", "/login/more", "/logout/x.data", "/api/v1/items/a%00b"])(
    "finds no route for %s",
    (pathname) => {
      expect(matchRequest({ method: "POST", pathname })).toEqual({ status: "not-found" });
    },
  );

  test.each([
    ["GET", "/logout", ["POST"]],
    ["DELETE", "/login", ["GET", "HEAD", "POST"]],
    ["POST", "/", ["GET", "HEAD"]],
    ["POST", "/api/v1/items/7", ["GET", "HEAD", "DELETE"]],
  ])("lists the allowed methods for %s %s", (method, pathname, allow) => {
    expect(matchRequest({ method, pathname })).toEqual({ status: "method", authorization: "bearer", allow });
  });

  test.each(["/", "/login", "/login/", "/%6cogin"])("treats %s as a page", (pathname) => {
    expect(isPage(pathname)).toBe(true);
  });

  test.each([
    "/logout",
    "/%6cogout",
    "/theme",
    "/api/v1/items/7",
    "/api/v1/exchange",
    "/items.csv",
    "/callback",
    "/login.data",
    "/_root.data",
    "/nothing",
    "/assets/app.js",
    "/healthz",
  ])("does not treat %s as a page", (pathname) => {
    expect(isPage(pathname)).toBe(false);
  });
});

test("the route table assigns client authentication to the token endpoint, and lets only the authorization endpoint accept forms from other sites", () => {
  expect(matchRequest({ method: "POST", pathname: "/oauth/token" })).toMatchObject({
    status: "found",
    authorization: "client",
  });
  expect(matchRequest({ method: "OPTIONS", pathname: "/oauth/token" })).toMatchObject({
    status: "method",
    authorization: "client",
  });
  expect(matchRequest({ method: "POST", pathname: "/oauth/authorize" })).toMatchObject({ takesForeignForms: true });
  expect(matchRequest({ method: "POST", pathname: "/login" })).not.toHaveProperty("takesForeignForms");
});

test.each([":id", "*", "login?", "/:id/login"])(
  "refuses a build with a route at %s, which every part would need",
  (path) => {
    const wrong = { ...routes, wrong: { id: "wrong", parentId: "root", path, module: { loader: read } } };
    expect(() => createRouteTable({ ...build, routes: wrong as never })).toThrow("The path of wrong");
  },
);

test("finds routes below layouts with and without a path, which belong to the parts of their routes", () => {
  const frame = { id: "frame", parentId: "root", module: { default: page } };
  const area = { id: "area", parentId: "frame", path: "area", module: { default: page } };
  const inner = { id: "inner", parentId: "area", path: ":id", module: { default: page, loader: read } };
  const other = { id: "other", parentId: "frame", path: "other/:id", module: { default: page, loader: read } };
  const table = createRouteTable({ ...build, routes: { ...routes, frame, area, inner, other } as never });
  for (const pathname of ["/area/7", "/area", "/other/7", "/login"]) {
    expect(table.matchRequest({ method: "GET", pathname })).toMatchObject({ status: "found" });
  }
  expect(table.matchRequest({ method: "GET", pathname: "/other" })).toEqual({ status: "not-found" });
});

test.each([
  ["/members", true],
  ["/login", undefined],
  ["/members.data", undefined],
  ["/items.csv", undefined],
])("the route table lets browsers prefetch only pages in a frame: %s", (pathname, takesPrefetch) => {
  const verdict = matchRequest({ method: "GET", pathname });
  expect(verdict).toMatchObject({ status: "found" });
  expect((verdict as { takesPrefetch?: boolean }).takesPrefetch).toBe(takesPrefetch);
});
