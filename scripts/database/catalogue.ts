import type pg from "pg";
import { withoutLineComments } from "./body-names.ts";
import { type Grant, readGrants } from "./grants.ts";

/** A function, view or trigger as Postgres describes it. */
export type Entry = {
  oid: number;
  /** Leaves out the line comments of a function's body, so that changing a comment does not recreate the function. */
  definition: string;
  /**
   * Maps the SQL names of a view and of its columns to their comments. Functions and triggers are described by line
   * comments in their files, so their comments in the database do not count.
   */
  comments: ReadonlyMap<string, string>;
  /**
   * For a trigger on another owner's table: the function that the trigger runs. We can remove such a trigger only by
   * dropping its function.
   */
  borrowedBy?: string;
};

/** Objects by kind and name, such as `function private.f(integer)`, `view public.v` or `trigger t on public.notes`. */
export type Entries = ReadonlyMap<string, Entry>;
export type Catalogue = { entries: Entries; grants: readonly Grant[] };

/** The prefix of schemas that hold the previous definitions while new ones are tried. */
export const formerPrefix = "former~";

const notOfAnExtension = (catalogue: string, oid: string) =>
  `not exists (select from pg_depend d where d.classid = '${catalogue}'::regclass and d.objid = ${oid} and d.deptype = 'e')`;

const functionsSql = `
  select p.oid::int, format(
      '%s %I.%I(%s)',
      case p.prokind when 'p' then 'procedure' else 'function' end, n.nspname, p.proname, oidvectortypes(p.proargtypes)
    ) as key,
    pg_get_functiondef(p.oid) as definition, p.prosrc as body,
    null as comment, null::json as columns, null as "borrowedBy"
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = any ($1) and p.prokind <> 'a' and ${notOfAnExtension("pg_proc", "p.oid")}`;

const viewsSql = `
  select c.oid::int, format('view %I.%I', n.nspname, c.relname) as key,
    concat_ws(e'\\n', c.reloptions::text, (
      select string_agg(format('%I %s %s', a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation), ', ' order by a.attnum)
      from pg_attribute a where a.attrelid = c.oid and a.attnum > 0
    ), pg_get_viewdef(c.oid)) as definition, null as body,
    obj_description(c.oid, 'pg_class') as comment, (
      select json_object_agg(format('column %I.%I.%I', n.nspname, c.relname, a.attname), d.description)
      from pg_description d join pg_attribute a on a.attrelid = d.objoid and a.attnum = d.objsubid
      where d.classoid = 'pg_class'::regclass and d.objoid = c.oid and d.objsubid > 0
    ) as columns, null as "borrowedBy"
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1) and c.relkind = 'v' and ${notOfAnExtension("pg_class", "c.oid")}`;

const triggersSql = `
  select t.oid::int, format('trigger %I on %I.%I', t.tgname, n.nspname, c.relname) as key,
    concat_ws(' ', pg_get_triggerdef(t.oid), nullif(t.tgenabled::text, 'O')) as definition, null as body,
    null as comment, null::json as columns,
    case when not pg_has_role(c.relowner, 'usage')
      then format('function %I.%I()', f.nspname, p.proname) end as "borrowedBy"
  from pg_trigger t
    join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
    join pg_proc p on p.oid = t.tgfoid join pg_namespace f on f.oid = p.pronamespace
  where not t.tgisinternal and t.tgparentid = 0
    and (n.nspname = any ($1) or f.nspname = any ($1)) and not starts_with(f.nspname, '${formerPrefix}')`;

type Row = {
  oid: number;
  key: string;
  definition: string;
  body: string | null;
  comment: string | null;
  columns: Record<string, string> | null;
  borrowedBy: string | null;
};

/** Reads every function, view and trigger of `schemas`, and their privileges. */
export async function readCatalogue(client: pg.Client, schemas: readonly string[]): Promise<Catalogue> {
  return withQualifiedNames(client, async () => {
    const entries = new Map<string, Entry>();
    for (const sql of [functionsSql, viewsSql, triggersSql]) {
      const { rows } = await client.query<Row>(`${sql} order by key`, [schemas]);
      for (const { key, oid, body, comment, columns, borrowedBy, ...row } of rows) {
        const definition = body ? row.definition.replace(body, withoutLineComments) : row.definition;
        const comments = new Map(Object.entries(columns ?? {}));
        if (comment !== null) comments.set(key, comment);
        entries.set(key, { oid, definition, comments, ...(borrowedBy === null ? {} : { borrowedBy }) });
      }
    }
    return { entries, grants: await readGrants(client, schemas) };
  });
}

/** Runs `work` with an empty search path, so that Postgres qualifies every name with its schema. */
export async function withQualifiedNames<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  const { rows } = await client.query<{ path: string }>("select current_setting('search_path') as path");
  await client.query("set search_path = ''");
  const result = await work();
  await client.query("select set_config('search_path', $1, false)", [rows[0]?.path]);
  return result;
}

/** Lists the schemas that hold the project's objects: `public` and the schemas that migrations create. */
export async function listSchemas(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select nspname as name from pg_namespace
     where nspname = 'public' or nspowner = current_user::regrole and nspname not in ('extensions', 'supabase_migrations')
     order by nspname`,
  );
  return rows.map(({ name }) => name);
}

/**
 * Describes tables, columns, defaults, constraints, indexes and policies, none of which a generated migration may
 * change.
 */
export async function readFixedObjects(client: pg.Client, schemas: readonly string[]): Promise<string[]> {
  return withQualifiedNames(client, async () => {
    const { rows } = await client.query<{ line: string }>(
      `with tables as (
         select c.oid, c.oid::regclass::text as name, c.relrowsecurity from pg_class c
         where c.relnamespace = any ($1::text[]::regnamespace[]) and c.relkind in ('r', 'p')
       )
       select format('table %s, row security %s', name, relrowsecurity) as line from tables
       union all
       select format('column %s.%I %s %s', t.name, a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid))
       from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0
         left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
       where not a.attisdropped
       union all
       select format('constraint %I on %s %s %s', k.conname, coalesce(t.name, k.contypid::regtype::text), pg_get_constraintdef(k.oid), obj_description(k.oid, 'pg_constraint'))
       from pg_constraint k left join tables t on t.oid = k.conrelid
       where k.connamespace = any ($1::text[]::regnamespace[]) and k.contype <> 't'
       union all
       select pg_get_indexdef(i.indexrelid) from tables t join pg_index i on i.indrelid = t.oid
       union all
       select format('policy %I on %s %s %s %s %s %s %s', y.polname, t.name, y.polpermissive, y.polcmd, y.polroles::regrole[],
         pg_get_expr(y.polqual, y.polrelid), pg_get_expr(y.polwithcheck, y.polrelid), obj_description(y.oid, 'pg_policy'))
       from tables t join pg_policy y on y.polrelid = t.oid
       order by line`,
      [schemas],
    );
    return rows.map(({ line }) => line);
  });
}
