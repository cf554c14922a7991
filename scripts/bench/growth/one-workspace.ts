import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { createLoadTenant } from "../../load/load-tenant.ts";
import type { Stack } from "../../test/stack.ts";
import type { Call } from "../gateway/call.ts";
import { runClosedLoop, runOpenLoop } from "../gateway/load.ts";
import type { Plan } from "../options.ts";
import type { Progress } from "../progress.ts";
import { markdownTable } from "../report/tables.ts";
import { median } from "../statistics.ts";

const connections = 16;
const sliceMs = 10_000;
const readingsPerSecond = 20;
const warmUpMs = 2_000;

type Written = { name: string; kilobytes: number; indexKilobytes: number; rows: number; updates: number; hot: number };

/**
 * Sends many calls of one workspace through the gateway. Returns the median latency before and after these calls, the
 * sizes of the tables that calls write to, and how many of the updates to these tables were HOT.
 */
export async function measureOneWorkspace(options: {
  stack: Stack;
  client: pg.Client;
  plan: Plan;
  progress: Progress;
  signal: AbortSignal;
}): Promise<string> {
  const { stack, client, plan, progress, signal } = options;
  const { count, readings } = plan.calls;
  const tenant = await createLoadTenant(client);
  // Raises the plan's limits so that calls are counted but never refused. Also unbinds the key from its app, since an
  // app's calls are not paid from the workspace's balance.
  await client.query(
    "update ai.plans set requests_per_minute = 100000000, tokens_per_minute = 1000000000000 where id = 'team'",
  );
  await client.query("update ai.keys set external_app_id = null where id = $1", [tenant.keyId]);
  const functions = stack.services.find(({ name }) => name === "functions");
  const call: Call = {
    url: `http://127.0.0.1:${functions?.port}/chat/completions`,
    headers: { "content-type": "application/json", "x-platform-workspace-id": tenant.workspaceId },
    authorizations: [`Bearer ${tenant.key}`],
  };
  const p50 = async () => {
    const durationMs = (readings / readingsPerSecond) * 1_000;
    const load = await runOpenLoop({ call, perSecond: readingsPerSecond, warmUpMs, durationMs }, signal);
    if (load.failed > 0) throw new Error(`${load.failed} calls failed: ${load.firstFailure}`);
    return median(load.latenciesMs);
  };
  progress.begin("calls: p50 before");
  const p50Before = await p50();
  const before = await written(client);
  progress.begin(`calls: ${count.toLocaleString("en")}`);
  const begun = performance.now();
  let answered = 0;
  while (answered < count) {
    const load = await runClosedLoop({ call, connections, warmUpMs: 0, durationMs: sliceMs }, signal);
    if (load.failed > 0) throw new Error(`${load.failed} calls failed.`);
    answered += load.answeredInAll;
    progress.show(`${answered.toLocaleString("en")} of ${count.toLocaleString("en")} calls`);
  }
  const perSecond = answered / ((performance.now() - begun) / 1_000);
  progress.begin("calls: p50 after");
  const p50After = await p50();
  // Backends report their statistics at most once a second.
  await sleep(2_000);
  const after = await written(client);
  return [
    `${answered.toLocaleString("en")} calls of one workspace by ${connections} connections, ${perSecond.toFixed(0)} a second. ` +
      `p50 of a call: ${p50Before.toFixed(1)} ms before, ${p50After.toFixed(1)} ms after.`,
    writtenTable(before, after),
  ].join("\n\n");
}

async function written(client: pg.Client): Promise<Written[]> {
  await client.query("select pg_stat_clear_snapshot()");
  const { rows } = await client.query<Written>(
    `select
       regexp_replace(format('%I.%I', s.schemaname, s.relname), '_\\d{4}_\\d{2}$', ' of the month') as name,
       (pg_table_size(s.relid) / 1000)::float8 as kilobytes, (pg_indexes_size(s.relid) / 1000)::float8 as "indexKilobytes",
       s.n_live_tup::float8 as rows, s.n_tup_upd::float8 as updates, s.n_tup_hot_upd::float8 as hot
     from pg_stat_user_tables s
     where s.schemaname = 'ai' and (
       s.relname in ('credit_accounts', 'credit_ledger', 'rate_windows', 'keys')
       or s.relname = 'runs_' || to_char(now() at time zone 'UTC', 'YYYY_MM')
     )
     order by 1`,
  );
  return rows;
}

function writtenTable(before: readonly Written[], after: readonly Written[]): string {
  const count = (value: number) => Math.round(value).toLocaleString("en");
  const lines = after.map((row) => {
    const first = before.find(({ name }) => name === row.name);
    const updates = row.updates - (first?.updates ?? 0);
    const hot = row.hot - (first?.hot ?? 0);
    return [
      row.name,
      count(row.rows),
      `${count(first?.kilobytes ?? 0)} → ${count(row.kilobytes)}`,
      `${count(first?.indexKilobytes ?? 0)} → ${count(row.indexKilobytes)}`,
      count(updates),
      updates > 0 ? `${((hot / updates) * 100).toFixed(1)}%` : "–",
    ];
  });
  return markdownTable(["table", "rows", "table, KB", "indexes, KB", "updates", "HOT"], lines);
}
