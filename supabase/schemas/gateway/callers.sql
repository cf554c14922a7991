-- Finds the caller that belongs to a credential of any kind. No role is granted these functions, because they only
-- serve the functions that check a call.

-- Returns the caller of a request. If the caller may not make calls, refused has the reason. Returns nulls if the
-- credential is unknown, revoked, expired or belongs to a deleted workspace. A key or token is given as the SHA-256 of
-- its text, and a session as claims that the gateway has verified.
create or replace function ai.find_caller(request ai.run_request) returns ai.caller
  language plpgsql stable security invoker
as $$
declare
  credential ai.credential := request.credential;
  caller ai.caller;
begin
  case credential.source
    when 'key' then
      caller := ai.key_caller(decode(credential.hash, 'hex'), request.address);
    when 'app_token', 'session' then
      caller := ai.user_caller(credential, request.workspace);
    else
      return null;
  end case;
  -- Most workspaces have no budget.
  perform from ai.budgets b where b.workspace_id = caller.workspace_id;
  if found then
    caller.budgets := ai.budget_scopes(caller, coalesce(caller.entity_id, request.entity_id));
  end if;
  if caller.refused is null then
    if request.workspace is null then
      if caller.source = 'app_token' then
        caller.refused := 'workspace_header_required';
      end if;
    elsif request.workspace <> caller.workspace_id::text then
      caller.refused := 'workspace_mismatch';
    end if;
  end if;
  return caller;
end
$$;

-- Returns the refusal of a caller that may not make calls, otherwise null. If a kind is given, also checks that the
-- caller may make calls of that kind.
create or replace function ai.call_refusal(caller ai.caller, kind text default null) returns jsonb
  language plpgsql immutable security invoker
as $$
begin
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  elsif caller.refused is not null then
    return ai.refusal(caller.refused);
  elsif caller.app_id is not null and not 'ai:use' = any (caller.scopes)
    or kind is not null and (
      caller.app_id is not null and kind = 'speech' and not 'tts:use' = any (caller.scopes)
      or caller.payer = 'member' and not caller.actor_is_member
    ) then
    return ai.refusal('insufficient_scope');
  end if;
  return null;
end
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

-- Returns the owner and limits of a key, given the SHA-256 of its text. Returns nulls if the key is unknown, revoked or
-- expired, if its workspace is deleted, or if it belongs to a coding agent and the agent's connection or login has
-- ended. A key that is bound to an app has the gateway scopes of the app's registration. Must be fast, because nearly
-- every call runs it.
create or replace function ai.key_caller(secret_hash bytea, address inet) returns ai.caller
  language plpgsql stable security invoker
as $$
declare
  key ai.keys;
  plan_id text;
  plan ai.plans;
  policy ai.workspace_policies;
  is_member boolean;
  app private.apps;
  scopes text[];
  refused text;
  agent_status text;
begin
  -- Looks up each row with its own query by key, because starting one join takes longer than running all of these
  -- queries.
  select k.* into key
  from ai.keys k
  where k.secret_hash = key_caller.secret_hash
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now());
  if not found then
    return null;
  end if;
  select s.plan_id into plan_id from public.workspaces s where s.id = key.workspace_id and s.deleted_at is null;
  if not found then
    return null;
  end if;
  if key.connection_id is not null then
    agent_status := ai.agent_key_status(key.connection_id);
    if agent_status = 'over' then
      return null;
    end if;
    refused := case agent_status when 'mfa_required' then 'MFA_REQUIRED' when 'unavailable' then 'AUTH_UNAVAILABLE' end;
  end if;
  select p.* into plan from ai.plans p where p.id = plan_id;
  select w.* into policy from ai.workspace_policies w where w.workspace_id = key.workspace_id;
  if plan.payer = 'member' then
    perform from public.workspace_members m where m.workspace_id = key.workspace_id and m.user_id = key.created_by;
    is_member := found;
  end if;
  -- Without an address, a key with an address list is refused.
  if key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false) then
    refused := coalesce(refused, 'insufficient_scope');
  end if;
  if key.external_app_id is not null then
    select a.* into app from private.apps a where a.id = key.external_app_id;
    scopes := private.gateway_scopes(app);
    -- Imports need no ai:use. Everything else checks it in ai.call_refusal.
    refused := coalesce(refused, private.gateway_refusal(app, key.workspace_id, scopes || array['ai:use']));
  end if;
  return row(
    'key', refused, key.id, key.lineage_id, key.workspace_id, key.created_by, key.external_app_id, scopes,
    key.allowed_models, key.requests_per_minute, key.tokens_per_minute, key.last_used_at,
    plan.id, plan.payer, plan.markup, plan.initial_credits,
    least(plan.requests_per_minute, policy.requests_per_minute), least(plan.tokens_per_minute, policy.tokens_per_minute),
    policy.allowed_models, policy.denied_models, coalesce(policy.provider_cost_visible, true),
    coalesce(policy.content_capture, false), is_member, null, key.entity_id, key.name, key.is_strict
  )::ai.caller;
