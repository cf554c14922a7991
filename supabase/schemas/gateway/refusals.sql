-- Explains refusals: which limit was reached, what the call needs, what is left, and what would fit. Only refused calls
-- come here.

-- Returns a call's refusal with what its caller may know about it. Amounts are left out if GET /v1/key would not show
-- them to this caller. fitting_output_limit is the highest output limit with which the same call fits all limits now, or
-- null if no limit does. run is the run that an extension belongs to. Without suggestions, says neither what would fit nor
-- which models and regions there are, because that takes longer than everything else.
create or replace function ai.explain_refusal(
  claim ai.claim, run ai.runs default null, with_suggestions boolean default true
) returns jsonb
  language plpgsql stable security invoker
as $$
declare
  caller ai.caller := claim.caller;
  request ai.run_request := claim.request;
  refusal jsonb := claim.refusal - 'room';
  room jsonb := claim.refusal -> 'room';
  reached jsonb := claim.refusal -> 'limit';
  token_limit jsonb := claim.refusal -> 'token_limit';
  is_exempt boolean := ai.payer_id(caller) is null;
  hides_balance boolean := caller.payer = 'member' and caller.source = 'key' and not is_exempt;
  fits bigint;
begin
  if refusal ->> 'refused' = 'model_not_found' then
    return refusal || case
      when with_suggestions then ai.missing_model(request, caller)
      else jsonb_strip_nulls(jsonb_build_object('model', request.model))
    end;
  elsif refusal ->> 'refused' = 'region_not_allowed' and with_suggestions then
    return refusal || jsonb_build_object(
      'allowed_regions', caller.allowed_regions,
      'regions', (
        select jsonb_agg(distinct coalesce(request.regions ->> r.provider_id, 'unknown'))
        from ai.open_routes(request.providers) r
        where r.model_id = claim.model_id
      )
    );
  elsif refusal #>> '{missing,kind}' = 'address' then
    return jsonb_set(refusal, '{missing,address}', coalesce(to_jsonb(host(request.address)), 'null'));
  elsif refusal ? 'model_output_limit' then
    return refusal || jsonb_build_object(
      'limit', jsonb_build_object('kind', 'model_output', 'limit', refusal -> 'model_output_limit'),
      'need', jsonb_build_object('tokens', request.output_limit),
      'fitting_output_limit', refusal -> 'model_output_limit'
    );
  elsif token_limit is not null then
    reached := jsonb_build_object(
      'kind', 'rate', 'scope', token_limit -> 'scope', 'unit', 'tokens', 'window', 'minute', 'limit', token_limit -> 'limit'
    );
    refusal := refusal || jsonb_build_object(
      'need', jsonb_build_object('tokens', token_limit -> 'counted', 'input_tokens', token_limit -> 'input')
    );
    if request.kind = 'chat' then
      refusal := refusal || jsonb_build_object('fitting_output_limit', nullif(greatest(
        ((token_limit ->> 'limit')::bigint - (token_limit ->> 'input')::bigint) / coalesce(request.choices, 1), 0
      ), 0));
    end if;
  elsif reached is null then
    return refusal;
  elsif with_suggestions and request.kind = 'chat' and reached ->> 'unit' is distinct from 'requests'
    and reached ->> 'kind' <> 'concurrent' then
    fits := case when not (hides_balance and reached ->> 'kind' = 'balance') then ai.fitting_output_limit(claim, room, run) end;
    -- With prices, an output limit that a balance determines would tell what another person has left.
    if not hides_balance or reached ->> 'kind' <> 'balance'
      and fits is not distinct from ai.fitting_output_limit(claim, room - 'credits', run) then
      refusal := refusal || jsonb_build_object('fitting_output_limit', fits);
    end if;
  end if;

  if run.id is not null then
    refusal := refusal || jsonb '{"is_step": true}';
  end if;
  if reached ->> 'kind' = 'envelope' then
    if not (is_exempt or caller.cost_visible) then
      reached := reached - array['limit_usd', 'spent_usd', 'reserved_usd', 'remaining_usd'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'kind' in ('budget', 'concurrent') then
    reached := reached || jsonb_strip_nulls(jsonb_build_object('name', case reached ->> 'scope'
      when 'key' then caller.key_name
      when 'app' then (select a.display_name from private.apps a where a.id = caller.app_id)
      when 'label' then caller.entity_id
    end)) || case
      when reached ->> 'scope' = 'member' and caller.source <> 'key' then jsonb '{"is_caller": true}'
      else '{}'
    end;
    if not (is_exempt or caller.cost_visible) then
      reached := reached - array['limit_usd', 'spent_usd', 'reserved_usd', 'remaining_usd'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'kind' = 'balance' then
    reached := reached || jsonb_build_object('payer', caller.payer) || case
      when caller.payer = 'member' and caller.source <> 'key' then jsonb '{"is_caller": true}'
      else '{}'
    end;
    if not (caller.cost_visible and (caller.payer = 'workspace' or caller.source = 'session')) then
      reached := reached - array['balance_credits', 'reserved_credits', 'remaining_credits'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'scope' = 'key' then
    reached := reached || jsonb_build_object('name', caller.key_name);
  elsif reached ->> 'scope' = 'model' then
    reached := reached || jsonb_build_object('name', claim.model_id);
  elsif reached ->> 'scope' = 'workspace' and (
    select case reached ->> 'unit' when 'requests' then p.requests_per_minute else p.tokens_per_minute end
    from ai.plans p
    where p.id = caller.plan_id
  ) = (reached ->> 'limit')::bigint then
    reached := reached || jsonb '{"scope": "plan"}';
  end if;
  return refusal || jsonb_build_object('limit', reached);
end
$$;

-- Returns the highest output limit with which a refused call, or the refused step of a run, would fit into what is left
-- of its limits (room has usd, credits and tokens, each null without such a limit). Returns null if none fits. A call
-- that states its output limit counts it in full. If the call stated none, the field that states it lengthens the input.
create or replace function ai.fitting_output_limit(claim ai.claim, room jsonb, run ai.runs) returns bigint
  language plpgsql stable security invoker
as $$
declare
  request ai.run_request := claim.request;
  caller ai.caller := claim.caller;
  choices bigint := coalesce(request.choices, 1);
  reads bigint := coalesce(request.input_reads, 1);
  stated_bytes bigint := case when request.output_limit_assumed then 48 else 0 end;
  room_usd numeric := (room ->> 'usd')::numeric;
  room_credits numeric := (room ->> 'credits')::numeric;
  spare_usd numeric;
  input record;
  fits bigint := 1;
  exceeds bigint := claim.output_limit;
  guess bigint;
  low numeric;
  high numeric;
  cost numeric(24, 12);
begin
  select least(i.text_tokens, claim.context_window * reads) as text_tokens, i.image_tokens, i.audio_tokens into input
  from ai.input_tokens(request.input_bytes + stated_bytes, request.images, request.audio_seconds) as i;
  exceeds := least(exceeds, 1 + (
    (room ->> 'tokens')::bigint - input.text_tokens / reads - input.image_tokens / reads - input.audio_tokens
  ) / choices);
  -- Credits as dollars, to choose the next guess. Whether it fits is decided in credits.
  spare_usd := least(
    room_usd, (room_credits + coalesce(run.reserved_credits, 0)) / ai.credits_per_usd(caller.markup) - coalesce(run.reserved_usd, 0)
  );

  -- Tries 1, the highest limit that the tokens allow, and then what lies on the line between the nearest known costs. A
  -- cost is the highest of several lines, one for each price, so few guesses are needed. Every fourth one halves the
  -- rest, so that no price can need many.
  for attempt in 0..200 loop
    exit when exceeds - fits <= 1 and attempt > 0;
    if exceeds <= 1 then
      return null;
    end if;
    guess := case
      when attempt = 0 then 1
      when attempt = 1 then exceeds - 1
      when attempt % 4 = 0 or high is null or high <= low then (fits + exceeds) / 2
      else least(greatest(fits + floor((spare_usd - low) / (high - low) * (exceeds - fits))::bigint, fits + 1), exceeds - 1)
    end;
    select x.usd into cost
    from ai.maximum_cost(
      claim.routes, input.text_tokens, input.image_tokens, input.audio_tokens, guess * choices, request.hour_writes,
      request.service_tier, request.fee_requests, false
    ) as x;
    if coalesce(cost <= room_usd, true) and coalesce(
      ai.usd_to_credits(coalesce(run.reserved_usd, 0) + cost, caller.markup) - coalesce(run.reserved_credits, 0) <= room_credits,
      true
    ) then
      fits := guess;
      low := cost;
    elsif attempt = 0 then
      return null;
    else
      exceeds := guess;
      high := cost;
    end if;
  end loop;
  return fits;
end
$$;

-- Returns the requested model of a call that does not find it, and the ids of at most three models that the caller may use
-- and whose ids resemble the requested one, closest first. Whether the requested model exists makes no difference.
create or replace function ai.missing_model(request ai.run_request, caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'model', (request).model, 'similar_models', jsonb_agg(s.id order by s.similarity desc, s.id)
  ))
  from (
    select m.id, u.similarity
    from ai.usable_models(
      (caller).workspace_id, (caller).plan_id, (caller).workspace_models, (caller).denied_models, (caller).key_models
    ) m
    cross join lateral (select extensions.similarity(m.id, left((request).model, 128)) as similarity) as u
    where (m.kind = (request).kind or (request).kind is null)
      and m.id <> (request).model
      and u.similarity >= 0.4
      and exists (
        select
        from ai.open_routes(case
          when (caller).allowed_regions is null then (request).providers
          else ai.providers_in_regions((request).providers, (request).regions, (caller).allowed_regions)
        end) r
        where r.model_id = m.id
      )
    order by u.similarity desc, m.id
    limit 3
  ) as s
$$;
