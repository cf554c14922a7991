import { expect, test } from "vitest";
import { returnPath } from "./return-path.ts";

const origin = "https://notes.example.com";
const path = (input: unknown) => returnPath(input, origin, (pathname) => pathname === "/sign-out");

test.each([
  ["/w/1?x=2#y", "/w/1?x=2#y"],
  [`${origin}/w/1`, "/w/1"],
  [origin, "/"],
  [`/${"a".repeat(2_047)}`, `/${"a".repeat(2_047)}`],
])("returns to %s after a sign-in", (input, expected) => {
  expect(path(input)).toBe(expected);
});

test.each([
  `/${"a".repeat(2_048)}`,
  `${origin}.evil.example/`,
  `${origin}@evil.example/`,
  "https://evil.example/",
  "//evil.example",
  "/\\evil.example",
  "/.//evil.example",
  "javascript:alert(1)",
  "/a\nb",
  "/sign-out",
  "w/1",
  null,
])("returns to / instead of %s after a sign-in", (input) => {
  expect(path(input)).toBe("/");
});
