-- Expects the usual output of a kind of call, for budgets that reserve its cost instead of the maximum cost. A kind of
-- call is a model and a feature in a workspace. A longer stream reserves more (ai.extend_run), or is stopped.

-- Returns the calls with the output that is expected of them, and what they cost at most with that output: the output
-- that 95% of the last runs of their kind had at most. Leaves out kinds with fewer than 20 runs, and calls that the
-- gateway can't stop at each of their routes, so that only what was delivered is charged.
create or replace function ai.expect_outputs(claims ai.claim[]) returns ai.claim[]
  language plpgsql stable security invoker
as $$
declare
  place bigint;
  tokens bigint;
  usd numeric;
begin
  for place, tokens, usd in
    select c.ordinality, u.tokens, least(c.cost_usd, x.usd)
    from unnest(claims) with ordinality as c
    cross join lateral (
      select percentile_disc(0.95) within group (order by o) as tokens
      from ai.output_histories h
      cross join lateral unnest(h.outputs) as o
      where h.workspace_id = (c.caller).workspace_id and h.model_id = c.model_id and h.feature = (c.request).feature
        and cardinality(h.outputs) >= 20 and h.updated_at > now() - interval '30 days'
    ) as u
    cross join lateral ai.input_tokens((c.request).input_bytes, (c.request).images, (c.request).audio_seconds) as i
    cross join lateral ai.maximum_cost(
      c.routes, least(i.text_tokens, c.context_window * (c.request).input_reads), i.image_tokens, i.audio_tokens, u.tokens,
      (c.request).hour_writes, (c.request).service_tier, (c.request).fee_requests, false
    ) as x
    where c.refusal is null and c.requests > 0 and u.tokens < c.output_limit * coalesce((c.request).choices, 1)
      and (c.request).streamed and (c.request).stoppable_providers is not null
      and not exists (
        select from jsonb_array_elements(c.routes) as r
        where not r ->> 'provider' = any ((c.request).stoppable_providers)
      )
  loop
    claims[place].expected_output := tokens;
    claims[place].expected_usd := usd;
  end loop;
  return claims;
end
$$;

-- Records the output of succeeded runs in the given workspaces, of which the last 100 of a kind count. Reasoning is not
-- in the stream, so that a stream can't be stopped at what it costs: a run with reasoning begins the history again. A
-- workspace has at most 1,000 kinds.
create or replace function ai.record_outputs(
  due ai.settlement[], outcomes ai.run_outcome[], workspaces uuid[]
) returns void
  language sql volatile security invoker
as $$
  insert into ai.output_histories as h (workspace_id, model_id, feature, outputs)
  select
    d.workspace_id, d.model_id, d.feature,
    case when bool_or(d.reasoning_tokens > 0) then '{}' else array_agg(d.output_tokens order by d.created_at) end
  from unnest(due, outcomes) as d
  where d.workspace_id = any (workspaces) and d.kind = 'usage' and d.status = 'succeeded' and d.usage_source = 'provider'
    and d.output_tokens > 0
    and (
      exists (
        select from ai.output_histories o
        where o.workspace_id = d.workspace_id and o.model_id = d.model_id and o.feature = d.feature
      )
      or (select count(*) from ai.output_histories o where o.workspace_id = d.workspace_id) < 1000
    )
  group by 1, 2, 3
  -- In the order of the key, so that two batches can't deadlock.
  order by 1, 2, 3
  on conflict (workspace_id, model_id, feature) do update
  set
    outputs = case
      when excluded.outputs = '{}' then '{}'
      else (h.outputs || excluded.outputs)[greatest(cardinality(h.outputs || excluded.outputs) - 99, 1):]
    end,
    updated_at = now()
$$;
