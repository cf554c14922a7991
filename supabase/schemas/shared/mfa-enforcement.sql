-- Enforces required MFA with three parts: a probe function, a restrictive policy on every table that calls the probe,
-- and a function that reports whether everything is in place. The trigger that protects each account's stored MFA
-- policy is in auth-schema.sql, and its function in auth-writes.sql.

-- Returns whether the caller's session satisfies required MFA. Every account_required_mfa policy calls this function.
-- Callers cannot call it directly, because they have no usage on schema private.
-- Definer: the caller cannot read Supabase Auth's tables. Reads only facts about the caller's own token.
create or replace function private.account_required_mfa_satisfied() returns boolean
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return private.session_satisfies_mfa(private.caller_claims());
end
$$;

-- Enables row-level security on a table and adds the restrictive policy. Call it for each table or partition that is
-- created later.
create or replace function private.protect_table(target regclass) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  execute format('alter table %s enable row level security', target);
  if exists (select from pg_catalog.pg_policy where polrelid = target and polname = 'account_required_mfa') then
    execute format('drop policy account_required_mfa on %s', target);
  end if;
  -- A subselect, so that the probe runs once per statement and not once per row.
  execute format(
    'create policy account_required_mfa on %s as restrictive for all to authenticated '
    'using ((select private.account_required_mfa_satisfied())) '
    'with check ((select private.account_required_mfa_satisfied()))',
    target
  );
end
$$;

-- Returns 1 if required MFA is fully enforced, otherwise 0. Checks the trigger that preserves policies, the function
-- account_required_mfa_satisfied() with its privileges, and the policy on every table. Accounts' MFA policies can be
-- changed only while this function returns 1.
create or replace function public.required_mfa_enforcement_version() returns integer
  language sql stable security invoker set search_path = ''
as $$
  select (
    exists (
      select
      from pg_catalog.pg_trigger t
      join pg_catalog.pg_proc p on p.oid = t.tgfoid
      join pg_catalog.pg_namespace n on n.oid = p.pronamespace
      join pg_catalog.pg_class c on c.oid = t.tgrelid
      join pg_catalog.pg_namespace a on a.oid = c.relnamespace
      where a.nspname = 'auth'
        and c.relname = 'users'
        and t.tgname = 'preserve_required_mfa_policy'
        and t.tgenabled in ('O', 'A')
        and n.nspname = 'private'
        and p.proname = 'preserve_required_mfa_policy'
    )
    and exists (
      select
      from pg_catalog.pg_proc p
      join pg_catalog.pg_namespace n on n.oid = p.pronamespace
      where n.nspname = 'private'
        and p.proname = 'account_required_mfa_satisfied'
        and p.pronargs = 0
        and p.prosecdef
        and p.provolatile = 's'
        and pg_catalog.has_function_privilege('authenticated', p.oid, 'execute')
        and not pg_catalog.has_function_privilege('anon', p.oid, 'execute')
        and 3 = (
          select count(*)
          from pg_catalog.pg_class c
          join pg_catalog.pg_namespace a on a.oid = c.relnamespace
          where a.nspname = 'auth'
            and c.relname in ('users', 'sessions', 'mfa_factors')
            and pg_catalog.has_table_privilege(p.proowner, c.oid, 'select')
        )
    )
    and not exists (
      select
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('public', 'private', 'ai')
        and c.relkind in ('r', 'p')
        and not (
          c.relrowsecurity
          and exists (
            select
            from pg_catalog.pg_policy y
            where y.polrelid = c.oid
              and y.polname = 'account_required_mfa'
              and not y.polpermissive
              and y.polcmd = '*'
          )
        )
    )
  )::integer
$$;
