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
  ["a newer minor version", { zod: "4.6.7" }, { zod: "4.7.0" }, []],
  ["an older patch", { zod: "4.6.7" }, { zod: "4.6.6" }, ["zod@4.6.7"]],
  ["a different major version", { zod: "4.6.7" }, { zod: "5.6.7" }, ["zod@4.6.7"]],
  ["a newer patch before 1.0", { pg: "0.3.1" }, { pg: "0.3.2" }, []],
  ["a newer minor version before 1.0", { pg: "0.3.1" }, { pg: "0.4.1" }, ["pg@0.3.1"]],
  ["a different beta version", { pg: "1.0.0-beta.1" }, { pg: "1.0.0-beta.2" }, ["pg@1.0.0-beta.1"]],
  ["another Supabase CLI", { supabase: "3.1.0" }, { supabase: "2.117.0" }, []],
  ["a removed package", { zod: "4.6.7", hono: "4.13.19" }, { zod: "4.6.7" }, ["hono@4.13.19"]],
])(
  "names the packages that the previous release needs but that are not installed (installed: %s; needed: %j)",
  (_, needed, installed, missing) => {
    expect(findMissingPackages(lock(needed), lock(installed))).toEqual(missing);
  },
);
