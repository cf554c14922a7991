import { expect, test } from "vitest";
import { methodLabel } from "./method-label.ts";

test.each([
  ["password", "Password"],
  ["oauth:github", "GitHub"],
  // A recovery uses either the link or the code from the email.
  ["link", "Link from an email"],
  ["code", "Code from an email"],
])("labels the sign-in method %s as %s", (method, label) => {
  expect(methodLabel(method)).toBe(label);
});

test("labels an unknown sign-in method by its name, without underscores", () => {
  expect(methodLabel("some_thing")).toBe("some thing");
});
