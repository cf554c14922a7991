import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";

type Import = { from: string; to: string };

const sources = "{e2e,packages/*,remix-app,satellites,scripts,supabase}/**/*.{ts,tsx}";
const isTest = (file: string) =>
  /\.(test|spec)\.tsx?$|^(e2e|supabase\/tests|scripts|remix-app\/testing)\/|\/contract\//.test(file);
const files = globSync(sources, { exclude: ["**/node_modules/**", "**/dist/**", "packages/satellite/examples/**"] });

/** Every import of our own code, with relative paths resolved and `#shared/` and `#satellite/` replaced. */
const imports: Import[] = files.flatMap((from) =>
  [...readFileSync(from, "utf8").matchAll(/(?:from|import) ?\(?"((?:\.|#|@gatehouse\/)[^"]+)"/g)].map(
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
    exports: Record<string, string>;
    dependencies?: Record<string, string>;
  };
const isIn = (name: string) => (file: string) => file.startsWith(`packages/${name}/`);
const show = (found: readonly Import[]) => found.map(({ from, to }) => `${from} imports ${to}`);

/** Returns the product's imports of a package that is not deployed. */
function importsByProduct(name: string, all: readonly Import[]): Import[] {
  return all.filter(
    ({ from, to }) => (isIn(name)(to) || to.startsWith(`@gatehouse/${name}`)) && !isIn(name)(from) && !isTest(from),
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
    const used = new Set(outside.flatMap(({ to }) => /^@gatehouse\/local-stack\/(.*)$/.exec(to)?.[1] ?? []));
    expect(Object.keys(manifestOf("local-stack").exports).toSorted()).toEqual(
      [...used].map((name) => `./${name}`).toSorted(),
    );
  });

  test("packages/cli depends on zod only", () => {
    expect(Object.keys(manifestOf("cli").dependencies ?? {})).toEqual(["zod"]);
  });

  test.for<[string, Import, (all: readonly Import[]) => Import[]]>([
    [
      "a function that imports the local stack",
      { from: "supabase/functions/_gateway/database/database.ts", to: "@gatehouse/local-stack/database" },
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
