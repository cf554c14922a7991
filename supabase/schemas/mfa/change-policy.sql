-- Lets an infrastructure admin change an account's MFA policy.

-- Changes an account's policy for an admin; no other function does. Takes { actor, subject, step, generation, reason,
-- requestId, ip } and returns { policy } or { refused: forbidden | oneself | not_enforced | not_found | conflict |
-- in_progress | unchanged | factors_left }. step is require, make_optional, begin_reset or finish_reset. begin_reset
-- closes the account. finish_reset opens it again, but only after all authenticators are deleted. generation is the
-- policy generation that the admin saw, 0 if there was none. Each step adds an entry to the audit log. Each step except
-- begin_reset also adds an event, which is emailed to the owner.
-- Definer: the policy is in Supabase Auth's table, which the service role cannot write. The actor's id can be trusted:
-- only our server has the service role, and it takes the id from a verified session. Our server also checks
-- REQUIRED_MFA_POLICY_ENABLED before it calls this function. The database does not know this setting and enforces
-- policies regardless of it.
create or replace function private.change_required_mfa(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  subject uuid := (change ->> 'subject')::uuid;
  step text := change ->> 'step';
  account auth.users;
  state text;
  changes jsonb;
  new_policy jsonb;
begin
  if not private.is_infrastructure_admin(actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = subject then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if public.required_mfa_enforcement_version() <> 1 then
    return jsonb_build_object('refused', 'not_enforced');
  end if;
  select * into account from auth.users u where u.id = subject and u.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  state := private.required_mfa_state(account.raw_app_meta_data);
  -- Compare and swap: if the policy has changed since the admin saw it, the admin must decide again.
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
    -- A session waiting for the second factor must not be admitted once the factor is deleted.
    perform private.delete_auth_sessions(subject);
    -- Deletes all of the user's recovery codes, so that no code can end the reset. This includes a code that has
    -- already begun a recovery.
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

  new_policy := private.write_required_mfa_policy(account, changes);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'required_mfa.' || step,
    'targetUserId', subject,
    'target', account.email,
    'before', account.raw_app_meta_data -> 'platform_required_mfa',
    'after', new_policy
  ));
  perform private.add_account_event(subject, event_kind)
  from (values ('require', 'mfa_required'), ('make_optional', 'mfa_made_optional'), ('finish_reset', 'authenticators_reset'))
    as e (of_step, event_kind)
  where e.of_step = step;
  return jsonb_build_object('policy', new_policy);
end
$$;

-- Returns what the console shows about an account before an admin changes its policy: { id, email, state, policy,
-- generation, authenticators, enforced, lastChange: { action, actorEmail, at } }. Returns null for an unknown account.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.required_mfa_of(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
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
