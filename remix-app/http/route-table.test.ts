import { describe, expect, test } from "vitest";
import { createRouteTable } from "./route-table.ts";

const page = () => null;
const read = () => null;
const routes = {
  root: { id: "root", path: "", module: { default: page } },
  home: { id: "home", parentId: "root", index: true, module: { default: page, loader: read } },
  login: { id: "login", parentId: "root", path: "login", module: { default: page, loader: read, action: read } },
  logout: { id: "logout", parentId: "root", path: "logout", module: { action: read } },
  item: {
    id: "item",
    parentId: "root",
    path: "api/v1/items/:id",
    module: { loader: read, action: read, handle: { methods: ["GET", "HEAD", "DELETE"] } },
  },
  exchange: {
    id: "exchange",
    parentId: "root",
    path: "api/v1/exchange",
    module: { action: read, handle: { authorization: "basic" } },
  },
  rest: { id: "rest", parentId: "root", path: "*", module: { default: page } },
};
const judge = createRouteTable({ routes } as unknown as Parameters<typeof createRouteTable>[0]);

describe("the route table", () => {
  test.each([
    ["GET", "/"],
    ["GET", "/_root.data"],
    ["HEAD", "/login"],
    ["POST", "/login"],
    ["GET", "/login.data"],
    ["POST", "/logout"],
    ["DELETE", "/api/v1/items/7"],
    ["GET", "/__manifest"],
    ["HEAD", "/__manifest"],
  ])("finds %s %s", (method, pathname) => {
    expect(judge({ method, pathname })).toEqual({ status: "found", authorization: "bearer" });
  });

  test("tells which routes are for servers of apps", () => {
    expect(judge({ method: "POST", pathname: "/api/v1/exchange" })).toEqual({
      status: "found",
      authorization: "basic",
    });
  });

  test.each(["/nothing", "/api/v1/items", "/login/more", "/logout/x.data"])("knows no %s", (pathname) => {
    expect(judge({ method: "POST", pathname })).toEqual({ status: "not-found" });
  });

  test.each([
    ["GET", "/logout", ["POST"]],
    ["DELETE", "/login", ["GET", "HEAD", "POST"]],
    ["POST", "/", ["GET", "HEAD"]],
    ["POST", "/__manifest", ["GET", "HEAD"]],
    ["OPTIONS", "/__manifest", ["GET", "HEAD"]],
    ["POST", "/api/v1/items/7", ["GET", "HEAD", "DELETE"]],
  ])("names what is allowed instead of %s %s", (method, pathname, allow) => {
    expect(judge({ method, pathname })).toEqual({ status: "method", allow });
  });
});
