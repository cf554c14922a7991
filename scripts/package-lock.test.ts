import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

type Locked = {
  version?: string;
  integrity?: string;
  resolved?: string;
  link?: boolean;
  optionalDependencies?: Record<string, string>;
};

const text = readFileSync("package-lock.json", "utf8");
const { packages } = JSON.parse(text) as { packages: Record<string, Locked> };
const readManifest = (folder: string) =>
  JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8")) as Record<string, Record<string, string>>;
const { workspaces } = readManifest(".") as unknown as { workspaces: string[] };
const manifests = [".", ...workspaces].map(readManifest);
/** The packages of the registry: neither this one nor its workspaces. */
const locked = Object.entries(packages).filter(([path, { link }]) => path.includes("node_modules/") && !link);
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
const unhashable = /^node_modules\/@node-rs\/bcrypt-(?!linux-x64-gnu$)[\w-]+$/;

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
  for (const manifest of manifests) {
    for (const field of ["dependencies", "devDependencies", "overrides"]) {
      for (const [name, version] of Object.entries(manifest[field] ?? {}))
        expect(version, name).toMatch(/^(npm:[a-z@/-]+@)?\d+\.\d+\.\d+/);
    }
  }
});
