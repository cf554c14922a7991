import { describe, expect, test } from "vitest";
import { destinationOf, detour } from "./redirect-target.ts";

const origin = "https://app.example.com";
const context = { origin, isPage: (pathname: string) => !/^\/(post|.*\.csv)/.test(pathname) };
const requestOf = (method: string, { path, referer }: { path: string; referer?: string }) =>
  new Request(`${origin}${path}`, { method, headers: referer === undefined ? {} : { referer } });

test("a detour keeps the destination, and says nothing of the start page", () => {
  expect(detour("/mfa", "/workspaces?sort=name")).toBe("/mfa?returnUrl=%2Fworkspaces%3Fsort%3Dname");
  expect(detour("/mfa", "/")).toBe("/mfa");
});

describe("the destination", () => {
  test("of a page is its address", () => {
    expect(destinationOf(requestOf("GET", { path: "/a?b=c", referer: `${origin}/other` }), context)).toBe("/a?b=c");
  });

  test("of a form is the page that holds it", () => {
    const request = requestOf("POST", { path: "/a/remove", referer: `${origin}/a?tab=2` });
    expect(destinationOf(request, context)).toBe("/a?tab=2");
  });

  test.each([undefined, "https://evil.example/a", `${origin}.evil.example/`, "not an address"])(
    "of a form whose page is not known (%s) is its address without the query",
    (referer) => {
      const request = requestOf("POST", { path: "/a?intent=b", ...(referer === undefined ? {} : { referer }) });
      expect(destinationOf(request, context)).toBe("/a");
    },
  );

  test.each([
    ["GET", "/a/usage.csv?from=1"],
    ["POST", "/post"],
  ])("of %s %s, which is not a page, is the page that leads there, else the start page", (method, path) => {
    expect(destinationOf(requestOf(method, { path, referer: `${origin}/a?tab=2` }), context)).toBe("/a?tab=2");
    expect(destinationOf(requestOf(method, { path, referer: `${origin}/a.csv` }), context)).toBe("/");
    expect(destinationOf(requestOf(method, { path }), context)).toBe("/");
  });

  test("never leads off our origin", () => {
    expect(destinationOf(requestOf("GET", { path: "//evil.example" }), context)).toBe("/");
  });
});
