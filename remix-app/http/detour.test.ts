import { describe, expect, test } from "vitest";
import { addReturnUrl, getDestination } from "./redirect-target.ts";

const origin = "https://app.example.com";
const context = { origin, isPage: (pathname: string) => !/^\/(post|.*\.csv)/.test(pathname) };
const requestOf = (method: string, { path, referer }: { path: string; referer?: string }) =>
  new Request(`${origin}${path}`, { method, headers: referer === undefined ? {} : { referer } });

test("the URL of a detour, such as the MFA page, contains the page to return to, unless that is the start page", () => {
  expect(addReturnUrl("/mfa", "/workspaces?sort=name")).toBe("/mfa?returnUrl=%2Fworkspaces%3Fsort%3Dname");
  expect(addReturnUrl("/mfa", "/")).toBe("/mfa");
});

describe("the page to return to after a detour", () => {
  test("after a detour from a page, the person returns to that page's URL", () => {
    expect(getDestination(requestOf("GET", { path: "/a?b=c", referer: `${origin}/other` }), context)).toBe("/a?b=c");
  });

  test("after a detour from a form submission, the person returns to the page that contains the form", () => {
    const request = requestOf("POST", { path: "/a/remove", referer: `${origin}/a?tab=2` });
    expect(getDestination(request, context)).toBe("/a?tab=2");
  });

  test.each([undefined, "https://evil.example/a", `${origin}.evil.example/`, "not an address"])(
    "after a detour from a form sent with the referer %s, the person returns to the form's URL without the query",
    (referer) => {
      const request = requestOf("POST", { path: "/a?intent=b", ...(referer === undefined ? {} : { referer }) });
      expect(getDestination(request, context)).toBe("/a");
    },
  );

  test.each([
    ["GET", "/a/usage.csv?from=1"],
    ["POST", "/post"],
  ])(
    "a detour from %s %s, which is not a page, ends at the referring page, or else at the start page",
    (method, path) => {
      expect(getDestination(requestOf(method, { path, referer: `${origin}/a?tab=2` }), context)).toBe("/a?tab=2");
      expect(getDestination(requestOf(method, { path, referer: `${origin}/a.csv` }), context)).toBe("/");
      expect(getDestination(requestOf(method, { path }), context)).toBe("/");
    },
  );

  test("after a detour, the person always returns to a URL on our origin", () => {
    expect(getDestination(requestOf("GET", { path: "//evil.example" }), context)).toBe("/");
  });
});
