-- What a model is offered at and to which plans, put together when that changes and not at every call. Prices hold from
-- one moment to another, so each period that is not over yet has a row: time passes from one to the next by itself.

create table ai.model_offers (
  model_id text not null references ai.models (id) on update cascade on delete cascade,
  holds_from timestamptz not null,
  holds_until timestamptz not null,
  kind text not null,
  plans text[] not null,
  providers jsonb not null,
  routes jsonb not null,
  min_input_tokens integer[] not null,
  input_usd numeric[] not null,
  output_usd numeric[] not null,
  primary key (model_id, holds_from)
);
comment on table ai.model_offers is
  'Made from the catalogue by ai.prepare_offers, in the transaction that changes it, for models that are open to '
  'workspaces. Never the truth itself: ai.usable_models and ai.offers say the same, and more, from the catalogue.';
comment on column ai.model_offers.plans is 'Whom the model is granted to, but for single workspaces.';
comment on column ai.model_offers.providers is 'The ids of the routes'' providers, as a JSON array.';
comment on column ai.model_offers.routes is 'As ai.priced_routes has them where all of these providers can be reached.';
comment on column ai.model_offers.min_input_tokens is
  'Of each price of each route the tier; with input_usd and output_usd, per million tokens and in the same order, what '
  'the dearest that a call of text can get follows from.';
alter table ai.model_offers enable row level security;
revoke all on ai.model_offers from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.model_offers from service_role;
select private.protect_table('ai.model_offers');

create function ai.prepare_offers(model text) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- Changes of one model wait for each other, and each then sees what was changed before it.
  perform from ai.models m where m.id = prepare_offers.model for no key update;
  delete from ai.model_offers o where o.model_id = prepare_offers.model;
  insert into ai.model_offers (
    model_id, holds_from, holds_until, kind, plans, providers, routes, min_input_tokens, input_usd, output_usd
  )
  select
    m.id, period.holds_from, period.holds_until, m.kind,
    array(select g.plan_id from ai.model_grants g where g.model_id = m.id and g.plan_id is not null),
    offered.providers, offered.routes, priced.min_input_tokens, priced.input_usd, priced.output_usd
  from ai.models m
  cross join (
    select edge.at as holds_from, lead(edge.at, 1, 'infinity') over (order by edge.at) as holds_until
    from (
      select lower(p.valid) from ai.model_prices p where p.model_id = prepare_offers.model
      union
      select upper(p.valid) from ai.model_prices p where p.model_id = prepare_offers.model
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
      where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> period.holds_from
    ) as p
    where r.model_id = m.id and r.enabled and p.tiers is not null
  ) as offered
  cross join lateral (
    select
      array_agg(t.min_input_tokens) as min_input_tokens,
      array_agg(t.input_usd_per_million) as input_usd,
      array_agg(t.output_usd_per_million) as output_usd
    from ai.model_routes r
    join ai.model_prices t on t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> period.holds_from
    where r.model_id = m.id and r.enabled
  ) as priced
  where m.id = prepare_offers.model
    and m.enabled
    and m.studio_default
    and period.holds_until > now()
    and offered.routes is not null;
end
$$;
comment on function ai.prepare_offers(text) is
  'Puts a model''s offers together anew: of now, and of each moment to come at which a price begins or ends.';
revoke execute on function ai.prepare_offers(text) from public, anon, authenticated;

-- Definer: whoever may change the catalogue writes no offers.
create function ai.prepare_changed_offers() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if tg_table_name = 'models' then
    perform ai.prepare_offers(new.id);
    return null;
  end if;
  if tg_op <> 'INSERT' then
    perform ai.prepare_offers(old.model_id);
  end if;
  if tg_op = 'INSERT' or (tg_op = 'UPDATE' and new.model_id <> old.model_id) then
    perform ai.prepare_offers(new.model_id);
  end if;
  return null;
end
$$;
comment on function ai.prepare_changed_offers() is
  'Keeps ai.model_offers true to the catalogue within the transaction that changes it.';
revoke execute on function ai.prepare_changed_offers() from public, anon, authenticated;
create trigger prepare_offers after update of kind, enabled, studio_default on ai.models
  for each row execute function ai.prepare_changed_offers();
comment on trigger prepare_offers on ai.models is 'A model is offered while it is open.';
create trigger prepare_offers after insert or update or delete on ai.model_routes
  for each row execute function ai.prepare_changed_offers();
comment on trigger prepare_offers on ai.model_routes is 'What a model is offered at follows its routes.';
create trigger prepare_offers after insert or update or delete on ai.model_prices
  for each row execute function ai.prepare_changed_offers();
comment on trigger prepare_offers on ai.model_prices is 'What a model is offered at follows its prices.';
create trigger prepare_offers after insert or update or delete on ai.model_grants
  for each row execute function ai.prepare_changed_offers();
comment on trigger prepare_offers on ai.model_grants is 'To whom a model is offered follows its grants.';
select ai.prepare_offers(m.id) from ai.models m;

