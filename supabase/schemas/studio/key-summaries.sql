-- Details of keys for members: limits, use, and spend this month, but never the secret.

-- Returns the details of a workspace's keys, newest first. With nested, each has the details of its replaced keys.
create or replace function ai.key_summaries(workspace uuid, listed ai.keys[], nested boolean default false) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    ai.key_summary(k, c.cost_usd) || case when nested then jsonb_build_object('replaced', ai.replaced_keys(k)) else '{}' end
    order by k.created_at desc, k.id desc
  ), '[]')
  from unnest(listed) as k
  left join (
    select u.key_lineage_id, sum(u.cost_usd) as cost_usd
    from ai.usage_between(workspace, date_trunc('month', now(), 'UTC'), 'infinity') u
    where u.key_lineage_id in (select l.lineage_id from unnest(listed) as l)
    group by u.key_lineage_id
  ) c on c.key_lineage_id = k.lineage_id
$$;

-- Returns the details of the latest 20 keys that a key replaced, newest first. Follows the rotations back from the key.
create or replace function ai.replaced_keys(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with recursive chain as (
    select k.id, k as replaced, 1 as place from ai.keys k where k.replaced_by = (key).id and (key).connection_id is null
    union all
    select k.id, k, c.place + 1 from chain c join ai.keys k on k.replaced_by = c.id where c.place < 20
  )
  select coalesce(jsonb_agg(ai.key_summary(c.replaced, null) order by c.place), '[]') from chain c
$$;

-- Returns a key's details without its secret, which is stored only as a hash. Amounts are exact text. spentThisMonthUsd is
-- for the current UTC month. budget is the key's monthly budget. Spend includes the keys that this key replaced. A replaced key has no spend of its own, so that a sum
-- over keys counts each amount once. For an agent's key, the last use is the latest use of any key of the agent.
create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select ai.key_settings(key) || jsonb_build_object(
    'id', (key).id,
    'lineageId', (key).lineage_id,
    'version', ai.key_version(key),
    'prefix', 'ttr_ai_' || (key).lookup,
    'createdAt', (key).created_at,
    'createdBy', private.actor_name(coalesce((key).created_by, (key).service_account_id)),
    'lastUsedAt', case
      when (key).connection_id is null then (key).last_used_at
      else (select max(k.last_used_at) from ai.keys k where k.connection_id = (key).connection_id)
    end,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).connection_id is not null
        then case when ai.agent_of_key(key) ->> 'status' = 'good' then 'active' else 'expired' end
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'entityId', (key).entity_id,
    'spentThisMonthUsd', case
      when (key).replaced_by is null and ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text
    end,
    'agent', ai.agent_of_key(key),
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select ai.budget_summary(b, (key).replaced_by is null and ai.cost_visible(b.workspace_id))
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.period = 'month' and b.limit_usd is not null
    )
  )
$$;

-- Returns the settings of a key that ai.change_key can change, except the budget.
create or replace function ai.key_settings(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'name', (key).name,
    'environment', (key).environment,
    'expiresAt', ai.utc_text_microseconds((key).expires_at),
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute
  )
$$;

-- Returns a text that differs after each change of a key's settings or monthly budget, so that a change made from an older
-- state can be refused.
create or replace function ai.key_version(key ai.keys) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(ai.key_settings(key)::text || coalesce(ai.key_budget(key)::text, ''))
$$;

-- Returns the monthly budget of a key and of the keys that it replaced, or null.
create or replace function ai.key_budget(key ai.keys) returns numeric
  language sql stable security invoker set search_path = ''
as $$
  select b.limit_usd from ai.budgets b
  where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id and b.period = 'month'
$$;

-- Returns a key with the given changes of its settings.
create or replace function ai.apply_key_changes(key ai.keys, changes jsonb) returns ai.keys
  language plpgsql immutable security invoker set search_path = ''
as $$
begin
  key.name := coalesce(changes ->> 'name', key.name);
  key.environment := coalesce(changes ->> 'environment', key.environment);
  key.is_strict := coalesce((changes ->> 'strict')::boolean, key.is_strict);
  if changes ? 'expiresAt' then
    key.expires_at := (changes ->> 'expiresAt')::timestamptz;
  end if;
  if changes ? 'allowedModels' then
    key.allowed_models := ai.text_list(changes -> 'allowedModels');
  end if;
  if changes ? 'allowedAddresses' then
    key.allowed_addresses := ai.text_list(changes -> 'allowedAddresses')::cidr[];
  end if;
  if changes ? 'requestsPerMinute' then
    key.requests_per_minute := (changes ->> 'requestsPerMinute')::integer;
  end if;
  if changes ? 'tokensPerMinute' then
    key.tokens_per_minute := (changes ->> 'tokensPerMinute')::bigint;
  end if;
  return key;
end
$$;

-- Returns whether a key could be used for anything for which another version of it could not: longer, for other models,
-- from other addresses, more often, or with what strict mode refuses.
create or replace function ai.key_allows_more(key ai.keys, than ai.keys) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce((key).expires_at, 'infinity') > coalesce((than).expires_at, 'infinity')
    or (than).allowed_models is not null and coalesce(not (key).allowed_models <@ (than).allowed_models, true)
    or (than).allowed_addresses is not null and (
      (key).allowed_addresses is null
      or exists (select from unnest((key).allowed_addresses) as a where not coalesce(a <<= any ((than).allowed_addresses), false))
    )
    or coalesce((key).requests_per_minute, 'infinity'::numeric) > coalesce((than).requests_per_minute, 'infinity'::numeric)
    or coalesce((key).tokens_per_minute, 'infinity'::numeric) > coalesce((than).tokens_per_minute, 'infinity'::numeric)
    or (than).is_strict and not (key).is_strict
$$;

-- Returns the coding agent that renews a key: { tool, host, status, endsAt, envelope }. status is what the gateway answers to the
-- agent (ai.agent_key_statuses). endsAt is the time at which the agent's login ends, or null with the status over.
-- Returns null if no agent renews the key.
create or replace function ai.agent_of_key(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'tool', c.tool,
    'host', c.host,
    'status', s.status,
    'endsAt', case when s.status <> 'over' then ai.agent_login_end(c.login_id) end,
    'envelope', ai.describe_agent_envelope(ai.lineage_envelope((key).lineage_id, c.workspace_id))
  )
  from ai.agent_connections c
  cross join lateral (select ai.agent_key_statuses(array[c.id]) ->> c.id::text as status) s
  where c.id = (key).connection_id
$$;
