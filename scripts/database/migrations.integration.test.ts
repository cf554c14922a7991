import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readStack } from "../test/stack.ts";
import { applyMigrations, applySqlFile } from "./migrations.ts";

const { dbUrl: stackUrl } = readStack().supabase;

let directory: string;
let name: string;
let dbUrl: string;

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "gatehouse-migrations-"));
  name = `migrations_${randomBytes(6).toString("hex")}`;
  await withDatabase(stackUrl, (client) => client.query(`create database ${name}`));
  dbUrl = Object.assign(new URL(stackUrl), { pathname: `/${name}` }).href;
});
afterEach(async () => {
  await withDatabase(stackUrl, (client) => client.query(`drop database ${name} with (force)`));
  await rm(directory, { recursive: true });
});

const write = (file: string, sql: string) => writeFile(path.join(directory, file), sql);
const apply = () => applyMigrations({ dbUrl, directory });
const query = async (sql: string) => (await withDatabase(dbUrl, (client) => client.query(sql))).rows;

test("applies migrations only once, in order, and records them as the Supabase CLI does", async () => {
  await write("20260102000000_second.sql", "insert into public.notes values ('a;b');\n\n-- why\nselect 1 ;\n");
  await write("20260101000000_first.sql", "create table public.notes (note text);");
  expect(await apply()).toEqual(["20260101000000_first.sql", "20260102000000_second.sql"]);
  expect(await apply()).toEqual([]);
  expect(await query("select * from supabase_migrations.schema_migrations order by version")).toEqual([
    { version: "20260101000000", name: "first", statements: ["create table public.notes (note text)"] },
    {
      version: "20260102000000",
      name: "second",
      statements: ["insert into public.notes values ('a;b')", "-- why\nselect 1"],
    },
  ]);
});

test("reports a failing migration statement with its file, line and text, and rolls back the whole file", async () => {
  await write("20260101000000_good.sql", "create table public.notes (note text);");
  await write(
    "20260102000000_bad.sql",
    "create table public.others (id int);\n\n-- Zoë 🦉\nselect note,\n  missing\nfrom public.notes;\n",
  );
  await expect(apply()).rejects.toThrow(
    /20260102000000_bad\.sql, line 5: column "missing" does not exist \(SQLSTATE 42703\)\n {2}select note,\n {4}missing\n/,
  );
  expect(
    await query("select to_regclass('public.others') as others, to_regclass('public.notes')::text as notes"),
  ).toEqual([{ others: null, notes: "notes" }]);
  expect(await query("select version from supabase_migrations.schema_migrations")).toEqual([
    { version: "20260101000000" },
  ]);
});

test("if a migration error has no position, reports the first line of the failing statement", async () => {
  await write(
    "20260101000000_bad.sql",
    "create table public.notes (note text not null);\n/* one\ntwo */\ninsert into public.notes\nvalues (null);",
  );
  await expect(apply()).rejects.toThrow(/bad\.sql, line 4: null value in column "note"[\s\S]*\nDetail: /);
});

test("reports a migration's syntax error before applying anything", async () => {
  await write("20260101000000_good.sql", "create table public.notes (note text);");
  await write("20260102000000_bad.sql", "select 1;\n\ncreate tabel x ();");
  await expect(apply()).rejects.toThrow(/bad\.sql, line 3: syntax error at or near "tabel"\n {2}create tabel x/);
  expect(await query("select to_regclass('supabase_migrations.schema_migrations') as record")).toEqual([
    { record: null },
  ]);
});

test("the error suggests npm run reset if an applied migration file was changed or removed, or an older file was added", async () => {
  await write("20260102000000_second.sql", "create table public.notes (note text);");
  await apply();
  await write("20260101000000_first.sql", "select 1");
  await expect(apply()).rejects.toThrow(/first\.sql is older than 20260102000000[\s\S]*npm run reset/);
  await rm(path.join(directory, "20260101000000_first.sql"));
  await write("20260102000000_second.sql", "create table public.notes (note text, extra int);");
  await expect(apply()).rejects.toThrow(/second\.sql was changed after it had been applied[\s\S]*npm run reset/);
  await rm(path.join(directory, "20260102000000_second.sql"));
  await write("20260103000000_third.sql", "select 1");
  await expect(apply()).rejects.toThrow(/has applied migration 20260102000000, whose file is gone[\s\S]*npm run reset/);
});

