import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

type Locked = {
  version?: string;
  integrity?: string;
  resolved?: string;
  optionalDependencies?: Record<string, string>;
};

const text = readFileSync("package-lock.json", "utf8");
const { packages } = JSON.parse(text) as { packages: Record<string, Locked> };
const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Record<string, Record<string, string>>;
const locked = Object.entries(packages).filter(([path]) => path !== "");
const nameOf = (path: string) => path.slice(path.lastIndexOf("node_modules/") + 13);

/**
 * Resolves a package name like `import` does: returns the package in the folder's own `node_modules`, or else in the
 * nearest parent folder's.
 */
function resolve(from: string, name: string): Locked | undefined {
  const own = packages[`${from}${from === "" ? "" : "/"}node_modules/${name}`];
  return own || from === "" ? own : resolve(from.slice(0, Math.max(from.lastIndexOf("/node_modules/"), 0)), name);
}

test("package-lock.json has the packages of every platform, so that `npm ci` works on a clean checkout", () => {
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.entries(optionalDependencies)
      .filter(([name, range]) => {
        const version = resolve(path, name)?.version;
        return !version || (/^\d/.test(range) && version !== range);
      })
      .map(([name, range]) => `${path} needs ${name} ${range}`),
  );
  expect(missing).toEqual([]);
  expect(locked.filter(([, { version }]) => !version)).toEqual([]);
});

/** Packages for other systems whose versions were missing in the registry when this lock file was written. */
const unhashable =
  /^node_modules\/(@node-rs\/bcrypt-|deno-hosted\/node_modules\/@deno\/)(?!linux-x64-(gnu|glibc)$)[\w-]+$/;

test("package-lock.json has a SHA-512 hash of every locked package that the registry has, including packages for other platforms", () => {
  const unhashed = locked.filter(([, { integrity }]) => !integrity?.match(/^sha512-[A-Za-z0-9+/]{86}==$/));
  expect(unhashed.map(([path]) => path).filter((path) => !unhashable.test(path))).toEqual([]);
});

test("package-lock.json names no registry host, so that any mirror works", () => {
  expect(locked.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
  expect(text).not.toMatch(/\bregistry\.|\.tgz\b/);
});

// 6.30.6 fixes GHSA-jjmj-jmhj-qwj2, an open redirect; Remix 2.17.5 itself requires 6.30.4.
test("package-lock.json has only one version of React Router, without the open redirect of 6.30.4", () => {
  const routers = locked.filter(([path]) => ["react-router", "react-router-dom"].includes(nameOf(path)));
  expect(routers.map(([, { version }]) => version)).toEqual(["6.30.6", "6.30.6"]);
  expect(packages["node_modules/@remix-run/router"]?.version).toBe("1.23.4");
});

test("all our dependencies have exact versions", () => {
  for (const field of ["dependencies", "devDependencies", "overrides"]) {
    for (const [name, version] of Object.entries(manifest[field] ?? {}))
      expect(version, name).toMatch(/^(npm:[a-z@/-]+@)?\d+\.\d+\.\d+/);
  }
});