end
$$;

-- Returns the person and limits that belong to an app's token or to the claims of a session. Returns nulls if the token
-- or claims are not valid.
create or replace function ai.user_caller(credential ai.credential, workspace text) returns ai.caller
  language plpgsql stable security invoker
as $$
declare
  caller ai.caller;
begin
  if credential.source = 'app_token' then
    select t.refused, t.workspace_id, t.user_id, t.app_id, t.scopes
    into caller.refused, caller.workspace_id, caller.actor_id, caller.app_id, caller.scopes
    from ai.find_app_token(decode(credential.hash, 'hex')) t
    where t.refused is distinct from 'invalid_api_key';
  else
    caller.workspace_id := workspace::uuid;
    select s.user_id, s.refused into caller.actor_id, caller.refused
    from ai.session_caller(credential.claims, caller.workspace_id) s;
  end if;
  if caller.actor_id is null then
    return null;
  end if;

  caller.source := credential.source;
  select
    p.id, p.payer, p.markup, p.initial_credits,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
    w.allowed_models, w.denied_models, coalesce(w.provider_cost_visible, true), coalesce(w.content_capture, false)
  into
    caller.plan_id, caller.payer, caller.markup, caller.initial_credits,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
    caller.workspace_models, caller.denied_models, caller.cost_visible, caller.capture
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  where s.id = caller.workspace_id and s.deleted_at is null;
  if not found then
    return case caller.source when 'session' then caller end;
  end if;
  caller.actor_is_member := private.is_workspace_member(caller.actor_id, caller.workspace_id);
  return caller;
end
$$;

-- Returns the person of a session and, if the gateway refuses the person's calls, the reason. Takes the session's
-- verified claims. Returns nulls once the session has ended or the account is suspended or deleted. Not granted to any
-- role, because it trusts the claims.
create or replace function ai.session_caller(claims jsonb, workspace uuid, out user_id uuid, out refused text)
  language plpgsql stable security invoker
as $$
begin
  select
    f.user_id,
    case
      when private.required_mfa_state(f.app_metadata) = 'malformed' then 'AUTH_UNAVAILABLE'
      when not private.session_satisfies_mfa(claims) then 'MFA_REQUIRED'
      when workspace is null then 'workspace_header_required'
      when not private.user_has_workspace_permission(f.user_id, workspace, 'use_ai_studio') then 'insufficient_scope'
    end
  into session_caller.user_id, session_caller.refused
  from private.session_facts(claims) f
  where not f.banned and not f.deleted;
end
$$;

-- Returns the scopes of the budgets that apply to a call with the given label, or null if no budget applies. Looks up
-- each budget by its key, because a workspace may have budgets for many members and labels.
create or replace function ai.budget_scopes(caller ai.caller, label text) returns text[]
  language plpgsql stable security invoker
as $$
begin
  return nullif(array(
    select s.scope
    from (
      values
        ('key', caller.lineage_id), ('app', caller.app_id), ('member', caller.actor_id), ('label', ai.label_id(label)),
        ('workspace', caller.workspace_id)
    ) as s (scope, subject_id)
    join ai.budgets b
      on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = caller.workspace_id
  ), '{}');
end
$$;

-- Returns the id of a budget's subject for a run. The scope states whether the subject is the key lineage, the app, the
-- member, the label or the workspace.
create or replace function ai.budget_subject(
  scope text, workspace uuid, lineage uuid, app uuid, actor uuid, label text
) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case scope
    when 'key' then lineage
    when 'app' then app
    when 'member' then actor
    when 'label' then ai.label_id(label)
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

-- Updates a key's last_used_at, at most once a minute, for requests that do not open a run.
create or replace function ai.record_key_use(caller ai.caller) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.keys k set last_used_at = now()
  where k.id = (caller).key_id and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute')
$$;

-- Returns a refusal with a code from the gateway's closed list of errors.
create or replace function ai.refusal(code text, details jsonb default '{}') returns jsonb
  language sql immutable security invoker parallel safe
as $$
  select jsonb_build_object('refused', code) || coalesce(details, '{}')
$$;
