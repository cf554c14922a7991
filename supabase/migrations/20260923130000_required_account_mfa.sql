-- Enforcement of required MFA: the restrictive policy on every table, the trigger that keeps the stored policy, the
-- function that changes it, and the capability that says all of it is in place.

-- schemas/auth-schema.sql

create or replace function private.preserve_required_mfa_policy() returns trigger
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
comment on function private.preserve_required_mfa_policy() is
  'The identity backend writes back metadata that it read without a lock; without this a sign-in could undo a policy. '
  'Only the policy''s own function writes, and says so by gatehouse.required_mfa_writer in its transaction.';

-- schemas/mfa/enforcement.sql

create or replace function public.required_mfa_enforcement_version() returns integer
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
comment on function public.required_mfa_enforcement_version() is
  'Capability: 1 where trigger, probe, their privileges and the policy on every table are in place, else 0. '
  'Nothing may change a policy before it is 1.';

-- schemas/mfa/change-policy.sql

-- Definer: the policy is in the identity backend's table, which the service role cannot write. The actor's id comes from
-- a session that our server verified: the service role is our server alone. So is the switch
-- REQUIRED_MFA_POLICY_ENABLED, which it asks before it calls; nothing in the database knows of it, and enforcement never.
create or replace function private.change_required_mfa(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  subject uuid := (change ->> 'subject')::uuid;
  step text := change ->> 'step';
  account auth.users;
  state text;
  changes jsonb;
  written jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = subject then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if public.required_mfa_enforcement_version() <> 1 then
    return jsonb_build_object('refused', 'not_enforced');
  end if;
  select * into account from auth.users u where u.id = subject and u.deleted_at is null for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  state := private.required_mfa_state(account.raw_app_meta_data);
  -- Compare and swap: whoever decided on another policy than this one decides anew.
  if (change ->> 'generation')::bigint
    is distinct from coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) then
    return jsonb_build_object('refused', 'conflict');
  end if;

  if step in ('require', 'make_optional') then
    if state = 'recovery_in_progress' then
      return jsonb_build_object('refused', 'in_progress');
    end if;
    if (state = 'required') = (step = 'require') and state <> 'malformed' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    changes := jsonb_build_object('required', step = 'require');
  elsif step = 'begin_reset' then
    changes := '{"recovery": "in_progress", "signInAgain": true}';
    -- One that waits at the challenge must not open by the challenge's going away.
    perform private.delete_auth_sessions(subject);
    -- Nor may a recovery code, half-used or not, of who was locked out here end the reset.
    delete from private.mfa_recovery_codes c where c.user_id = subject;
  elsif step = 'finish_reset' then
    if state <> 'recovery_in_progress' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    if exists (select from auth.mfa_factors f where f.user_id = subject) then
      return jsonb_build_object('refused', 'factors_left');
    end if;
    changes := '{"recovery": "none"}';
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  written := private.write_required_mfa_policy(account, changes);
  insert into private.admin_audit_log (
    actor_id, action, target_user_id, target, reason, before, after, request_id, ip
  )
  values (
    actor, 'required_mfa.' || step, subject, account.email, change ->> 'reason',
    account.raw_app_meta_data -> 'platform_required_mfa', written, change ->> 'requestId', (change ->> 'ip')::inet
  );
  return jsonb_build_object('policy', written);
end
$$;
comment on function private.change_required_mfa(jsonb) is
  'The one function by which an admin changes an account''s policy: { actor, subject, step, generation, reason, '
  'requestId, ip } → { policy } or { refused: forbidden | oneself | not_enforced | not_found | conflict | in_progress | '
  'unchanged | factors_left }. Steps: require, make_optional; begin_reset, which closes the account until its '
  'authenticators are deleted and finish_reset has found none left. generation is the one decided on, 0 before the '
  'first. Each change is a line of the audit log, in the same transaction.';

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.required_mfa_of(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', u.id,
    'email', u.email,
    'state', private.required_mfa_state(u.raw_app_meta_data),
    'policy', u.raw_app_meta_data -> 'platform_required_mfa',
    'generation', coalesce(private.required_mfa_generation(u.raw_app_meta_data), 0),
    'authenticators', (select count(*) from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified'),
    'enforced', public.required_mfa_enforcement_version() = 1,
    'lastChange', (
      select jsonb_build_object(
        'action', l.action,
        'actorEmail', (select a.email from auth.users a where a.id = l.actor_id),
        'at', l.created_at
      )
      from private.admin_audit_log l
      where l.target_user_id = u.id and l.action like 'required\_mfa.%'
      order by l.created_at desc, l.id desc
      limit 1
    )
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;
comment on function private.required_mfa_of(uuid) is
  'What the console shows of an account before it changes its policy: { id, email, state, policy, generation, '
  'authenticators, enforced, lastChange: { action, actorEmail, at } }; null where there is no such account.';

-- Auth writes back the whole metadata column, with a policy that may be older than the stored one.
create or replace trigger preserve_required_mfa_policy before update of raw_app_meta_data on auth.users
  for each row
  when (
    (old.raw_app_meta_data -> 'platform_required_mfa')
      is distinct from (new.raw_app_meta_data -> 'platform_required_mfa')
  )
  execute function private.preserve_required_mfa_policy();

-- mfa/
grant execute on function public.required_mfa_enforcement_version() to authenticated;

-- mfa/
grant execute on function
  public.required_mfa_enforcement_version(),
  private.change_required_mfa(jsonb),
  private.required_mfa_of(uuid)
to service_role;

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
