-- Generated from supabase/schemas by npm run db:migration.

create or replace function ai.price_call(request ai.run_request, previous ai.priced_call) returns ai.priced_call
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller := ai.find_caller(request);
  offer ai.route_offer;
  refusal jsonb := ai.call_refusal(caller, request.kind);
  account uuid;
begin
  if refusal is null and caller.plan_id is null then
    refusal := ai.refusal('service_unavailable');
  end if;
  if refusal is null and request.entity_id <> caller.entity_id then
    refusal := ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}');
  end if;
  request.entity_id := coalesce(caller.entity_id, request.entity_id, request.session_label);
  if refusal is null then
    offer := ai.find_offer(request, caller, previous);
    refusal := offer.refusal;
  end if;
  if refusal is null then
    select a.id into account
    from ai.credit_accounts a
    where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller);
  end if;
  return row(refusal, request, caller, offer, account)::ai.priced_call;
end
$$;

create or replace function ai.find_offer(request ai.run_request, caller ai.caller, previous ai.priced_call) returns ai.route_offer
  language plpgsql
  stable
  security invoker
as $$
declare
  model ai.models;
  offer ai.route_offer;
  most ai.token_use;
  token_limit bigint := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
begin
  if request.model is null then
    select m.id into request.model from ai.models m where m.kind = request.kind and m.is_default;
  end if;
  select m.* into model
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  where m.id = request.model and m.kind = request.kind;
  if not found then
    offer.refusal := ai.refusal('model_not_found');
    return offer;
  end if;
  if request.voice is not null and not coalesce(request.voice = any (model.voices), false) then
    offer.refusal := ai.refusal('invalid_request', '{"param": "voice"}');
    return offer;
  end if;
  if model.kind = 'chat' and request.output_limit > model.output_limit and not coalesce(request.output_limit_assumed, false) then
    offer.refusal := ai.refusal('invalid_request', jsonb_build_object('model_output_limit', model.output_limit));
    return offer;
  end if;
  most := ai.maximum_use(request);
  request.output_limit := least(request.output_limit, model.output_limit);
  if request.output_limit_assumed then
    request.output_limit := least(
      request.output_limit, coalesce(model.output_limit, 2048),
      case when model.context_window is not null then
        greatest(2048, model.context_window - most.text - most.image - most.audio)
      end
    );
  end if;
  most.output := request.output_limit * coalesce(request.choices, 1);

  offer.model_id := model.id;
  offer.voice := coalesce(request.voice, model.voices[1]);
  offer.routes := case
    when model.id = (previous.offer).model_id and request.providers = (previous.request).providers then (previous.offer).routes
    else ai.priced_routes(model.id, request.providers)
  end;
  offer.context_window := model.context_window;
  offer.output_limit := case model.kind when 'chat' then request.output_limit end;
  if token_limit is not null then
    offer.reserved_tokens := ai.reserved_tokens(request, most, token_limit);
  end if;
  offer.maximum_cost_usd := ai.maximum_cost_usd(offer.routes, most, request.service_tier, model.kind = 'speech')
    + ai.further_fees_usd(offer.routes, request.fee_requests);
  offer.refusal := case
    when offer.routes is null then ai.refusal('model_not_found')
    when (most.audio > 0 or request.audio) and jsonb_path_exists(offer.routes, '$[*].prices[*] ? (!exists (@.audio_input))')
      then ai.refusal('unsupported_parameter', '{"param": "messages"}')
    when request.fee_requests > 0 and jsonb_path_exists(offer.routes, '$[*].prices[*] ? (!exists (@.request_fee))')
      then ai.refusal('unsupported_parameter', '{"param": "tools"}')
    when not ai.is_tier_priced(offer.routes, request.service_tier)
      then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
    when offer.maximum_cost_usd is null then ai.refusal('service_unavailable')
    when offer.reserved_tokens > token_limit then ai.token_limit_refusal(caller, most, offer.reserved_tokens)
  end;
  return offer;
end
$$;

create or replace function ai.further_fees_usd(routes jsonb, fee_requests bigint) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select greatest(coalesce(fee_requests, 0) - 1, 0) * coalesce(max((tier ->> 'request_fee')::numeric), 0)
  from jsonb_array_elements(routes) as route
  cross join jsonb_array_elements(route -> 'prices') as tier
$$;

comment on function ai.further_fees_usd(jsonb, bigint) is
  'Returns the fees of a call that may make several requests with a fee, beyond the one in ai.maximum_cost_usd.';
