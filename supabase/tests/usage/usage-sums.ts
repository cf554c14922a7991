import { type Database, one } from "../database.ts";

/**
 * Waits until no other session rolls up usage, and keeps others from it until the transaction ends. In a session
 * without a transaction, until the session ends.
 */
export async function lockRollUps(db: Database, scope: "transaction" | "session" = "transaction"): Promise<void> {
  const lock = scope === "session" ? "pg_advisory_lock" : "pg_advisory_xact_lock";
  await db.query(`select ${lock}(hashtextextended('ai.roll_up_usage', 0))`);
}

/** Sets the roll-up's fence to a moment, as if all transactions from before it had ended. */
export async function setFence(db: Database, moment: string): Promise<void> {
  // Without this, transactions of other tests would hold the mark.
  await db.query(`update ai.usage_progress set marked_at = ${moment}, marked_xid = '3' where singleton`);
}

/**
 * Sums all runs that are older than a minute, once no other session rolls up. With `maxDays`, calls the roll-up once.
 * Otherwise repeats the call, because it stops after two seconds. Returns the number of completed days of the last call.
 */
export async function rollUp(db: Database, maxDays?: number): Promise<number> {
  await lockRollUps(db);
  const call = { sql: "select ai.roll_up_usage($1) as days", values: [maxDays ?? 1_000_000] };
  for (;;) {
    await setFence(db, "now()");
    const { days } = await one<{ days: number }>(db, call);
    if (maxDays !== undefined || days === 0) return days;
  }
}

/** Sets the mark back to the start of a UTC day, so that later days count as not summed. */
export async function setMarkBack(db: Database, daysAgo: number): Promise<void> {
  await lockRollUps(db);
  await db.query(
    `update ai.usage_progress
     set summed_until = least(summed_until, date_trunc('day', now(), 'UTC') - $1::integer * interval '24 hours')
     where singleton`,
    [daysAgo],
  );
}

const amounts = `input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits, latency_ms, timed,
  latency_marks, first_token_marks, estimated_runs, closed_runs`;
const sums = amounts
  .split(",")
  .map((name) => `sum(${name}) as ${name}`)
  .join(", ");

/**
 * Returns the groups in which the reports of a workspace differ from the sums of its runs, in one statement and so in
 * one snapshot. There must be none. Compares each dimension, the labels and the platform's sums of the demo provider.
 */
export function reportDifferences(db: Database, { workspaceId }: { workspaceId: string }): Promise<unknown[]> {
  return db.query(
    `with run as (
       select
         (r.created_at at time zone 'UTC')::date as day, r.app_id, r.key_lineage_id, ai.run_provider(r.routes, r.route) as provider_id, r.model_id,
         r.feature::text, r.execution_mode::text, r.billing_name, r.billing_account, r.actor_id, r.entity_id,
         (r.status = 'failed')::integer as failed, r.input_tokens, r.output_tokens, r.cost_usd, r.billed_credits,
         r.unmetered_credits, coalesce(r.latency_ms, 0) as latency_ms, num_nonnulls(r.latency_ms) as timed,
         coalesce(ai.latency_mark(r.latency_ms), 0) as latency_marks,
         coalesce(ai.latency_mark(case when r.streamed then r.first_byte_ms end), 0) as first_token_marks,
         (coalesce(r.usage_source in ('provider_partial', 'estimated_partial'), false) and not r.swept)::integer as estimated_runs,
         r.swept::integer as closed_runs
       from ai.runs r
       where r.workspace_id = $1
     ), counted as (
       select 'usage' as report, day::text, app_id::text, key_lineage_id::text, provider_id, model_id, feature,
         execution_mode, billing_name, billing_account, actor_id::text, count(*) as requests, sum(failed) as failed, ${sums}
       from run group by 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
       union all
       select 'label', day::text, null, null, null, coalesce(entity_id, ''), null, null, null, null, null, count(*), sum(failed),
         sum(input_tokens), sum(output_tokens), sum(cost_usd), sum(billed_credits), sum(unmetered_credits), sum(latency_ms),
         sum(timed), 0, 0, 0, 0
       from run group by day, coalesce(entity_id, '')
       union all
       select 'platform', day::text, null, null, provider_id, null, null, null, billing_name, billing_account, null, count(*),
         sum(failed), sum(input_tokens), sum(output_tokens), sum(cost_usd), 0, 0, 0, 0, 0, 0, sum(estimated_runs), sum(closed_runs)
       from run group by day, provider_id, billing_name, billing_account
     ), window_of_runs as (
       select now() - interval '60 days' as window_from, now() + interval '10 days' as window_to
     ), reported as (
       select 'usage' as report, u.day::text, u.app_id::text, u.key_lineage_id::text, u.provider_id, u.model_id, u.feature,
         u.execution_mode, u.billing_name, u.billing_account, u.actor_id::text, sum(u.requests), sum(u.failed), ${sums}
       from window_of_runs w cross join lateral ai.usage_between($1, w.window_from, w.window_to, true) u
       group by 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
       having sum(u.requests) > 0
       union all
       select 'label', l.day::text, null, null, null, l.label, null, null, null, null, null, sum(l.requests), sum(l.failed),
         sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits), sum(l.unmetered_credits),
         sum(l.latency_ms), sum(l.timed), 0, 0, 0, 0
       from window_of_runs w cross join lateral ai.label_usage_between($1, w.window_from, w.window_to) l
       group by l.day, l.label
       having sum(l.requests) > 0
       union all
       select 'platform', p.day::text, null, null, p.provider_id, null, null, null, p.billing_name, p.billing_account, null,
         p.requests, p.failed, p.input_tokens, p.output_tokens, p.cost_usd, 0, 0, 0, 0, 0, 0, p.estimated_runs, p.closed_runs
       from window_of_runs w
       cross join lateral ai.platform_usage(w.window_from::date, w.window_to::date, 'demo') p
       where p.workspace_id = $1
     )
     (select 'reported' as side, * from (select * from reported except all select * from counted) x)
     union all
     (select 'counted', * from (select * from counted except all select * from reported) x)`,
    [workspaceId],
  );
}
