-- The catalogue of a development or demo project. Safe to run again: rows of the operator's own are left as they are.
-- Prices are chosen so that sums have digits worth checking.

insert into ai.plans (id, name, payer, markup, initial_credits, requests_per_minute, tokens_per_minute) values
  ('free', 'Free', 'member', 1, 10000, 600, 10000000),
  ('team', 'Team', 'workspace', 1.2, 100000, 60000, 1000000000)
on conflict (id) do nothing;

insert into ai.models (id, kind, display_name, owned_by, context_window, output_limit) values
  ('demo-chat', 'chat', 'Demo chat', 'gatehouse-demo', 128000, 32768),
  ('demo-slow', 'chat', 'Demo: slow', 'gatehouse-demo', 128000, 32768),
  ('demo-error-500', 'chat', 'Demo: answers 500', 'gatehouse-demo', 128000, 32768),
  ('demo-error-429', 'chat', 'Demo: answers 429', 'gatehouse-demo', 128000, 32768),
  ('demo-cut', 'chat', 'Demo: stream is cut', 'gatehouse-demo', 128000, 32768),
  ('demo-stall', 'chat', 'Demo: stream stalls', 'gatehouse-demo', 128000, 32768),
  ('demo-no-usage', 'chat', 'Demo: reports no usage', 'gatehouse-demo', 128000, 32768),
  ('demo-zero-usage', 'chat', 'Demo: reports zero usage', 'gatehouse-demo', 128000, 32768),
  ('demo-cached', 'chat', 'Demo: cached input', 'gatehouse-demo', 128000, 32768),
  ('demo-reasoning', 'chat', 'Demo: reasoning tokens', 'gatehouse-demo', 128000, 32768),
  ('demo-length', 'chat', 'Demo: stops at the limit', 'gatehouse-demo', 128000, 32768),
  ('demo-fallback', 'chat', 'Demo: first route fails', 'gatehouse-demo', 128000, 32768)
on conflict (id) do nothing;

insert into ai.model_routes (model_id, position, provider_id, provider_model)
select m.id, 1, 'demo', case m.id when 'demo-fallback' then 'demo-error-500' else m.id end
from ai.models m
where m.owned_by = 'gatehouse-demo'
union all
select 'demo-fallback', 2, 'demo', 'demo-chat'
on conflict (model_id, position) do nothing;

insert into ai.model_prices (
  model_id, provider_id, valid, input_usd_per_million, cached_input_usd_per_million, output_usd_per_million
)
select m.id, 'demo', tstzrange('2026-01-01T00:00:00Z', null), 0.15, 0.075, 0.6
from ai.models m
where m.owned_by = 'gatehouse-demo'
  and not exists (select from ai.model_prices p where p.model_id = m.id and p.provider_id = 'demo');

insert into ai.model_grants (model_id, plan_id)
select m.id, p.id
from ai.models m
cross join ai.plans p
where m.owned_by = 'gatehouse-demo' and p.id in ('free', 'team')
on conflict do nothing;
