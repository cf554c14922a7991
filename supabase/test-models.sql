-- Models that fail on purpose, or answer so that a test can measure them. Tests, bench, soak, gallery and fuzz load them
-- after seed.sql, and so does `npm start -- --test-models`. Safe to run again.

insert into ai.models (id, kind, display_name, owned_by, context_window, output_limit)
select m.id, 'chat', m.name, 'gatehouse-test', 128000, 32768
from (
  values
    ('demo-slow', 'Test: slow'),
    ('demo-paced', 'Test: 100 words at an even pace'),
    ('demo-error-400', 'Test: answers 400'),
    ('demo-error-401', 'Test: answers 401'),
    ('demo-error-429', 'Test: answers 429'),
    ('demo-error-500', 'Test: answers 500'),
    ('demo-error-503', 'Test: answers 503'),
    ('demo-error-529', 'Test: answers 529'),
    ('demo-error-midway', 'Test: stream ends in an error'),
    ('demo-error-later', 'Test: fails after a tool result'),
    ('demo-redirect', 'Test: redirects'),
    ('demo-reset', 'Test: resets the connection'),
    ('demo-hang', 'Test: never answers'),
    ('demo-cut', 'Test: stream is cut'),
    ('demo-stall', 'Test: stream stalls'),
    ('demo-garbage', 'Test: sends garbage'),
    ('demo-no-usage', 'Test: reports no usage'),
    ('demo-zero-usage', 'Test: reports zero usage'),
    ('demo-usage-twice', 'Test: reports usage twice'),
    ('demo-usage-cumulative', 'Test: reports cumulative usage'),
    ('demo-cached', 'Test: cached input'),
    ('demo-length', 'Test: stops at the length limit'),
    ('demo-filtered', 'Test: stops at the content filter'),
    ('demo-tools', 'Test: always calls a tool'),
    ('demo-stubborn', 'Test: never stops calling tools'),
    ('demo-bad-schema', 'Test: ignores the JSON schema'),
    ('demo-fallback', 'Test: first route fails'),
    ('demo-all-fail', 'Test: every route fails')
) as m (id, name)
on conflict (id) do nothing;

insert into ai.model_routes (model_id, position, provider_id, provider_model)
select m.id, 1, 'demo', case when m.id in ('demo-fallback', 'demo-all-fail') then 'demo-error-500' else m.id end
from ai.models m
where m.owned_by = 'gatehouse-test'
union all
values
  ('demo-fallback', 2, 'demo', 'demo-chat'),
  ('demo-all-fail', 2, 'demo', 'demo-error-429')
on conflict (model_id, position) do nothing;

-- Gives the test models the prices and plans of demo-chat.
insert into ai.model_prices (
  model_id, provider_id, min_input_tokens, valid, input_usd_per_million, cached_input_usd_per_million,
  output_usd_per_million, audio_input_usd_per_million, audio_output_usd_per_million
)
select
  m.id, p.provider_id, p.min_input_tokens, p.valid, p.input_usd_per_million, p.cached_input_usd_per_million,
  p.output_usd_per_million, p.audio_input_usd_per_million, p.audio_output_usd_per_million
from ai.models m
join ai.model_prices p on p.model_id = 'demo-chat' and p.provider_id = 'demo'
where m.owned_by = 'gatehouse-test' and not exists (select from ai.model_prices own where own.model_id = m.id);

insert into ai.model_grants (model_id, plan_id)
select m.id, g.plan_id
from ai.models m
join ai.model_grants g on g.model_id = 'demo-chat' and g.plan_id is not null
where m.owned_by = 'gatehouse-test'
on conflict do nothing;
