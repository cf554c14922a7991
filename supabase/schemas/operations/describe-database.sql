-- Describes the contents of the database, for comparison with supabase/releases/objects.json. Returns names and hashes,
-- never definitions. Omits hosted Supabase's own objects, extensions' objects, and what operators may tune: non-unique
-- indexes, storage parameters, owners and comments.

-- Returns our objects by name, each with a hash of its definition. For grants, lists the privileges; an asterisk marks
-- a grant option.
create or replace function private.describe_objects() returns jsonb
  language sql stable security invoker
  -- These settings change how Postgres prints a definition, so each has a fixed value.
  set search_path = '' set quote_all_identifiers = off set timezone = 'UTC' set datestyle = 'ISO'
  set intervalstyle = 'postgres' set extra_float_digits = 1
as $$
  with schemas as (
    select n.oid, n.nspname as name, n.nspowner, n.nspacl
    from pg_namespace n where n.nspname in ('public', 'private', 'ai')
  ), of_extensions as (
    select d.classid, d.objid from pg_depend d where d.deptype = 'e'
  ), functions as (
    select p.oid, p.proowner, p.proacl, format(
        '%s %I.%I(%s)',
        case p.prokind when 'p' then 'procedure' else 'function' end, s.name, p.proname, oidvectortypes(p.proargtypes)
      ) as name
    from pg_proc p join schemas s on s.oid = p.pronamespace
    -- Skips event trigger functions, because hosted Supabase can add one to public to enable row-level security on new
    -- tables.
    where p.prokind <> 'a' and p.prorettype <> 'event_trigger'::regtype
      and not exists (select from of_extensions e where e.classid = 'pg_proc'::regclass and e.objid = p.oid)
  ), relations as (
    select c.oid, c.relkind, c.relispartition, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity,
      c.relpersistence, c.reloptions, s.oid as schema_oid, format('%I.%I', s.name, c.relname) as name
    from pg_class c join schemas s on s.oid = c.relnamespace
    where not exists (select from of_extensions e where e.classid = 'pg_class'::regclass and e.objid = c.oid)
  ), tables as (
    select r.* from relations r where r.relkind in ('r', 'p', 'f') and not r.relispartition
  ), policies as (
    select y.polrelid, format('policy %I on ', y.polname) as name, concat_ws(
        ' ', y.polpermissive, y.polcmd,
        (select string_agg(case g when 0 then 'public' else pg_get_userbyid(g) end, ',' order by g::regrole::text)
          from unnest(y.polroles) g),
        pg_get_expr(y.polqual, y.polrelid), 'check', pg_get_expr(y.polwithcheck, y.polrelid)
      ) as definition
    from pg_policy y
  ), privileges as (
    select f.name as target, a.privilege_type as privilege, null as attribute, a.grantee, a.is_grantable, f.proowner as owner
    from functions f, aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a
    union all
    select case r.relkind when 'S' then 'sequence ' else 'table ' end || r.name, a.privilege_type, null, a.grantee,
      a.is_grantable, r.relowner
    from relations r,
      aclexplode(coalesce(r.relacl, acldefault(case r.relkind when 'S' then 's' else 'r' end::"char", r.relowner))) a
    where r.relkind in ('r', 'p', 'f', 'v', 'm', 'S')
    union all
    select 'table ' || r.name, a.privilege_type, t.attname, a.grantee, a.is_grantable, r.relowner
    from relations r join pg_attribute t on t.attrelid = r.oid and not t.attisdropped, aclexplode(t.attacl) a
    union all
    -- Hosted Supabase manages the schema public.
    select format('schema %I', s.name), a.privilege_type, null, a.grantee, a.is_grantable, s.nspowner
    from schemas s, aclexplode(coalesce(s.nspacl, acldefault('n', s.nspowner))) a
    where s.name <> 'public'
  ), grants as (
    select p.target, case p.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(p.grantee)) end as grantee,
      string_agg(
        lower(p.privilege) || coalesce(' (' || quote_ident(p.attribute) || ')', '') || case when p.is_grantable then '*' else '' end,
        ',' order by lower(p.privilege), p.attribute
      ) as list
    from (select distinct target, privilege, attribute, grantee, is_grantable, owner from privileges) p
    where p.grantee <> p.owner
      -- Leaves out Supabase's administrator roles by name. Comparing with the owner is not enough, because a restored
      -- database can have another owner.
      and (p.grantee = 0 or pg_get_userbyid(p.grantee) not in ('postgres', 'supabase_admin', 'dashboard_user'))
    group by 1, 2
  ), definitions as (
    -- Removes comments and whitespace, except in strings and between two words.
    select f.name, regexp_replace(
        regexp_replace(
          pg_get_functiondef(f.oid),
          '(''(?:[^'']|'''')*'')|(?:\s|--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/)+', e'\\1\x01', 'g'
        ), '(?<!\w)\x01|\x01(?!\w)', '', 'g'
      ) as definition
    from functions f
    union all
    select 'view ' || r.name, concat_ws(
        e'\n',
        (select string_agg(o, ',' order by o) from unnest(r.reloptions) o),
        (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
          from pg_attribute a where a.attrelid = r.oid and a.attnum > 0),
        pg_get_viewdef(r.oid)
      )
    from relations r where r.relkind in ('v', 'm')
    union all
    select format('trigger %I on %I.%I', t.tgname, n.nspname, c.relname), concat_ws(' ', t.tgenabled, pg_get_triggerdef(t.oid))
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_proc p on p.oid = t.tgfoid
    where not t.tgisinternal and t.tgparentid = 0
      and (n.oid in (select s.oid from schemas s) or p.pronamespace in (select s.oid from schemas s))
    union all
    select 'table ' || t.name, concat_ws(' ', t.relkind, t.relpersistence, pg_get_partkeydef(t.oid)) from tables t
    union all
    select 'row-level security on ' || t.name, t.relforcerowsecurity::text from tables t where t.relrowsecurity
    union all
    select format('column %s.%I', t.name, a.attname), concat_ws(
        ' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
        (select l.collname from pg_collation l where l.oid = a.attcollation), pg_get_expr(d.adbin, d.adrelid)
      )
    from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    union all
    select format('constraint %I on %s', k.conname, coalesce(t.name, k.contypid::regtype::text)),
      pg_get_constraintdef(k.oid)
    from pg_constraint k left join tables t on t.oid = k.conrelid
    where k.connamespace in (select s.oid from schemas s) and (t.oid is not null or k.contypid <> 0)
      -- Skips not-null constraints, which the columns above already show, and the copies of a foreign key that Postgres
      -- creates for partitions.
      and k.contype not in ('t', 'n') and k.conparentid = 0
    union all
    select 'unique index ' || r.name, pg_get_indexdef(i.indexrelid) || ' ' || i.indisvalid
    from tables t join pg_index i on i.indrelid = t.oid and i.indisunique join relations r on r.oid = i.indexrelid
    where not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.conrelid = t.oid)
    union all
    select y.name || t.name, y.definition from policies y join tables t on t.oid = y.polrelid
    union all
    select 'type ' || format_type(y.oid, null), concat_ws(
        ' ', y.typtype, y.typnotnull, y.typdefault, format_type(nullif(y.typbasetype, 0), y.typtypmod),
        (select string_agg(quote_literal(e.enumlabel), ',' order by e.enumsortorder) from pg_enum e where e.enumtypid = y.oid),
        (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
          from pg_attribute a where a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped)
      )
    from pg_type y join schemas s on s.oid = y.typnamespace left join relations r on r.oid = y.typrelid
    where (y.typtype in ('e', 'd') or r.relkind = 'c')
      and not exists (select from of_extensions e where e.classid = 'pg_type'::regclass and e.objid = y.oid)
    union all
    -- Partitions of a table share one entry, because their number and names depend on the date. All of them have the
    -- same protection.
    select 'partitions of ' || p.name, string_agg(distinct p.protection, e'\n' order by p.protection)
    from (
      select parent.name, concat_ws(
          e'\n', r.relrowsecurity,
          (select string_agg(y.name || y.definition, e'\n' order by y.name) from policies y where y.polrelid = r.oid),
          (select string_agg(g.grantee || ' ' || g.list, e'\n' order by g.grantee) from grants g where g.target = 'table ' || r.name)
        ) as protection
      from relations r join pg_inherits h on h.inhrelid = r.oid join relations parent on parent.oid = h.inhparent
      where r.relispartition and r.relkind in ('r', 'p')
    ) p
    group by p.name
  )
  select jsonb_object_agg(d.name, left(encode(sha256(convert_to(d.definition, 'UTF8')), 'hex'), 16))
    || (
      select jsonb_object_agg(format('grants to %s on %s', g.grantee, g.target), g.list)
      from grants g
      where not exists (select from relations r where r.relispartition and g.target = 'table ' || r.name)
    )
  from definitions d
$$;

-- Returns the tables of the schema auth and every trigger on them, including triggers that are not ours, with the
-- function that each trigger runs.
create or replace function private.describe_auth_triggers() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with tables as (
    select c.oid, c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'auth' and c.relkind in ('r', 'p')
  ), triggers as (
    select c.name as table_name, t.tgname as name, t.tgenabled in ('O', 'A') as enabled,
      format('%I.%I', n.nspname, p.proname) as function
    from pg_trigger t join tables c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
      join pg_namespace n on n.oid = p.pronamespace
    where not t.tgisinternal and t.tgparentid = 0
  )
  select jsonb_build_object(
    'tables', (select coalesce(jsonb_agg(c.name order by c.name), '[]') from tables c),
    'triggers', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('table', t.table_name, 'name', t.name, 'enabled', t.enabled, 'function', t.function)
          order by t.table_name, t.name
        ),
        '[]'
      )
      from triggers t
    )
  )
$$;

-- Returns the facts that the doctor compares with the release: the version of Postgres (server_version_num), the
-- versions of the recorded migrations, private.describe_objects() and private.describe_auth_triggers(). The stack makes
-- the same comparison when it starts with a hosted database.
-- Definer: the service role cannot read the migration history.
create or replace function private.describe_database() returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  applied jsonb;
begin
  if to_regclass('supabase_migrations.schema_migrations') is not null then
    execute 'select jsonb_agg(m.version order by m.version) from supabase_migrations.schema_migrations m' into applied;
  end if;
  return jsonb_build_object(
    'postgres', current_setting('server_version_num')::integer,
    'migrations', coalesce(applied, '[]'),
    'objects', private.describe_objects(),
    'auth', private.describe_auth_triggers()
  );
end
$$;
