-- Exports what platform.yaml describes.

-- Returns the platform's configuration: { at (the time in UTC to the second), platform (in the form of platform.yaml,
-- with all defaults), targets, deletableModels }. targets has, by target of the audit log, the version that a change
-- names, and last, the last entry: { by, at, serviceAccountId }. The version of a workspace is that of its policy. prices
-- of a model is the id of its newest price, the number of its prices, and the ids of those in force. workspaces has
-- those with another plan than free, a policy or a budget, and workspace_ids. Budgets of keys and members, history, secrets and balances are not configuration.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.export_platform(workspace_ids uuid[] default '{}') returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with configured as materialized (
    select w as workspace, w.id
    from public.workspaces w
    where w.deleted_at is null and (w.plan_id <> 'free' or w.id in (
      select unnest(workspace_ids)
      union
      select p.workspace_id from ai.workspace_policies p
      union
      select b.workspace_id
      from ai.budgets b
      where b.scope in ('workspace', 'app', 'label') and num_nonnulls(b.limit_usd, b.max_calls) > 0
    ))
  )
  select jsonb_build_object(
    'at', private.utc_second(now()),
    'platform', jsonb_build_object(
      'apiVersion', 'gatehouse/v1',
      'signUp', private.read_platform_settings() ->> 'signUp',
      'plans', (
        select coalesce(jsonb_agg(p - '{warnsBelow,workspaces,models,payerFixed,version}'::text[]), '[]')
        from jsonb_array_elements(private.list_plans()) p
      ),
      'models', (select coalesce(jsonb_agg(private.export_model(m) order by m.id), '[]') from ai.models m),
      'providerLimits', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'providerId', l.provider_id,
          'requestsPerMinute', l.requests_per_minute,
          'tokensPerMinute', l.tokens_per_minute
        ) order by l.provider_id), '[]')
        from ai.provider_limits l
      ),
      'apps', (
        select coalesce(jsonb_agg(
          private.describe_app(a.id) - '{id,resourceUrl,secrets,createdAt}'::text[]
            || jsonb_build_object('workspaces', (
              select coalesce(jsonb_agg(w.id order by w.id), '[]')
              from private.app_workspaces l
              join public.workspaces w on w.id = l.workspace_id and w.deleted_at is null
              where l.app_id = a.id
            ))
          order by a.name
        ), '[]')
        from private.apps a
        where a.kind <> 'openid'
      ),
      'openidClients', (
        select coalesce(jsonb_agg(
          private.describe_openid_client(a.id) - '{id,registration,metadataUrl,secrets,createdAt}'::text[]
          order by a.name
        ), '[]')
        from private.apps a
        join private.openid_clients c on c.app_id = a.id and c.registration = 'operator'
      ),
      'workspaces', (
        select coalesce(jsonb_agg(private.export_workspace(c.workspace) order by c.id), '[]') from configured c
      )
    ),
    'targets', (
      select jsonb_object_agg(t.target, jsonb_build_object(
        'version', t.version,
        'prices', t.prices,
        'last', (
          select jsonb_build_object(
            'by', coalesce(
              (select u.email from auth.users u where u.id = l.actor_id),
              private.service_account_label(l.service_account_name)
            ),
            'at', private.utc_second(l.created_at),
            'serviceAccountId', l.service_account_id
          )
          from private.admin_audit_log l
          where l.target = t.target
          order by l.created_at desc, l.id desc
          limit 1
        )
      ))
      from (
        select 'sign-up' as target, null as version, null as prices
        union all
        select 'plan ' || p.id, md5(p::text), null from ai.plans p
        union all
        select 'model ' || m.id, private.model_version(m.id), (
          select concat_ws(
            ' ', coalesce(max(p.id), 0), count(*), string_agg(p.id::text, ' ' order by p.id) filter (where p.valid @> now())
          )
          from ai.model_prices p
          where p.model_id = m.id
        )
        from ai.models m
        union all
        select 'provider ' || r.provider_id, private.provider_limit_version(l), null
        from (select provider_id from ai.model_routes union select provider_id from ai.provider_limits) r
        left join ai.provider_limits l using (provider_id)
        union all
        select 'app ' || a.name, private.app_version(a.name)::text, null
        from private.apps a
        where not exists (
          select from private.openid_clients c where c.app_id = a.id and c.registration <> 'operator'
        )
        union all
        select 'workspace ' || c.id, (
          select ai.utc_text_microseconds(p.updated_at) from ai.workspace_policies p where p.workspace_id = c.id
        ), null
        from configured c
      ) t
    ),
    'deletableModels', (
      select coalesce(jsonb_agg(m.id order by m.id), '[]') from ai.models m where private.was_never_enabled(m)
    )
  )
$$;

-- Returns a model in the form of platform.yaml, with its prices in force, which have no from, and later ones.
create or replace function private.export_model(model ai.models) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', model.id,
    'kind', model.kind,
    'displayName', model.display_name,
    'ownedBy', model.owned_by,
    'enabled', model.enabled,
    'isDefault', model.is_default,
    'studioDefault', model.studio_default,
    'contextWindow', model.context_window,
    'outputLimit', model.output_limit,
    'defaultOutputLimit', model.default_output_limit,
    'voices', coalesce(to_jsonb(model.voices), '[]'),
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'providerId', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'trustsStatedCost', r.trusts_stated_cost,
        'tierMultipliers', (
          select coalesce(jsonb_object_agg(t.key, t.value), '{}') from jsonb_each_text(r.tier_multipliers) as t
        ),
        'firstByteSeconds', r.first_byte_seconds,
        'idleSeconds', r.idle_seconds,
        'totalSeconds', r.total_seconds
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = model.id
    ),
    'prices', (
      select coalesce(jsonb_agg(
        private.describe_price(p) - '{id,until,current}'::text[]
          || jsonb_build_object('from', case when lower(p.valid) > now() then private.utc_second(lower(p.valid)) end)
        order by p.id
      ), '[]')
      from ai.model_prices p
      where p.model_id = model.id and (upper_inf(p.valid) or upper(p.valid) > now())
    ),
    'grants', jsonb_build_object(
      'plans', (
        select coalesce(jsonb_agg(g.plan_id order by g.plan_id), '[]')
        from ai.model_grants g
        where g.model_id = model.id and g.plan_id is not null
      ),
      'workspaces', (
        select coalesce(jsonb_agg(w.id order by w.id), '[]')
        from ai.model_grants g
        join public.workspaces w on w.id = g.workspace_id and w.deleted_at is null
        where g.model_id = model.id
      )
    )
  )
$$;

-- Returns a workspace in the form of platform.yaml, with its budgets that belong to no person or key.
create or replace function private.export_workspace(workspace public.workspaces) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', workspace.id,
    'planId', workspace.plan_id,
    'policy', ai.workspace_policy_summary(workspace.id) - '{budget,appBudgets,updatedAt,updatedBy}'::text[],
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object('scope', b.scope, 'subject', coalesce(b.label, a.name), 'period', b.period)
          || ai.budget_settings(b)
        order by b.scope, coalesce(b.label, a.name), b.period
      ), '[]')
      from ai.budgets b
      left join private.apps a on b.scope = 'app' and a.id = b.subject_id
      where b.workspace_id = workspace.id and num_nonnulls(b.limit_usd, b.max_calls) > 0
        and (b.scope in ('workspace', 'label') or a.id is not null)
    )
  )
$$;

-- Formats a time in UTC to the second, like 2027-01-01T00:00:00Z.
create or replace function private.utc_second(moment timestamptz) returns text
  language sql stable security invoker set search_path = ''
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
$$;
