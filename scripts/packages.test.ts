import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";

type Import = { from: string; to: string };

const sources = "{deploy,e2e,images,monitoring,packages/*,remix-app,satellites,scripts,supabase}/**/*.{ts,tsx}";
const isTest = (file: string) =>
  /\.(test|spec)\.tsx?$|^(deploy|e2e|images|monitoring|supabase\/tests|scripts|remix-app\/testing)\/|\/contract\//.test(
    file,
  );
const files = globSync(sources, { exclude: ["**/node_modules/**", "**/dist/**", "packages/satellite/examples/**"] });

/** Every import of our own code, with relative paths resolved and `#shared/` and `#satellite/` replaced. */
const imports: Import[] = files.flatMap((from) =>
  [...readFileSync(from, "utf8").matchAll(/(?:from|import) ?\(?"((?:\.|#|@gatehousehq\/)[^"]+)"/g)].map(
    ([, name = ""]) => ({ from, to: resolve(from, name) }),
  ),
);

function resolve(from: string, name: string): string {
  if (name.startsWith(".")) return path.join(path.dirname(from), name);
  if (name.startsWith("#shared/")) return `supabase/functions/_shared/${name.slice(8)}`;
  return name.startsWith("#satellite/") ? `packages/satellite/src/${name.slice(11)}.ts` : name;
}

const manifestOf = (name: string) =>
  JSON.parse(readFileSync(`packages/${name}/package.json`, "utf8")) as {
    name: string;
    version: string;
    private?: boolean;
    exports: Record<string, string | { types: string; default: string }>;
    dependencies?: Record<string, string>;
    publishConfig?: { access: string };
  };
const isIn = (name: string) => (file: string) => file.startsWith(`packages/${name}/`);
const show = (found: readonly Import[]) => found.map(({ from, to }) => `${from} imports ${to}`);

/** Returns the product's imports of a package that is not deployed. */
function importsByProduct(name: string, all: readonly Import[]): Import[] {
  return all.filter(
    ({ from, to }) => (isIn(name)(to) || to.startsWith(`@gatehousehq/${name}`)) && !isIn(name)(from) && !isTest(from),
  );
}

/** Returns the imports of a package's modules, other than tests, that lead out of the package. */
function importsOutOf(name: string, all: readonly Import[]): Import[] {
  return all.filter(({ from, to }) => isIn(name)(from) && !isTest(from) && !isIn(name)(to));
}

describe("the packages next to the product", () => {
  test.each(["cli", "local-stack"])("nothing of the product imports packages/%s", (name) => {
    expect(show(importsByProduct(name, imports))).toEqual([]);
  });

  test.each(["cli", "satellite"])("packages/%s imports nothing of the product", (name) => {
    expect(show(importsOutOf(name, imports))).toEqual([]);
  });

  test("packages/local-stack takes only exact JSON from the product, to read the gateway's recorded responses", () => {
    const out = importsOutOf("local-stack", imports);
    expect(show(out)).toEqual([
      "packages/local-stack/services/provider/fixtures.ts imports supabase/functions/_shared/exact-json.ts",
    ]);
  });

  test("code outside packages/local-stack imports it by its exports, and uses each of them", () => {
    const outside = imports.filter(({ from }) => !isIn("local-stack")(from));
    expect(show(outside.filter(({ to }) => isIn("local-stack")(to)))).toEqual([]);
    const used = new Set(outside.flatMap(({ to }) => /^@gatehousehq\/local-stack\/(.*)$/.exec(to)?.[1] ?? []));
    expect(Object.keys(manifestOf("local-stack").exports).toSorted()).toEqual(
      [...used].map((name) => `./${name}`).toSorted(),
    );
  });

  test("packages/cli depends on a YAML parser and zod only", () => {
    expect(Object.keys(manifestOf("cli").dependencies ?? {})).toEqual(["yaml", "zod"]);
  });

  test.for<[string, Import, (all: readonly Import[]) => Import[]]>([
    [
      "a function that imports the local stack",
      { from: "supabase/functions/_gateway/database/database.ts", to: "@gatehousehq/local-stack/database" },
      (all) => importsByProduct("local-stack", all),
    ],
    [
      "a route that imports the command line",
      { from: "remix-app/routes/home.tsx", to: "packages/cli/src/store.ts" },
      (all) => importsByProduct("cli", all),
    ],
    [
      "a command line that imports shared code",
      { from: "packages/cli/src/login.ts", to: "supabase/functions/_shared/loopback.ts" },
      (all) => importsOutOf("cli", all),
    ],
  ])("the check of the packages detects %s", ([, wrong, find]) => {
    expect(find([wrong])).toEqual([wrong]);
  });
});

