-- Finds the caller that belongs to a credential of any kind. No role is granted these functions, because they only
-- serve the functions that check a call.

-- Returns the caller of a call, as ai.find_callers does.
create or replace function ai.find_caller(call jsonb) returns ai.caller
  language plpgsql stable security invoker
as $$
declare
  calls jsonb := jsonb_build_array(call);
  people ai.caller[] := ai.user_callers(calls);
begin
  return (select c.caller from ai.find_callers(calls, people) c);
end
$$;

-- Returns each of the calls with its place and its caller: the one that the call's credential belongs to. If the caller
-- may not make calls, refused has the reason. The caller is null if the credential is unknown, revoked or expired, if its
-- workspace is deleted, or if it belongs to a coding agent whose connection or login has ended. A key or token is given
-- as the SHA-256 of its text, and a session as claims that the gateway has verified. people is what ai.user_callers
-- returns for the calls. A key that is bound to an app has the gateway scopes of the app's registration. Imports need no
-- ai:use, so a bound key is not refused for it here but in ai.call_refusal. budgets has every scope and period if
-- the workspace has any budget.
create or replace function ai.find_callers(calls jsonb, people ai.caller[])
  returns table (place bigint, request ai.run_request, caller ai.caller)
  language sql stable security invoker
as $$
  with requests as materialized (
    select e.place, r as request, k.key
    from jsonb_array_elements(calls) with ordinality as e (call, place)
    cross join lateral jsonb_populate_record(null::ai.run_request, e.call) as r
    left join lateral (
      select k
      from ai.keys k
      where (r.credential).source = 'key'
        and k.secret_hash = decode((r.credential).hash, 'hex')
        and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > now())
      offset 0
    ) as k (key) on true
  )
  select r.place, r.request, c.caller
  from requests r
  left join lateral (
    select row(
      i.source,
      coalesce(i.refused, case
        when (r.request).workspace is null then case i.source when 'app_token' then 'workspace_header_required' end
        when (r.request).workspace <> i.workspace_id::text then 'workspace_mismatch'
      end),
      (i.key).id, (i.key).lineage_id, i.workspace_id, i.actor_id, i.app_id, i.scopes,
      (i.key).allowed_models, (i.key).requests_per_minute, (i.key).tokens_per_minute, (i.key).last_used_at,
      (p.plan).id, (p.plan).payer, (p.plan).markup, (p.plan).initial_credits,
      least((p.plan).requests_per_minute, (w.policy).requests_per_minute),
      least((p.plan).tokens_per_minute, (w.policy).tokens_per_minute),
      (w.policy).allowed_models, (w.policy).denied_models, coalesce((w.policy).provider_cost_visible, true),
      coalesce((w.policy).content_capture, false),
      case (p.plan).payer when 'member' then
        exists (select from public.workspace_members m where m.user_id = i.actor_id and m.workspace_id = i.workspace_id)
      end,
      -- Most workspaces have no budget.
      case when (select true from ai.budgets b where b.workspace_id = i.workspace_id limit 1)
        then '{key/*,app/*,member/*,label/*,workspace/*}'::text[]
      end,
      (i.key).entity_id, (i.key).name, (i.key).is_strict, (w.policy).allowed_regions,
      (w.policy).model_limits
    )::ai.caller as caller
    from (
      select
        'key' as source,
        coalesce(
          case a.status when 'mfa_required' then 'MFA_REQUIRED' when 'unavailable' then 'AUTH_UNAVAILABLE' end,
          -- Without an address, a key with an address list is refused.
          case when not coalesce(
            (r.request).address <<= any ((r.key).allowed_addresses), (r.key).allowed_addresses is null
          ) then 'insufficient_scope' end,
          b.refused
        ) as refused,
        (r.key).workspace_id, (r.key).created_by as actor_id, (r.key).external_app_id as app_id, b.scopes, r.key
      from (select) as one
      left join lateral (
        select f.refused, private.gateway_scopes(a) as scopes
        from private.apps a
        cross join lateral private.gateway_refusal(
          a, (r.key).workspace_id, private.gateway_scopes(a) || array['ai:use']
        ) f
        where a.id = (r.key).external_app_id
        offset 0
      ) as b on true
      cross join lateral (
        select case when (r.key).connection_id is not null then
          -- Runs once for all the calls, and only if a key among them belongs to an agent.
          (select ai.agent_key_statuses(array_agg(distinct (k.key).connection_id)) from requests k)
            ->> (r.key).connection_id::text
        end as status
        offset 0
      ) as a
      where (r.key).id is not null and a.status is distinct from 'over'
      union all
      select
        ((r.request).credential).source, u.refused, u.workspace_id, u.actor_id, u.app_id, u.scopes, null::ai.keys
      from (select (people[r.place]).* offset 0) as u
      where ((r.request).credential).source in ('app_token', 'session') and u.actor_id is not null
    ) as i
    -- The offsets keep lookups by key, even if the statistics are wrong.
    left join lateral (
      select s.id, s.plan_id from public.workspaces s where s.id = i.workspace_id and s.deleted_at is null offset 0
    ) as s on true
    left join lateral (select p as plan from ai.plans p where p.id = s.plan_id offset 0) as p on true
    left join lateral (
      select w as policy from ai.workspace_policies w where w.workspace_id = i.workspace_id offset 0
    ) as w on true
    where s.id is not null or i.source = 'session'
  ) as c on true
