/** A rule for the whole catalogue, with a violation that proves the rule can fail. */
export type CatalogRule = {
  name: string;
  /** Returns one row per violation, in column `offence`. */
  sql: string;
  /** SQL that violates the rule; the test runs it and rolls it back. */
  offend: string;
  /** The violation that the rule must report for `offend`. */
  expected: string;
};

const ours = "('public', 'private', 'ai')";
const tables = `pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname in ${ours}`;
const functions = `pg_proc p join pg_namespace n on n.oid = p.pronamespace and n.nspname in ${ours}`;
const signature = "format('%s.%s(%s)', n.nspname, p.proname, replace(oidvectortypes(p.proargtypes), ', ', ','))";

/** The rules for every object in the schemas public, private and ai. */
export const catalogRules: readonly CatalogRule[] = [
  {
    name: "every table and partition has row-level security",
    sql: `select c.oid::regclass::text as offence from ${tables} where c.relkind in ('r', 'p') and not c.relrowsecurity`,
    offend: "create table private.offender (id int)",
    expected: "private.offender",
  },
  {
    name: "every table and partition has the restrictive policy account_required_mfa for everything",
    sql: `select c.oid::regclass::text as offence from ${tables}
      where c.relkind in ('r', 'p') and not exists (
        select from pg_policy y
        where y.polrelid = c.oid and y.polname = 'account_required_mfa' and not y.polpermissive and y.polcmd = '*'
          and y.polroles = array['authenticated'::regrole::oid]
          and pg_get_expr(y.polqual, y.polrelid) like '%SELECT private.account_required_mfa_satisfied()%'
          and pg_get_expr(y.polwithcheck, y.polrelid) like '%SELECT private.account_required_mfa_satisfied()%'
      )`,
    offend: `create table ai.offender (id int);
      alter table ai.offender enable row level security;
      create policy account_required_mfa on ai.offender as restrictive to authenticated using (true)`,
    expected: "ai.offender",
  },
  {
    name: "private and ai have no permissive policy",
    sql: `select c.oid::regclass::text || ': ' || y.polname as offence
      from ${tables} join pg_policy y on y.polrelid = c.oid
      where n.nspname <> 'public' and y.polpermissive`,
    offend: `create table private.offender (id int); create policy select_all on private.offender for select using (true)`,
    expected: "private.offender: select_all",
  },
  {
    name: "a view runs with its caller's rights",
    sql: `select c.oid::regclass::text as offence from ${tables}
      where c.relkind = 'm' or c.relkind = 'v' and not coalesce('security_invoker=true' = any (c.reloptions), false)`,
    offend: "create view private.offender as select 1 as one",
    expected: "private.offender",
  },
  {
    // Such a view would fail a migration of Supabase Auth that drops the table, or drops or alters a column of it.
    name: "no view depends on a table of Supabase Auth",
    sql: `select distinct c.oid::regclass::text as offence
      from ${tables} join pg_rewrite r on r.ev_class = c.oid
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
      join pg_class t on t.oid = d.refobjid and t.relnamespace = 'auth'::regnamespace`,
    offend: "create view private.offender as select id from auth.users",
    expected: "private.offender",
  },
  {
    name: "a foreign key states its on delete action",
    sql: `select format('%s (%s)', k.conrelid::regclass, (
        select string_agg(a.attname, ', ' order by o.position)
        from unnest(k.conkey) with ordinality as o (attnum, position)
        join pg_attribute a on a.attrelid = k.conrelid and a.attnum = o.attnum
      )) as offence
      from pg_constraint k join ${tables} on c.oid = k.conrelid
      where k.contype = 'f' and k.confdeltype = 'a' and k.conparentid = 0`,
    offend: "create table private.offender (user_id uuid references auth.users (id))",
    expected: "private.offender (user_id)",
  },
  {
    name: "an index begins with the columns of each foreign key of public and private",
    sql: `select format('%s: %s', k.conrelid::regclass, k.conname) as offence
      from pg_constraint k join ${tables} on c.oid = k.conrelid
      where k.contype = 'f' and n.nspname <> 'ai' and not exists (
        select from pg_index i
        where i.indrelid = k.conrelid and i.indpred is null
          and k.conkey <@ (i.indkey::int2[])[0:cardinality(k.conkey) - 1]
      )`,
    offend: `create table private.offender (id int primary key, user_id uuid references auth.users (id) on delete cascade)`,
    expected: "private.offender: offender_user_id_fkey",
  },
  {
    name: "every table and view has a comment",
    sql: `select c.oid::regclass::text as offence from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('public', 'private', 'ai') and c.relkind in ('r', 'p', 'v') and not c.relispartition
        and obj_description(c.oid, 'pg_class') is null`,
    offend: "create view private.offender as select 1 as one",
    expected: "private.offender",
  },
  {
    name: "no comment in the database describes a function or trigger, because rewording it would need a migration",
    sql: `select ${signature} as offence from ${functions} where obj_description(p.oid, 'pg_proc') is not null
      union all
      select t.tgname from pg_trigger t join pg_proc p on p.oid = t.tgfoid join pg_namespace n on n.oid = p.pronamespace
      where n.nspname in ('public', 'private', 'ai') and obj_description(t.oid, 'pg_trigger') is not null`,
    offend: `create function private.offender() returns int language sql stable as 'select 1';
      comment on function private.offender() is 'Returns 1.'`,
    expected: "private.offender()",
  },
  {
    name: "a definer fixes its search path, and belongs to the role that migrates",
    sql: `select ${signature} as offence from ${functions}
      where p.prosecdef
        and (p.proowner <> 'postgres'::regrole or not coalesce('search_path=""' = any (p.proconfig), false))`,
    offend: `create function ai.offender() returns int language sql stable security definer
      set search_path = public as 'select 1'`,
    expected: "ai.offender()",
  },
  {
    name: "a definer that a signed-in user can call checks the MFA probe",
    sql: `select ${signature} as offence from ${functions}
      where p.prosecdef and n.nspname = 'public'
        and (has_function_privilege('authenticated', p.oid, 'execute') or has_function_privilege('anon', p.oid, 'execute'))
        and p.proname not in ('session_state', 'device_session_state')
        and p.prosrc not like '%private.account_required_mfa_satisfied()%'`,
    offend: `create function public.offender() returns int language sql stable security definer
      set search_path = '' as 'select 1'; grant execute on function public.offender() to authenticated`,
    expected: "public.offender()",
  },
  {
    name: "a function that a policy runs is not volatile",
    sql: `select distinct ${signature} as offence
      from ${functions} join pg_depend d on d.refobjid = p.oid and d.classid = 'pg_policy'::regclass
      where p.provolatile = 'v'`,
    offend: `create function private.offender() returns boolean language sql volatile as 'select true';
      create policy offence on public.profiles for select using (private.offender())`,
    expected: "private.offender()",
  },
  {
    // PostgREST runs non-volatile functions in a read-only transaction, so a call of a function that writes would fail
    // there. Postgres itself refuses only writes in the function's own body.
    name: "a function that is not volatile calls no volatile one",
    sql: `select distinct ${signature} as offence from ${functions}
      cross join lateral regexp_matches(pg_get_functiondef(p.oid), '\\m(public|private|ai)[.](\\w+)\\s*\\(', 'gi') as called
      join pg_proc v on v.proname = called[2] and v.pronamespace::regnamespace::text = called[1] and v.provolatile = 'v'
      where p.provolatile <> 'v' and p.prokind = 'f'`,
    offend: `create function private.writes() returns int language sql volatile as 'select 1';
      create function private.offender() returns int language sql stable as 'select private.writes()'`,
    expected: "private.offender()",
  },
  {
    name: "a trigger function is volatile, and only trigger functions return trigger",
    sql: `select ${signature} as offence from ${functions}
      where p.prorettype = 'trigger'::regtype and (p.provolatile <> 'v' or has_function_privilege('service_role', p.oid, 'execute'))
        and n.nspname <> 'public'`,
    offend: `create function private.offender() returns trigger language plpgsql stable as 'begin return null; end'`,
    expected: "private.offender()",
  },
  {
    // A credential of an account is a column that looks like one, in a table that names an account or is a part of one
    // that does. account_credentials lists them all, so that reviews, sign-outs and exports leave none out.
    // Of the tables that auth_credentials reads, Postgres records no dependency.
    name: "a table with credentials of an account is in account_credentials",
    sql: `with recursive listed as (
        select distinct d.refobjid as oid
        from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
        where r.ev_class = 'private.account_credentials'::regclass and d.refclassid = 'pg_class'::regclass
        union
        select to_regclass(source[1])
        from regexp_matches(
          (select p.prosrc from pg_proc p where p.oid = 'private.auth_credentials()'::regprocedure),
          '\\m(?:from|join)\\s+(\\w+\\.\\w+)', 'g'
        ) as source
      )
      select c.oid::regclass::text as offence
      from pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname in ('public', 'private', 'ai', 'auth')
      where c.relkind in ('r', 'p') and not c.relispartition
        and exists (
          select from pg_attribute a
          where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            and (
              a.attname ~ '(hash|token|secret|lookup|password|sealed|public_key|(^|_)code$|_tag$|proof)'
              and a.atttypid in ('bytea'::regtype, 'text'::regtype, 'varchar'::regtype)
              or a.atttypid = 'private.mfa_proof'::regtype
              or c.oid = any (array['auth.sessions', 'auth.identities']::regclass[])
            )
        )
        and (
          exists (
            select from pg_attribute a
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
              and (a.attname ~ '(^|_)(user_id|session_id|email)$' or a.attname = 'created_by')
          )
          or exists (select from pg_constraint k where k.conrelid = c.oid and k.confrelid in (select l.oid from listed l))
        )
        and c.oid not in (select l.oid from listed l)`,
    offend: `create table private.offender (user_id uuid, token_hash bytea)`,
    expected: "private.offender",
  },
];

