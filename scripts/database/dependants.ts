import type pg from "pg";
import { withQualifiedNames } from "./catalogue.ts";

/**
 * A policy, default or check constraint that uses a function or view, with the statements that remove and restore it.
 */
export type FixedDependant = { name: string; uses: string; drop: string; create: string[] };

export type Dependants = {
  /** Functions, views and triggers, such as `function private.f(integer)`. */
  keys: Set<string>;
  fixed: FixedDependant[];
  /** Dependants that cannot be dropped and restored automatically, described for the error message. */
  immovable: { name: string; uses: string; storesResults: boolean }[];
};

type Row = {
  key: string | null;
  name: string;
  uses: string;
  drop: string | null;
  create: string[] | null;
  storesResults: boolean;
};

/**
 * Finds everything that depends on the objects of `$1` (class and oid), directly or indirectly. Dependants of a view
 * depend on its rewrite rule or its row type, so both are followed.
 */
const dependantsSql = `
  with recursive followed (classid, objid, root) as (
    select r.classid::regclass::oid, r.objid::oid, r.key
    from json_to_recordset($1) as r (classid text, objid int, key text)
    union
    select next.classid, next.objid, f.root
    from followed f cross join lateral (
      select d.classid, d.objid from pg_depend d
      where d.refclassid = f.classid and d.refobjid = f.objid and d.deptype in ('n', 'a', 'i')
      union all
      select 'pg_class'::regclass, w.ev_class from pg_rewrite w where f.classid = 'pg_rewrite'::regclass and w.oid = f.objid
    ) next
    where f.classid <> 'pg_class'::regclass
      or exists (select from pg_class c where c.oid = f.objid and c.relkind = 'v')
  ), dependants as (
    select classid, objid, min(root) as root from followed group by classid, objid
  )
  select
    case d.classid
      when 'pg_proc'::regclass then (
        select format('%s %I.%I(%s)', case p.prokind when 'p' then 'procedure' else 'function' end,
          p.pronamespace::regnamespace, p.proname, oidvectortypes(p.proargtypes))
        from pg_proc p where p.oid = d.objid
      )
      when 'pg_class'::regclass then (
        select format('view %I.%I', c.relnamespace::regnamespace, c.relname)
        from pg_class c where c.oid = d.objid and c.relkind = 'v'
      )
      when 'pg_trigger'::regclass then (
        select format('trigger %I on %s', t.tgname, t.tgrelid::regclass) from pg_trigger t where t.oid = d.objid
      )
    end as key,
    pg_describe_object(d.classid, d.objid, 0) as name, d.root as uses, x.drop, x.create,
    exists (
      select from pg_class c where d.classid = 'pg_class'::regclass and c.oid = d.objid and c.relkind in ('i', 'I', 'm')
    ) or exists (
      select from pg_attrdef e join pg_attribute a on a.attrelid = e.adrelid and a.attnum = e.adnum
      where d.classid = 'pg_attrdef'::regclass and e.oid = d.objid and a.attgenerated = 's'
    ) as "storesResults"
  from dependants d left join lateral (
    select format('drop policy %I on %s', y.polname, y.polrelid::regclass) as drop, array_remove(array[
        format('create policy %I on %s%s for %s to %s', y.polname, y.polrelid::regclass,
          case when y.polpermissive then '' else ' as restrictive' end,
          case y.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
          (select string_agg(case r when 0 then 'public' else quote_ident(pg_get_userbyid(r)) end, ', ') from unnest(y.polroles) r))
        || coalesce(' using (' || pg_get_expr(y.polqual, y.polrelid) || ')', '')
        || coalesce(' with check (' || pg_get_expr(y.polwithcheck, y.polrelid) || ')', ''),
        format('comment on policy %I on %s is ', y.polname, y.polrelid::regclass) || quote_literal(obj_description(y.oid, 'pg_policy'))
      ], null) as create
    from pg_policy y where d.classid = 'pg_policy'::regclass and y.oid = d.objid
    union all
    select format('alter table %s alter column %I drop default', a.attrelid::regclass, a.attname),
      array[format('alter table %s alter column %I set default ', a.attrelid::regclass, a.attname) || pg_get_expr(e.adbin, e.adrelid)]
    from pg_attrdef e join pg_attribute a on a.attrelid = e.adrelid and a.attnum = e.adnum
    where d.classid = 'pg_attrdef'::regclass and e.oid = d.objid and a.attgenerated = ''
    union all
    select format('alter table %s drop constraint %I', k.conrelid::regclass, k.conname), array_remove(array[
        format('alter table %s add constraint %I ', k.conrelid::regclass, k.conname) || pg_get_constraintdef(k.oid),
        format('comment on constraint %I on %s is ', k.conname, k.conrelid::regclass) || quote_literal(obj_description(k.oid, 'pg_constraint'))
      ], null)
    from pg_constraint k
    where d.classid = 'pg_constraint'::regclass and k.oid = d.objid and k.contype = 'c' and k.conrelid <> 0
  ) x on true
  where d.classid not in ('pg_rewrite'::regclass, 'pg_type'::regclass)
    -- A constraint trigger's constraint goes with it, and what partitions inherit goes with the parent's.
    and not (d.classid = 'pg_constraint'::regclass and exists (
      select from pg_constraint k where k.oid = d.objid and (k.contype = 't' or k.conparentid <> 0 or not k.conislocal)
    ))
    and not (d.classid = 'pg_trigger'::regclass and exists (
      select from pg_trigger t where t.oid = d.objid and (t.tgisinternal or t.tgparentid <> 0)
    ))
  order by name`;

/** Finds what depends on functions and views and must therefore be dropped before them. */
export async function findDependants(
  client: pg.Client,
  objects: ReadonlyMap<string, { oid: number }>,
): Promise<Dependants> {
  const roots = [...objects]
    .filter(([key]) => !key.startsWith("trigger "))
    .map(([key, { oid }]) => ({ classid: key.startsWith("view ") ? "pg_class" : "pg_proc", objid: oid, key }));
  return withQualifiedNames(client, async () => {
    const { rows } = await client.query<Row>(dependantsSql, [JSON.stringify(roots)]);
    const found: Dependants = { keys: new Set(), fixed: [], immovable: [] };
    for (const { key, name, uses, drop, create, storesResults } of rows) {
      if (key !== null) found.keys.add(key);
      else if (drop === null || create === null) found.immovable.push({ name, uses, storesResults });
      else found.fixed.push({ name, uses, drop: drop, create: create.map(inLowerCase) });
    }
    return found;
  });
}

/** Lower-cases the keywords of SQL that Postgres wrote. Quoted names and strings stay as they are. */
function inLowerCase(sql: string): string {
  return sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|[^'"]+/g, (part) =>
    /^['"]/.test(part) ? part : part.toLowerCase(),
  );
}
