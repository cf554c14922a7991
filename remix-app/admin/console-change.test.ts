import { expect, test } from "vitest";
import { confirms } from "./console-change.ts";

test.each([
  ["ada@example.com", "Ada@Example.com"],
  ["Orbit two", "Orbit  two"],
])("the typed text %j confirms the name %j", (typed, name) => {
  expect(confirms(typed, name)).toBe(true);
});

test.each([
  ["Orbittwo", "Orbit two"],
  ["ada@example.co", "ada@example.com"],
  ["", ""],
  ["", "\u00a0"],
])("the typed text %j does not confirm the name %j", (typed, name) => {
  expect(confirms(typed, name)).toBe(false);
});
