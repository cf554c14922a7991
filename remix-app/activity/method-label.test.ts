import { expect, test } from "vitest";
import { methodLabel } from "./method-label.ts";

test.each([
  ["password", "Password"],
  ["oauth:github", "GitHub"],
  // By which of the two in the mail an account was recovered.
  ["link", "Link from an email"],
  ["code", "Code from an email"],
])("the method %s is called %s", (method, label) => {
  expect(methodLabel(method)).toBe(label);
});

test("a method of tomorrow is called what it is", () => {
  expect(methodLabel("some_thing")).toBe("some thing");
});
