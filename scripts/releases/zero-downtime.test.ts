import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { expectedObjects, readManifest, readObjectChanges } from "../database/contents/releases.ts";
import { findDowntime, listCallable } from "./zero-downtime.ts";

const short = "set lock_timeout = '500ms';\n";
const released = listCallable({ "grants to gateway on function ai.settle_runs(jsonb)": "execute" });

test("every migration since 0.1.0 can be applied while the previous release is running", async () => {
  const {
    releases: [first],
  } = await readManifest(".");
  const released = new Set(Object.keys(first?.migrations ?? {}));
  const versions = new Set([...released].map((file) => file.slice(0, 14)));
  const callable = listCallable(expectedObjects(await readObjectChanges("."), versions));
  expect(callable).toContain("ai.begin_runs");
  for (const file of (await readdir("supabase/migrations")).filter((name) => !released.has(name))) {
    const faults = await findDowntime(await readFile(path.join("supabase/migrations", file), "utf8"), callable);
    expect({ file, faults }).toEqual({ file, faults: [] });
  }
});

test("an upgrade checks every index that the changelog asks for", async () => {
  const {
    releases: [first],
  } = await readManifest(".");
  const files = (await readdir("supabase/migrations")).filter((name) => !(name in (first?.migrations ?? {})));
  const sql = await Promise.all(files.map((file) => readFile(path.join("supabase/migrations", file), "utf8")));
  const checks = sql.join("\n").match(/^do \$\$(?:(?!^\$\$;).)*raise exception.*?^\$\$;/gms) ?? [];
  const asked = [
    ...(await readFile("CHANGELOG.md", "utf8")).matchAll(
      /create index concurrently if not exists (\w+)\s+on (\w+\.\w+)/g,
    ),
  ];
  expect(asked.length).toBeGreaterThan(0);
  for (const [, name = "", table = ""] of asked) {
    const schema = table.split(".")[0];
    expect(
      checks.some((check) => check.includes(`('${table}', '${schema}.${name}')`)),
      name,
    ).toBe(true);
  }
});

test.each([
  ["a renamed column", "alter table ai.runs rename column model_id to model", /renames/],
  ["a renamed table", "alter table ai.runs rename to calls", /renames/],
  ["a dropped table", `${short}drop table ai.runs`, /drops/],
  ["a dropped function", "drop function ai.settle_runs(jsonb)", /drops/],
  ["a dropped column", `${short}alter table ai.runs drop column steps`, /drops a column/],
  ["a changed column type", `${short}alter table ai.runs alter column steps type text`, /type/],
  ["an existing column made required", `${short}alter table ai.runs alter column steps set not null`, /whole table/],
  ["a constraint that checks existing rows", `${short}alter table ai.runs add check (route > 0)`, /not valid/],
  [
    "a foreign key that checks existing rows",
    `${short}alter table ai.runs add foreign key (app_id) references private.apps (id)`,
    /not valid/,
  ],
  ["a unique constraint", `${short}alter table ai.runs add unique (request_id)`, /concurrently/],
  ["a required column without a default", `${short}alter table ai.runs add column region text not null`, /default/],
  [
    "a generated column",
    `${short}alter table ai.runs add column day date generated always as (created_at::date) stored`,
    /rewrites/,
  ],
  [
    "a default computed for each row",
    `${short}alter table ai.runs add column a uuid default gen_random_uuid()`,
    /rewrites/,
  ],
  ["an index", `${short}create index on ai.runs (request_id)`, /concurrently/],
  [
    "a backfill in the same file as a lock",
    `${short}alter table ai.runs add column a text; update ai.runs set a = ''`,
    /file of its own/,
  ],
  ["a lock without a timeout", "alter table ai.runs add column region text", /lock_timeout/],
  ["a lock timeout that is set too late", `alter table ai.runs add column region text; ${short}`, /lock_timeout/],
  [
    "a lock timeout above one second",
    "set lock_timeout = '1001ms'; alter table ai.runs add column a text",
    /lock_timeout/,
  ],
  [
    "a lock without a timeout in a lock block",
    "do $$ begin lock table ai.runs in access exclusive mode; end $$",
    /lock_timeout/,
  ],
  [
    "a lock outside a block",
    `${short}lock table ai.keys, ai.plans in access exclusive mode; alter table ai.keys add a text; alter table ai.plans add a text`,
    /fails in `supabase db push`/,
  ],
  [
    "a change of data in a block that also locks",
    `${short}do $$ begin lock table ai.runs in access exclusive mode; update ai.runs set a = 'x'; end $$; alter table ai.runs add a text`,
    /file of its own/,
  ],
  [
    "two altered tables that it did not lock first",
    `${short}alter table ai.runs add a text; alter table ai.keys add a text`,
    /lock table/,
  ],
  [
    "a change of data behind the comment of a guard",
    `${short}alter table ai.runs add column a text;
     do $$ begin if to_regclass('auth.users') is not null then\n-- create or replace trigger t\nupdate ai.runs set a = 'x'; end if; end $$`,
    /file of its own/,
  ],
  [
    "a merge in the same file as a lock",
    `${short}alter table ai.runs add a text; merge into ai.a using ai.b on true when matched then delete`,
    /file of its own/,
  ],
  [
    "a function call in the same file as a lock",
    `${short}alter table ai.runs add a text; select private.fill()`,
    /file of its own/,
  ],
  [
    "a change of data in a block that also raises",
    `${short}alter table ai.runs add a text; do $$ begin update ai.runs set a = 'x'; raise exception 'late'; end $$`,
    /file of its own/,
  ],
  ["a lock timeout of 0", "set lock_timeout = 0; alter table ai.runs add column a text", /lock_timeout/],
])("refuses a migration with %s", async (_, sql, fault) => {
  expect((await findDowntime(sql, released)).join("\n")).toMatch(fault);
});

