import { expect, test } from "vitest";
import { nestsTooDeeply } from "./nesting.ts";

const nested = (depth: number) => `${'{"a":['.repeat(depth / 2)}1,"${"x".repeat(1_000)}"${"]}".repeat(depth / 2)}`;

test.for([
  [2, false],
  [500, false],
  [502, true],
  [100_000, true],
] as const)("checks whether JSON nested %i levels deep is too deep: %s", ([depth, deep]) => {
  const text = nested(depth);
  expect(nestsTooDeeply(JSON.parse(text), text)).toBe(deep);
});
