import { expect, test } from "vitest";
import { bearerToken, isBearer, openidBearerToken, serviceBearerToken } from "./authorization.ts";

test.each(["Bearer a.b.c", "bearer   a.b.c", "BEARER a.b.c"])("reads the bearer token of %j", (authorization) => {
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
])("finds no bearer token in %j", (authorization) => {
  expect(bearerToken(authorization)).toBeNull();
});

const accessToken = `gho_${"aB3-_".repeat(9).slice(0, 43)}`;

test("reads an OpenID client's access token, and doesn't take it for a person's session", () => {
  expect(openidBearerToken(`Bearer ${accessToken}`)).toBe(accessToken);
  expect(bearerToken(`Bearer ${accessToken}`)).toBeNull();
});

test.each([
  null,
  accessToken,
  `Basic ${accessToken}`,
  `Bearer ${accessToken}A`,
  `Bearer ${accessToken.slice(0, -1)}`,
  `Bearer ${accessToken.replace("gho_", "ghr_")}`,
  "Bearer a.b.c",
])("finds no OpenID client's access token in %j", (authorization) => {
  expect(openidBearerToken(authorization)).toBeNull();
});

const serviceToken = accessToken.replace("gho_", "ghs_");

test("reads a service account's token, and doesn't take it for a person's session or an OpenID client's token", () => {
  const authorization = `Bearer ${serviceToken}`;
  expect(serviceBearerToken(authorization)).toBe(serviceToken);
  expect([bearerToken(authorization), openidBearerToken(authorization)]).toEqual([null, null]);
  expect(isBearer(authorization)).toBe(true);
});

test.each([
  null,
  serviceToken,
  `Basic ${serviceToken}`,
  `Bearer ${serviceToken}A`,
  `Bearer ${serviceToken.slice(0, -1)}`,
  `Bearer ${accessToken}`,
  "Bearer a.b.c",
])("finds no service account's token in %j", (authorization) => {
  expect(serviceBearerToken(authorization)).toBeNull();
});
