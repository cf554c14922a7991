import { expect, test } from "vitest";
import { confirms } from "./console-change.ts";

test.each([
  ["ada@example.com", "Ada@Example.com"],
  ["Orbit two", "Orbit  two"],
])("typing %j confirms %j as pages show it", (typed, name) => {
  expect(confirms(typed, name)).toBe(true);
});

test.each([
  ["Orbittwo", "Orbit two"],
  ["ada@example.co", "ada@example.com"],
  ["", ""],
  ["", "\u00a0"],
])("typing %j does not confirm %j", (typed, name) => {
  expect(confirms(typed, name)).toBe(false);
});
