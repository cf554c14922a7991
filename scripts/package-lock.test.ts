import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

type Locked = { version?: string; optionalDependencies?: Record<string, string> };

const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as { packages: Record<string, Locked> };
const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Record<string, Record<string, string>>;
const lockedNames = new Set(Object.keys(packages).map((path) => path.slice(path.lastIndexOf("node_modules/") + 13)));

test("the lock names the packages of every platform, or `npm ci` fails on a clean checkout", () => {
  const missing = Object.values(packages).flatMap(({ optionalDependencies = {} }) =>
    Object.keys(optionalDependencies).filter((name) => !lockedNames.has(name)),
  );
  expect(missing).toEqual([]);
  const unversioned = Object.entries(packages).filter(([path, { version }]) => path !== "" && !version);
  expect(unversioned).toEqual([]);
});

test("every version of ours is exact", () => {
  for (const field of ["dependencies", "devDependencies", "overrides"]) {
    for (const [name, version] of Object.entries(manifest[field] ?? {}))
      expect(version, name).toMatch(/^(npm:[a-z@/-]+@)?\d+\.\d+\.\d+/);
  }
});
