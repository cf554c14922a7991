-- A run with several provider calls reserves for each of them before it is made.

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- As in begin_run.
  set plan_cache_mode = force_generic_plan
as $$
declare
  run ai.runs;
  input_tokens bigint := ai.reserved_input_tokens(step);
  output_tokens bigint := (step ->> 'output_limit')::bigint;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8);
  bounds record;
  rate ai.rate_window_use;
  scope text;
  held text[] := '{}';
  refused text;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.revoked_at is not null or k.expires_at <= now() as key_is_over,
    k.tokens_per_minute as key_tokens,
    least(p.tokens_per_minute, w.tokens_per_minute) as workspace_tokens
  into bounds
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or bounds.key_is_over then
    return ai.refusal('invalid_api_key');
  end if;

  step_usd := ai.maximum_cost_usd(run.routes, input_tokens, output_tokens, coalesce((step ->> 'audio')::boolean, false));
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  total_credits := case when run.exempt then 0 else ai.usd_to_credits(run.reserved_usd + step_usd, run.markup) end;

  rate := ai.consume_rate_limit('key', run.key_lineage_id, null, bounds.key_tokens, input_tokens + output_tokens, 0);
  if not rate.admitted then
    return ai.refusal('rate_limit_exceeded', jsonb_build_object(
      'limits', ai.rate_limit_headers(
        rate.started_at, array[null, null, bounds.key_tokens, rate.tokens, null, null, null, null]
      )::json,
      'at', now()
    ));
  end if;

  -- key, app, workspace: the order of the locks, as in begin_run.
  foreach scope in array array['key', 'app', 'workspace'] loop
    if scope = 'workspace' then
      rate := ai.consume_rate_limit('workspace', run.workspace_id, null, bounds.workspace_tokens, input_tokens + output_tokens, 0);
      if not rate.admitted then
        refused := 'rate_limit_exceeded';
        exit;
      end if;
    end if;
    continue when not scope = any (run.budget_scopes);
    if not ai.reserve_budget(
      scope, ai.budget_subject(scope, run.key_lineage_id, run.app_id, run.workspace_id), run.workspace_id, step_usd
    ) then
      refused := 'budget_exceeded';
      exit;
    end if;
    held := held || scope;
  end loop;
  if refused is null and not run.exempt then
    update ai.credit_accounts a set reserved = a.reserved + total_credits - run.reserved_credits
    where a.id = run.account_id and a.balance - a.reserved >= total_credits - run.reserved_credits;
    refused := case when not found then 'insufficient_credits' end;
  end if;
  if refused is not null then
    perform ai.release_budgets(held, run.key_lineage_id, run.app_id, run.workspace_id, step_usd);
    return ai.refusal(
      refused,
      case when refused = 'rate_limit_exceeded' then jsonb_build_object(
        'limits', ai.rate_limit_headers(
          rate.started_at, array[null, null, null, null, null, null, bounds.workspace_tokens, rate.tokens]
        )::json,
        'at', now()
      ) end
    );
  end if;

  update ai.runs r
  set reserved_usd = r.reserved_usd + step_usd, reserved_credits = total_credits, touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;
comment on function ai.extend_run(jsonb) is
  'Reserves the maximum cost of another provider call of an open run, where limits, budgets and balance allow it and its key '
  'is still good. Returns what the run then holds, or {refused: code, …}.';
