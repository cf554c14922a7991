import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ending, findDifferences, generateMigration, heading, nextVersion } from "./generate.ts";
import { type ScratchCluster, startScratchCluster } from "./scratch-cluster.ts";

const fixture = path.join(import.meta.dirname, "fixture");
const functions = "notes/functions.sql";
const views = "notes/access_views.sql";
const grants = "grants.sql";

let cluster: ScratchCluster;
let folder: string;
/** A database with the fixture's migrations. A refused generation must leave it unchanged. */
let migratedUrl: string;

beforeAll(async () => {
  cluster = await startScratchCluster();
  migratedUrl = await cluster.createDatabase();
});
afterAll(() => cluster.stop());
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "gatehouse-generate-"));
  await cp(fixture, folder, { recursive: true });
});
afterEach(() => rm(folder, { recursive: true }));

function layoutOn(dbUrl: string) {
  return { dbUrl, migrations: path.join(folder, "migrations"), schemas: path.join(folder, "schemas") };
}

/** Replaces text that must occur exactly once in the file. */
async function edit(file: string, from: string | RegExp, to: string): Promise<void> {
  const full = path.join(folder, "schemas", file);
  const text = await readFile(full, "utf8");
  expect(text.split(from)).toHaveLength(2);
  await writeFile(
    full,
    text.replace(from, () => to),
  );
}

const remove = (file: string, text: string | RegExp) => edit(file, text, "");
const add = (file: string, sql: string) => writeFile(path.join(folder, "schemas", file), sql);
const listMigrations = () => readdir(path.join(folder, "migrations"));

/** Generates and applies the migration, and checks that no difference remains. @returns its statements and changes */
async function generate(): Promise<{ statements: string[]; changes: string[] }> {
  const layout = layoutOn(await cluster.createDatabase());
  const written = await generateMigration(layout, "change");
  if (!written) throw new Error("nothing was written");
  expect(await findDifferences(layout)).toEqual([]);
  const sql = await readFile(written.file, "utf8");
  expect(sql.startsWith(`${heading}\n\n`)).toBe(true);
  expect(sql.endsWith(`\n\n${ending}\n`)).toBe(true);
  const statements = sql
    .slice(heading.length + 2, -ending.length - 3)
    .trimEnd()
    .split(/;\n\n(?=[a-z-])|;$/);
  return { statements: statements.filter((text) => text !== ""), changes: written.changes };
}

/** Expects that the generation fails and writes nothing. @returns the error message */
async function refusal(dbUrl = migratedUrl): Promise<string> {
  const before = await listMigrations();
  const error = await generateMigration(layoutOn(dbUrl), "change").catch((thrown: unknown) => thrown);
  expect(await listMigrations()).toEqual(before);
  if (!(error instanceof Error)) throw new Error("nothing was refused");
  return error.message.replaceAll(path.relative(process.cwd(), folder), "");
}