$$;

-- Returns the refusal of a caller that may not make calls, otherwise null. If a kind is given, also checks that the
-- caller may make calls of that kind.
create or replace function ai.call_refusal(caller ai.caller, kind text default null) returns jsonb
  language sql stable security invoker
as $$
  select case
    when (caller).source is null then ai.refusal('invalid_api_key')
    when (caller).refused is not null then ai.credential_refusal(caller)
    when (caller).app_id is not null and not 'ai:use' = any ((caller).scopes)
      or kind is not null and (
        (caller).app_id is not null and kind = 'speech' and not 'tts:use' = any ((caller).scopes)
        or (caller).payer = 'member' and not (caller).actor_is_member
      ) then ai.refusal('insufficient_scope', jsonb_build_object('missing', case
        when (caller).app_id is not null and not 'ai:use' = any ((caller).scopes) then ai.missing_scopes(caller, '{ai:use}')
        when (caller).app_id is not null and kind = 'speech' and not 'tts:use' = any ((caller).scopes)
          then ai.missing_scopes(caller, '{tts:use}')
        else jsonb '{"kind": "membership"}'
      end))
  end
$$;

-- Returns the refusal of a caller whose credential may not be used, with what the caller lacks.
create or replace function ai.credential_refusal(caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select ai.refusal((caller).refused, case
    when (caller).refused in ('insufficient_scope', 'app_not_allowed') then ai.missing_right(caller)
  end)
$$;

-- Returns what a caller lacks whose credential is refused as insufficient_scope or app_not_allowed: scopes, an address,
-- a permission, the app's link to the workspace or the person's membership.
create or replace function ai.missing_right(caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object('missing', case
    when (caller).refused = 'app_not_allowed' then jsonb_build_object('kind', case
      when ai.app_can_act_in_workspace((caller).app_id, (caller).workspace_id) then 'membership'
      else 'app_link'
    end)
    when (caller).source = 'session' then jsonb '{"kind": "permission", "permission": "use_ai_studio"}'
    when (caller).source = 'app_token' then ai.missing_scopes(caller, '{workspace:session,ai:use}')
    when (caller).app_id is not null and not 'workspace:session' = any ((caller).scopes)
      then ai.missing_scopes(caller, '{workspace:session}')
    else jsonb '{"kind": "address"}'
  end)
$$;

-- Returns those of the required scopes that a caller lacks.
create or replace function ai.missing_scopes(caller ai.caller, required text[]) returns jsonb
  language sql immutable security invoker
as $$
  select jsonb_build_object(
    'kind', 'scope',
    'scopes', array(select s.scope from unnest(required) as s (scope) where not s.scope = any (coalesce((caller).scopes, '{}')))
  )
$$;

-- Returns the id of the owner of a call's idempotency keys: the API key's lineage, the app or the person.
create or replace function ai.principal_id(caller ai.caller) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select coalesce((caller).lineage_id, (caller).app_id, (caller).actor_id)
$$;

-- Returns the id of the workspace or member whose credits pay for a caller's calls. Returns null for a registered app,
-- whose calls cost no credits. An app calls with its own tokens or with keys that are bound to it.
create or replace function ai.payer_id(caller ai.caller) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case
    when (caller).app_id is not null then null
    when (caller).payer = 'member' then (caller).actor_id
    else (caller).workspace_id
  end
$$;

-- Returns the person that belongs to an app's token or to the claims of a session, for each of the calls, and the reason
-- if the gateway refuses the person's calls. Returns null for keys, and for a token or claims that are not valid.
-- The gateway recognizes this function's name in an error, and then answers AUTH_UNAVAILABLE.
create or replace function ai.user_callers(calls jsonb) returns ai.caller[]
  language plpgsql stable security invoker
as $$
declare
  callers ai.caller[];
  caller ai.caller;
  place integer;
begin
  if not jsonb_path_exists(calls, '$[*].credential.source ? (@ == "app_token" || @ == "session")') then
    return callers;
  end if;
  for place, caller.refused, caller.workspace_id, caller.actor_id, caller.app_id, caller.scopes in
    select e.place, u.*
    from jsonb_array_elements(calls) with ordinality as e (call, place)
    cross join lateral (
      select r.credential, case (r.credential).source when 'session' then r.workspace::uuid end as workspace
      from jsonb_to_record(e.call) as r (credential ai.credential, workspace text)
      offset 0
    ) as r
    cross join lateral (
      select t.refused, t.workspace_id, t.user_id, t.app_id, t.scopes
      from ai.find_app_token(decode((r.credential).hash, 'hex')) t
      where (r.credential).source = 'app_token' and t.refused is distinct from 'invalid_api_key'
      union all
      select s.refused, r.workspace, s.user_id, null, null
      from ai.session_caller((r.credential).claims, r.workspace) s
      where (r.credential).source = 'session'
    ) as u
  loop
    callers[place] := caller;
  end loop;
  return callers;
end
$$;

-- Returns the person of a session and, if the gateway refuses the person's calls, the reason. Takes the session's
-- verified claims. Returns no row once the session has ended or the account is suspended or deleted. Not granted to any
-- role, because it trusts the claims.
create or replace function ai.session_caller(claims jsonb, workspace uuid) returns table (user_id uuid, refused text)
  language sql stable security invoker
as $$
  select
    f.user_id,
    case
      when private.required_mfa_state(f.app_metadata) = 'malformed' then 'AUTH_UNAVAILABLE'
      when not private.satisfies_required_mfa(
        f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second,
        floor(extract(epoch from now()))::bigint
      ) then 'MFA_REQUIRED'
      when workspace is null then 'workspace_header_required'
      when not exists (select from private.memberships_with_permission(f.user_id, workspace, 'use_ai_studio'))
        then 'insufficient_scope'
    end
  from private.session_facts(claims) f
  where not f.banned and not f.deleted
$$;

-- Returns the id of a budget's subject for a run. The scope states whether the subject is the key lineage, the app, the
-- member, the label, the envelope or the workspace.
create or replace function ai.budget_subject(
  scope text, workspace uuid, lineage uuid, app uuid, actor uuid, label text, envelope uuid
) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case scope
    when 'key' then lineage
    when 'app' then app
    when 'member' then actor
    when 'label' then ai.label_id(label)
    when 'envelope' then envelope
    else workspace
  end
$$;

-- Returns the id that represents a label in budgets: a UUID version 8 (RFC 9562, 5.8) made from the label's SHA-256.
-- Callers choose labels, so they must not be able to find a collision. A label cannot contain a backslash, which the
-- cast to bytea would read as an escape.
create or replace function ai.label_id(label text) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select left(
    overlay(overlay(encode(sha256(label::bytea), 'hex') placing '8' from 13) placing '8' from 17), 32
  )::uuid
$$;

-- Returns whether a key's last_used_at is due for an update. It is updated at most once a minute.
create or replace function ai.is_key_use_due(caller ai.caller) returns boolean
  language sql stable security invoker
as $$
  select (caller).key_id is not null and coalesce((caller).last_used_at < now() - interval '1 minute', true)
$$;

-- Updates the last_used_at of keys, at most once a minute.
create or replace function ai.record_key_use(key_ids uuid[]) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  update ai.keys k set last_used_at = now()
  where k.id = any (key_ids) and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute');
end
$$;

-- Returns a refusal with a code from the gateway's closed list of errors. Stable as jsonb_build_object is, so that the
-- planner inlines it; it would compute an immutable function of a constant code each time that it plans a statement.
create or replace function ai.refusal(code text, details jsonb default '{}') returns jsonb
  language sql stable security invoker parallel safe
as $$
  select jsonb_build_object('refused', code) || coalesce(details, '{}')
$$;