describe("what is published", () => {
  const scope = manifestOf("cli").name.split("/")[0];
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };

  test.each(["cli", "satellite"])("packages/%s is public, in the project's scope and with its version", (name) => {
    const manifest = manifestOf(name);
    expect(manifest).toMatchObject({ name: `${scope}/${name}`, version, publishConfig: { access: "public" } });
    expect(manifest.private).toBeUndefined();
  });

  test("packages/local-stack is not published", () => {
    expect(manifestOf("local-stack")).toMatchObject({ name: `${scope}/local-stack`, private: true });
  });

  test("each entry of packages/satellite has its types", () => {
    for (const entry of Object.values(manifestOf("satellite").exports)) {
      const { types, default: code } = entry as { types: string; default: string };
      expect(types).toBe(code.replace(/\.js$/, ".d.ts"));
      expect(files).toContain(code.replace(/^\.\/dist\/(.*)\.js$/, "packages/satellite/src/$1.ts"));
    }
  });
});

/** Licenses whose terms don't extend to the product that uses the package. */
const permissiveLicenses = [
  "0BSD",
  "Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "BlueOak-1.0.0",
  "ISC",
  "MIT",
  "MIT-0",
  "Unlicense",
];

type LockedPackage = { license?: string; dev?: boolean; devOptional?: boolean; link?: boolean };

/** Returns the production dependencies whose license is missing or not known to be permissive, by SPDX expression. */
function findOtherLicenses(packages: Record<string, LockedPackage>): string[] {
  return Object.entries(packages).flatMap(([place, { license, dev, devOptional, link }]) => {
    if (!place.includes("node_modules/") || dev || devOptional || link) return [];
    const isPermissive = (expression: string): boolean => {
      const text = expression.trim().replace(/^\((.*)\)$/, "$1");
      if (text.includes(" OR ")) return text.split(" OR ").some(isPermissive);
      if (text.includes(" AND ")) return text.split(" AND ").every(isPermissive);
      return permissiveLicenses.includes(text);
    };
    return license !== undefined && isPermissive(license) ? [] : [`${place}: ${license ?? "no license"}`];
  });
}

describe("licenses of production dependencies", () => {
  const lock = JSON.parse(readFileSync("package-lock.json", "utf8")) as { packages: Record<string, LockedPackage> };

  test("every production dependency has a permissive license", () => {
    expect(findOtherLicenses(lock.packages)).toEqual([]);
  });

  test.for<[string, LockedPackage, string[]]>([
    ["a copyleft license", { license: "AGPL-3.0-only" }, ["node_modules/x: AGPL-3.0-only"]],
    ["a license that is not named", {}, ["node_modules/x: no license"]],
    [
      "a combination with a copyleft license",
      { license: "(MIT AND LGPL-3.0)" },
      ["node_modules/x: (MIT AND LGPL-3.0)"],
    ],
    ["a choice that includes a permissive license", { license: "(GPL-2.0 OR MIT)" }, []],
    ["a copyleft license of a development tool", { license: "GPL-3.0", dev: true }, []],
  ])("the check of licenses judges %s", ([, found, expected]) => {
    expect(findOtherLicenses({ "node_modules/x": found })).toEqual(expected);
  });
});
