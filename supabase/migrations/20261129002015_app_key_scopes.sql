-- Generated from supabase/schemas by npm run db:migration.

-- Stores one reported cost. Returns { outcome: stored | corrected | unchanged | stale } or { refused }. A record with a
-- newer observation time corrects the stored record. A record with the same observation time and different content is
-- refused as a conflict. Finds the stored record regardless of the case of the provider's name. The caller derives
-- workspace and app from the credential and has validated the record. Not granted to any role.
create or replace function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
  occurred timestamptz := (record ->> 'occurredAt')::timestamptz;
  observed timestamptz := (record ->> 'observedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  kind text := coalesce(record ->> 'granularity', 'run');
  written integer;
  stored ai.cost_book_entries;
begin
  if occurred > observed then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'occurredAt', 'message', 'occurredAt must not be later than observedAt.'
    );
  end if;
  if observed > now() + interval '5 minutes' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'observedAt',
      'message', 'observedAt must not be more than five minutes in the future.'
    );
  end if;

  select * into stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  -- Both the update and the insert wait for a concurrent import of the same record, and then compare the observation
  -- times.
  if stored.spelling <> name then
    update ai.external_provider_costs c
    set
      granularity = kind, service = record ->> 'service', amount_usd = amount, occurred_at = occurred,
      observed_at = observed, recorded_at = now(), revision = c.revision + 1, import_id = null, original = null
    where c.id = stored.id and c.observed_at < observed
    returning c.revision into written;
  else
    insert into ai.external_provider_costs as c (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at,
      observed_at
    )
    values (
      workspace, app, name, record ->> 'accountId', record ->> 'externalRunId', kind, record ->> 'service', amount,
      occurred, observed
    )
    on conflict (workspace_id, app_id, provider, account_id, external_run_id) do update
    set
      granularity = excluded.granularity,
      service = excluded.service,
      amount_usd = excluded.amount_usd,
      occurred_at = excluded.occurred_at,
      observed_at = excluded.observed_at,
      recorded_at = now(),
      revision = c.revision + 1,
      import_id = null,
      original = null
    where c.observed_at < excluded.observed_at
    returning c.revision into written;
  end if;
  if written is not null then
    return jsonb_build_object('outcome', case written when 1 then 'stored' else 'corrected' end);
  end if;

  select * into strict stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  if stored.observed_at > observed then
    return jsonb_build_object('outcome', 'stale');
  elsif (stored.amount_usd, stored.occurred_at, stored.granularity) = (amount, occurred, kind)
    and stored.service is not distinct from record ->> 'service' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  return jsonb_build_object('refused', 'cost_conflict');
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
