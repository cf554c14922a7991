import { expect, test } from "vitest";
import { findMissingPackages } from "./previous-release.ts";

const lock = (packages: Record<string, string>) =>
  JSON.stringify({
    packages: {
      "": { version: "0.1.0" },
      ...Object.fromEntries(Object.entries(packages).map(([name, version]) => [`node_modules/${name}`, { version }])),
    },
  });

test.each([
  ["the same packages", { zod: "4.6.7" }, { zod: "4.6.7" }, []],
  ["one more package", { zod: "4.6.7" }, { zod: "4.6.7", hono: "4.13.19" }, []],
  ["another version", { zod: "4.6.7" }, { zod: "4.6.8" }, ["zod@4.6.7"]],
  ["a package that is gone", { zod: "4.6.7", hono: "4.13.19" }, { zod: "4.6.7" }, ["hono@4.13.19"]],
])("a release can run with %s: missing %j", (_, needed, installed, missing) => {
  expect(findMissingPackages(lock(needed), lock(installed))).toEqual(missing);
});
