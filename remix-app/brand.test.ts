import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { defaultName } from "./config/brand.ts";

test("the product's name is in one place: everything else asks for it", () => {
  const files = globSync("remix-app/**/*.{ts,tsx,js}", { exclude: ["**/*.test.ts", "remix-app/testing/**"] });
  const naming = files.filter((file) => readFileSync(file, "utf8").includes(defaultName));
  expect(naming.sort()).toEqual([
    // In the documents of our own APIs, which it takes off.
    "remix-app/api-reference/navigation.ts",
    "remix-app/config/brand.ts",
    // In the example of a message.
    "remix-app/config/env.server.ts",
  ]);
});
