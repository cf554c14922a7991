import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const root = "remix-app/";
const routes = "routes";
type Import = { from: string; to: string };
type Arrows = ReadonlyMap<string, readonly string[]>;

/** Reads the areas and their allowed imports from the table in docs/architecture.md. `all` means every other area. */
function readArrows(document: string): Arrows {
  const section = document.split("\n## ").find((text) => text.startsWith("Areas of the web server")) ?? "";
  const rows = [...section.matchAll(/^\| `([\w-]+)` \|.*\| ?(.*?) ?\|$/gm)];
  const areas = rows.map(([, area = ""]) => area);
  return new Map(
    rows.map(([, area = "", may = ""]) => [
      area,
      may === "all"
        ? areas.filter((each) => each !== area)
        : [...may.matchAll(/`([\w-]+)`/g)].map(([, name = ""]) => name),
    ]),
  );
}

/** Returns a module's area, or undefined if it is outside the area folders. */
const areaOf = (file: string): string | undefined => /^remix-app\/([^/]+)\//.exec(file)?.[1];
const isTest = (file: string) => /\.(test|spec)\.tsx?$|^remix-app\/testing\//.test(file);

/** Returns the imports that are missing from the table of allowed imports. */
function violations(imports: readonly Import[], arrows: Arrows): string[] {
  const wrong = imports.filter(({ from, to }) => {
    const [source, target] = [areaOf(from), areaOf(to)];
    if (source === undefined || source === target) return false;
    return target === undefined || !arrows.get(source)?.includes(target);
  });
  return wrong.map(({ from, to }) => `${from} imports ${to}`);
}

/**
 * Returns the areas that lead into a cycle: those that remain after repeatedly removing areas that import none of the
 * others.
 */
function cycles(arrows: Arrows): string[] {
  let left = [...arrows];
  for (;;) {
    const names = new Set(left.map(([area]) => area));
    const rest = left.filter(([, may]) => may.some((name) => names.has(name)));
    if (rest.length === left.length) return rest.map(([area]) => area);
    left = rest;
  }
}

const files = globSync(`${root}**/*.{ts,tsx}`).filter((file) => !isTest(file));
const imports = files
  .flatMap((from) =>
    [...readFileSync(from, "utf8").matchAll(/(?:from|import) ?\(?"(\.[^"]+)"/g)].map(([, name = ""]) => ({
      from,
      to: path.join(path.dirname(from), name),
    })),
  )
  .filter(({ to }) => to.startsWith(root));
const arrows = readArrows(readFileSync("docs/architecture.md", "utf8"));

test("every folder of the web server is an area in the architecture table, and every area is a folder", () => {
  expect([...arrows.keys()].toSorted()).toEqual([...new Set(files.flatMap((file) => areaOf(file) ?? []))].toSorted());
});

test("each area of the web server imports only the areas that the architecture table allows", () => {
  expect(violations(imports, arrows)).toEqual([]);
});

test("every import that the architecture table allows exists in the code", () => {
  const used = new Set(imports.map(({ from, to }) => `${areaOf(from)} ${areaOf(to)}`));
  const unused = [...arrows].flatMap(([area, may]) =>
    area === routes ? [] : may.filter((name) => !used.has(`${area} ${name}`)).map((name) => `${area} ${name}`),
  );
  expect(unused).toEqual([]);
});

test("the imports that the architecture table allows form no cycle", () => {
  expect(cycles(arrows)).toEqual([]);
});

test.for([
  ["a feature imported by ui", "ui/button.tsx", "session/user.ts"],
  ["a route imported by an area", "studio/range.ts", "routes/home.tsx"],
  ["the root imported by an area", "ui/site.ts", "root.tsx"],
  ["an area without a row in the table", "elsewhere/a.ts", "http/problem.ts"],
])("the architecture check detects %s", ([, from, to]) => {
  const wrong = { from: `${root}${from}`, to: `${root}${to}` };
  expect(violations([wrong], arrows)).toEqual([`${root}${from} imports ${root}${to}`]);
});

test("the architecture check detects a cycle", () => {
  const turned = new Map([...arrows, ["http", ["session"]]] as [string, string[]][]);
  expect(cycles(turned)).toEqual(expect.arrayContaining(["http", "session"]));
});

test("only http/body-limit.ts reads the body of a request, because it limits the size", () => {
  const reads = /\brequest\.(?:text|json|formData|arrayBuffer|blob|bytes|clone)\(|\brequest\.body\b/;
  const modules = globSync(`${root}**/*.{ts,tsx}`).filter((file) => !/\.test\.|testing\//.test(file));
  const readers = modules.filter((file) => reads.test(readFileSync(file, "utf8")));
  // app.ts passes the unread body on.
  expect(readers.map((file) => file.split(path.sep).join("/")).toSorted()).toEqual([
    "remix-app/app.ts",
    "remix-app/http/body-limit.ts",
  ]);
});
