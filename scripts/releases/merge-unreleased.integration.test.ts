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
  await write(
    first,
    `create schema private; create schema ai; create table public.notes (title text);
    create function public.old_label() returns int language sql as 'select 1';`,
  );
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
  await write(
    "20260201000000_a.sql",
    `${short}-- Who wrote it.\nalter table public.notes add column author text;
    alter table public.notes add constraint named check (author <> '') not valid;`,
  );
  await write("20260201000001_b.sql", "update public.notes set author = 'Ada' where author is null;");
  await write("20260201000002_c.sql", `${short}alter table public.notes validate constraint named;`);
  await write(
    "20260201000003_d.sql",
    `${heading}\n\n-- Unused since 0.1.0.\ndrop function public.old_label();\n\n${label("'a' || title")};`,
  );
  await write(
    "20260202000000_e.sql",
    `${short}alter table public.notes add column read boolean not null default false;`,
  );
  await write("20260202000001_f.sql", `${heading}\n\n${label("'b' || title")};`);
  await writeFile(path.join(folder, "schemas/notes.sql"), `${label("'b' || title")};\n`);

  expect(await merge()).toEqual([
    "20260301100000_0_2_0_tables.sql",
    "20260301100001_0_2_0_backfills.sql",
    "20260301100002_0_2_0_functions.sql",
    "20260301100003_0_2_0_validations.sql",
  ]);
  expect(await readdir(path.join(folder, "migrations"))).toHaveLength(5);
  expect(await read("20260301100000_0_2_0_tables.sql")).toMatch(
    /^set lock_timeout = '500ms';\n-- Who wrote it\.\nalter table[^;]*author text;\s+alter table[^;]*not valid;\s+set lock_timeout[^;]*;\s+alter table[^;]*read[^;]*;\n$/,
  );
  expect(await read("20260301100001_0_2_0_backfills.sql")).toBe(
    "update public.notes set author = 'Ada' where author is null;\n",
  );
  const functions = await read("20260301100002_0_2_0_functions.sql");
  expect(functions).toContain("-- Unused since 0.1.0.\ndrop function public.old_label();");
  expect(functions.match(/create or replace function public\.label/g)).toHaveLength(1);
  expect(functions).toContain("select 'b' || title");
  expect(await read("20260301100003_0_2_0_validations.sql")).toContain("validate constraint named;");

  expect(await merge()).toHaveLength(4);
});

test("keeps the files if the merged ones would build another database", async () => {
  await write("20260201000000_a.sql", "insert into public.notes values ('one');");
  await write("20260201000001_b.sql", "create table public.tags (tag text); insert into public.tags values ('x');");
  await write(
    "20260201000002_c.sql",
    "alter table public.tags add column note text; insert into public.tags select title from public.notes;",
  );
  await write("20260201000003_d.sql", "create table public.copies as select * from public.tags;");
  const before = await readdir(path.join(folder, "migrations"));
  await expect(merge()).rejects.toThrow(/build another database[\s\S]*rows of public\.copies: 2, after the merge 0/);
  expect(await readdir(path.join(folder, "migrations"))).toEqual(before);
});

test("has nothing to merge without unreleased migrations", async () => {
  expect(await merge()).toEqual([]);
});
