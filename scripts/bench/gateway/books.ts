import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { statedUsage } from "../upstream/answers.ts";
import { benchPlan } from "./tenants.ts";

const settleTimeoutMs = 60_000;
const pollMs = 50;

/**
 * The number of runs that the database recorded for the bench, and the numbers of wrong runs and unbalanced workspaces.
 */
export type Books = {
  runs: number;
  /** The number of runs that are still running, that failed, or whose token counts differ from the provider's. */
  wrong: number;
  /**
   * The number of workspaces whose ledger, balance, runs and usage report disagree, or that still have credits
   * reserved.
   */
  unbalanced: number;
};

/**
 * Waits until no credits are reserved. Each call reserves some until it is settled.
 * @throws Error if credits are still reserved after a minute
 */
export async function untilSettled(client: pg.Client): Promise<void> {
  const deadline = performance.now() + settleTimeoutMs;
  for (;;) {
    const { rows } = await client.query<{ open: string }>(
      "select count(*) as open from ai.credit_accounts where reserved <> 0",
    );
    if (rows[0]?.open === "0") return;
    if (performance.now() > deadline) {
      throw new Error(`Runs of ${rows[0]?.open} accounts were not settled in a minute.`);
    }
    await sleep(pollMs);
  }
}

/** Compares the ledger, balance, runs and usage report of each of the bench's workspaces. */
export async function readBooks(client: pg.Client, ownerId: string): Promise<Books> {
  const { rows } = await client.query<Record<keyof Books, string>>(booksSql, [
    benchPlan,
    ownerId,
    statedUsage.input,
    statedUsage.output,
  ]);
  const [row] = rows;
  if (!row) throw new Error("The books cannot be read.");
  return {
    runs: Number(row.runs),
    wrong: Number(row.wrong),
    unbalanced: Number(row.unbalanced),
  };
}

const booksSql = `
  with accounts as (
    select a.* from public.workspaces w join ai.credit_accounts a on a.workspace_id = w.id where w.plan_id = $1
  ), runs as (
    select
      r.workspace_id, count(*) as runs, sum(r.billed_credits) as billed,
      count(*) filter (
        where r.status in ('running', 'failed')
          or r.status = 'succeeded' and (r.usage_source <> 'provider' or (r.input_tokens, r.output_tokens) <> ($3, $4))
      ) as wrong
    from ai.runs r join accounts a on a.workspace_id = r.workspace_id
    group by 1
  ), ledger as (
    select l.account_id, sum(l.amount) as total, -coalesce(sum(l.amount) filter (where l.run_id is not null), 0) as used
    from ai.credit_ledger l join accounts a on a.id = l.account_id
    group by 1
  )
  select
    coalesce(sum(r.runs), 0) as runs, coalesce(sum(r.wrong), 0) as wrong,
    count(*) filter (
      where a.reserved <> 0 or a.balance <> l.total or l.used <> r.billed
        or l.used is distinct from (report.usage -> 'totals' ->> 'usedCredits')::numeric
    ) as unbalanced
  from accounts a
  join ledger l on l.account_id = a.id
  join runs r on r.workspace_id = a.workspace_id
  cross join lateral (
    select ai.read_usage($2, a.workspace_id, group_by => '{}'::text[], page_size => 1) as usage
  ) report`;
