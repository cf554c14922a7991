-- Where the rule of 20260923120000 bites: the probe that policies run, the restrictive policy on every table, the
-- trigger that keeps the stored policy, and the capability that says all of it is in place.

-- Definer: asks the identity backend's tables, which the caller must not read, about the caller's own token alone.
create function private.account_required_mfa_satisfied() returns boolean
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return private.session_satisfies_mfa(auth.jwt());
end
$$;
comment on function private.account_required_mfa_satisfied() is
  'The probe of every account_required_mfa policy. Without usage on private only policies run it.';
revoke execute on function private.account_required_mfa_satisfied() from public, anon, authenticated;
grant execute on function private.account_required_mfa_satisfied() to authenticated;

create function private.protect_table(target regclass) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  execute format('alter table %s enable row level security', target);
  if exists (select from pg_catalog.pg_policy where polrelid = target and polname = 'account_required_mfa') then
    execute format('drop policy account_required_mfa on %s', target);
  end if;
  -- A sub-select, so that the probe runs once a statement and not once a row.
  execute format(
    'create policy account_required_mfa on %s as restrictive for all to authenticated '
    'using ((select private.account_required_mfa_satisfied())) '
    'with check ((select private.account_required_mfa_satisfied()))',
    target
  );
end
$$;
comment on function private.protect_table(regclass) is
  'Row-level security and the restrictive policy for one table. Whoever makes a table or partition later calls it.';
revoke execute on function private.protect_table(regclass) from public, anon, authenticated;

do $$
declare
  target regclass;
begin
  for target in
    select c.oid
    from pg_catalog.pg_class c
    where c.relnamespace in ('public'::regnamespace, 'private'::regnamespace, 'ai'::regnamespace)
      and c.relkind in ('r', 'p')
      and c.relrowsecurity
  loop
    perform private.protect_table(target);
  end loop;
end
$$;

create function private.keep_required_mfa_policy() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if current_setting('gatehouse.required_mfa_writer', true) = 'on' then
    return new;
  end if;
  if jsonb_typeof(new.raw_app_meta_data) is distinct from 'object' then
    new.raw_app_meta_data := '{}';
  end if;
  new.raw_app_meta_data := new.raw_app_meta_data - 'platform_required_mfa';
  if old.raw_app_meta_data ? 'platform_required_mfa' then
    new.raw_app_meta_data := new.raw_app_meta_data
      || jsonb_build_object('platform_required_mfa', old.raw_app_meta_data -> 'platform_required_mfa');
  end if;
  return new;
end
$$;
comment on function private.keep_required_mfa_policy() is
  'The identity backend writes back metadata that it read without a lock; without this a sign-in could undo a policy. '
  'Only the policy''s own function writes, and says so by gatehouse.required_mfa_writer in its transaction.';
revoke execute on function private.keep_required_mfa_policy() from public, anon, authenticated;

create trigger keep_required_mfa_policy before update of raw_app_meta_data on auth.users
  for each row
  when (
    (old.raw_app_meta_data -> 'platform_required_mfa')
      is distinct from (new.raw_app_meta_data -> 'platform_required_mfa')
  )
  execute function private.keep_required_mfa_policy();

create function public.required_mfa_enforcement_version() returns integer
  language sql
  stable
  security invoker
  set search_path = ''
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
        and t.tgname = 'keep_required_mfa_policy'
        and t.tgenabled in ('O', 'A')
        and n.nspname = 'private'
        and p.proname = 'keep_required_mfa_policy'
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
comment on function public.required_mfa_enforcement_version() is
  'Capability: 1 where trigger, probe, their privileges and the policy on every table are in place, else 0. '
  'Nothing may change a policy before it is 1.';
revoke execute on function public.required_mfa_enforcement_version() from public, anon, authenticated;
grant execute on function public.required_mfa_enforcement_version() to authenticated, service_role;
