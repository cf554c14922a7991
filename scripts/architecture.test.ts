import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { areaOf, arrowsOf, cycles, importsOf, readArrows, sourceFiles, violations } from "./areas.ts";

const document = readFileSync("docs/architecture.md", "utf8");

type Tree = { name: string; root: string; wrong: [string, string, string][]; cycle: [string, string] };
const trees: Tree[] = [
  {
    name: "web server",
    root: "remix-app/",
    wrong: [
      ["a feature imported by ui", "ui/button.tsx", "session/user.ts"],
      ["a route imported by an area", "studio/range.ts", "routes/home.tsx"],
      ["the root imported by an area", "ui/site.ts", "root.tsx"],
      ["an area without a row in the table", "elsewhere/a.ts", "http/problem.ts"],
    ],
    cycle: ["http", "session"],
  },
  {
    name: "gateway",
    root: "supabase/functions/_gateway/",
    wrong: [
      ["a path of the API imported by answers", "answers/sse.ts", "chat/schema.ts"],
      ["answers imported by providers", "providers/provider.ts", "answers/sse.ts"],
      ["the assembly imported by an area", "runs/run.ts", "assemble-gateway.ts"],
      ["an area without a row in the table", "elsewhere/a.ts", "http/errors.ts"],
    ],
    cycle: ["http", "answers"],
  },
];

describe.for(trees)("areas of the $name", ({ name, root, wrong, cycle }) => {
  const files = sourceFiles(root);
  const imports = importsOf(files);
  const arrows = readArrows(document, `Areas of the ${name}`);

  test(`every folder of the ${name} is an area in the architecture table, and every area is a folder`, () => {
    const folders = new Set(files.flatMap((file) => areaOf(file, root) ?? []));
    expect([...arrows.keys()].toSorted()).toEqual([...folders].toSorted());
  });

  test(`each area of the ${name} imports only the areas that the architecture table allows`, () => {
    expect(violations(imports, { arrows, root })).toEqual([]);
  });

  test(`every import that the architecture table allows in the ${name} exists in the code`, () => {
    const used = new Set(imports.map(({ from, to }) => `${areaOf(from, root)} ${areaOf(to, root)}`));
    const allowed = [...arrows].filter(([area]) => area !== "routes");
    const pairs = allowed.flatMap(([area, targets]) => targets.map((target) => `${area} ${target}`));
    expect(pairs.filter((pair) => !used.has(pair))).toEqual([]);
  });

  test(`the imports that the architecture table allows in the ${name} form no cycle`, () => {
    expect(cycles(arrows)).toEqual([]);
  });

  test(`the files of the ${name} import no values in a cycle`, () => {
    expect(cycles(arrowsOf(imports.filter(({ isType }) => !isType)))).toEqual([]);
  });

  test.for(wrong)(`the architecture check of the ${name} detects %s`, ([, from, to]) => {
    const use = { from: `${root}${from}`, to: `${root}${to}` };
    expect(violations([use], { arrows, root })).toEqual([`${root}${from} uses ${root}${to}`]);
  });

  test(`the architecture check of the ${name} detects a cycle of areas and of files`, () => {
    const [low, high] = cycle;
    expect(cycles(new Map([...arrows, [low, [high]]]))).toEqual(expect.arrayContaining([low, high]));
    const imported = imports.find(({ isType }) => !isType) ?? { from: "", to: "" };
    const back = { from: imported.to, to: imported.from };
    expect(cycles(arrowsOf([imported, back])).toSorted()).toEqual([imported.from, imported.to].toSorted());
  });
});

test("a unit test of the gateway has the name of a module or a folder next to it", () => {
  const tests = globSync("supabase/functions/_gateway/**/*.test.ts").filter((file) => /\/[\w-]+\.test\.ts$/.test(file));
  const named = (file: string, end: string) => existsSync(file.replace(/\.test\.ts$/, end));
  expect(tests.filter((file) => !named(file, ".ts") && !named(file, ""))).toEqual([]);
});

test("only http/body-limit.ts reads the body of a request, because it limits the size", () => {
  const reads = /\brequest\.(?:text|json|formData|arrayBuffer|blob|bytes|clone)\(|\brequest\.body\b/;
  const modules = globSync("remix-app/**/*.{ts,tsx}").filter((file) => !/\.test\.|testing\//.test(file));
  const readers = modules.filter((file) => reads.test(readFileSync(file, "utf8")));
  // route-parts.ts passes the unread body on.
  expect(readers.map((file) => file.split(path.sep).join("/")).toSorted()).toEqual([
    "remix-app/http/body-limit.ts",
    "remix-app/http/route-parts.ts",
  ]);
});
