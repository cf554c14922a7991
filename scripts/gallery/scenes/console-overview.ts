import { type Scene, statesOf } from "../define-states.ts";

/** Removes everything that needs somebody, so that the overview is calm. */
async function calm({ world }: Scene): Promise<string> {
  for (const statement of [
    "delete from ai.key_approval_requests",
    "update ai.budgets set refused_at = null",
    "update ai.credit_accounts set refused_at = null",
    "update ai.cost_importers set failures = 0, missed = '{}'",
    "delete from private.outgoing_mails",
    "update private.recovery_overrides set revoked_at = now() where revoked_at is null",
    "delete from ai.route_health",
    "delete from ai.provider_outages",
    "delete from ai.hourly_totals",
    `insert into ai.book_statements (book_id, month, version, closed_by, figures, exceptions, records, sha256)
     select ai.platform_book(), m, 9, gen_random_uuid(), '[]', '[]', '', sha256('') from private.unreconciled_months() m`,
  ]) {
    await world.query(statement);
  }
  return "/admin";
}

/** Lets a provider's routes fail since some minutes ago. */
async function fail({ world }: Scene): Promise<void> {
  await world.query(
    `insert into ai.route_health (provider_id, provider_model, endpoint, failing_since, failures_in_row, failure, status,
       failed_at, skipped_until)
     select r.provider_id, r.provider_model, e.endpoint, now() - interval '7 minutes', 12, 'server_error', 503,
       now() - interval '4 seconds', case e.endpoint when 'chat' then now() + interval '3 minutes' end
     from ai.model_routes r
     join ai.models m on m.id = r.model_id and m.enabled
     cross join (values ('chat'), ('embeddings')) as e (endpoint)
     where r.enabled
     order by r.provider_id, r.provider_model
     limit 4
     on conflict do nothing`,
  );
  await world.query(
    `insert into ai.provider_outages (provider_id, began_at)
     select h.provider_id, min(h.failing_since) from ai.route_health h group by h.provider_id on conflict do nothing`,
  );
}

/** Adds the counters of last week's day, so that the figures have something to compare with. */
async function addUsualDay({ world }: Scene): Promise<void> {
  await world.query(
    `insert into ai.hourly_totals (hour, runs, failed_runs, refused_calls, cost_usd)
     select date_trunc('hour', now(), 'UTC') - interval '7 days' - n * interval '1 hour', 90000 - n * 131, 900 - n, 400 - n,
       2000 - n * 1.25
     from generate_series(-1, 24) as n
     on conflict do nothing`,
  );
}

async function outage(scene: Scene): Promise<string> {
  const path = await calm(scene);
  await fail(scene);
  await addUsualDay(scene);
  return path;
}

/** Adds rows of every kind. */
async function everything(scene: Scene): Promise<string> {
  const { world } = scene;
  const path = await outage(scene);
  const requester = await world.createAccount("Nadia Lind", "nadia.lind");
  await world.query(
    `with made as (
       insert into public.workspaces (name, plan_id, created_by)
       select (array['Northern Lights Research', 'Support', 'Rechnungswesen und Controlling Nord', 'Data'])[1 + n % 4]
         || case when n > 4 then ' ' || n else '' end, w.plan_id, $1
       from generate_series(1, 12) as n, (select plan_id from public.workspaces where id = $2) w
       returning id
     )
     insert into ai.key_approval_requests (workspace_id, requested_by, requested_at)
     select id, $1, now() - row_number() over () * interval '7 hours' from made`,
    [requester.id, world.busy],
  );
  await world.query(
    "update ai.budgets set refused_at = now() - interval '3 minutes', spent_usd = limit_usd where workspace_id = $1 and scope <> 'envelope' and limit_usd > 0",
    [world.busy],
  );
  await world.query(
    "update ai.credit_accounts set balance = 212.5, refused_at = now() - interval '26 minutes' where workspace_id = $1",
    [world.busy],
  );
  await world.override(requester);
  await world.query(
    `insert into private.outgoing_mails (recipient, subject, body, attempts, next_attempt_at, created_at)
     select 'robin@northern-lights.example', 'Sign-in', 'Text', 12, now() + interval '9 hours', now() - interval '2 days'
     from generate_series(1, 3)`,
  );
  await world.query(
    "update ai.book_statements set reopened_by = gen_random_uuid(), reopened_at = now(), reopen_reason = 'A late invoice' where version = 9 and reopened_at is null",
  );
  return path;
}

/** The console's first page. */
export const consoleOverviewStates = statesOf("Console", [
  ["Overview, nothing to do", "admin/overview", "admin", calm],
  ["Overview, an outage", "admin/overview", "admin", outage],
  ["Overview, everything at once", "admin/overview", "admin", everything],
]);