describe("a database of another release", () => {
  const first = { "20260101000000_first.sql": "create table public.notes (note text)" };
  const firstRelease = Object.keys(first);
  const second = "20260201000000_second.sql";
  const upgrade = () => applyMigrations({ dbUrl, directory, firstRelease });
  const versions = async () =>
    (await query("select version from supabase_migrations.schema_migrations order by 1")).map(({ version }) => version);

  beforeEach(async () => {
    for (const [file, sql] of Object.entries(first)) await write(file, sql);
    await upgrade();
    await query("insert into public.notes values ('kept')");
  });

  test("a database of an older release gets the new migrations and keeps its rows", async () => {
    await write(second, "alter table public.notes add column read boolean not null default false");
    expect(await upgrade()).toEqual([second]);
    expect(await query("select * from public.notes")).toEqual([{ note: "kept", read: false }]);
    expect(await versions()).toEqual(["20260101000000", "20260201000000"]);
  });

  test("a database stays unchanged when a migration fails, and the next start upgrades it", async () => {
    await write(second, "alter table public.notes add column read boolean; update public.notes set missing = 1;");
    await expect(upgrade()).rejects.toThrow(
      /second\.sql, line 1: column "missing" [\s\S]*Nothing of this file has been applied/,
    );
    expect(await query("select * from public.notes")).toEqual([{ note: "kept" }]);
    await write(second, "alter table public.notes add column read boolean;");
    expect(await upgrade()).toEqual([second]);
  });

  test("a database of a newer release is refused and not changed", async () => {
    await write(second, "alter table public.notes add column read boolean");
    await upgrade();
    await rm(path.join(directory, second));
    await expect(upgrade()).rejects.toThrow(
      /from a newer release: this version does not have its migration 20260201000000\. Nothing was changed\.\nStart the newer release/,
    );
    expect(await versions()).toEqual(["20260101000000", "20260201000000"]);
    expect(await query("select * from public.notes")).toEqual([{ note: "kept", read: null }]);
  });

  test.each([
    ["with a migration that 0.1.0 does not have", "20251231000000"],
    ["with different contents for a 0.1.0 migration", "20260101000000"],
  ])("the stack refuses a pre-0.1.0 database %s, and suggests npm run reset", async (_, version) => {
    await query(
      `insert into supabase_migrations.schema_migrations values ('${version}', '{select 1}', 'old')
       on conflict (version) do update set statements = excluded.statements`,
    );
    await write(second, "drop table public.notes");
    await expect(upgrade()).rejects.toThrow(
      new RegExp(`from before 0\\.1\\.0 \\(it has another migration ${version}\\)[\\s\\S]*npm run reset`),
    );
    expect(await query("select * from public.notes")).toEqual([{ note: "kept" }]);
  });

  test("several concurrent starts upgrade a database only once", async () => {
    await write(second, "select pg_sleep(0.2); alter table public.notes add column read boolean");
    const applied = await Promise.all([upgrade(), upgrade(), upgrade()]);
    expect(applied.flat()).toEqual([second]);
  });

  test("an upgrade waits briefly for a table in use and retries, so that other queries are not blocked", async () => {
    await write(second, "alter table public.notes add column read boolean");
    const longCall = withDatabase(dbUrl, async (client) => {
      await client.query("begin");
      await client.query("select * from public.notes");
      await sleep(1_500);
      await client.query("commit");
    });
    await sleep(100);
    const upgraded = upgrade();
    await sleep(100);
    const began = performance.now();
    await query("select * from public.notes");
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(await upgraded).toEqual([second]);
    await longCall;
  });

  test("a database stays unchanged when its upgrade is interrupted, and the next start upgrades it", async () => {
    await write(second, "alter table public.notes add column read boolean; select pg_sleep(60);");
    const cut = upgrade();
    const refused = expect(cut).rejects.toThrow(/second\.sql/);
    await expect
      .poll(() =>
        query(
          "select pg_terminate_backend(pid) as ended from pg_stat_activity where datname = current_database() and query = 'select pg_sleep(60)'",
        ),
      )
      .toEqual([{ ended: true }]);
    await refused;
    expect(await query("select * from public.notes")).toEqual([{ note: "kept" }]);
    await write(second, "alter table public.notes add column read boolean");
    expect(await upgrade()).toEqual([second]);
  });
});

test("refuses a file whose name is not a valid migration name", async () => {
  await write("notes.sql", "select 1");
  await expect(apply()).rejects.toThrow(/notes\.sql is not a valid migration name/);
});

test("applies a seed completely or not at all", async () => {
  const file = path.join(directory, "seed.sql");
  await writeFile(file, "create table public.seeded (id int); insert into public.seeded values ('x');");
  await expect(applySqlFile({ dbUrl, file })).rejects.toThrow(
    /seed\.sql, line 1: invalid input syntax for type integer/,
  );
  expect(await query("select to_regclass('public.seeded') as seeded")).toEqual([{ seeded: null }]);
});