/** Lists every grant to PUBLIC and to the roles of the API, the gateway and the identity backend, as a line of text. */
export const grantsSql = `
  with grants as (
    select a.grantee, a.privilege_type, null::text as columns,
      case when c.relkind = 'S' then 'sequence ' else '' end || format('%s.%s', n.nspname, c.relname) as object
    from ${tables} cross join lateral aclexplode(coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))) a
    union all
    select x.grantee, x.privilege_type, string_agg(t.attname, ', ' order by t.attname), format('%s.%s', n.nspname, c.relname)
    from ${tables} join pg_attribute t on t.attrelid = c.oid cross join lateral aclexplode(t.attacl) x
    group by x.grantee, x.privilege_type, n.nspname, c.relname
    union all
    select a.grantee, a.privilege_type, null, ${signature}
    from ${functions} cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    union all
    select a.grantee, a.privilege_type, null, 'schema ' || n.nspname
    from pg_namespace n cross join lateral aclexplode(n.nspacl) a where n.nspname in ('private', 'ai')
  )
  select format(
    '%s: %s%s on %s',
    case grantee when 0 then 'everyone' else pg_get_userbyid(grantee) end,
    lower(privilege_type),
    ' (' || columns || ')',
    object
  ) as line
  from grants
  where grantee = 0 or pg_get_userbyid(grantee) in ('anon', 'authenticated', 'authenticator', 'gateway', 'supabase_auth_admin')
  order by line`;
