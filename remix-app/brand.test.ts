import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { defaultName } from "./config/brand.ts";

test("only files on the test's list contain the product's name", () => {
  const files = globSync("remix-app/**/*.{ts,tsx,js}", { exclude: ["**/*.test.ts", "remix-app/testing/**"] });
  const naming = files.filter((file) => readFileSync(file, "utf8").includes(defaultName));
  expect(naming.sort()).toEqual([
    // Removes the name from the titles of API documents.
    "remix-app/api-reference/navigation.ts",
    "remix-app/config/brand.ts",
    // Shows the product's name in the example address of an error message.
    "remix-app/config/env.server.ts",
  ]);
});
