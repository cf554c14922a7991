import { shiftMonth } from "../../../remix-app/studio/costs/month.ts";
import { type Scene, statesOf } from "../define-states.ts";
import type { World } from "../world.ts";

/** A day of a month that other scenes don't show. */
const day = `${shiftMonth(new Date().toISOString().slice(0, 7), -4)}-14`;
const filled = new WeakMap<World, Promise<void>>();

/** Returns the address of a provider's day, after adding calls and what providers say about them. */
const dayOf =
  (provider: string) =>
  async ({ world }: Scene): Promise<string> => {
    const filling = filled.get(world) ?? fillDay(world);
    filled.set(world, filling);
    await filling;
    return `/admin/books/${day.slice(0, 7)}/${provider}/${day}`;
  };

async function fillDay({ query, busy }: World): Promise<void> {
  const [known] = await query("select from ai.usage_days where provider = 'openai' and day = $1", [day]);
  if (known) return;
  await query(
    `insert into ai.runs (
       id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
       markup, status, usage_source, cost_usd, reserved_usd, reserved_credits, settled_at, input_tokens,
       cached_input_tokens, output_tokens, attempts
     )
     select
       gen_random_uuid(), ($1::date + interval '11 minutes' * n) at time zone 'UTC', $2, 'key', 'interactive', 'chat',
       'day ' || n, 'model', jsonb_build_array(jsonb_build_object('position', 1, 'provider', p.provider, 'model', 'gpt-4o')),
       1, 1, 'succeeded', case when n % 40 = 0 then 'estimated_partial' else 'provider' end::ai.usage_source,
       0.0125 * (n % 5 + 1), 0, 0, now(), 2200 + n % 7 * 100, 1024, 310 + n % 3,
       case when p.provider = 'openrouter' then jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
         'provider', 'openrouter', 'route', 1, 'latency_ms', 400,
         'upstream_request_id', case when n % 17 > 0 then 'gen-1764500' || n || '-T7cVb' end
       ))) end
     from generate_series(30, 110) n, (values ('openai'), ('openrouter')) p (provider)`,
    [day, busy],
  );
  await query("insert into ai.usage_days (provider, day) values ('openai', $1)", [day]);
  await query(
    `insert into ai.usage_hours (
       provider, day, hour, key_id, model, requests, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens
     )
     select 'openai', $1::date, date_trunc('hour', r.created_at), 'key_9fKq2LxT7cVb', 'gpt-4o-2024-08-06', count(*),
       sum(r.input_tokens), sum(r.cached_input_tokens), 0,
       sum(r.output_tokens) + case extract(hour from date_trunc('hour', r.created_at) at time zone 'UTC') when 14 then 4180 else 0 end
     from ai.runs r
     where r.workspace_id = $2 and r.request_id like 'day %' and r.attempts is null
       and r.created_at >= $1::date and r.created_at < $1::date + 1
     group by 3
     union all
     values ('openai', $1::date, ($1::date + time '16:00') at time zone 'UTC', 'key_Zt4WmB81rYdE', 'gpt-4o-2024-08-06',
       12, 48210, 0, 0, 9120), ('openai', $1, ($1::date + time '17:00') at time zone 'UTC', null, 'gpt-image-1', 3, 512, 0, 0, 4096)`,
    [day, busy],
  );
  await query(
    "insert into ai.gateway_provider_keys (provider, key_id) values ('openai', 'key_9fKq2LxT7cVb') on conflict do nothing",
  );
  // OpenRouter charged most calls their cost, some more, and does not know some.
  await query(
    `insert into ai.generation_costs (run_id, generation_id, cost_usd, observed_at)
     select r.id, r.attempts -> 0 ->> 'upstream_request_id',
       case right(r.request_id, 1)::integer when 3 then null when 7 then r.cost_usd + 0.0021 else r.cost_usd end, now()
     from ai.runs r
     where r.workspace_id = $2 and r.request_id like 'day %' and r.attempts -> 0 ? 'upstream_request_id'
       and r.created_at >= $1::date and r.created_at < $1::date + 1`,
    [day, busy],
  );
}

/** The pages that find the calls of a provider's day. */
export const bookDayStates = statesOf("Console", [
  ["A provider's day, not asked", "books/day", "admin", dayOf("anthropic")],
  ["A provider's day that differs", "books/day", "admin", dayOf("openai")],
  ["OpenRouter's calls of a day", "books/day", "admin", dayOf("openrouter")],
]);
