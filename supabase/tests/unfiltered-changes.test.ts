import { readFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { readBlocks } from "../../scripts/docs/blocks.ts";
import { type Database, test } from "./database.ts";
import { findUnfilteredChanges } from "./unfiltered-changes.ts";

/** Accepted findings, as `<function>: <what>`, with the reason. */
const allowed: Record<string, string> = {};

const page = "docs/operating.md";
const select = readBlocks(page, readFileSync(page, "utf8")).blocks.find(({ language }) => language === "sql")?.text;

/** Returns the functions that the SQL statement in docs/operating.md finds. */
async function listForOperators(db: Database): Promise<string[]> {
  if (select === undefined) throw new Error(`${page} has no statement`);
  return (await db.query<{ function: string }>(select)).map((row) => row.function).sort();
}

const plpgsql = (body: string, head = "returns void") =>
  `create function ai.offender() ${head} language plpgsql as $body$ ${body} $body$`;
const sql = (body: string) => `create function ai.offender() returns void language sql as $body$ ${body} $body$`;

type Case = [title: string, definition: string, found?: string[]];

const update = ["UPDATE without WHERE"];
const remove = ["DELETE without WHERE"];
const q = "declare q text; r record; c refcursor; begin";

const offenders: Case[] = [
  ["an UPDATE in SQL", sql("update ai.plans set name = name"), update],
  ["a second statement in SQL", sql("select 1; delete from ai.plans"), remove],
  ["a DELETE in a CTE", sql("with gone as (delete from ai.plans returning id) select from gone where id = ''"), remove],
  [
    "a body of BEGIN ATOMIC",
    "create function ai.offender() returns void language sql begin atomic update ai.plans set name = name; end",
    update,
  ],
  [
    "a procedure",
    "create procedure ai.offender() language plpgsql as $body$ begin delete from ai.plans; end $body$",
    remove,
  ],
  ["an UPDATE in PL/pgSQL", plpgsql("begin update ai.plans set name = (select 'a' where true); end"), update],
  [
    "an UPDATE in a CTE",
    plpgsql(`${q} with u as (update ai.plans set name = name returning id)
    select count(*) into r from u where id = ''; end`),
    update,
  ],
  [
    "a CTE that an INSERT reads",
    plpgsql(`begin with gone as (delete from ai.plans returning id)
    insert into ai.plans (id) select id from gone where true; end`),
    remove,
  ],
  [
    "a DELETE in IF",
    plpgsql("begin if exists (select from ai.plans where id = '') then delete from ai.plans; end if; end"),
    remove,
  ],
  [
    "an UPDATE in ELSE",
    plpgsql("begin if true then null; else update only ai.plans as p set name = 'a'; end if; end"),
    update,
  ],
  ["an UPDATE in CASE", plpgsql("begin case 1 when 1 then update ai.plans set name = name; end case; end"), update],
  ["a DELETE in LOOP", plpgsql("begin loop delete from ai.plans; exit; end loop; end"), remove],
  [
    "a DELETE in an exception block",
    plpgsql("begin begin null; exception when others then delete from ai.plans; end; end"),
    remove,
  ],
  [
    "an UPDATE that FOR reads",
    plpgsql(`${q} for r in update ai.plans set name = name returning id loop
    perform 1 where true; end loop; end`),
    update,
  ],
  [
    "a DELETE that RETURN QUERY reads",
    plpgsql("begin return query delete from ai.plans returning id; end", "returns setof text"),
    remove,
  ],
  [
    "a declared cursor",
    plpgsql("declare c cursor (n int) for delete from ai.plans returning id; begin open c (1); end"),
    remove,
  ],
  ["an opened cursor", plpgsql(`${q} open c for update ai.plans set name = name returning id; end`), update],
  ["an UPDATE with FROM", plpgsql("begin update ai.plans p set name = o.name from ai.plans o; end"), update],
  ["a DELETE with USING", plpgsql("begin delete from ai.plans p using ai.plans o; end"), remove],
  ["a row type", plpgsql("declare p ai.plans; begin p.name := 'a'; update ai.plans set name = p.name; end"), update],
  ["a trigger", plpgsql("begin new.name := 'a'; delete from ai.plans; return new; end", "returns trigger"), remove],
  ["a constant that is executed", plpgsql("begin execute 'update ai.plans set name = name'; end"), update],
  ["a dollar-quoted constant", plpgsql("begin execute $q$delete from ai.plans$q$; end"), remove],
  ["a constant with a quote", plpgsql("begin execute 'update ai.plans set name = ''it''''s where'''; end"), update],
  ["a text with a name in it", plpgsql("begin execute 'delete from ' || quote_ident('plans'); end"), remove],
  [
    "a text from format",
    plpgsql("begin execute format('update ai.%I set %2$I = %3$L', 'plans', 'name', 'where'); end"),
    update,
  ],
  [
    "a text from format with a table",
    plpgsql("declare t regclass; begin execute format('delete from %s', t) using 1; end"),
    remove,
  ],
  [
    "a text in a branch",
    plpgsql(`begin execute case when true then 'delete from plans'
    else 'select 1' end; end`),
    [
      ...remove,
      `EXECUTE that cannot be read: case when true then 'delete from plans'
    else 'select 1' end`,
    ],
  ],
  [
    "a CTE that is executed",
    plpgsql(
      `${q} execute 'with u as (update ai.plans set name = name returning id) select 1 from u where true' into r; end`,
    ),
    update,
  ],
  [
    "a FOR that executes",
    plpgsql(`${q} for r in execute 'delete from ai.plans returning id' loop null; end loop; end`),
    remove,
  ],
  [
    "a RETURN QUERY that executes",
    plpgsql("begin return query execute 'delete from ai.plans returning id'; end", "returns setof text"),
    remove,
  ],
  [
    "a cursor that executes",
    plpgsql(`${q} open c for execute 'update ai.plans set name = name returning id'; end`),
    update,
  ],
  [
    "a text kept for later",
    plpgsql(`${q} q := 'delete from ai.plans'; execute q; end`),
    [...remove, "EXECUTE that cannot be read: q"],
  ],
  ["a default", plpgsql("declare q text := 'delete from ai.plans'; begin perform q; end"), remove],
  [
    "a text given to another function",
    plpgsql("begin perform query_to_xml('delete from ai.plans returning 1', true, true, ''); end"),
    remove,
  ],
];

/** Cases that the query in docs/operating.md can't find, because it has no SQL parser. */
const unreadable: Case[] = [
  [
    "a text that comes from outside",
    plpgsql(`${q} select name into q from ai.plans limit 1; execute q; end`),
    ["EXECUTE that cannot be read: q"],
  ],
  [
    "a part that comes from outside",
    plpgsql(`${q} execute 'with u as (' || q || ') select 1'; end`),
    ["EXECUTE that cannot be read: 'with u as (' || q || ') select 1'"],
  ],
  [
    "a text from format of what comes from outside",
    plpgsql(`${q} execute format(q, 1); end`),
    ["EXECUTE that cannot be read: format(q, 1)"],
  ],
  ["a DO block", plpgsql("begin do 'begin null; end'; end"), ["DO block, which is not read"]],
];

const harmless: Case[] = [
  ["WHERE", plpgsql("begin update ai.plans set name = name where id = ''; delete from ai.plans where id = ''; end")],
  ["WHERE with a constant", plpgsql("begin update ai.plans set name = name where true; end")],
  [
    "WHERE at a cursor's row",
    plpgsql(
      "declare c cursor for select * from ai.plans for update; begin open c; fetch c; delete from ai.plans where current of c; end",
      "returns void",
    ).replace("fetch c;", "move c;"),
  ],
  [
    "INSERT with ON CONFLICT",
    sql("insert into ai.plans (id, name) values ('', '') on conflict (id) do update set name = excluded.name"),
  ],
  [
    "MERGE",
    sql(
      "merge into ai.plans p using ai.plans o on p.id = o.id when matched and o.id = '' then delete when matched then update set name = o.name",
    ),
  ],
  ["FOR UPDATE", plpgsql("begin perform from ai.plans for no key update; end")],
  [
    "comments and messages",
    plpgsql(
      "begin -- it's update ai.plans set name = name;\n /* delete from ai.plans; */ raise notice 'cannot delete plans'; end",
    ),
  ],
  [
    "WHERE in each part",
    plpgsql(
      "begin with gone as (delete from ai.plans where id = '' returning *) update ai.plans p set name = 'a' from gone g where g.id = p.id; end",
    ),
  ],
  [
    "WHERE in a text",
    plpgsql("begin execute format('update ai.%I set name = %L where id = $1', 'plans', 'a') using ''; end"),
  ],
];

/**
 * Tested only with `findUnfilteredChanges`. The query in docs/operating.md checks each string literal separately and
 * would not see the WHERE.
 */
const joined: Case = [
  "a WHERE in another string",
  plpgsql("begin execute 'delete from ai.plans' || format(' where %I = %L', 'id', ''); end"),
];

async function create(db: Database, cases: Case[]): Promise<void> {
  for (const [title, definition] of cases) await db.query(definition.replace("ai.offender", `ai."${title}"`));
}

describe("functions of public, private and ai", () => {
  test("each UPDATE and DELETE in a function has a WHERE, which the hosted Data API requires", async ({ db }) => {
    expect(await findUnfilteredChanges(db)).toEqual(Object.keys(allowed).sort());
    expect(await listForOperators(db)).toEqual([]);
  });

  test("reports a function if a WHERE is missing, or if its statements can't be analysed", async ({ db }) => {
    const cases = [...offenders, ...unreadable];
    await create(db, cases);
    const expected = cases.flatMap(([title, , found = []]) => found.map((line) => `ai."${title}"(): ${line}`));
    expect(await findUnfilteredChanges(db)).toEqual(expected.sort());
  });

  test("the report for operators lists functions with a missing WHERE", async ({ db }) => {
    await create(db, offenders);
    expect(await listForOperators(db)).toEqual(offenders.map(([title]) => `ai."${title}"()`).sort());
  });

  test("accepts functions whose statements have a WHERE or don't require one", async ({ db }) => {
    await create(db, harmless);
    expect(await findUnfilteredChanges(db)).toEqual([]);
    expect(await listForOperators(db)).toEqual([]);
    await create(db, [joined]);
    expect(await findUnfilteredChanges(db)).toEqual([]);
  });
});
