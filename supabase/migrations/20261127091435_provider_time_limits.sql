-- Generated from supabase/schemas by npm run db:migration.

create or replace function ai.priced_routes(model text, providers text[]) returns jsonb
  language plpgsql
  stable
  security invoker
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
      || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
      || case
        when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
        else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
          'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
        )))
      end
      order by r.position
    )
    from ai.model_routes r
    cross join lateral (
      select jsonb_agg(t.as_offered order by t.service_tier <> 'default', t.service_tier, t.min_input_tokens) as tiers
      from ai.model_prices t
      where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
    ) as p
    where r.model_id = model and r.enabled and p.tiers is not null and r.provider_id = any (providers)
  );
end
$$;
