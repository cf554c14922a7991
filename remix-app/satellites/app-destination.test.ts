import fc from "fast-check";
import { expect, test } from "vitest";
import { continuePath, parseAddress, verifyTokenAddress } from "./app-destination.ts";

test.each([
  "",
  "/path",
  "//notes.example",
  "javascript:alert(1)",
  "ftp://notes.example/",
  "https:notes.example",
  "https:///notes.example",
  "https://user@notes.example/",
  "https://user:pass@notes.example/",
  "https://notes.example\\@evil.example/",
  "https://notes.example/\n",
  " https://notes.example/",
  `https://notes.example/${"x".repeat(2_048)}`,
  null,
  7,
])("%j is not a valid app URL", (address) => {
  expect(parseAddress(address)).toBeNull();
});

test.each([
  ["https://notes.example", "https://notes.example"],
  ["HTTPS://Notes.Example:443/a?b#c", "https://notes.example"],
  ["http://localhost:3100/x", "http://localhost:3100"],
  ["https://notes.example.evil.example/", "https://notes.example.evil.example"],
])("the app URL %s has the origin %s", (address, origin) => {
  expect(parseAddress(address)?.origin).toBe(origin);
});

test("every valid app URL leads only to its own origin", () => {
  fc.assert(
    fc.property(fc.oneof(fc.webUrl({ withQueryParameters: true, withFragments: true }), fc.string()), (address) => {
      const url = parseAddress(address);
      if (!url) return;
      const app = { name: "notes", displayName: "Notes", enabled: true, scopes: [] };
      const there = new URL(verifyTokenAddress({ app, origin: url.origin, nextUrl: "/" }, { token: "t", state: null }));
      expect(there.origin).toBe(url.origin);
      expect(there.pathname).toBe("/verify-token");
    }),
    { numRuns: 10_000 },
  );
});

test("a valid state is passed on to the app, and an invalid one is dropped", () => {
  const address = "https://notes.example/a";
  expect(continuePath(address, "s-1")).toBe("/continue?returnUrl=https%3A%2F%2Fnotes.example%2Fa&state=s-1");
  expect(continuePath(address, "a&b=c")).toBe("/continue?returnUrl=https%3A%2F%2Fnotes.example%2Fa");
  expect(continuePath(address, null)).not.toContain("state");
});
