import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { areaOf, arrowsOf, cycles, readArrows, violations } from "./areas.ts";
import { type Definition, readSchemaFiles } from "./database/schema-files.ts";

const root = "supabase/schemas/";

/** A use of a function or view of one schema file in another file. */
type Use = { from: string; to: string };

/** Matches strings as well, because dynamic SQL in a string is code, and `--` in a string begins no comment. */
const stringOrComment = /'(?:[^']|'')*'|--[^\n]*|\/\*[\s\S]*?\*\//g;

/** Returns the uses of functions and views by the functions, views and triggers of other files. */
function usesOf(definitions: readonly Pick<Definition, "file" | "text" | "object">[]): Use[] {
  const files = { function: new Map<string, Set<string>>(), view: new Map<string, Set<string>>() };
  for (const { file, object } of definitions) {
    if (object.kind === "trigger") continue;
    const name = `${object.schema}.${object.name}`;
    const names = files[object.kind];
    names.set(name, (names.get(name) ?? new Set<string>()).add(file));
  }
  return definitions.flatMap(({ file: from, text }) => {
    const code = text.replace(stringOrComment, (part) => (part.startsWith("'") ? part : ""));
    return [...code.matchAll(/\b(\w+\.\w+)\b(\s*\()?/g)].flatMap(([, name = "", call]) => {
      const owners = [...(files.view.get(name) ?? []), ...((call && files.function.get(name)) || [])];
      return owners.filter((to) => to !== from).map((to) => ({ from, to }));
    });
  });
}

const { definitions } = await readSchemaFiles(root, { version: "" });
const uses = usesOf(definitions);
const arrows = readArrows(readFileSync("docs/architecture.md", "utf8"), "Areas of the database");
const folders = new Set(definitions.flatMap(({ file }) => areaOf(file, root) ?? []));

test("every folder of the schemas is an area in the architecture table, and every area is a folder", () => {
  expect([...arrows.keys()].toSorted()).toEqual([...folders].toSorted());
});

test("each area of the database uses only the areas that the architecture table allows", () => {
  expect(violations(uses, { arrows, root })).toEqual([]);
});

test("every use that the architecture table allows in the database exists in the schemas", () => {
  const found = new Set(uses.map(({ from, to }) => `${areaOf(from, root)} ${areaOf(to, root)}`));
  const allowed = [...arrows].flatMap(([area, targets]) => targets.map((target) => `${area} ${target}`));
  expect(allowed.filter((pair) => !found.has(pair))).toEqual([]);
});

test("the uses that the architecture table allows in the database form no cycle", () => {
  expect(cycles(arrows)).toEqual([]);
});

test("the schema files use each other in no cycle", () => {
  expect(cycles(arrowsOf(uses))).toEqual([]);
});

const functionOf = (body: string) => `create or replace function private.probe() returns void as $$\n${body}\n$$`;

test.for([
  [
    "a call of a higher area",
    "shared/probe.sql",
    functionOf("select private.end_all_access(null);"),
    "accounts/end-credentials.sql",
  ],
  [
    "a call in dynamic SQL",
    "apps/probe.sql",
    functionOf("execute 'select ai.run_detail(1) -- x';"),
    "studio/run-detail.sql",
  ],
  [
    "a call after a string with dashes",
    "apps/probe.sql",
    functionOf("select '--', ai.run_detail (1);"),
    "studio/run-detail.sql",
  ],
  [
    "a view that reads a view of a higher area",
    "usage/probe.sql",
    "create or replace view ai.probe as select * from ai.cost_book_entries",
    "finance/cost-books.sql",
  ],
  [
    "a trigger that executes a function of a higher area",
    "workspaces/probe.sql",
    "create or replace trigger probe after insert on public.workspaces execute function ai.reset_credit_alert()",
    "gateway/credits.sql",
  ],
  [
    "an area without a row in the table",
    "elsewhere/probe.sql",
    functionOf("select ai.utc_text(now());"),
    "shared/conversions.sql",
  ],
])("the architecture check of the database detects %s", ([, from = "", text = "", to]) => {
  const probe = { file: root + from, text, object: { kind: "view", schema: "private", name: "probe" } } as const;
  const added = usesOf([...definitions, probe]).filter((use) => use.from === probe.file);
  expect(violations(added, { arrows, root })).toEqual([`${root}${from} uses ${root}${to}`]);
});

test.for([
  ["a comment", "-- See ai.run_detail(run).\nselect /* ai.run_detail(run) */ 1;"],
  ["the name of a lock", "select pg_advisory_xact_lock(hashtextextended('ai.sweep_runs', 0));"],
])("the architecture check of the database ignores a function that %s names", ([, body = ""]) => {
  const object = { kind: "view", schema: "private", name: "probe" } as const;
  const added = usesOf([...definitions, { file: `${root}shared/probe.sql`, text: functionOf(body), object }]);
  expect(added).toEqual(uses);
});

test.for([
  ["between areas", "shared", "console"],
  ["between files", `${root}shared/conversions.sql`, `${root}console/runs.sql`],
])("the architecture check of the database detects a cycle %s", ([, from = "", to = ""]) => {
  const own = folders.has(from) ? arrows : arrowsOf(uses);
  expect(cycles(new Map([...own, [from, [to]]]))).toEqual(expect.arrayContaining([from, to]));
});

test("a test of the database lies in the folder of the area that it tests", () => {
  const files = globSync("supabase/tests/*/*.ts").map((file) => file.split(path.sep).slice(-2));
  const misplaced = files.filter(([folder = "", name = ""]) => {
    const owners = definitions.filter(({ file }) => path.basename(file, ".sql") === name.replace(".test.ts", ""));
    const isOwner = owners.length === 0 || owners.some(({ file }) => areaOf(file, root) === folder);
    // Direct calls of the identity backend run the triggers of auth-schema.sql, which is outside the areas.
    return folder !== "direct-calls" && !(folders.has(folder) && isOwner);
  });
  expect(misplaced).toEqual([]);
});

test("grants.sql lists each function below its area", () => {
  const owners = new Map(
    definitions.map(({ file, object }) => [`${object.schema}.${object.name}`, areaOf(file, root)]),
  );
  const sections = readFileSync(`${root}grants.sql`, "utf8").matchAll(/^-- Functions of ([\w-]+)\/\.\n([^;]*);/gm);
  const listed = [...sections].flatMap(([, area = "", text = ""]) =>
    [...text.replace(/--[^\n]*/g, "").matchAll(/^\s+(\w+\.\w+)/gm)].map(([, name = ""]) => ({ name, area })),
  );
  expect(listed.length).toBeGreaterThan(300);
  expect(listed.filter(({ name, area }) => owners.get(name) !== area)).toEqual([]);
});
