import { expect, test } from "vitest";
import { bearerToken } from "./authorization.ts";

test.each(["Bearer a.b.c", "bearer   a.b.c", "BEARER a.b.c"])("the token of %j is read", (authorization) => {
  expect(bearerToken(authorization)).toBe("a.b.c");
});

test.each([
  null,
  "",
  "Bearer",
  "Bearer ",
  "Bearer x",
  "Bearer a.b",
  "Bearer a.b.c d",
  "Bearer a.b.c, Bearer d.e.f",
  "Bearera.b.c",
  "Basic YTpi",
  "Basic a.b.c",
  "a.b.c",
])("%j holds none", (authorization) => {
  expect(bearerToken(authorization)).toBeNull();
});
