-- Keeping ai.model_offers true to the catalogue, in the transaction that changes it.

create or replace function ai.refresh_offers(model text) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- Changes of one model wait for each other, and each then sees what was changed before it.
  perform from ai.models m where m.id = refresh_offers.model for no key update;
  delete from ai.model_offers o where o.model_id = refresh_offers.model;
  insert into ai.model_offers (
    model_id, valid_from, valid_until, kind, plans, providers, routes, min_input_tokens, input_usd, output_usd
  )
  select
    m.id, period.valid_from, period.valid_until, m.kind,
    array(select g.plan_id from ai.model_grants g where g.model_id = m.id and g.plan_id is not null),
    offered.providers, offered.routes, priced.min_input_tokens, priced.input_usd, priced.output_usd
  from ai.models m
  cross join (
    select edge.at as valid_from, lead(edge.at, 1, 'infinity') over (order by edge.at) as valid_until
    from (
      select lower(p.valid) from ai.model_prices p where p.model_id = refresh_offers.model
      union
      select upper(p.valid) from ai.model_prices p where p.model_id = refresh_offers.model
    ) as edge (at)
    where edge.at < 'infinity'
  ) as period
  cross join lateral (
    select
      jsonb_agg(distinct r.provider_id) as providers,
      jsonb_agg(
        jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
        order by r.position
      ) as routes
    from ai.model_routes r
    cross join lateral (
      select jsonb_agg(t.as_offered order by t.min_input_tokens) as tiers
      from ai.model_prices t
      where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> period.valid_from
    ) as p
    where r.model_id = m.id and r.enabled and p.tiers is not null
  ) as offered
  cross join lateral (
    select
      array_agg(t.min_input_tokens) as min_input_tokens,
      array_agg(t.input_usd_per_million) as input_usd,
      array_agg(t.output_usd_per_million) as output_usd
    from ai.model_routes r
    join ai.model_prices t on t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> period.valid_from
    where r.model_id = m.id and r.enabled
  ) as priced
  where m.id = refresh_offers.model
    and m.enabled
    and m.studio_default
    and period.valid_until > now()
    and offered.routes is not null;
end
$$;
comment on function ai.refresh_offers(text) is
  'Puts a model''s offers together anew: of now, and of each moment to come at which a price begins or ends.';

-- Definer: whoever may change the catalogue writes no offers.
create or replace function ai.refresh_changed_offers() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if tg_table_name = 'models' then
    perform ai.refresh_offers(new.id);
    return null;
  end if;
  if tg_op <> 'INSERT' then
    perform ai.refresh_offers(old.model_id);
  end if;
  if tg_op = 'INSERT' or (tg_op = 'UPDATE' and new.model_id <> old.model_id) then
    perform ai.refresh_offers(new.model_id);
  end if;
  return null;
end
$$;
comment on function ai.refresh_changed_offers() is
  'Keeps ai.model_offers true to the catalogue within the transaction that changes it.';

create or replace trigger refresh_offers after update of kind, enabled, studio_default on ai.models
  for each row execute function ai.refresh_changed_offers();
comment on trigger refresh_offers on ai.models is 'A model is offered while it is open.';
create or replace trigger refresh_offers after insert or update or delete on ai.model_routes
  for each row execute function ai.refresh_changed_offers();
comment on trigger refresh_offers on ai.model_routes is 'What a model is offered at follows its routes.';
create or replace trigger refresh_offers after insert or update or delete on ai.model_prices
  for each row execute function ai.refresh_changed_offers();
comment on trigger refresh_offers on ai.model_prices is 'What a model is offered at follows its prices.';
create or replace trigger refresh_offers after insert or update or delete on ai.model_grants
  for each row execute function ai.refresh_changed_offers();
comment on trigger refresh_offers on ai.model_grants is 'To whom a model is offered follows its grants.';

create or replace function ai.reject_price_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if new.valid is distinct from old.valid
    and (lower(new.valid) is distinct from lower(old.valid) or (upper(old.valid) is not null and upper(old.valid) <= now())) then
    raise exception 'a price''s past cannot be rewritten' using errcode = 'restrict_violation';
  end if;
  -- What is generated is not there yet.
  if (to_jsonb(new) - array['valid', 'as_offered']) is distinct from (to_jsonb(old) - array['valid', 'as_offered']) then
    raise exception 'a price never changes: close its range and add a new one' using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;
comment on function ai.reject_price_change() is 'Keeps the price book true to what runs were charged at.';

create or replace trigger reject_price_change before update on ai.model_prices
  for each row execute function ai.reject_price_change();