describe("generating a migration", () => {
  test("writes no migration when nothing changed", async () => {
    expect(await generateMigration(layoutOn(migratedUrl), "change")).toBeUndefined();
    expect(await listMigrations()).toHaveLength(3);
    expect(await findDifferences(layoutOn(migratedUrl))).toEqual([]);
  });

  test("writes no migration when only line comments in function bodies changed", async () => {
    await edit(functions, "select author = auth.uid()", "-- Whose note it is.\n  select author = auth.uid() -- Now");
    expect(await generateMigration(layoutOn(migratedUrl), "change")).toBeUndefined();
  });

  test.for([
    ["reworded", "-- Reworded.\n"],
    ["removed", ""],
  ] as const)(
    "writes no migration when line comments are %s above a function and a trigger with comments in the database",
    async ([, to]) => {
      await edit(functions, "-- How many notes the caller may read.\n", to);
      await edit(views, "-- Keeps titles trimmed.\n", to);
      expect(await generateMigration(layoutOn(migratedUrl), "change")).toBeUndefined();
    },
  );

  test.for([
    "$label$\n-- one\n$label$",
    "'\n-- one'",
    "e'\\\n\\'-- one'",
    `(select "it's" from (select '-- one' as "it's") as a)`,
  ])("replaces a function if text that looks like a comment changes in the expression %j", async (text) => {
    await edit(functions, "prefix || title", `prefix || title || ${text}`);
    const layout = layoutOn(await cluster.createDatabase());
    await generateMigration(layout, "first");
    await edit(functions, "-- one", "-- two");
    expect(await findDifferences(layout)).toEqual(["changed  function private.label(text, text)"]);
  });

  test("a generated migration takes a changed function body from the source text of the schema file", async () => {
    await edit(functions, "select author = auth.uid()", "select (author = auth.uid()) -- Theirs alone; no other");
    const { statements, changes } = await generate();
    expect(changes).toEqual(["changed  function private.may_read(uuid)"]);
    expect(statements).toEqual([
      `-- Whether the caller may read a note of this author.
-- Definer: reads what the caller may not.
create or replace function private.may_read(author uuid) returns boolean
  language sql stable security definer set search_path = ''
as $$
  select (author = auth.uid()) -- Theirs alone; no other
$$`,
    ]);
  });

  test("replaces a function whose attributes changed", async () => {
    await edit(functions, "stable security definer", "stable parallel safe cost 50 security definer");
    const { statements } = await generate();
    expect(statements).toEqual([expect.stringMatching(/^-- Whether[^;]*parallel safe cost 50/)]);
  });

  test("drops the old overload and grants privileges on the new one when a function gains an argument", async () => {
    await edit(functions, "public.count_notes() returns", "public.count_notes(at_most integer default 10) returns");
    await edit(grants, "public.count_notes()", "public.count_notes(integer)");
    const { statements, changes } = await generate();
    expect(changes).toEqual([
      "added    function public.count_notes(integer)",
      "removed  function public.count_notes()",
    ]);
    expect(statements).toEqual([
      "drop function public.count_notes()",
      expect.stringMatching(/^-- How.*\ncreate or replace function public\.count_notes\(at_most integer default 10\)/),
      "grant execute on function public.count_notes(integer) to authenticated",
    ]);
  });

  test("drops and recreates a function whose return type changed, with its line comments and grants", async () => {
    await edit(functions, "public.count_notes() returns integer", "public.count_notes() returns bigint");
    const { statements, changes } = await generate();
    expect(changes).toEqual(["changed  function public.count_notes()"]);
    expect(statements).toEqual([
      "drop function public.count_notes()",
      expect.stringMatching(/^-- How.*\ncreate or replace function public\.count_notes\(\) returns bigint/),
      "grant execute on function public.count_notes() to authenticated",
    ]);
  });

  test("drops and recreates views, defaults and checks that use a function with a renamed argument", async () => {
    await edit(functions, "label(title text,", "label(words text,");
    await edit(functions, "select prefix || title", "select prefix || words");
    const { statements } = await generate();
    expect(statements.slice(0, 5).toSorted()).toEqual([
      "alter table public.notes alter column body drop default",
      "alter table public.notes drop constraint has_label",
      "drop function private.label(text, text)",
      "drop function private.shout(text)",
      "drop view public.titles",
    ]);
    expect(statements.slice(5)).toEqual([
      expect.stringMatching(/^-- The label.*\ncreate or replace function private\.label\(words text/),
      expect.stringMatching(/^-- The label.*\ncreate or replace function private\.shout\(title text\)[\s\S]*\nend$/),
      expect.stringMatching(/^create or replace view public\.titles/),
      "alter table public.notes add constraint has_label check ((private.label(title) <> '#'::text))",
      "alter table public.notes alter column body set default private.label('New'::text)",
      "comment on column public.titles.label is 'The title with its prefix.'",
      "comment on view public.titles is 'The notes in short.'",
      "grant select on table public.titles to authenticated",
    ]);
  });

  test("replaces a function if an argument's default changes, and drops and recreates it if the default is removed", async () => {
    await edit(functions, "prefix text default '#'", "prefix text default '§'");
    expect((await generate()).statements).toEqual([expect.stringContaining("prefix text default '§'")]);
    await edit(functions, "author uuid) returns", "author uuid default null) returns");
    await generate();
    await edit(functions, "author uuid default null) returns", "author uuid) returns");
    expect((await generate()).statements).toContain("drop function private.may_read(uuid)");
  });

  test("a policy is recreated unchanged when an argument of its function is renamed", async () => {
    await edit(functions, "may_read(author uuid)", "may_read(owner uuid)");
    await edit(functions, "select author = auth", "select owner = auth");
    const { statements } = await generate();
    expect(statements).toEqual([
      "drop policy select_readable on public.notes",
      "drop function private.may_read(uuid)",
      expect.stringMatching(/^-- Whether.*\n-- Definer.*\ncreate or replace function private\.may_read\(owner uuid\)/),
      expect.stringMatching(
        /^create policy select_readable on public\.notes for select to authenticated using \(.*'SECRET'::text.*\)$/s,
      ),
      "comment on policy select_readable on public.notes is 'Readers see only their own notes.'",
      "grant execute on function private.may_read(uuid) to authenticated",
    ]);
    expect(statements[3]).not.toMatch(/\b(SELECT|AND|AS)\b/);
  });

  test("recreates a policy if its function gains an argument with a default, so that the policy calls the new overload", async () => {
    await edit(
      functions,
      "may_read(author uuid) returns",
      "may_read(author uuid, anyone boolean default false) returns",
    );
    await edit(grants, "private.may_read(uuid)", "private.may_read(uuid, boolean)");
    const { statements } = await generate();
    expect(statements.slice(0, 2)).toEqual([
      "drop policy select_readable on public.notes",
      "drop function private.may_read(uuid)",
    ]);
    expect(statements[3]).toMatch(/^create policy select_readable .*private\.may_read\(notes\.author\)/);
  });

  test("recreates a policy when the return type of the policy's function changes", async () => {
    await edit(functions, "may_read(author uuid) returns boolean", "may_read(author uuid) returns setof boolean");
    await edit(functions, "stable security definer", "stable rows 1 security definer");
    expect((await generate()).statements.slice(0, 2)).toEqual([
      "drop policy select_readable on public.notes",
      "drop function private.may_read(uuid)",
    ]);
  });

  test("drops a function that is removed from the schema files", async () => {
    await remove(functions, /-- The label in capitals[\s\S]*?\nend;\n/);
    const { statements, changes } = await generate();
    expect(changes).toEqual(["removed  function private.shout(text)"]);
    expect(statements).toEqual(["drop function private.shout(text)"]);
  });

  test("replaces a view that gains a column at the end, and recreates one that gains a column in the middle", async () => {
    await edit(views, "as label\nfrom", "as label, n.archived\nfrom");
    expect((await generate()).statements).toEqual([
      "create or replace view public.titles with (security_invoker = true) as\n" +
        "select n.id, private.label(n.title) as label, n.archived\nfrom public.notes n",
    ]);
    await edit(views, "select n.id, private", "select n.id, n.author, private");
    const { statements } = await generate();
    expect(statements[0]).toBe("drop view public.titles");
    expect(statements).toContain("grant select on table public.titles to authenticated");
  });

  test("replaces a changed trigger, and drops and recreates a changed constraint trigger", async () => {
    await edit(views, "before insert or update of title on", "before insert on");
    expect((await generate()).statements).toEqual([
      "-- Keeps titles trimmed.\n" +
        "create or replace trigger set_title before insert on public.notes\n" +
        "  for each row execute function private.set_title()",
    ]);
    await edit(
      views,
      "create or replace trigger set_title before insert on",
      "create constraint trigger set_title after insert on",
    );
    expect((await generate()).statements).toEqual([
      "drop trigger set_title on public.notes",
      expect.stringMatching(/^-- Keeps.*\ncreate constraint trigger set_title/),
    ]);
  });

  test("removes a trigger on another owner's table by dropping its function with cascade and recreating the function", async () => {
    await remove(functions, /create or replace trigger welcome[\s\S]*?;\n/);
    const { statements, changes } = await generate();
    expect(changes).toEqual(["removed  trigger welcome on auth.users"]);
    expect(statements).toEqual([
      "drop function private.welcome() cascade",
      expect.stringMatching(/^-- Gives.*\ncreate or replace function private\.welcome\(\)/),
    ]);
  });

  test("writes only a comment statement when a view's comment changes, and sets a removed comment to null", async () => {
    await edit(views, "is 'The notes in short.'", "is 'Notes with labels.'");
    await remove(views, "comment on column public.titles.label is 'The title with its prefix.';\n");
    expect((await generate()).statements.toSorted()).toEqual([
      "comment on column public.titles.label is null",
      "comment on view public.titles is 'Notes with labels.'",
    ]);
  });

  test("generates column-level revokes and grants when grants change", async () => {
    await edit(grants, "select (id, title), update (title)", "select (id, body, title)");
    await remove(grants, "grant execute on function private.may_read(uuid) to authenticated;\n");
    await edit(grants, "public.count_notes() to authenticated", "public.count_notes() to authenticated, anon");
    const { statements } = await generate();
    expect(statements).toEqual([
      "revoke execute on function private.may_read(uuid) from authenticated",
      "revoke update (title) on table public.notes from authenticated",
      "grant execute on function public.count_notes() to anon",
      "grant select (body) on table public.notes to authenticated",
    ]);
  });

  test("drops a function overload that is no longer defined and keeps the other one", async () => {
    await writeFile(
      path.join(folder, "migrations/20260104000000_overload.sql"),
      "create function private.may_read(author text) returns boolean language sql immutable as 'select true';",
    );
    expect((await generate()).statements).toEqual(["drop function private.may_read(text)"]);
  });

  test("a generated migration puts the semicolon on a new line if a definition ends in a comment", async () => {
    await add(
      "z.sql",
      "create or replace view public.one as select 1 as one -- One\n;\ncomment on view public.one is 'One.';",
    );
    expect((await generate()).changes).toEqual(["added    view public.one"]);
  });

  test.for(["\n", "\r\n"])("keeps comments directly above a definition, with line endings %j", async (end) => {
    const sql =
      "-- A heading.\n\n/* About a and b.\n\n   More. */\n-- Why.\ncreate or replace view public.one as select 1 as one;";
    await add("z.sql", sql.replaceAll("\n", end));
    expect((await generate()).statements[0]).toBe(sql.slice(sql.indexOf("/*"), -1).replaceAll("\n", end));
  });

  test("restores the trigger of a view that is dropped and created again", async () => {
    const trigger =
      "create or replace trigger keep instead of update on public.titles for each row execute function private.set_title()";
    await add("z.sql", `${trigger};`);
    await generate();
    await edit(views, "select n.id, private", "select n.id, n.author, private");
    const { statements } = await generate();
    expect(statements.slice(0, 2)).toEqual(["drop trigger keep on public.titles", "drop view public.titles"]);
    expect(statements).toContain(trigger);
  });

  test("generates a migration for a PL/pgSQL body with escaped strings and temporary tables", async () => {
    await edit(
      functions,
      "new.title := trim(new.title);",
      String.raw`create temporary table seen (id int); insert into pg_temp.seen values (1); new.title := e'\' public.missing';`,
    );
    expect((await generate()).changes).toEqual(["changed  function private.set_title()"]);
  });

  test("a generated migration orders objects by the dependencies of their new definitions", async () => {
    await edit(functions, "select count(*)::integer from public.notes", "select private.z_total(true)::integer");
    await add(
      "zz.sql",
      `create or replace function private.z_total(readable boolean) returns bigint language sql stable
        as $$ select count(*) from public.titles where readable and archived $$;`,
    );
    await edit(views, "as label\nfrom", "as label, n.archived\nfrom");
    const { statements } = await generate();
    expect(statements.map((text) => /\b(titles|z_total|count_notes)\b/.exec(text)?.[0])).toEqual([
      "titles",
      "z_total",
      "count_notes",
    ]);
    expect(await findDifferences(layoutOn(await cluster.createDatabase()))).toEqual([]);
  });
});

describe("input that the migration generator refuses", () => {
  test("refuses a table in a schema file, and says which migration to write by hand", async () => {
    await add(
      "notes/tags.sql",
      "-- Tags.\n\ncreate table public.tags (\n  id uuid primary key,\n  name text not null\n);",
    );
    expect(await refusal()).toMatch(
      new RegExp(
        [
          /\/schemas\/notes\/tags\.sql, line 3: the table public\.tags belongs in a migration, because it holds data\./,
          /Remove it here and write supabase\/migrations\/\d{14}_tags\.sql by hand:/,
          /create table public\.tags \([^)]*\);/,
          /comment on table public\.tags is .*;/,
          /alter table public\.tags enable row level security;/,
          /select private\.protect_table\('public\.tags'\);/,
          /create policy <name> on public\.tags for select to authenticated using \(<condition>\);/,
          /grant select \(id, name\) on public\.tags to authenticated;/,
        ]
          .map(({ source }) => source)
          .join("[\\s\\S]*"),
      ),
    );
  });

  test.for([
    ["a type", "create type public.colour as enum ('red')"],
    ["a policy", "create policy p on public.notes using (true)"],
    ["an index", "create index on public.notes (title)"],
    ["a change of a table", "alter table public.notes add column tag text"],
    ["a change of data", "insert into public.notes (title) values ('a')"],
    ["this comment", "comment on table public.notes is 'Notes.'"],
    ["a drop", "drop function public.count_notes()"],
  ] as const)("refuses a schema file with %s, which belongs in a migration", async ([what, sql]) => {
    await add("other.sql", `${sql};`);
    const message = await refusal();
    expect(message).toContain(`/schemas/other.sql, line 1: ${what} belongs in a migration`);
    expect(message).toContain(`${sql};`);
  });

  test.for(["function public.count_notes()", "procedure private.archive()", "trigger set_title on public.notes"])(
    "refuses a comment on %s in a schema file, with file and line",
    async (target) => {
      await add("other.sql", `-- Notes.\n\ncomment on ${target} is 'Notes.';`);
      expect(await refusal()).toBe(
        '/schemas/other.sql, line 3: write this comment as "--" lines above the definition.',
      );
    },
  );

  test("refuses a grant outside grants.sql, and says where grants belong", async () => {
    await add("other.sql", "grant select on public.notes to anon;");
    expect(await refusal()).toBe("/schemas/other.sql, line 1: grants are listed in grants.sql.");
  });

  test("refuses a definition without create or replace", async () => {
    await edit(functions, "create or replace function private.shout", "create function private.shout");
    expect(await refusal()).toBe('/schemas/notes/functions.sql, line 19: write "create or replace".');
  });

  test("refuses a definition that occurs twice", async () => {
    await add(
      "other.sql",
      "create or replace view public.titles with (security_invoker = true) as select id, title as label from public.notes;",
    );
    expect(await refusal()).toMatch(
      /other\.sql, line 1: view public\.titles is already defined in .*access_views\.sql, line 1\./,
    );
  });

  test("refuses invalid SQL in a schema file, with file and line", async () => {
    await edit(functions, "private.welcome() returns", "private.welcome() retruns");
    expect(await refusal()).toBe(
      '/schemas/notes/functions.sql, line 36: syntax error at or near "retruns"\n' +
        "  create or replace function private.welcome() retruns trigger",
    );
  });

  test("refuses a function whose SQL does not match the tables", async () => {
    await edit(
      functions,
      "select count(*)::integer from public.notes",
      "select count(*)::integer\n  from public.missing",
    );
    expect(await refusal()).toMatch(
      /functions\.sql, line 53: relation "public\.missing" does not exist \(SQLSTATE 42P01\)\nTables, columns and types come from supabase\/migrations\//,
    );
  });

  test.for([
    [
      "a table",
      "new.title := trim(new.title);",
      "perform from public.missing;",
      "line 30: public.missing does not exist.",
    ],
    [
      "a table in another schema",
      "new.title := trim(new.title);",
      "delete from store.notes;",
      "line 30: store.notes does not exist.",
    ],
    ["a column", "(title, author)", "(title, writer)", "line 40: column writer of public.notes does not exist."],
    ["a function", "trim(new.title)", "private.tidy(new.title)", "line 30: private.tidy does not exist."],
  ] as const)("refuses a PL/pgSQL body that uses %s that no migration creates", async ([, from, to, expected]) => {
    await edit(functions, from, to);
    expect(await refusal()).toContain(`/schemas/notes/functions.sql, ${expected}\nTables, columns`);
  });

  test("refuses to drop a removed function that a policy still uses", async () => {
    await remove(functions, /-- Whether the caller[\s\S]*?\$\$;\n/);
    await remove(grants, "grant execute on function private.may_read(uuid) to authenticated;\n");
    expect(await refusal()).toMatch(
      /^function private\.may_read\(uuid\) is not in supabase\/schemas\/ any more, but policy select_readable on table public\.notes still uses it\.\nKeep it, or first write a migration by hand/,
    );
  });

  test("refuses to change a function's return type if a policy uses the function and does not fit the new type", async () => {
    await edit(functions, "may_read(author uuid) returns boolean", "may_read(author uuid) returns text");
    await edit(functions, "select author = auth.uid()", "select 'yes'");
    expect(await refusal()).toMatch(
      /^policy select_readable on table public\.notes uses function private\.may_read\(uuid\) and does not fit its new definition: /,
    );
  });

  test("refuses to drop a changed function that an index uses", async () => {
    await writeFile(
      path.join(folder, "migrations/20260104000000_index.sql"),
      "create index notes_label_idx on public.notes (private.label(title));",
    );
    await edit(functions, "label(title text,", "label(words text,");
    await edit(functions, "select prefix || title", "select prefix || words");
    expect(await refusal(await cluster.createDatabase())).toMatch(
      /^function private\.label\(text, text\) would have to be dropped, and index public\.notes_label_idx uses it\.\n/,
    );
  });

  test.for([
    ["an index", "create index notes_label_idx on public.notes (private.label(title))", "index public.notes_label_idx"],
    [
      "a generated column",
      "alter table public.notes add column labelled text generated always as (private.label(title)) stored",
      "default value for column labelled of table public.notes",
    ],
  ] as const)("refuses to change a function whose results are stored in %s", async ([, sql, user]) => {
    await writeFile(path.join(folder, "migrations/20260104000000_stored.sql"), `${sql};`);
    await edit(functions, "select prefix || title", "select title || prefix");
    expect(await refusal(await cluster.createDatabase())).toContain(
      `function private.label(text, text) is changed, and ${user} stores its results.\n` +
        "Write a migration by hand that replaces the function and computes them again.",
    );
  });

  test("refuses to remove a view's column that another view uses", async () => {
    await add(
      "notes/z.sql",
      "create or replace view public.labels with (security_invoker = true) as select label from public.titles;",
    );
    await generate();
    await edit(views, "private.label(n.title) as label", "n.title");
    await remove(views, "comment on column public.titles.label is 'The title with its prefix.';\n");
    expect(await refusal(await cluster.createDatabase())).toMatch(
      /notes\/z\.sql, line 1: column "label" does not exist \(SQLSTATE 42703\)/,
    );
  });
});

test("dates a migration with the current time, or one second after the newest migration if that is later", async () => {
  const migrations = path.join(folder, "migrations");
  expect(await nextVersion(migrations, new Date("2026-05-06T07:08:09.999Z"))).toBe("20260506070809");
  await writeFile(path.join(migrations, "20261231235959_last.sql"), "select 1;");
  expect(await nextVersion(migrations, new Date("2026-12-31T23:59:59Z"))).toBe("20270101000000");
});

test("refuses an invalid migration name", async () => {
  await expect(generateMigration(layoutOn(migratedUrl), "../x")).rejects.toThrow(/cannot name a migration/);
});
