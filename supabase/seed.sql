-- The catalogue of a development or demo project. Safe to run again: an operator's own rows are left unchanged. Prices
-- are chosen so that sums have digits worth checking. Models that fail on purpose are in test-models.sql.

insert into ai.plans (id, name, payer, markup, initial_credits, requests_per_minute, tokens_per_minute) values
  ('free', 'Free', 'member', 1, 10000, 600, 10000000),
  ('team', 'Team', 'workspace', 1.2, 100000, 60000, 1000000000)
on conflict (id) do nothing;

insert into ai.models (id, kind, display_name, owned_by, context_window, output_limit, default_output_limit, voices) values
  ('demo-agent', 'chat', 'Demo agent', 'gatehouse-demo', 200000, 64000, 32768, null),
  ('demo-chat', 'chat', 'Demo chat', 'gatehouse-demo', 128000, 32768, null, null),
  ('demo-long', 'chat', 'Demo long answer', 'gatehouse-demo', 128000, 32768, null, null),
  ('demo-reasoning', 'chat', 'Demo reasoning', 'gatehouse-demo', 128000, 32768, null, null),
  ('demo-messages', 'chat', 'Demo messages', 'gatehouse-demo', 200000, 64000, null, null),
  ('demo-embedding', 'embedding', 'Demo embedding', 'gatehouse-demo', 8192, null, null, null),
  (
    'demo-speech', 'speech', 'Demo speech', 'gatehouse-demo', 8192, 16384, null,
    '{Kore,Puck,Zephyr,Charon,Fenrir,Leda,Aoede,Orus,alloy,ash,coral,echo,sage,shimmer}'
  )
on conflict (id) do nothing;

update ai.models m set is_default = true
where m.id in ('demo-chat', 'demo-speech')
  and not exists (select from ai.models other where other.kind = m.kind and other.is_default);

insert into ai.model_routes (model_id, position, provider_id, provider_model)
select m.id, 1, case m.id when 'demo-speech' then 'demo_speech' when 'demo-messages' then 'demo_messages' else 'demo' end, m.id
from ai.models m
where m.owned_by = 'gatehouse-demo'
-- Coding agents call the Messages API, responses or chat completions.
union all
select m.id, 2, 'demo_messages', m.id
from ai.models m
where m.id = 'demo-agent'
on conflict (model_id, position) do nothing;

insert into ai.model_prices (
  model_id, provider_id, valid, input_usd_per_million, output_usd_per_million, audio_output_usd_per_million
)
select 'demo-speech', 'demo_speech', tstzrange('2026-01-01T00:00:00Z', null), 0.5, 10, 10
where not exists (select from ai.model_prices p where p.model_id = 'demo-speech');

insert into ai.model_prices (
  model_id, provider_id, valid, input_usd_per_million, cached_input_usd_per_million, cache_write_usd_per_million,
  cache_write_1h_usd_per_million, output_usd_per_million, request_fee_usd
)
select m.id, 'demo_messages', tstzrange('2026-01-01T00:00:00Z', null), 3, 0.3, 3.75, 6, 15, 0.01
from ai.models m
where m.id in ('demo-messages', 'demo-agent') and m.owned_by = 'gatehouse-demo'
  and not exists (select from ai.model_prices p where p.model_id = m.id and p.provider_id = 'demo_messages');

insert into ai.model_prices (
  model_id, provider_id, valid, input_usd_per_million, cached_input_usd_per_million, output_usd_per_million
)
select m.id, 'demo', tstzrange('2026-01-01T00:00:00Z', null), 0.15, 0.075, 0.6
from ai.models m
where m.owned_by = 'gatehouse-demo' and m.id not in ('demo-speech', 'demo-messages')
  and not exists (select from ai.model_prices p where p.model_id = m.id and p.provider_id = 'demo');

insert into ai.model_grants (model_id, plan_id)
select m.id, p.id
from ai.models m
cross join ai.plans p
where m.owned_by = 'gatehouse-demo' and p.id in ('free', 'team')
on conflict do nothing;
