import { expect, test } from "vitest";
import { basicAuthorization, basicCredentials } from "./authorization.ts";

test("Basic credentials can be written and read back unchanged", () => {
  const credentials = { name: "notes", secret: "s:with:colons=and+more/Ü" };
  expect(basicCredentials(basicAuthorization(credentials))).toEqual(credentials);
});

test("reads RFC 7617's own example, with the scheme in upper or lower case", () => {
  const example = { name: "Aladdin", secret: "open sesame" };
  expect(basicCredentials("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")).toEqual(example);
  expect(basicCredentials("basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ==")).toEqual(example);
});

const encode = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;

test.each([
  null,
  "",
  "Basic",
  "Basic ",
  "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
  "Basic not base64!",
  "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==, Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
  encode("nocolon"),
  encode(":secret"),
  encode("name:"),
  encode("na\nme:secret"),
  encode("name:sec\0ret"),
  encode(`name:${"s".repeat(257)}`),
  encode(`${"n".repeat(129)}:secret`),
])("%j is not a Basic credential", (authorization) => {
  expect(basicCredentials(authorization)).toBeNull();
});
