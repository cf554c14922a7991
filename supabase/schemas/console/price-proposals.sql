-- Adds the prices that an admin chose from price files, in one transaction.

-- Adds all of the given prices with private.add_model_price, or none of them. The change is { actor, from, prices: [{
-- model, providerId, serviceTier, minInputTokens, latest, inputUsd, … }], reason, requestId, ip }. Returns {} or {
-- refused, model }. refused is too_many (there must be 1 to 500 prices), scheduled (a later price already exists for
-- the same model, provider, service tier and input size) or a refusal of private.add_model_price.
create or replace function private.add_proposed_prices(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  proposed jsonb;
  scope text;
  -- The newest price that the admin saw, by model, provider and number of input tokens.
  seen jsonb := '{}';
  newest text;
  answer jsonb;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if coalesce(jsonb_array_length(change -> 'prices'), 0) not between 1 and 500 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  -- Models are locked in one order, so that two admins cannot deadlock.
  perform from ai.models m
  where m.id in (select p.value ->> 'model' from jsonb_array_elements(change -> 'prices') as p)
  order by m.id
  for update;
  for proposed in select p.value from jsonb_array_elements(change -> 'prices') as p loop
    scope := jsonb_build_array(proposed -> 'model', proposed -> 'providerId', proposed -> 'minInputTokens')::text;
    newest := private.latest_price(
      proposed ->> 'model', proposed ->> 'providerId', (proposed ->> 'minInputTokens')::integer
    );
    -- The first price of a scope must have been based on the newest price in the price book. Adding that first price
    -- changes the newest price, so every later price of the scope must have the same `latest` as the first.
    if proposed ->> 'latest' is distinct from (case when seen ? scope then seen ->> scope else newest end) then
      answer := jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || (proposed ->> 'model')));
    elsif exists (
      select from ai.model_prices p
      where p.model_id = proposed ->> 'model' and p.provider_id = proposed ->> 'providerId'
        and p.service_tier = proposed ->> 'serviceTier' and p.min_input_tokens = (proposed ->> 'minInputTokens')::integer
        and lower(p.valid) > now()
    ) then
      answer := jsonb_build_object('refused', 'scheduled');
    else
      seen := seen || jsonb_build_object(scope, proposed -> 'latest');
      answer := private.add_model_price(proposed || (change - 'prices') || jsonb_build_object('latest', newest));
    end if;
    if answer ? 'refused' then
      raise exception using errcode = 'GHP01', message = 'refused', detail = (
        answer || jsonb_build_object('model', proposed -> 'model')
      )::text;
    end if;
  end loop;
  return '{}';
exception
  when sqlstate 'GHP01' then
    get stacked diagnostics scope = pg_exception_detail;
    return scope::jsonb;
end
$$;
