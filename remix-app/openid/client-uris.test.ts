import { describe, expect, test } from "vitest";
import { describeRedirectTarget, logoutUrlFault, redirectUriFault } from "./client-uris.ts";

describe("a redirect URI", () => {
  test.each([
    "https://app.example.com/callback",
    "https://app.example.com/callback?tenant=1",
    "http://localhost:3000/callback",
    "http://127.0.0.1/callback",
    "http://[::1]:4000/",
    `https://app.example.com/${"a".repeat(2_000 - "https://app.example.com/".length)}`,
  ])("accepts a redirect URI for any client: %s", (uri) => {
    expect(redirectUriFault(uri, { isPublic: false })).toBeNull();
    expect(redirectUriFault(uri, { isPublic: true })).toBeNull();
  });

  test.each([
    ["/callback", "isn’t an absolute URI"],
    ["app.example.com/callback", "isn’t an absolute URI"],
    ["https://app.example.com/a b", "isn’t an absolute URI"],
    ["", "isn’t an absolute URI"],
    ["https://app.example.com/callback#part", "has a fragment"],
    ["https://app.example.com/#", "has a fragment"],
    ["https://*.example.com/callback", "has a wildcard"],
    ["https://user@app.example.com/", "holds a username"],
    ["https://App.example.com/callback", "must be written as https://app.example.com/callback"],
    ["https://app.example.com:443/callback", "must be written as https://app.example.com/callback"],
    ["https://app.example.com/a/../callback", "must be written as https://app.example.com/callback"],
    ["https://app.example.com\\callback", "must be written as https://app.example.com/callback"],
    ["https:app.example.com/callback", "must be written as https://app.example.com/callback"],
    ["http://app.example.com/callback", "must use https"],
    ["http://localhost.example.com/", "must use https"],
    ["javascript:alert(1)", "a private-use scheme with a dot"],
    ["myapp:/callback", "a private-use scheme with a dot"],
    [`https://app.example.com/${"a".repeat(2_001 - "https://app.example.com/".length)}`, "at most 2000 characters"],
  ])("names the fault of the redirect URI %s", (uri, reason) => {
    expect(redirectUriFault(uri, { isPublic: true })).toContain(reason);
    expect(redirectUriFault(uri, { isPublic: false })).toContain(reason);
  });

  test("allows a private-use scheme with a dot for public clients only (RFC 8252 section 7.1)", () => {
    expect(redirectUriFault("com.example.app:/callback", { isPublic: true })).toBeNull();
    expect(redirectUriFault("com.example.app:/callback", { isPublic: false })).toContain("public clients only");
  });
});

describe("a logout URL", () => {
  test.each(["https://app.example.com/logout", "https://app.example.com", "http://localhost:3000/logout?x=1"])(
    "accepts a logout URL: %s",
    (url) => expect(logoutUrlFault(url)).toBeNull(),
  );

  test.each([
    ["com.example.app:/logout", "isn’t an absolute URL"],
    ["/logout", "isn’t an absolute URL"],
    ["http://app.example.com/logout", "must use https"],
    ["https://app.example.com/logout#x", "has a fragment"],
    ["https://App.example.com/logout", "must begin with https://app.example.com"],
    ["https://app.example.com:443/logout", "must begin with https://app.example.com"],
    ["https://user:x@app.example.com/logout", "holds a username"],
    ["https://10.0.0.1/logout", "has a private address"],
    ["https://169.254.169.254/logout", "has a private address"],
    ["https://app.internal/logout", "has a private address"],
    ["http://router/logout", "has a private address"],
  ])("names the fault of the logout URL %s", (url, reason) => expect(logoutUrlFault(url)).toContain(reason));
});

test.each([
  ["https://app.example.com/callback", "app.example.com"],
  ["https://app.example.com:8443/callback", "app.example.com:8443"],
  ["http://127.0.0.1:4000/callback", "127.0.0.1:4000"],
  ["com.example.app:/callback", "an app on this device"],
  ["com.example.app://bank.example/callback", "an app on this device"],
  ["vscode://bank.example/callback", "an app on this device"],
])("the redirect URI %s leads to %s", (uri, place) => {
  expect(describeRedirectTarget(uri)).toBe(place);
});