test.each([
  ["a column", `${short}alter table ai.runs add column region text`],
  ["a lock timeout of one second", "set lock_timeout = '1s'; alter table ai.runs add column region text"],
  [
    "a column that defaults to the time of the migration",
    `${short}alter table ai.runs add column seen_at timestamptz default now()`,
  ],
  ["a required column with a default", `${short}alter table ai.runs add column region text not null default 'eu'`],
  [
    "a constraint that is validated later",
    `${short}alter table ai.runs add constraint positive check (route > 0) not valid`,
  ],
  ["a later validation of a constraint", `${short}alter table ai.runs validate constraint positive`],
  ["an index that the operator has already built", `${short}create index if not exists a on ai.runs (request_id)`],
  [
    "a new table with its index",
    `${short}create table ai.a (id int); create index on ai.a (id); alter table ai.a enable row level security;
     select private.protect_table('ai.a'); select ai.protect_partition('ai.a_default'); alter table ai.b add a text`,
  ],
  ["the removal of a function that only functions call", "drop function ai.settle_batch(ai.run_report[])"],
  ["a replaced function", "create or replace function ai.a() returns int language sql as 'select 1'"],
  [
    "a function with a new signature",
    "drop function ai.a(int); create function ai.a(b int, c int default 0) returns int language sql as 'select 1'",
  ],
  [
    "the removal of a column that no release uses",
    `${short}-- Unused since 0.2.0\nalter table ai.runs drop column steps`,
  ],
  [
    "two altered tables that it locks first",
    `${short}do $$\nbegin\n  lock table ai.keys, ai.plans in access exclusive mode;\nend\n$$; alter table ai.keys add a text; alter table ai.plans add a text`,
  ],
  [
    "a guarded trigger on a table of Supabase Auth",
    `${short}alter table ai.runs add column a text;
     do $guard$\nbegin\n  if to_regclass('auth.users') is not null then\n-- Says why.\ncreate or replace trigger t after insert on auth.users\n  for each row execute function private.f();\n  end if;\nend\n$guard$`,
  ],
  [
    "a check that only reads and raises",
    `${short}do $$ begin if to_regclass('ai.a') is null then raise exception 'Create ai.a first'; end if; end $$;
     alter table ai.runs add column a text`,
  ],
  ["a backfill", "update ai.runs set region = 'eu' where region is null"],
])("accepts a migration with %s", async (_, sql) => {
  expect(await findDowntime(sql, released)).toEqual([]);
});
