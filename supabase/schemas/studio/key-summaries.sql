-- Details of keys for members: limits, use, and spend this month, but never the secret.

-- Returns the details of a workspace's keys, newest first.
create or replace function ai.key_summaries(workspace uuid, listed ai.keys[]) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(ai.key_summary(k, c.cost_usd) order by k.created_at desc, k.id desc), '[]')
  from unnest(listed) as k
  left join (
    select u.key_lineage_id, sum(u.cost_usd) as cost_usd
    from ai.usage_between(workspace, date_trunc('month', now(), 'UTC'), 'infinity') u
    where u.key_lineage_id in (select l.lineage_id from unnest(listed) as l)
    group by u.key_lineage_id
  ) c on c.key_lineage_id = k.lineage_id
$$;

-- Returns a key's details without its secret, which is stored only as a hash. Amounts are exact text. Spend is for the
-- current UTC month and includes the keys that this key replaced. For an agent's key, the last use is the latest use of
-- any key of the agent.
create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (key).id,
    'name', (key).name,
    'prefix', 'ttr_ai_' || (key).lookup,
    'environment', (key).environment,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', case
      when (key).connection_id is null then (key).last_used_at
      else (select max(k.last_used_at) from ai.keys k where k.connection_id = (key).connection_id)
    end,
    'expiresAt', (key).expires_at,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).connection_id is not null
        then case when ai.agent_of_key(key) ->> 'endsAt' is null then 'expired' else 'active' end
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'entityId', (key).entity_id,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute,
    'spentThisMonthUsd', case when ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text end,
    'agent', ai.agent_of_key(key),
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select jsonb_build_object(
        'limitUsd', trim_scale(b.limit_usd)::text,
        'spentUsd', case
          when not ai.cost_visible(b.workspace_id) then null
          when b.period_start = date_trunc('month', now() at time zone 'UTC')::date then trim_scale(b.spent_usd)::text
          else '0'
        end
      )
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.limit_usd is not null
    )
  )
$$;

-- Returns the coding agent that renews a key: { tool, host, endsAt }. endsAt is the time at which the agent's login
-- ends, or null if the login has already ended. Returns null if no agent renews the key.
create or replace function ai.agent_of_key(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('tool', c.tool, 'host', c.host, 'endsAt', ai.agent_login_end(c.login_id))
  from ai.agent_connections c
  where c.id = (key).connection_id
$$;

-- Returns whether a workspace's members can see provider cost. The default is true.
create or replace function ai.cost_visible(workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce((select p.provider_cost_visible from ai.workspace_policies p where p.workspace_id = workspace), true)
$$;