create function ai.dearest_offered_usd(offer ai.model_offers, input_tokens bigint, output_tokens bigint) returns numeric
  language plpgsql
  immutable
  security invoker
as $$
declare
  dearest numeric;
begin
  for tier in 1..cardinality(offer.min_input_tokens) loop
    if offer.min_input_tokens[tier] <= input_tokens then
      dearest := greatest(
        dearest, (input_tokens * offer.input_usd[tier] + output_tokens * offer.output_usd[tier]) * 0.000001
      );
    end if;
  end loop;
  return dearest;
end
$$;
comment on function ai.dearest_offered_usd(ai.model_offers, bigint, bigint) is
  'The dearest that a call of text can get, as ai.dearest_usd has it.';
revoke execute on function ai.dearest_offered_usd(ai.model_offers, bigint, bigint) from public, anon, authenticated;

create type ai.offered as (
  refusal jsonb,
  model_id text,
  voice text,
  routes jsonb,
  output_tokens bigint,
  dearest_usd numeric(24, 12)
);
comment on type ai.offered is 'A model at its routes and prices, and the dearest that the call can get there; or why not.';

create function ai.catalogued_offer(call jsonb, caller ai.caller, input_tokens bigint, output_tokens bigint) returns ai.offered
  language plpgsql
  stable
  security invoker
as $$
declare
  wanted text := call ->> 'model';
  audio boolean := coalesce((call ->> 'audio')::boolean, false);
  model ai.models;
  offer record;
  offered ai.offered;
begin
  if wanted is null then
    select m.id into wanted from ai.models m where m.kind = call ->> 'kind' and m.is_default;
  end if;
  select m.* into model
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  where m.id = wanted and m.kind = call ->> 'kind';
  if not found then
    offered.refusal := ai.refusal('model_not_found');
    return offered;
  end if;
  if call ->> 'voice' is not null and not coalesce(call ->> 'voice' = any (model.voices), false) then
    offered.refusal := ai.refusal('invalid_request', '{"param": "voice"}');
    return offered;
  end if;
  if model.kind = 'speech' then
    output_tokens := least(output_tokens, model.output_limit);
  end if;

  select o.* into offer
  from ai.offers(wanted, call -> 'providers', input_tokens, output_tokens, audio, model.kind = 'speech') o;
  offered.refusal := case
    when offer.routes is null then ai.refusal('service_unavailable')
    when audio and not offer.hears then ai.refusal('unsupported_parameter', '{"param": "messages"}')
    when offer.dearest_usd is null then ai.refusal('service_unavailable')
  end;
  offered.model_id := model.id;
  offered.voice := coalesce(call ->> 'voice', model.voices[1]);
  offered.routes := offer.routes;
  offered.output_tokens := output_tokens;
  offered.dearest_usd := offer.dearest_usd;
  return offered;
end
$$;
comment on function ai.catalogued_offer(jsonb, ai.caller, bigint, bigint) is
  'What a caller gets a model for, of whatever kind, by the catalogue itself; and the one that says why they get none.';
revoke execute on function ai.catalogued_offer(jsonb, ai.caller, bigint, bigint) from public, anon, authenticated;

create function ai.offer_for(call jsonb, caller ai.caller, input_tokens bigint, output_tokens bigint) returns ai.offered
  language plpgsql
  stable
  security invoker
as $$
declare
  offer ai.model_offers;
  offered ai.offered;
begin
  select o.* into offer
  from ai.model_offers o
  where o.model_id = call ->> 'model' and o.holds_from <= now() and o.holds_until > now();
  -- Text in and text out, by lists that all say yes: as nearly all calls are.
  if offer.kind = call ->> 'kind'
    and offer.kind <> 'speech'
    and caller.plan_id = any (offer.plans)
    and call ->> 'voice' is null
    and (call ->> 'audio')::boolean is not true
    and (caller.workspace_models is null or offer.model_id = any (caller.workspace_models))
    and (caller.denied_models is null or not offer.model_id = any (caller.denied_models))
    and (caller.key_models is null or offer.model_id = any (caller.key_models))
    and call -> 'providers' @> offer.providers
  then
    if cardinality(offer.input_usd) = 1 and offer.min_input_tokens[1] = 0 then
      -- As ai.dearest_offered_usd has it, of the one price that nearly all models have.
      offered.dearest_usd := (input_tokens * offer.input_usd[1] + output_tokens * offer.output_usd[1]) * 0.000001;
    else
      offered.dearest_usd := ai.dearest_offered_usd(offer, input_tokens, output_tokens);
    end if;
    if offered.dearest_usd is not null then
      offered.model_id := offer.model_id;
      offered.routes := offer.routes;
      return offered;
    end if;
  end if;
  return ai.catalogued_offer(call, caller, input_tokens, output_tokens);
end
$$;
comment on function ai.offer_for(jsonb, ai.caller, bigint, bigint) is
  'What a caller gets the model of a call for: by what is prepared, and by the catalogue where that does not plainly say yes.';
revoke execute on function ai.offer_for(jsonb, ai.caller, bigint, bigint) from public, anon, authenticated;
