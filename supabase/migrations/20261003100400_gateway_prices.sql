-- What a caller may use, at what price, and the dearest that a call can get.

create function ai.usable_models(workspace uuid, plan text, workspace_models text[], denied_models text[], key_models text[])
  returns setof ai.models
  language sql
  stable
  security invoker
as $$
  select m.*
  from ai.models m
  where m.enabled
    and m.studio_default
    and (workspace_models is null or m.id = any (workspace_models))
    and not m.id = any (coalesce(denied_models, '{}'))
    and (key_models is null or m.id = any (key_models))
    and exists (
      select from ai.model_grants g where g.model_id = m.id and (g.plan_id = plan or g.workspace_id = workspace)
    )
$$;
comment on function ai.usable_models(uuid, text, text[], text[], text[]) is
  'The intersection of enabled catalogue, Studio defaults, workspace policy, plan or root grants, and the key''s list.';
revoke execute on function ai.usable_models(uuid, text, text[], text[], text[]) from public, anon, authenticated;

create function ai.priced_routes(model text, providers text[]) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      order by r.position
    )
    from ai.model_routes r
    cross join lateral (
      select jsonb_agg(t.as_offered order by t.min_input_tokens) as tiers
      from ai.model_prices t
      where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
    ) as p
    where r.model_id = model and r.enabled and p.tiers is not null and r.provider_id = any (providers)
  );
end
$$;
comment on function ai.priced_routes(text, text[]) is
  'A model''s routes in order with the prices of now, as far as they have one and lead to a provider of the list. Null when none does.';
revoke execute on function ai.priced_routes(text, text[]) from public, anon, authenticated;

create function ai.offers(
  model text, providers jsonb, input_tokens bigint, output_tokens bigint, audio boolean, speech boolean
)
  returns table (routes jsonb, dearest_usd numeric, hears boolean)
  language sql
  stable
  security invoker
as $$
  select
    jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      order by r.position
    ),
    max(p.dearest_usd),
    bool_and(p.hears)
  from ai.model_routes r
  cross join lateral (
    select
      jsonb_agg(t.as_offered order by t.min_input_tokens) as tiers,
      max(
        (
          input_tokens * greatest(t.input_usd_per_million, case when audio then t.audio_input_usd_per_million end)
          + output_tokens
            * coalesce(case when speech then t.audio_output_usd_per_million end, t.output_usd_per_million)
        ) * 0.000001
      ) filter (where t.min_input_tokens <= input_tokens) as dearest_usd,
      bool_and(t.audio_input_usd_per_million is not null) as hears
    from ai.model_prices t
    where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
  ) as p
  where r.model_id = model and r.enabled and p.tiers is not null and providers ? r.provider_id
$$;
comment on function ai.offers(text, jsonb, bigint, bigint, boolean, boolean) is
  'One row: a model''s routes as ai.priced_routes has them, the dearest that a call can get there as ai.dearest_usd has it, '
  'and whether all of them take audio. Nulls where there is no route with a price.';
revoke execute on function ai.offers(text, jsonb, bigint, bigint, boolean, boolean) from public, anon, authenticated;

create function ai.reserved_input_tokens(call jsonb) returns bigint
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ((call ->> 'input_bytes')::bigint + 2) / 3 + 1500 * coalesce((call ->> 'images')::bigint, 0)
$$;
comment on function ai.reserved_input_tokens(jsonb) is 'What a call''s input may count at most: a third of its bytes, and 1,500 an image.';
revoke execute on function ai.reserved_input_tokens(jsonb) from public, anon, authenticated;

create function ai.dearest_usd(
  routes jsonb, input_tokens bigint, output_tokens bigint, audio boolean, speech boolean default false
) returns numeric
  language plpgsql
  immutable
  security invoker
  set search_path = ''
as $$
begin
  return (
    select max(
      (
        input_tokens * greatest((tier ->> 'input')::numeric, (tier ->> 'audio_input')::numeric * audio::integer)
        + output_tokens * coalesce(case when speech then tier ->> 'audio_output' end, tier ->> 'output')::numeric
      ) * 0.000001
    )
    from jsonb_array_elements(routes) as route
    cross join jsonb_array_elements(route -> 'prices') as tier
    where (tier ->> 'min_input_tokens')::bigint <= input_tokens
  );
end
$$;
comment on function ai.dearest_usd is
  'The dearest that a provider call can get: the whole output, nothing cached, at any route, at any tier that the input may '
  'reach; with audio in the input, or with nothing but audio in the output.';
revoke execute on function ai.dearest_usd from public, anon, authenticated;
