import { withDatabase } from "@gatehouse/local-stack/database";
import { readContents } from "../database/contents/read-contents.ts";
import { applyMigrations } from "../database/migrations.ts";

/**
 * Applies migrations and describes what they build: objects, the order of columns, comments, indexes, validated
 * constraints, and a hash of each table's rows without times and random values.
 */
export async function describeDatabase(dbUrl: string, directory: string): Promise<Record<string, string>> {
  await applyMigrations({ dbUrl, directory });
  const { objects } = await readContents({ url: "", secretKey: "", dbUrl });
  return withDatabase(dbUrl, async (client) => {
    const { rows } = await client.query<{ name: string; value: string }>(`
      with relations as (
        select c.oid, c.relkind, c.relispartition, format('%I.%I', n.nspname, c.relname) as name
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('public', 'private', 'ai') and c.relkind in ('r', 'p', 'v', 'c')
      ), stable_columns as (
        select r.name, string_agg(format('%I', a.attname), ', ' order by a.attnum) as list
        from relations r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
        where r.relkind = 'r' and not r.relispartition
          and a.atttypid not in ('uuid'::regtype, 'timestamptz'::regtype, 'timestamp'::regtype)
        group by r.name
      )
      select 'columns of ' || r.name as name, string_agg(a.attname, ', ' order by a.attnum) as value
      from relations r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped group by r.name
      union all
      select concat_ws('.', 'comment on ' || r.name, a.attname), d.description
      from relations r join pg_description d on d.classoid = 'pg_class'::regclass and d.objoid = r.oid
        left join pg_attribute a on a.attrelid = r.oid and a.attnum = nullif(d.objsubid, 0)
      union all
      select pg_get_indexdef(i.indexrelid), i.indisvalid::text from relations r join pg_index i on i.indrelid = r.oid
      union all
      select 'rows of ' || s.name, (xpath('/row/n/text()', query_to_xml(
        format('select count(*) || '' '' || coalesce(md5(string_agg(t::text, '','' order by t::text)), '''') as n from (select %s from %s) t', s.list, s.name),
        false, true, ''
      )))[1]::text
      from stable_columns s
      union all
      select 'constraint ' || k.conname || ' on ' || r.name, k.convalidated::text
      from relations r join pg_constraint k on k.conrelid = r.oid`);
    return { ...objects, ...Object.fromEntries(rows.map(({ name, value }) => [name, value])) };
  });
}
