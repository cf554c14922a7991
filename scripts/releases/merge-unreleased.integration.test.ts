import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { heading } from "../database/generate.ts";
import { type ScratchCluster, startScratchCluster } from "../database/scratch-cluster.ts";
import { mergeUnreleased } from "./merge-unreleased.ts";

const first = "20260101000000_first.sql";
const at = new Date("2026-03-01T10:00:00Z");
const label = (body: string) => `-- Returns the label of a note.
create or replace function public.label(title text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select ${body}
$$`;

const old = `create or replace function public.old_label() returns int
  language sql stable security invoker set search_path = ''
as $$
  select 1
$$`;

let cluster: ScratchCluster;
let folder: string;
beforeAll(async () => {
  cluster = await startScratchCluster();
}, 60_000);
afterAll(() => cluster.stop());
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "gatehouse-merged-"));
  await mkdir(path.join(folder, "migrations"));
  await mkdir(path.join(folder, "schemas"));
  await write(first, `create schema private; create schema ai; create table public.notes (title text); ${old};`);
  await writeFile(path.join(folder, "schemas/old.sql"), `${old};\n`);
});
afterEach(() => rm(folder, { recursive: true }));

const write = (file: string, sql: string) => writeFile(path.join(folder, "migrations", file), sql);
const read = (file: string) => readFile(path.join(folder, "migrations", file), "utf8");
const merge = () =>
  mergeUnreleased(
    cluster,
    { migrations: path.join(folder, "migrations"), schemas: path.join(folder, "schemas"), released: new Set([first]) },
    { prefix: "0_2_0", at },
  );

test("merges two rounds of unreleased migrations into tables, backfills, functions and validations", async () => {
  const short = "set lock_timeout = '500ms';\n";
  await rm(path.join(folder, "schemas/old.sql"));
  await write(
    first,
    `${await read(first)} create type public.mark as (sign text);
    create function public.read_mark(mark public.mark) returns text
      language sql immutable security invoker set search_path = '' as $$ select (mark).sign $$;`,
  );
  await write(
    "20260201000000_a.sql",
    `${short}-- Who wrote it.\nalter table public.notes add column author text;
    alter table public.notes add constraint named check (author <> '') not valid;`,
  );
  await write("20260201000001_b.sql", "update public.notes set author = 'Ada' where author is null;");
  await write("20260201000002_c.sql", `${short}alter table public.notes validate constraint named;`);
  await write(
    "20260201000003_d.sql",
    `${heading}\n\n-- Unused since 0.1.0.\ndrop function public.old_label();\n\ndrop function public.read_mark(public.mark);\n\n${label("'a' || title")};`,
  );
  await write(
    "20260202000000_e.sql",
    `${short}alter table public.notes add column read boolean not null default false;`,
  );
  await write("20260202000001_f.sql", `${heading}\n\n${label("'b' || title")};`);
  await write("20260202000002_g.sql", `${short}-- Unused since 0.1.0.\ndrop type public.mark;`);
  await writeFile(path.join(folder, "schemas/notes.sql"), `${label("'b' || title")};\n`);

  expect(await merge()).toEqual({
    written: [
      "20260301100000_0_2_0_tables.sql",
      "20260301100001_0_2_0_backfills.sql",
      "20260301100002_0_2_0_functions.sql",
      "20260301100003_0_2_0_validations.sql",
    ],
    removed: [
      ...["20260201000000", "20260201000001", "20260201000002", "20260201000003"],
      ...["20260202000000", "20260202000001", "20260202000002"],
    ],
  });
  expect(await readdir(path.join(folder, "migrations"))).toHaveLength(5);
  expect(await read("20260301100000_0_2_0_tables.sql")).toMatch(
    /^set lock_timeout = '500ms';\n-- Who wrote it\.\nalter table[^;]*author text;\s+alter table[^;]*not valid;\s+alter table[^;]*read[^;]*;\n$/,
  );
  expect(await read("20260301100001_0_2_0_backfills.sql")).toBe(
    "update public.notes set author = 'Ada' where author is null;\n",
  );
  const functions = await read("20260301100002_0_2_0_functions.sql");
  expect(functions).toContain("-- Unused since 0.1.0.\ndrop function public.old_label();");
  expect(functions.match(/create or replace function public\.label/g)).toHaveLength(1);
  expect(functions).toContain("select 'b' || title");
  expect(await read("20260301100003_0_2_0_validations.sql")).toMatch(
    /validate constraint named;\n-- Unused since 0\.1\.0\.\ndrop type public\.mark;/,
  );

  expect(await merge()).toEqual(nothing);
});

const nothing = { written: [], removed: [] };
const add = "alter table public.notes add column";

