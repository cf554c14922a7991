import { expect, test } from "vitest";
import { requireOwnOrigin } from "./base-api.ts";

const project = { base: "https://gatehouse.example" };

test.each(["https://gatehouse.example", "https://gatehouse.example/"])(
  "accepts a QR code from the platform's own origin if the base URL is %s",
  (base) => {
    expect(() => requireOwnOrigin({ base }, { origin: "https://gatehouse.example" })).not.toThrow();
  },
);

test.each([
  "https://evil.example",
  "http://gatehouse.example",
  "https://gatehouse.example:8443",
  "https://gatehouse.example.evil.example",
  "https://web.gatehouse.example",
  "null",
])("refuses a QR code from the origin %s and names the expected origin", (origin) => {
  expect(() => requireOwnOrigin(project, { origin })).toThrow(
    `This QR code is from ${origin}. Only codes from https://gatehouse.example are accepted, so nothing was sent.`,
  );
});