test("keeps a separate file, with its reason and its place", async () => {
  await write("20260201000000_a.sql", `${add} a text;`);
  await write("20260201000001_b.sql", `-- Separate: it locks.\n\n${add} b text;\nupdate public.notes set b = '';`);
  await write("20260201000002_c.sql", `${add} c text;\n\n${add} d text -- The last.`);
  const { written } = await merge().catch((error: Error) => ({ written: error.message }));
  expect(written).toMatch(/another database:\n[\s\S]*columns of public\.notes/);
  await write(
    "20260201000002_c.sql",
    `create table public.tags (a text);\n\ncomment on table public.tags is 'T' -- The last.`,
  );
  expect((await merge()).written).toEqual(["20260301100000_0_2_0_tables.sql", "20260301100001_0_2_0_b.sql"]);
  expect(await read("20260301100000_0_2_0_tables.sql")).toBe(
    `${add} a text;\ncreate table public.tags (a text);\n\ncomment on table public.tags is 'T' -- The last.\n;\n`,
  );
  expect(await read("20260301100001_0_2_0_b.sql")).toBe(
    `-- Separate: it locks.\n\n${add} b text;\nupdate public.notes set b = '';`,
  );
});

test("keeps a separate file behind the functions if it says so", async () => {
  await writeFile(path.join(folder, "schemas/notes.sql"), `${label("title")};\n`);
  const late = `-- Separate, after the functions: the former function needs the constraint.\n\n${add} b text;`;
  await write("20260201000000_a.sql", `${add} a text;`);
  await write("20260201000001_b.sql", late);
  await write("20260201000002_c.sql", `${heading}\n\n${label("'a'")};`);
  await write("20260201000003_d.sql", `${heading}\n\n${label("title")};`);
  expect((await merge()).written).toEqual([
    "20260301100000_0_2_0_tables.sql",
    "20260301100001_0_2_0_functions.sql",
    "20260301100002_0_2_0_b.sql",
  ]);
  expect(await read("20260301100002_0_2_0_b.sql")).toBe(late);
});

test("runs a backfill after the functions if it came after them, and each file with its own settings", async () => {
  await writeFile(path.join(folder, "schemas/notes.sql"), `${label("title")};\n`);
  await write("20260201000000_a.sql", `${add} label text;`);
  await write("20260201000001_b.sql", `${heading}\n\n${label("title")};`);
  await write("20260201000002_c.sql", "set search_path = ai, public;\nupdate notes set label = public.label(title);");
  await write("20260201000003_d.sql", "update public.notes set title = 'x';");
  expect((await merge()).written).toEqual([
    "20260301100000_0_2_0_tables.sql",
    "20260301100001_0_2_0_functions.sql",
    "20260301100002_0_2_0_later_backfills.sql",
  ]);
  expect(await read("20260301100002_0_2_0_later_backfills.sql")).toBe(
    "set search_path = ai, public;\nupdate notes set label = public.label(title);\nreset all;\nupdate public.notes set title = 'x';\n",
  );
});

test.each<[what: string, files: string[], reason: RegExp]>([
  [
    "a statement was added by hand to a generated file",
    [`${heading}\n\n${label("title")};\n\nupdate public.notes set title = 'x';`, `${add} b text;`],
    /a\.sql is generated, and a statement in it was written by hand \(UpdateStmt\)/,
  ],
  [
    "a table gets a trigger after its data was changed",
    [
      "update public.notes set title = 'x';",
      "create trigger t after update on public.notes for each row execute function suppress_redundant_updates_trigger();",
    ],
    /b\.sql changes public\.notes after its data was changed/,
  ],
  [
    "a table is changed after a block changed some data",
    [
      "do $$ begin update public.notes set title = 'x'; end $$;",
      "alter table public.notes alter title set default 'x';",
    ],
    /b\.sql changes public\.notes after its data was changed/,
  ],
  [
    "rows would differ",
    ["insert into public.notes values ('one');", "create table public.copies as select * from public.notes;"],
    /another database:\nrows of public\.copies: 1 \w+, after the merge 0/,
  ],
])("keeps the files if %s", async (_, [a = "", b = ""], reason) => {
  if (a.startsWith("--")) await writeFile(path.join(folder, "schemas/notes.sql"), `${label("title")};\n`);
  await write("20260201000000_a.sql", a);
  await write("20260201000001_b.sql", b);
  await write("20260201000002_c.sql", "select 1;");
  const before = await readdir(path.join(folder, "migrations"));
  await expect(merge()).rejects.toThrow(reason);
  expect(await readdir(path.join(folder, "migrations"))).toEqual(before);
});

test("has nothing to merge without unreleased migrations", async () => {
  expect(await merge()).toEqual(nothing);
});
